# SPDX-License-Identifier: Apache-2.0
"""Confirms what short trials found by longer ones.

A queue hides up to its length of overload from a short trial, and half of 0.45 s may be the calm
half. So a quick answer is tried for longer, and lowered until a longer trial meets the goal. An
answer that none does is an upper bound of the rate: `<`.
"""

from headrace.bench.searching.answer import Answer
from headrace.bench.searching.goals import Confirmation
from headrace.bench.searching.mlr import RunTrial

FIRST_STEP = 0.04
"""Share by which a load is lowered at the first step; it doubles with each."""


async def confirm(
    found: Answer, loss_ratio: float, how: Confirmation, run: RunTrial, min_load: float
) -> Answer:
    """The answer that longer trials meet: the same, a lower one, or an upper bound (`<`).

    Args:
        found: what was searched for; a `<` is returned as it is.
        loss_ratio: the goal's.
        how: the trials and steps.
        run: runs one trial.
        min_load: no load below it is tried.
    """
    if found.relation == "<":
        return found
    load = found.pps
    for load in _loads(found.pps, how.steps, min_load):
        for _ in range(how.trials):
            trial = await run(how.seconds, load)
            if trial.loss_ratio <= loss_ratio:
                return Answer(load, found.relation if load == found.pps else "=")
    return Answer(load, "<")


def _loads(first: float, steps: int, lowest: float) -> list[float]:
    """The loads to try: the first, then each lower by a step twice as large as the one before."""
    loads = [first]
    for number in range(steps):
        load = max(lowest, loads[-1] * (1 - FIRST_STEP * 2**number))
        if load < loads[-1]:
            loads.append(load)
    return loads
