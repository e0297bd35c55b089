# SPDX-License-Identifier: Apache-2.0
"""Arrivals and departures: equal seeds give equal runs, and what is counted adds up."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from headrace.cli import app
from headrace.placement.policies import POLICIES
from headrace.placement.simulation import Setting, simulate

SMALL = Setting(hours=6, per_hour=12, lifetime_h=3, servers=6, longest=4, consolidate=4, samples=10)


def test_all_policies_see_the_same_arrivals_and_their_counts_add_up() -> None:
    found = simulate(SMALL, list(POLICIES))
    assert len({one.arrivals for one in found}) == 1
    assert [one.policy for one in found][-1] == "headrace, 4 moves per hour"
    for one in found:
        assert len(one.latency_us) + one.refused == one.arrivals > 0
        assert one.runs <= one.vnfs and len(one.series) == 10
        assert 0 < one.servers <= SMALL.servers
    by_name = {one.policy: one for one in found}
    assert by_name["distribute"].runs > by_name["headrace"].runs
    assert by_name["headrace"].cost < by_name["gather"].cost
    assert by_name["headrace, 4 moves per hour"].migrations <= 4 * SMALL.hours
    again = simulate(SMALL, ["headrace"])[0]
    assert (again.cost, again.refused) == (by_name["headrace"].cost, by_name["headrace"].refused)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["simulate", *words])


def test_the_command_draws_and_prints(tmp_path: Path) -> None:
    plot = tmp_path / "a.svg"
    ran = run("--hours", "2", "--servers", "4", "--plot", str(plot), "--json")
    assert ran.exit_code == 0, ran.stderr
    assert len(json.loads(ran.stdout)["policies"]) == 6
    assert plot.read_text().startswith("<svg")
    assert run("--policies", "worst-fit").exit_code == 1
