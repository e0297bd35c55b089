# SPDX-License-Identifier: Apache-2.0
"""MLRsearch beside bisection on simulated devices: right, and with fewer seconds of trials."""

import pytest

from headrace.bench.device import TrialRequest
from headrace.bench.searching.answer import Answer
from headrace.bench.searching.bisection import bisect
from headrace.bench.searching.comparison import CASE, compare_all
from headrace.bench.searching.goals import GoalKey, goal_set
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.results import Trial

GOAL = goal_set("rfc2544").goals[GoalKey("ndr", "")]


async def test_every_search_is_right_within_1_percent_in_a_third_of_bisections_seconds() -> None:
    rows = await compare_all(seeds=10)
    assert len(rows) == 6
    for row in rows:
        assert row.met, row
        if row.unit == "%":
            assert max(row.samples) < 1, row
        else:
            # A search that needs one more trial of a minute has a smaller advantage.
            assert sum(sample > 3 for sample in row.samples) >= 9, row


@pytest.mark.parametrize(
    ("bounds", "relation"),
    [((1e5, 1e7), "="), ((1e5, 1e6), ">="), ((7e6, 1e7), "<")],
)
async def test_bisection_ends_at_the_capacity_or_at_its_bound(
    bounds: tuple[float, float], relation: str
) -> None:
    device = SimulatedDevice(CASE, DeviceModel(cycles=400, per_byte=0))  # 5 Mpps

    async def run(seconds: float, load: float) -> Trial:
        return await device.trial(TrialRequest(0, "search", seconds, load))

    found = await bisect(GOAL, run, *bounds)
    assert found.answer.relation == relation
    assert found.trial_s == 60 * found.trials
    if relation == "=":
        assert 0.995 * 5e6 <= found.answer.pps <= 5e6 and found.trials == 10
    else:
        assert found.answer == Answer(
            bounds[0] if relation == "<" else bounds[1], found.answer.relation
        )
