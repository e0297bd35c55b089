# SPDX-License-Identifier: Apache-2.0
"""MLRsearch beside bisection on simulated devices: right, and with fewer seconds of trials."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.bench.device import TrialRequest
from headrace.bench.searching.answer import Answer, SearchError
from headrace.bench.searching.bisection import bisect
from headrace.bench.searching.comparison import CASE, compare_all
from headrace.bench.searching.goals import GoalKey, goal_set
from headrace.bench.searching.rate_search import Limits, search_case
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.cli import app
from headrace.results import Trial
from headrace.results.store import Store

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


def test_a_cases_search_may_be_by_bisection_and_says_so(tmp_path: Path) -> None:
    """`bench search rfc2544 --by bisection` on a simulated device: one answer, of halved loads."""
    done = CliRunner().invoke(
        app, ["bench", "search", "rfc2544", "--trials-of", "0.5", "--by", "bisection", "--simulate",
              "--json", "--results", str(tmp_path / "r.sqlite")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    (found,) = [row for row in rows if " ndr at " in row["name"]]
    assert found["name"].endswith("ndr at 0.5 s trials, bisection") and found["value"] > 0
    with Store(tmp_path / "r.sqlite") as store:
        trials = [t for case in store.cases(1) for t in store.trials(case) if t.purpose == "search"]
    assert {trial.duration_s for trial in trials} == {0.5} and len(trials) >= 5


async def test_a_bisection_ends_with_its_budget() -> None:
    moment = 0.0

    async def run(seconds: float, load: float) -> Trial:
        nonlocal moment
        moment += 1e5
        return await SimulatedDevice(CASE).trial(TrialRequest(0, "search", seconds, load))

    limits = Limits(1e6, 1e9)
    with pytest.raises(SearchError, match="by bisection"):
        await search_case(goal_set("rfc2544"), run, limits, 0.1, lambda: moment, "bisection")


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
