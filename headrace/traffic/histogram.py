# SPDX-License-Identifier: Apache-2.0
"""The generator's latency histograms, merged over streams and trials.

The median of several percentiles is not a percentile: that of several trials is computed from their
merged histograms. The buckets are those of dataplane/traffic/measure/histogram.h: each power of two
is divided into 2^sub_bits of them, so a percentile, given as the middle of its bucket, has an error
of at most 0.4 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class LatencyHistogram(BaseModel):
    """Counts of latencies. `min`, `max` and `sum` are in cycles of `hz`, and exact."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    hz: float = Field(gt=0)
    sub_bits: int = Field(ge=1, le=16)
    min: int = Field(ge=0)
    max: int = Field(ge=0)
    sum: int = Field(ge=0)
    buckets: tuple[tuple[int, int], ...]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        numbers = [number for number, _ in self.buckets]
        if numbers != sorted(set(numbers)) or any(count < 1 for _, count in self.buckets):
            raise ValueError("buckets: must rise, each with a count of at least 1")
        return self

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(count for _, count in self.buckets)

    @property
    def mean_ns(self) -> float | None:
        """The exact mean; None if empty."""
        return self._ns(self.sum / self.count) if self.buckets else None

    def percentile_ns(self, percent: float) -> float | None:
        """The smallest value that at least `percent` (0..100) of the values don't exceed."""
        if not self.buckets:
            return None
        rank = max(1, math.ceil(percent / 100 * self.count))
        below = 0
        for number, count in self.buckets:
            below += count
            if below >= rank:
                return self._ns(min(max(self._middle(number), self.min), self.max))
        return self._ns(self.max)

    def _middle(self, number: int) -> float:
        low = self._lower_bound(number)
        return low + (self._lower_bound(number + 1) - low - 1) / 2

    def _lower_bound(self, number: int) -> int:
        if number < 2 << self.sub_bits:
            return number
        shift = (number >> self.sub_bits) - 1
        return (number - (shift << self.sub_bits)) << shift

    def _ns(self, cycles: float) -> float:
        return cycles * 1e9 / self.hz

    def __add__(self, other: LatencyHistogram) -> LatencyHistogram:
        """The merged histogram.

        Raises:
            ValueError: they have different clocks or buckets, e.g. of two machines.
        """
        if (self.hz, self.sub_bits) != (other.hz, other.sub_bits):
            raise ValueError("histograms of different clocks can't be merged")
        counts = Counter(dict(self.buckets)) + Counter(dict(other.buckets))
        full = [each for each in (self, other) if each.buckets]
        return LatencyHistogram(
            hz=self.hz,
            sub_bits=self.sub_bits,
            min=min((each.min for each in full), default=0),
            max=max((each.max for each in full), default=0),
            sum=self.sum + other.sum,
            buckets=tuple(sorted(counts.items())),
        )


def merged(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """The merged histogram; ValueError if there is none, or their clocks differ."""
    first, *others = histograms
    for other in others:
        first = first + other
    return first
