# SPDX-License-Identifier: Apache-2.0
"""Medians and intervals of few, noisy, positive values.

* A median's interval is that of the order statistics (the inverted sign test): it assumes nothing
about the noise, which on a shared machine is anything but normal. It needs six samples for 95 %;
with fewer, no interval is given (None), and only the range min..max may be printed.
* Ratios are computed from samples taken side by side, and on logarithms: a slow phase scales both
by a factor, not a constant. From three pairs on, Student's t decides whether they differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
INTERVAL_FROM = 6
"""Fewer samples can't bound their median with 95 % confidence: 1 - 2 * 0.5^5 is 94 %."""


@dataclass(frozen=True)
class Summary:
    """Statistics of the samples of one metric."""

    count: int
    median: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None
    method: str


@dataclass(frozen=True)
class Ratio:
    """A ratio of two sides with its interval and verdict."""

    value: float
    low: float | None
    high: float | None
    pairs: int
    method: str

    @property
    def verdict(self) -> str:
        """`higher`, `lower`, or the reason for neither."""
        if self.low is None or self.high is None:
            return "too few samples"
        if self.low > 1.0:
            return "higher"
        if self.high < 1.0:
            return "lower"
        return "no difference shown"


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of `values` by Student's t; needs two values or more."""
    count = len(values)
    if count < 2:
        raise ValueError("an interval needs at least two values")
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * error
    return mean - half, mean + half


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The distribution-free interval of the median, of at least 95 %, from its order statistics.

    Raises:
        ValueError: fewer than `INTERVAL_FROM` values.
    """
    count = len(values)
    if count < INTERVAL_FROM:
        raise ValueError(f"an interval of the median needs {INTERVAL_FROM} values, not {count}")
    array = sorted(values)
    # The largest k with P(Binomial(count, 1/2) < k) within one tail; 1 from six values on.
    k = int(stats.binom.ppf((1 - CONFIDENCE) / 2, count, 0.5))
    return array[k - 1], array[count - k]


def summarise(values: Sequence[float]) -> Summary:
    """Median, range and interval of one metric's samples.

    Raises:
        ValueError: there is no sample.
    """
    if not values:
        raise ValueError("no samples to summarise")
    array = sorted(values)
    median = float(np.median(array))
    low: float | None = None
    high: float | None = None
    method = f"none: fewer than {INTERVAL_FROM} samples"
    if len(array) >= INTERVAL_FROM:
        low, high = median_interval(array)
        method = "order statistics of the median"
    return Summary(len(array), median, array[0], array[-1], low, high, method)


def ratio_of_pairs(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Median of the pair ratios ours/theirs of samples taken side by side (A/B/A/B).

    Pairing by round removes the slow phases of the machine that both sides shared.

    Raises:
        ValueError: the sides differ in length, are empty, or hold a value that is not positive.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError("pairs need as many values on both sides, and at least one")
    if min(*ours, *theirs) <= 0:
        raise ValueError("ratios need positive values")
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    value = math.exp(float(np.median(logs)))
    if len(logs) < 3:
        return Ratio(value, None, None, len(logs), "pairs by round")
    low, high = student_interval(logs)
    return Ratio(value, math.exp(low), math.exp(high), len(logs), "pairs by round, Student's t")


def ratio_of_groups(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Ratio ours/theirs of two independent groups (two runs), by Welch's t on logarithms.

    Raises:
        ValueError: a side is empty or holds a value that is not positive.
    """
    if not ours or not theirs:
        raise ValueError("a ratio needs samples on both sides")
    if min(*ours, *theirs) <= 0:
        raise ValueError("ratios need positive values")
    a = np.log(np.asarray(ours, dtype=float))
    b = np.log(np.asarray(theirs, dtype=float))
    value = math.exp(float(np.median(a) - np.median(b)))
    count = min(len(a), len(b))
    if count < 3:
        return Ratio(value, None, None, count, "independent groups")
    va, vb = float(np.var(a, ddof=1)) / len(a), float(np.var(b, ddof=1)) / len(b)
    difference = float(np.mean(a) - np.mean(b))
    if va + vb == 0:
        exact = math.exp(difference)
        return Ratio(value, exact, exact, count, "independent groups, no spread")
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * math.sqrt(va + vb)
    return Ratio(
        value,
        math.exp(difference - half),
        math.exp(difference + half),
        count,
        "independent groups, Welch's t",
    )
