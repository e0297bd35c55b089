# SPDX-License-Identifier: Apache-2.0
"""Merged latency histograms: as if all values had been counted by one."""

import math
import random

import pytest
from pydantic import ValidationError

from headrace.traffic.histogram import LatencyHistogram, merged

HZ = 2.7e9
BITS = 7


def bucket(value: int) -> int:
    """As Histogram::index() of dataplane/traffic/measure/histogram.h."""
    if value < 1 << BITS:
        return value
    shift = value.bit_length() - 1 - BITS
    return (shift << BITS) + (value >> shift)


def histogram(values: list[int]) -> LatencyHistogram:
    counts: dict[int, int] = {}
    for value in values:
        counts[bucket(value)] = counts.get(bucket(value), 0) + 1
    return LatencyHistogram(
        hz=HZ,
        sub_bits=BITS,
        min=min(values, default=0),
        max=max(values, default=0),
        sum=sum(values),
        buckets=tuple(sorted(counts.items())),
    )


def values_of(seed: int) -> list[int]:
    chance = random.Random(seed)
    return [int(2 ** chance.uniform(0, 39)) for _ in range(chance.randint(0, 400))]


@pytest.mark.parametrize("seed", range(20))
def test_merging_is_counting_together(seed: int) -> None:
    parts = [values_of(3 * seed + i) for i in range(3)]
    together = histogram([value for part in parts for value in part])
    assert merged(histogram(part) for part in parts) == together
    assert merged(histogram(part) for part in reversed(parts)) == together


@pytest.mark.parametrize("seed", range(20))
def test_percentiles_are_right_to_half_a_bucket(seed: int) -> None:
    values = sorted(values_of(seed)) or [1]
    made = histogram(values)
    assert made.count == len(values)
    assert made.mean_ns == pytest.approx(sum(values) / len(values) * 1e9 / HZ)
    for percent in (0, 1, 50, 90, 99, 99.9, 100):
        exact = values[max(0, math.ceil(percent / 100 * len(values)) - 1)] * 1e9 / HZ
        assert made.percentile_ns(percent) == pytest.approx(exact, rel=0.004)


def test_nothing_has_no_percentiles() -> None:
    empty = histogram([])
    assert empty.percentile_ns(50) is None
    assert empty.mean_ns is None
    some = histogram([5, 7])
    assert empty + some == some + empty == some


def test_what_can_not_be_merged() -> None:
    some = histogram([5])
    with pytest.raises(ValueError, match="clocks"):
        _ = some + some.model_copy(update={"hz": 2e9})
    with pytest.raises(ValidationError, match="must rise"):
        LatencyHistogram(hz=HZ, sub_bits=BITS, min=1, max=2, sum=3, buckets=((2, 1), (1, 1)))
