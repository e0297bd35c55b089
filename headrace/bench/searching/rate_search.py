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

from headrace.bench.searching.answer import Answer, SearchError
from headrace.bench.searching.bisection import bisect
from headrace.bench.searching.confirmation import confirm
from headrace.bench.searching.goals import GoalKey, GoalSet, SearchBy
from headrace.bench.searching.mlr import RunTrial, search
from headrace.results import Trial

MLRSEARCH: SearchBy = "mlrsearch"
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
    by: SearchBy = MLRSEARCH,
) -> dict[GoalKey, Answer]:
    """All goals of a set for one case; confirmed where the set says so.

    `by` bisection each goal is searched on its own, by halving.

    Raises:
        SearchError: no answer within the set's budget.
    """
    begun = now()
    max_load = limits.highest
    min_load = MIN_LOAD_SHARE * max_load
    halve = by != MLRSEARCH
    if halve:
        found = await _bisected(goals, run, min_load, max_load, goals.budget_s, now)
    else:
        found = await search(goals, run, min_load, max_load, overhead_s, now=now)
    while max_load < limits.ceiling_pps and any(a.relation == ">=" for a in found.values()):
        max_load = min(limits.ceiling_pps, 2 * max_load)
        left = goals.budget_s - (now() - begun)
        if halve:
            wider = await _bisected(goals, run, min_load, max_load, left, now)
        else:
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


async def _bisected(
    goals: GoalSet,
    run: RunTrial,
    min_load: float,
    max_load: float,
    budget_s: float,
    now: Callable[[], float],
) -> dict[GoalKey, Answer]:
    """Each goal by bisection; SearchError where the budget is used up."""
    end = now() + budget_s

    async def within(seconds: float, load: float) -> Trial:
        if now() >= end:
            raise SearchError(f"no answer within its {budget_s:g} s by bisection")
        return await run(seconds, load)

    return {
        key: (await bisect(goal, within, min_load, max_load)).answer
        for key, goal in goals.goals.items()
    }
