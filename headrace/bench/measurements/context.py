# SPDX-License-Identifier: Apache-2.0
"""What a measurement gets: the device, the case's rates so far, and how to run a trial."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headrace.bench.device import Device, TrialRequest
from headrace.results import Trial


class StepSkipped(Exception):
    """A step has no result for this case; the message is the reason."""


@dataclass(frozen=True)
class Context:
    """One round of one case.

    Attributes:
        device: the case's device.
        round: number of the round.
        seed: of the round's random choices.
        trial_s: seconds of a short trial.
        trial: runs and records one trial.
        overload_pps: the most that came back under overload, None before that is known.
        pdr_pps: the rate found at the largest loss ratio searched for; None without a search.
    """

    device: Device
    round: int
    seed: int
    trial_s: float
    trial: Callable[[TrialRequest], Awaitable[Trial]]
    overload_pps: float | None
    pdr_pps: float | None

    @property
    def sustained_pps(self) -> float:
        """A rate that the device sustains: what was searched for, else what overload gave.

        Raises:
            StepSkipped: neither is known.
        """
        found = self.pdr_pps or self.overload_pps
        if not found:
            raise StepSkipped("no packets came back under overload, so there is no load to choose")
        return found

    def shuffled(self, points: Sequence[float]) -> list[float]:
        """The points in the round's own order: the first trial after a pause is not like others."""
        order = list(points)
        random.Random(self.seed + self.round).shuffle(order)  # noqa: S311
        return order
