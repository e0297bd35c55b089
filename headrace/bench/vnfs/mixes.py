# SPDX-License-Identifier: Apache-2.0
"""Frame sizes of the measurement, and frames of mixed sizes for the flow source."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.bench.peers.frames import Bytes

FCS = 4

MakeFrames = Callable[[int], Bytes]
"""Frames of `length` octets without FCS; always the same number, whatever the length."""


@dataclass(frozen=True)
class Mix:
    """Frame sizes (with FCS) and their weights."""

    name: str
    sizes: tuple[int, ...]
    weights: tuple[int, ...] = (1,)

    @property
    def mean(self) -> float:
        """Octets with FCS."""
        return sum(s * w for s, w in zip(self.sizes, self.weights, strict=True)) / sum(self.weights)

    @property
    def changes(self) -> float:
        """Share of frames that differ in size from the one before, in a random order."""
        whole = sum(self.weights)
        return 1 - sum((weight / whole) ** 2 for weight in self.weights)


MIXES = (
    Mix("64B", (64,)),
    Mix("IMIX", (64, 570, 1518), (28, 16, 4)),  # imix-csit, as in headrace.bench.manifest
    Mix("1518B", (1518,)),
)


def frames_of(mix: Mix, make: MakeFrames) -> tuple[Bytes, npt.NDArray[np.uint16] | None]:
    """The frames of a mix and their lengths; no lengths if all are equal.

    Sizes are shuffled, always in the same way, so that a burst has frames of all sizes.
    """
    if len(mix.sizes) == 1:
        return make(mix.sizes[0] - FCS), None
    by_size = [make(size - FCS) for size in mix.sizes]
    count = len(by_size[0])
    pattern = np.repeat(np.arange(len(mix.sizes)), mix.weights)
    chosen = np.random.default_rng(1).permutation(np.resize(pattern, count))
    frames = np.zeros((count, max(one.shape[1] for one in by_size)), dtype=np.uint8)
    lengths = np.zeros(count, dtype=np.uint16)
    for index, one in enumerate(by_size):
        rows = chosen == index
        frames[rows, : one.shape[1]] = one[rows]
        lengths[rows] = one.shape[1]
    return frames, lengths
