# SPDX-License-Identifier: Apache-2.0
"""Finds the highest loads that meet loss goals, by MLRsearch (RFC-to-be 9971, PyPI 1.2.1).

One search serves all goals at once and spends long trials only near the answer. The library is
synchronous and calls a *measurer* for one trial after the other; `search` runs it in a thread and
gives each trial back to the caller's event loop.

Only `offered_count` and `loss_count` are passed: the third count is called differently by builds
of the library that carry the same version number. Unsent frames count as lost (the library does
that from `intended_count`), so a generator that cannot send the load never makes a device
look good.

What NDR and PDR mean differs from tool to tool, so `GoalSet.definition` is stored and printed with
every result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from headrace.bench.scenario import GoalName
from headrace.results import Trial

PDR_LOSS = 0.005


class SearchError(Exception):
    """The search ended without an answer; the message says why."""


@dataclass(frozen=True)
class GoalSet:
    """A named set of goals with search parameters."""

    name: GoalName
    definition: str
    goals: dict[str, SearchGoal]
    trials_expected: int


def _pair(definition: str, name: GoalName, trials: int, **common: float | int) -> GoalSet:
    build = partial(SearchGoal, fail_fast=False, **common)
    goals = {"ndr": build(loss_ratio=0.0), "pdr": build(loss_ratio=PDR_LOSS)}
    return GoalSet(name, definition, goals, trials)


def _single(definition: str, name: GoalName, trials: int, **common: float | int) -> GoalSet:
    goals = {"ndr": SearchGoal(loss_ratio=0.0, fail_fast=False, **common)}
    return GoalSet(name, definition, goals, trials)


def goal_set(name: GoalName, trial_s: float = 0.15) -> GoalSet:
    """A goal set by name.

    Args:
        name: `short` (for `headrace run`, on one machine), `csit`, `rfc2544` or `tst009`.
        trial_s: seconds of one trial of `short`; the others have their standards' durations.
    """
    if name == "short":
        return _pair(
            f"NDR: no loss, PDR: at most {100 * PDR_LOSS} % lost; {trial_s:g} s trials, a load "
            f"counts as met when at least half of {3 * trial_s:g} s of trials meet it, width 4 %; "
            "unsent frames count as lost",
            "short",
            14,
            exceed_ratio=0.5,
            relative_width=0.04,
            initial_trial_duration=trial_s,
            final_trial_duration=trial_s,
            duration_sum=3 * trial_s,
            preceding_targets=1,
            expansion_coefficient=4,
        )
    if name == "csit":
        return _pair(
            "as FD.io CSIT: NDR no loss, PDR 0.5 %, 1 s trials, 21 s a load, half may exceed, "
            "width 0.5 %",
            "csit",
            35,
            exceed_ratio=0.5,
            relative_width=0.005,
            initial_trial_duration=1.0,
            final_trial_duration=1.0,
            duration_sum=21.0,
        )
    if name == "rfc2544":
        return _single(
            "RFC 2544 throughput: no loss in one trial of 60 s, width 0.5 %",
            "rfc2544",
            8,
            exceed_ratio=0.0,
            relative_width=0.005,
            initial_trial_duration=1.0,
            final_trial_duration=60.0,
            duration_sum=60.0,
        )
    return _single(
        "ETSI NFV-TST 009 binary search with loss verification, r = 2: no loss in one of two "
        "trials of 60 s, width 0.5 %",
        "tst009",
        10,
        exceed_ratio=0.5,
        relative_width=0.005,
        initial_trial_duration=1.0,
        final_trial_duration=60.0,
        duration_sum=120.0,
    )


RunTrial = Callable[[float, float], Awaitable[Trial]]
"""Runs one trial: (seconds, packets per second) -> its counters."""


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    """Runs the library's trials on the event loop that waits for the search."""

    def __init__(self, run: RunTrial, loop: asyncio.AbstractEventLoop, overhead_s: float) -> None:
        self._run = run
        self._loop = loop
        self._overhead_s = overhead_s
        self.stopped = False

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """One trial, called by the library."""
        if self.stopped:
            raise SearchError("the search was stopped")

        async def once() -> Trial:
            return await self._run(intended_duration, intended_load)

        trial = asyncio.run_coroutine_threadsafe(once(), self._loop).result()
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=trial.sent + trial.unsent,
            offered_count=trial.sent,
            loss_count=trial.lost,
            duration_with_overheads=intended_duration + self._overhead_s,
        )


async def search(
    goals: GoalSet,
    run: RunTrial,
    min_load: float,
    max_load: float,
    limit_s: float,
    overhead_s: float = 0.1,
) -> dict[str, float | None]:
    """Searches all goals of a set.

    Args:
        goals: what to find.
        run: runs one trial; called on this event loop, one trial at a time.
        min_load: lowest load to try, in packets per second.
        max_load: highest load to try.
        limit_s: wall-clock seconds after which the search is given up.
        overhead_s: overhead of a trial beyond its duration, for the library's decisions.

    Returns:
        For each goal the conditional throughput in packets per second; None if even `min_load`
        does not meet the goal.

    Raises:
        SearchError: no answer within `limit_s`.
    """
    measurer = _Measurer(run, asyncio.get_running_loop(), overhead_s)
    config = Config(
        goals=tuple(goals.goals.values()),
        min_load=min_load,
        max_load=max_load,
        search_duration_max=limit_s,
        warmup_duration=None,
    )
    controller = MultipleLossRatioSearch(config=config)
    try:
        found = await asyncio.to_thread(controller.search, measurer=measurer, debug=None)
    except RuntimeError as error:
        raise SearchError(f"no answer within {limit_s:.0f} s: {error}") from error
    finally:
        measurer.stopped = True
    answer: dict[str, float | None] = {}
    for name, goal in goals.goals.items():
        result = found[goal]
        throughput = result.conditional_throughput
        answer[name] = None if throughput is None else float(throughput)
    return answer
