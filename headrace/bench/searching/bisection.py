# SPDX-License-Identifier: Apache-2.0
"""Plain bisection, the search that RFC 2544 describes: for comparison with MLRsearch.

It halves the interval between a load that met the goal and one that did not until that is narrow
enough. Every load has all of the goal's trials, at their full length; nothing that is learned from
short trials is used. One goal at a time.
"""

from dataclasses import dataclass

from MLRsearch import SearchGoal

from headrace.bench.searching.answer import Answer
from headrace.bench.searching.mlr import RunTrial


@dataclass(frozen=True)
class Bisection:
    """An answer and what it took: trials, and the seconds that they sent for."""

    answer: Answer
    trials: int
    trial_s: float


async def bisect(goal: SearchGoal, run: RunTrial, min_load: float, max_load: float) -> Bisection:
    """Bisects between two loads in packets per second until the goal's width is reached."""
    trials = 0
    repeats = max(1, round(goal.duration_sum / goal.final_trial_duration))

    async def meets(load: float) -> bool:
        nonlocal trials
        exceeded = 0
        for _ in range(repeats):
            trial = await run(goal.final_trial_duration, load)
            trials += 1
            exceeded += trial.loss_ratio > goal.loss_ratio
        return bool(exceeded <= goal.exceed_ratio * repeats)

    def ended(pps: float, relation: str) -> Bisection:
        found = Answer(pps, "=" if relation == "=" else "<" if relation == "<" else ">=")
        return Bisection(found, trials, trials * goal.final_trial_duration)

    if await meets(max_load):
        return ended(max_load, ">=")
    low, high, known = min_load, max_load, False
    while (high - low) / high > goal.relative_width:
        middle = (low + high) / 2
        if await meets(middle):
            low, known = middle, True
        else:
            high = middle
    if not known and not await meets(low):
        return ended(low, "<")
    return ended(low, "=")
