# SPDX-License-Identifier: Apache-2.0
"""MLRsearch beside plain bisection on simulated devices whose capacity is known.

Both search the NDR of the same goal, so at the same width and with trials of the same final length.
The device's capacity varies from trial to trial (`NOISE`), and the whole device stands still now
and then (`STALLS_HZ`) and loses what arrives. The answer should be the capacity; what it took is
counted in seconds of sending.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.bench.device import TrialRequest
from headrace.bench.rows import Row, row
from headrace.bench.searching.answer import Answer
from headrace.bench.searching.bisection import bisect
from headrace.bench.searching.goals import GoalKey, GoalName, goal_set
from headrace.bench.searching.mlr import search
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.results import Case, Trial

NOISE = 0.003
STALLS_HZ = 0.05
GOAL_ERROR_PERCENT = 1.0
GOAL_TIMES = 3.0
CASE = Case("comparison", "p2p", 0, "none", "simulated", "none", "", "", "", "64", 1)
LOWEST_SHARE, HIGHEST_SHARE = 0.075, 1.5
"""Bounds of the search as shares of the capacity: those of a campaign's searches."""
MODELS: dict[GoalName, DeviceModel] = {
    "csit": DeviceModel(noise=NOISE, stalls_hz=STALLS_HZ),
    "tst009": DeviceModel(noise=NOISE),
    "rfc2544": DeviceModel(noise=NOISE),
}
"""A stall every 20 s leaves no trial of 60 s without loss: the standards have a device without."""


@dataclass(frozen=True)
class Compared:
    """One device searched by both: errors relative to the capacity, seconds of sending."""

    mlr_error: float
    mlr_s: float
    bisection_error: float
    bisection_s: float


async def compare(name: GoalName, seed: int) -> Compared:
    """Searches the NDR of one simulated device by both."""
    goals = goal_set(name, [0.0])
    key: GoalKey
    (key,) = goals.goals

    def made() -> SimulatedDevice:
        return SimulatedDevice(CASE, MODELS[name], seed=seed)

    async def run(seconds: float, load: float) -> Trial:
        return await device.trial(TrialRequest(0, "search", seconds, load))

    device = made()
    capacity = device.capacity_pps
    # The bounds of a campaign's search come from a noisy overload trial, so they differ, too.
    scale = random.Random(seed).uniform(0.9, 1.1)  # noqa: S311
    bounds = (LOWEST_SHARE * scale * capacity, HIGHEST_SHARE * scale * capacity)
    answer = (await search(goals, run, *bounds, now=lambda: device.elapsed_s))[key]
    mlr_s = sum(trial.duration_s for trial in device.trials)
    device = made()
    halved = await bisect(goals.goals[key], run, *bounds)
    return Compared(
        _error(answer, capacity), mlr_s, _error(halved.answer, capacity), halved.trial_s
    )


def _error(answer: Answer, capacity: float) -> float:
    return abs(answer.pps / capacity - 1) if answer.relation == "=" else 1.0


async def compare_all(
    names: Sequence[GoalName] = ("csit", "tst009", "rfc2544"), seeds: int = 20
) -> list[Row]:
    """Errors and durations of both searches for each goal, on `seeds` devices each."""
    rows = []
    for name in names:
        found = [await compare(name, seed) for seed in range(seeds)]
        errors = [100 * one.mlr_error for one in found]
        halved = statistics.median(100 * one.bisection_error for one in found)
        times = [one.bisection_s / one.mlr_s for one in found]
        rows.append(
            row(
                f"{name}: NDR's error on a simulated device",
                errors,
                "%",
                goal=GOAL_ERROR_PERCENT,
                better="lower",
                note=f"bisection: {halved:.2f} %; capacity known, {len(found)} devices",
            )
        )
        rows.append(
            row(
                f"{name}: trial seconds of bisection / MLRsearch",
                times,
                "times",
                goal=GOAL_TIMES,
                note=f"{statistics.median(one.bisection_s for one in found):.0f} s and "
                f"{statistics.median(one.mlr_s for one in found):.0f} s, same width",
            )
        )
    return rows
