# SPDX-License-Identifier: Apache-2.0
"""The search of a case: its bounds from overload trials, MLRsearch, a wider bound, confirmation.

The highest load that is tried comes from what came back under overload. One short overload trial
can be half of what the device carries, so there are several, and the largest counts; and where the
search still ends at that bound, the bound is doubled, up to what the generator can send. Only
there an answer is `>=`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.bench.searching.answer import Answer
from headrace.bench.searching.confirmation import confirm
from headrace.bench.searching.goals import GoalKey, GoalSet
from headrace.bench.searching.mlr import RunTrial, search

OVERLOADS = 3
"""Overload trials that a bound needs."""
HEADROOM = 1.5
"""The highest load tried is this multiple of what came back under overload."""
MIN_LOAD_SHARE = 0.05
"""The lowest load tried is this share of the highest."""


@dataclass(frozen=True)
class Limits:
    """The loads between which a search looks, in packets per second.

    Attributes:
        overload_pps: the most that came back of several overload trials.
        ceiling_pps: the most that the generator can send.
    """

    overload_pps: float
    ceiling_pps: float

    @property
    def highest(self) -> float:
        """The first upper bound."""
        return min(self.ceiling_pps, HEADROOM * self.overload_pps)


async def search_case(
    goals: GoalSet,
    run: RunTrial,
    limits: Limits,
    overhead_s: float,
    now: Callable[[], float] = time.monotonic,
) -> dict[GoalKey, Answer]:
    """All goals of a set for one case; confirmed where the set says so.

    Raises:
        SearchError: no answer within the set's budget.
    """
    begun = now()
    max_load = limits.highest
    min_load = MIN_LOAD_SHARE * max_load
    found = await search(goals, run, min_load, max_load, overhead_s, now=now)
    while max_load < limits.ceiling_pps and any(a.relation == ">=" for a in found.values()):
        max_load = min(limits.ceiling_pps, 2 * max_load)
        left = goals.budget_s - (now() - begun)
        wider = await search(goals, run, min_load, max_load, overhead_s, left, now)
        # A goal that had its answer below the old bound keeps it.
        found = {
            key: wider[key] if answer.relation == ">=" else answer for key, answer in found.items()
        }
    if goals.confirmation is None:
        return found
    return {
        key: await confirm(
            answer,
            goals.goals[key].loss_ratio,
            goals.confirmation,
            run,
            min_load,
        )
        for key, answer in found.items()
    }
