# SPDX-License-Identifier: Apache-2.0
"""Statistics of values of which some are only bounds.

A search that ended at a bound says that the rate is at least that (`>=`) or below it (`<`). Such a
sample has a rank like any other: it is larger, or smaller, than every value that was reached. So it
stays in the median, and the median is itself a bound where it falls on such a sample.
"""

from collections.abc import Sequence

from headrace.results.records import Relation

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
