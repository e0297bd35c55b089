# SPDX-License-Identifier: Apache-2.0
"""Finds the highest loads that meet loss goals, by MLRsearch (RFC-to-be 9971, PyPI 1.2.1).

One search serves all goals at once and spends long trials only near the answer. The library is
synchronous and calls a *measurer* for one trial after the other; `search` runs it in a thread and
gives each trial back to the caller's event loop.

Only `offered_count` and `loss_count` are passed: the third count is called differently by builds
of the library that carry the same version number. Unsent frames count as lost (the library does
that from `intended_count`), so a generator that cannot send the load never makes a device
look good.

The library's own time limit counts wall-clock time, which a simulated device does not use up, so
the budget is kept here, by a clock that the caller may give.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from MLRsearch import (
    AbstractMeasurer,
    Config,
    GoalResult,
    MeasurementResult,
    MultipleLossRatioSearch,
)

from headrace.bench.searching.answer import Answer, SearchError
from headrace.bench.searching.goals import GoalKey, GoalSet
from headrace.results import Trial
from headrace.results.units import rate

RunTrial = Callable[[float, float], Awaitable[Trial]]
"""Runs one trial: (seconds, packets per second) -> its counters."""

NEVER_S = 1e9
"""The library's own limit, out of the way of ours."""


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    """Runs the library's trials on the event loop that waits for the search."""

    def __init__(
        self,
        run: RunTrial,
        loop: asyncio.AbstractEventLoop,
        overhead_s: float,
        budget_s: float,
        now: Callable[[], float],
    ) -> None:
        self._run = run
        self._loop = loop
        self._overhead_s = overhead_s
        self._budget_s = budget_s
        self._now = now
        self._begun = now()
        self._loads: list[tuple[float, float]] = []
        self.stopped = False

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """One trial, called by the library."""
        if self.stopped:
            raise SearchError("the search was stopped")
        if self._now() - self._begun >= self._budget_s:
            raise SearchError(
                f"no answer within its {self._budget_s:g} s, after {len(self._loads)} trials"
                + self._so_far()
            )

        async def once() -> Trial:
            return await self._run(intended_duration, intended_load)

        trial = asyncio.run_coroutine_threadsafe(once(), self._loop).result()
        self._loads.append((intended_load, trial.loss_ratio))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=trial.sent + trial.unsent,
            offered_count=trial.sent,
            loss_count=trial.lost,
            duration_with_overheads=intended_duration + self._overhead_s,
        )

    def _so_far(self) -> str:
        clean = [load for load, loss in self._loads if loss == 0]
        lossy = [load for load, loss in self._loads if loss > 0]
        text = f"; highest load without loss {rate(max(clean))}" if clean else "; all trials lost"
        return text + (f", lowest with loss {rate(min(lossy))}" if lossy else "")


async def search(
    goals: GoalSet,
    run: RunTrial,
    min_load: float,
    max_load: float,
    overhead_s: float = 0.1,
    budget_s: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> dict[GoalKey, Answer]:
    """Searches all goals of a set.

    Args:
        goals: what to find.
        run: runs one trial; called on this event loop, one trial at a time.
        min_load: lowest load to try, in packets per second.
        max_load: highest load to try.
        overhead_s: overhead of a trial beyond its duration, for the library's decisions.
        budget_s: seconds after which the search is given up; None for the set's own.
        now: the clock of the budget; that of a simulated device where there is one.

    Returns:
        For each goal the conditional throughput, or the bound at which the search ended.

    Raises:
        SearchError: no answer within the budget; the message says what was found so far.
    """
    budget = goals.budget_s if budget_s is None else budget_s
    measurer = _Measurer(run, asyncio.get_running_loop(), overhead_s, budget, now)
    config = Config(
        goals=tuple(goals.goals.values()),
        min_load=min_load,
        max_load=max_load,
        search_duration_max=NEVER_S,
        warmup_duration=None,
    )
    controller = MultipleLossRatioSearch(config=config)
    try:
        found = await asyncio.to_thread(controller.search, measurer=measurer, debug=None)
    finally:
        measurer.stopped = True
    return {key: _answer(found[goal], min_load) for key, goal in goals.goals.items()}


def _answer(result: GoalResult, min_load: float) -> Answer:
    throughput = result.conditional_throughput
    if throughput is None:
        return Answer(min_load, "<")
    if result.relevant_upper_bound is None:
        return Answer(float(throughput), ">=")
    return Answer(float(throughput), "=")
