# SPDX-License-Identifier: Apache-2.0
"""The simulation drives the controller's core; what it finds is the same for the same seed."""

import json
from pathlib import Path

from typer.testing import CliRunner

from headrace.cli import app
from headrace.cluster.simulation.demand import Setting, nodes, visits
from headrace.cluster.simulation.outcome import Outcome
from headrace.cluster.simulation.run import Simulation

SMALL = Setting(nodes=40, racks=8, graphs=120, hours=0.4, lifetime_s=600, failures=2, outage_s=120)


def _run(setting: Setting) -> Outcome:
    return Simulation(setting).run()


def test_graphs_come_and_go_and_racks_fail() -> None:
    found = _run(SMALL)
    assert found.graphs == 120 and len(found.deploy_s) + found.never == 120
    assert found.left_parts == 0 and found.left_vnis == 0 and not found.refused
    assert len(found.outages) == 2 and any(one.graphs for one in found.outages)
    for one in found.outages:
        assert one.took_s is not None and one.took_s < 60
        assert one.moved_at_return == 0


def test_a_seed_gives_the_same_run() -> None:
    one, two, other = _run(SMALL), _run(SMALL), _run(Setting(**{**SMALL.__dict__, "seed": 2}))
    assert (one.deploy_s, one.calls, one.series) == (two.deploy_s, two.calls, two.series)
    assert one.deploy_s != other.deploy_s


def test_demands_are_those_of_the_setting() -> None:
    found = visits(SMALL)
    assert len(found) == 120 and all(one.comes < one.goes for one in found)
    pinned = sum(bool(one.graph.spec.constraints.pinned) for one in found)
    assert 0.15 < pinned / 120 < 0.45
    specs = nodes(SMALL)
    assert len({spec.tunnel_address for spec in specs.values()}) == 40
    assert {spec.rack for spec in specs.values()} == {f"rack-{n}" for n in range(8)}


def test_the_commands(tmp_path: Path) -> None:
    plot = tmp_path / "cluster.svg"
    small = ["--nodes", "20", "--graphs", "20"]
    arguments = ["cluster", "simulate", *small, "--racks", "4", "--hours", "0.2", "--failures", "1"]
    told = CliRunner().invoke(app, [*arguments, "--json", "--plot", str(plot)])
    assert told.exit_code == 0, told.output
    answer = json.loads(told.output)
    names = {figure["name"]: figure["value"] for figure in answer["figures"]}
    assert names["parts left at nodes when all is deleted"] == 0
    assert answer["calls"]["PUT /NF-FG"] >= 20 and len(answer["outages"]) == 1
    assert "<svg" in plot.read_text()
    printed = CliRunner().invoke(app, arguments)
    assert printed.exit_code == 0 and "place a graph, median" in printed.output
    bench = CliRunner().invoke(app, ["bench", "cluster", *small, "--seeds", "1", "--json"])
    assert bench.exit_code == 0, bench.output
    rows = json.loads(bench.output)["rows"]
    (left,) = (row for row in rows if row["name"].startswith("VNIs left"))
    assert left["met"] is True and left["samples"] == [0.0]
