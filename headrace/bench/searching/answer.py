# SPDX-License-Identifier: Apache-2.0
"""What a search found: a rate, or a bound of it.

A search looks between two loads. If even the highest meets the goal, the rate is at least that; if
not even the lowest does, it is below that. Both are results and stay in the statistics.
"""

from dataclasses import dataclass

from headrace.results import Relation


class SearchError(Exception):
    """The search ended without an answer; the message says why."""


@dataclass(frozen=True)
class Answer:
    """The rate of one goal.

    Attributes:
        pps: packets per second.
        relation: whether the rate is that (`=`), at least that (`>=`) or below it (`<`).
    """

    pps: float
    relation: Relation
