# SPDX-License-Identifier: Apache-2.0
"""Medians and intervals of few, noisy, positive values.

Rates and costs on a shared machine are multiplied by noise (a slow phase takes a share, not a
constant), so intervals are taken on logarithms and given back as values: they stay positive and
the interval of a ratio is that of the difference of logarithms.

* Fewer than three samples say nothing about spread beyond themselves: no interval (None), and the
  range min..max is what may be printed.
* Three to seven: Student's t on the logarithms.
* Eight and more: percentile bootstrap of the median, with a fixed seed, so that the same samples
  always print the same interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
BOOTSTRAP_FROM = 8
BOOTSTRAP_DRAWS = 2000
SEED = 20161


@dataclass(frozen=True)
class Summary:
    """What is said about the samples of one metric."""

    count: int
    median: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None
    method: str


@dataclass(frozen=True)
class Ratio:
    """A ratio of two sides with its interval, and what may be concluded."""

    value: float
    low: float | None
    high: float | None
    pairs: int
    method: str

    @property
    def verdict(self) -> str:
        """`higher`, `lower`, or why neither can be said."""
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


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile-bootstrap interval of the median of `values`."""
    generator = np.random.default_rng(SEED)
    array = np.asarray(values, dtype=float)
    draws = generator.choice(array, size=(BOOTSTRAP_DRAWS, len(array)))
    medians = np.median(draws, axis=1)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(medians, [tail, 100 - tail])
    return float(low), float(high)


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
    method = "none: fewer than 3 samples"
    if len(array) >= BOOTSTRAP_FROM:
        low, high = bootstrap_interval(array)
        method = "bootstrap of the median"
    elif len(array) >= 3 and array[0] > 0:
        log_low, log_high = student_interval([math.log(value) for value in array])
        low, high = math.exp(log_low), math.exp(log_high)
        method = "Student's t on logarithms"
    elif len(array) >= 3:
        low, high = student_interval(array)
        method = "Student's t"
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
