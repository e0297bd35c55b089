# SPDX-License-Identifier: Apache-2.0
"""Medians, ratios and their intervals, and tests of many rows at once: by scipy.

* A median's interval is that of the order statistics (scipy's quantile test, inverted): it assumes
nothing about the noise, which on a shared machine is anything but normal. It needs six samples for
95 %; with fewer, no interval is given (None), and only the range min..max may be printed.
* A ratio is the geometric mean of ratios of samples taken side by side, with the interval of that
mean: both come from Student's t on logarithms, since a slow phase scales both sides by a factor.
* Samples of one round share its deployment, so they are one value of that. Those of both sides with
one turn were taken next to each other and are a pair; what has no partner does not count. Of a
round's pairs the quarters with the lowest and the highest ratios are left out, and the value of
each side is the geometric mean of what is left (an interquartile mean). It follows neither a slow
phase, which is in both sides of a pair, nor single disturbed samples, and the ratio of a round is
that of its two values. Rounds are the independent values of the interval. The values of the two
sides are their geometric means over the rounds: the ratio is exactly one over the other.
* Of 60 rows without any difference 3 have a 95 % interval beside 1. So a comparison of many rows
adjusts their p-values (Benjamini and Hochberg) and calls a row different only by those.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
INTERVAL_FROM = 6
"""Fewer samples can't bound their median with 95 % confidence: 1 - 2 * 0.5^5 is 94 %."""
PAIRS_FROM = 3
"""Fewer pairs have an interval that says nothing."""
SAME_WITHIN = 0.05
"""A ratio whose whole interval is within this share of 1 is the same for every purpose here."""
NOT_DETERMINED = "not determined"
LEFT_OUT = 4
"""One of so many pairs of a round is left out at either end; of three the middle one stays."""
Rounds = Mapping[int, Mapping[int, float]]
"""Positive samples by round, then by their turn in it."""
_EXACT = 1e-12
"""Logarithms that spread by less are equal; a t-test of them has no variance to divide by."""


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
    """A ratio of two sides with its interval, the p-value of 1, and the verdict."""

    value: float
    low: float | None
    high: float | None
    pairs: int
    method: str
    p: float | None = None

    @property
    def verdict(self) -> str:
        """`higher`, `lower`, `same` (within 5 %), or `not determined`."""
        if self.low is None or self.high is None:
            return NOT_DETERMINED
        if self.low > 1.0:
            return "higher"
        if self.high < 1.0:
            return "lower"
        if self.low >= 1.0 - SAME_WITHIN and self.high <= 1.0 + SAME_WITHIN:
            return "same"
        return NOT_DETERMINED

    @property
    def width(self) -> float | None:
        """Half the interval as a share of the ratio: 0.1 is ±10 %. None without an interval."""
        if self.low is None or self.high is None:
            return None
        return math.sqrt(self.high / self.low) - 1.0


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of `values` by Student's t; needs two values or more."""
    if len(values) < 2:
        raise ValueError("an interval needs at least two values")
    if np.ptp(values) <= _EXACT * abs(float(np.mean(values))):
        mean = float(np.mean(values))
        return mean, mean
    found = stats.ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    return float(found.low), float(found.high)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The distribution-free interval of the median, of at least 95 %, from its order statistics.

    Raises:
        ValueError: fewer than `INTERVAL_FROM` values.
    """
    count = len(values)
    if count < INTERVAL_FROM:
        raise ValueError(f"an interval of the median needs {INTERVAL_FROM} values, not {count}")
    found = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    return float(found.low), float(found.high)


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
    """Geometric mean of the ratios ours/theirs of samples taken side by side (A/B/A/B).

    Pairing by round removes the slow phases of the machine that both sides shared.

    Raises:
        ValueError: the sides differ in length, are empty, or hold a value that is not positive.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError("pairs need as many values on both sides, and at least one")
    if min(*ours, *theirs) <= 0:
        raise ValueError("ratios need positive values")
    logs = np.log(np.asarray(ours, dtype=float)) - np.log(np.asarray(theirs, dtype=float))
    mean, count = float(np.mean(logs)), len(logs)
    if count < PAIRS_FROM:
        return Ratio(math.exp(mean), None, None, count, "pairs by round, geometric mean")
    method = "pairs by round, geometric mean, Student's t"
    if float(np.ptp(logs)) < _EXACT:
        same = math.exp(mean)
        return Ratio(same, same, same, count, method, float(abs(mean) < _EXACT))
    found = stats.ttest_1samp(logs, 0.0)
    low, high = found.confidence_interval(CONFIDENCE)
    return Ratio(math.exp(mean), math.exp(low), math.exp(high), count, method, float(found.pvalue))


@dataclass(frozen=True)
class Side:
    """One side of a ratio: the geometric mean of its rounds, with its interval and range.

    `low` and `high` are the interval by Student's t on logarithms, from `PAIRS_FROM` rounds.
    """

    value: float
    low: float | None
    high: float | None
    minimum: float
    maximum: float
    rounds: int


@dataclass(frozen=True)
class Paired:
    """Two sides that were measured in turn: their values, and the ratio of these.

    Attributes:
        ratio: `over.value` / `under.value`, with its interval.
        over, under: the two sides, of the same pairs.
        rounds: each round's values of both.
        samples: pairs that the values are of; what was left out at the ends is not among them.
    """

    ratio: Ratio
    over: Side
    under: Side
    rounds: tuple[tuple[float, float], ...] = field(repr=False)
    samples: int = 0


def _side(values: Sequence[float]) -> Side:
    low: float | None = None
    high: float | None = None
    if len(values) >= PAIRS_FROM:
        ends = student_interval([math.log(value) for value in values])
        low, high = math.exp(ends[0]), math.exp(ends[1])
    middle = geometric_mean(values)
    return Side(middle, low, high, min(values), max(values), len(values))


def _kept(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[tuple[float, float]]:
    """A round's pairs without those at the ends of their ratios."""
    pairs = sorted(
        ((ours[turn], theirs[turn]) for turn in ours if turn in theirs), key=lambda p: p[0] / p[1]
    )
    out = 1 if len(pairs) == PAIRS_FROM else len(pairs) // LEFT_OUT
    return pairs[out : len(pairs) - out]


def paired(ours: Rounds, theirs: Rounds) -> Paired | None:
    """Both sides and their ratio from samples that alternated: see the head of this file.

    None if no round has a pair.
    """
    rounds = [kept for at in ours if at in theirs and (kept := _kept(ours[at], theirs[at]))]
    if not rounds:
        return None
    values = [
        (geometric_mean([a for a, _ in kept]), geometric_mean([b for _, b in kept]))
        for kept in rounds
    ]
    over, under = [a for a, _ in values], [b for _, b in values]
    samples = sum(len(kept) for kept in rounds)
    return Paired(ratio_of_pairs(over, under), _side(over), _side(under), tuple(values), samples)


def ratio_of_rounds(ours: Rounds, theirs: Rounds) -> Ratio | None:
    """The ratio of `paired`; None if no round has a pair."""
    found = paired(ours, theirs)
    return None if found is None else found.ratio


def in_turn(drawn: dict[int, dict[int, float]], at: int, turn: int, value: float) -> None:
    """Adds a sample to `drawn` (a `Rounds`); where its turn is taken, to the next free one."""
    turns = drawn.setdefault(at, {})
    while turn in turns:
        turn += 1
    turns[turn] = value


def ratio_of_groups(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Ratio of the geometric means of two independent groups, by Welch's t on logarithms.

    Raises:
        ValueError: a side is empty or holds a value that is not positive.
    """
    if not ours or not theirs:
        raise ValueError("a ratio needs samples on both sides")
    if min(*ours, *theirs) <= 0:
        raise ValueError("ratios need positive values")
    a, b = np.log(np.asarray(ours, dtype=float)), np.log(np.asarray(theirs, dtype=float))
    mean, count = float(np.mean(a) - np.mean(b)), min(len(a), len(b))
    if count < PAIRS_FROM:
        return Ratio(math.exp(mean), None, None, count, "independent groups, geometric means")
    method = "independent groups, geometric means, Welch's t"
    if float(np.ptp(a)) < _EXACT and float(np.ptp(b)) < _EXACT:
        same = math.exp(mean)
        return Ratio(same, same, same, count, method, float(abs(mean) < _EXACT))
    found = stats.ttest_ind(a, b, equal_var=False)
    low, high = found.confidence_interval(CONFIDENCE)
    return Ratio(math.exp(mean), math.exp(low), math.exp(high), count, method, float(found.pvalue))


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values."""
    return float(stats.gmean(np.asarray(values, dtype=float)))


def proven(p_values: Sequence[float | None], share: float = 0.05) -> list[bool]:
    """Which of many tests show a difference, if at most `share` of those named may be wrong.

    The false-discovery rate is controlled by Benjamini and Hochberg's method. A test without a
    p-value (too few samples) shows nothing, and does not count as one of the many.
    """
    known = [p for p in p_values if p is not None]
    if not known:
        return [False] * len(p_values)
    adjusted = iter(stats.false_discovery_control(known, method="bh"))
    return [bool(next(adjusted) <= share) if p is not None else False for p in p_values]
