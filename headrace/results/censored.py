# SPDX-License-Identifier: Apache-2.0
"""Statistics of values of which some are only bounds.

A search that ended at a bound says that the rate is at least that (`>=`) or below it (`<`). Such a
sample has a rank like any other: it is larger, or smaller, than every value that was reached. So it
stays in the median, and the median is itself a bound where it falls on such a sample.
"""

import math
import statistics
from collections.abc import Sequence

from headrace.results.records import Relation

NEGLIGIBLE = 0.05
"""A median that the limited samples could raise by no more than this share is no bound."""
_RANK: dict[Relation, int] = {"<": 0, "=": 1, ">=": 2}


def relation_of_median(samples: Sequence[tuple[float, Relation]]) -> Relation:
    """Whether the median of (value, relation) pairs is a value or a bound.

    Raises:
        ValueError: there is no sample.
    """
    if not samples:
        raise ValueError("no samples, no median")
    order = sorted(samples, key=lambda sample: (_RANK[sample[1]], sample[0]))
    middle = {order[(len(order) - 1) // 2][1], order[len(order) // 2][1]}
    bounds = middle - {"="}
    # Between a bound from below and one from above nothing is known but the upper one.
    return "<" if "<" in bounds else bounds.pop() if bounds else "="


def limited_median(samples: Sequence[tuple[float, bool]]) -> bool:
    """Whether the median of (rate, whether the generator may have limited it) is a lower bound.

    Each limited sample may be any rate from its own up. So the median is known if it hardly rises
    when all of them are taken as boundless: a few disturbed trials of unknown limit leave it so.
    """
    if not samples:
        return False
    plain = statistics.median(value for value, _ in samples)
    raised = statistics.median(math.inf if limited else value for value, limited in samples)
    return not raised <= (1 + NEGLIGIBLE) * plain
