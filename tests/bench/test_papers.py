# SPDX-License-Identifier: Apache-2.0
"""The papers' experiments: every file in both profiles, what they name, how they are run."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.bench import command_run, lacking
from headrace.bench.command_run import run_command
from headrace.bench.core_plan import plan_cores
from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.experiments import (
    CommandExperiment,
    Experiment,
    files_of,
    find_experiments,
    load_experiment,
    load_papers,
)
from headrace.bench.graph import streams
from headrace.bench.lacking import NEEDS, lack_of_subject, lacks, runnable
from headrace.bench.listing import listed
from headrace.bench.node_process import node_config
from headrace.bench.papers import minutes_of
from headrace.bench.plan import blocks_of
from headrace.bench.profiles import PAPER, SMALL
from headrace.bench.scenario import Scenario
from headrace.bench.settings import SCENARIOS
from headrace.bench.subject import Subject
from headrace.bench.templates import template_name, write_templates
from headrace.cli import app
from headrace.results import published
from headrace.results.papers import PAPERS
from headrace.results.store import Store

FILES = [path for one in PAPERS for path in files_of(one.key)]
PLAN = plan_cores([0, 1])


@pytest.mark.parametrize("profile", [SMALL, PAPER])
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_file_can_be_planned(path: Path, profile: str) -> None:
    one = load_experiment(path, profile)
    assert one.name == f"{path.parent.name}/{path.stem}" and one.profile == profile
    assert one.papers == [paper.short for paper in PAPERS if paper.key == path.parent.name]
    assert one.minutes and one.figures
    assert {need.needs.partition(":")[0] for need in one.needs} <= set(NEEDS)
    if isinstance(one, CommandExperiment):
        assert one.command[0] in ("bench", "model")
        return
    cases = one.cases()
    assert len({case.name + case.placement for case in cases}) == len(cases)
    planned = [job.case for block in blocks_of([one]) for job in block.jobs]
    assert sorted(map(str, planned)) == sorted(map(str, cases))
    lacking_here = lacks(one, PLAN)
    here = runnable(one, PLAN)
    left = here.cases() if here is not None else []
    assert set(left) | set(lacking_here) == set(cases)


@pytest.mark.parametrize("name", ["icpe18/features-imix", "unify/port-forwarder"])
def test_a_node_has_one_kind_of_vnf_at_a_time(name: str) -> None:
    (one,) = find_experiments([name], SMALL)
    assert isinstance(one, Scenario)
    here = runnable(one, PLAN)
    assert here is not None
    for block in blocks_of([here]):
        of_node = {(job.case.subject, job.case.deployment) for job in block.jobs}
        assert len({subject for subject, _ in of_node}) == len(of_node)
    assert len({job.case.deployment for block in blocks_of([here]) for job in block.jobs}) > 3


def _value(one: published.PublishedValue) -> tuple[object, ...]:
    return tuple(vars(one).values())


def test_every_published_number_is_named_by_an_experiment() -> None:
    named = set()
    for one in load_papers(profile=PAPER):
        for figure in one.figures:
            found = [
                value
                for value in published.values()
                if figure.published
                and value.paper in one.papers
                and all(
                    str(getattr(value, name)) in {str(each) for each in allowed}
                    for name, allowed in figure.published.items()
                )
            ]
            assert found or not figure.published, (one.name, figure.figure)
            named |= {_value(value) for value in found}
    missed = [value for value in published.values() if _value(value) not in named]
    assert missed == []


def test_the_small_profiles_take_less_than_an_hour() -> None:
    assert sum(minutes_of(one) for one in load_papers(profile=SMALL)) < 60


def test_a_profile_is_laid_over_the_file_and_unknown_ones_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "luizelli"
    folder.mkdir()
    path = folder / "one.yaml"
    path.write_text(
        "title: t\nquestion: q\npapers: [luizelli-cost]\ngraphs: [{shape: p2p}]\n"
        "subjects: [{switch: headrace, ports: memif}]\n"
        "traffic: {sizes: [64], flows: [7]}\nmeasure: {overload: true}\n"
        "profiles:\n  small: {minutes: 1}\n  paper: {traffic: {sizes: [64, 512]}}\n"
    )
    small, paper = (load_experiment(path, name) for name in (None, PAPER))
    assert isinstance(small, Scenario) and isinstance(paper, Scenario)
    assert small.traffic.sizes == [64] and small.profile == SMALL
    assert paper.traffic.sizes == [64, 512] and paper.traffic.flows == [7]
    with pytest.raises(ScenarioError, match=r"one.yaml: no profile 'large'; known: small, paper"):
        load_experiment(path, "large")
    path.write_text("command: [bench, x]\ntitle: t\nquestion: q\nspeed: 3\nprofiles: {small: {}}\n")
    with pytest.raises(ScenarioError, match=r"one.yaml: speed"):
        load_experiment(path)


def test_names_are_papers_experiments_and_scenarios() -> None:
    names = [one.name for one in find_experiments(["hong", "luizelli/cost", "port-to-port"])]
    assert names == ["hong/bare-metal", "hong/compositions", "luizelli/cost", "port-to-port"]
    assert find_experiments(["luizelli-cost"])[0].papers == ["luizelli-cost"]
    with pytest.raises(
        ScenarioError, match=r"no scenario 'nope'; known: icpe18, .*hong/bare-metal"
    ):
        find_experiments(["nope"])


def test_what_a_machine_lacks_is_said_of_each_subject(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "0000:00:04.0").mkdir()
    (tmp_path / "0000:00:04.0" / "class").write_text("0x020000\n")
    (tmp_path / "0000:00:04.0" / "vendor").write_text("0x8086\n")
    monkeypatch.setattr(lacking, "_PCI", tmp_path)
    monkeypatch.setattr("headrace.bench.lacking.shutil.which", lambda _: None)
    sriov = Subject(switch="sr-iov", ports="nic")
    assert "sriov_totalvfs" in (lack_of_subject(sriov, PLAN) or "")
    (tmp_path / "0000:00:04.0" / "sriov_totalvfs").write_text("8\n")
    assert "by `pci` of a template" in (lack_of_subject(sriov, PLAN) or "")
    nics = Subject(switch="headrace", ports="nic", vnf_ports="vhost-user")
    assert lack_of_subject(nics, PLAN) == (
        "needs 2 ports of a NIC on the PCI bus: this machine has 1"
    )
    assert "VPP is not installed" in (
        lack_of_subject(Subject(switch="vpp", ports="memif"), PLAN) or ""
    )
    monkeypatch.setattr("headrace.bench.lacking.shutil.which", lambda name: f"/usr/bin/{name}")
    assert lack_of_subject(Subject(switch="vpp", ports="memif"), PLAN) is None
    four = Subject(switch="headrace", ports="memif", workers=4)
    assert "4 workers" in (lack_of_subject(four, PLAN) or "")
    assert lack_of_subject(four, plan_cores(list(range(6)))) is None
    assert lacking.lack("numa:1") is None and lacking.lack("numa:64") is not None
    assert lacking.lack("architecture:pdp11") is not None


def test_more_workers_have_the_last_cores() -> None:
    plan = plan_cores(list(range(8)))
    assert plan.with_workers(1) is plan
    three = plan.with_workers(3)
    assert (three.switch, three.generator, three.control) == ([5, 6, 7], [1], [0])
    assert three.vnf == [2, 3, 4]
    two = plan_cores([0, 1]).with_workers(2)
    assert (two.switch, two.generator, two.vnf) == ([0, 1], [0], [0])


def test_nodes_of_kernel_switches_and_their_templates(tmp_path: Path) -> None:
    netdev = Subject(switch="ovs-netdev", ports="veth")
    config = node_config(netdev, PLAN, 8080)
    assert (config["switch"], config["switch_options"]) == ("ovs", {"datapath": "userspace"})
    config = node_config(Subject(switch="vpp", ports="memif"), PLAN, 8080)
    assert (config["switch"], config["switch_options"]) == ("vpp", {"program": "vpp"})
    with pytest.raises(DeviceError, match="starts no node with sr-iov"):
        node_config(Subject(switch="sr-iov", ports="nic"), PLAN, 8080)
    with pytest.raises(ValueError, match="ports of the kernel"):
        Subject(switch="ovs-kernel", ports="memif")
    plain = Subject(switch="headrace", ports="memif")
    boxed = plain.model_copy(update={"engine": "container"})
    nat = Subject(
        switch="headrace", ports="memif", engine="container", function="nat",
        configuration={"public": ["203.0.113.9"]},
    )  # fmt: skip
    assert [template_name(one) for one in (plain, boxed, nat)] == [
        "pass", "pass-container", "bench-container-nat"
    ]  # fmt: skip
    (written,) = write_templates([plain, boxed, nat], tmp_path / "templates")
    text = Path(written).read_text()
    assert "203.0.113.9" in text and "roles: true" in text and "inside" in text


def test_traffic_both_ways_has_addresses_exchanged() -> None:
    rows = streams("parallel", 2, "64", 10, "a", "b", both_ways=True)
    assert [(row["name"], row["tx_port"], row["rx_port"]) for row in rows] == [
        ("s0", "a", "b"), ("s1", "a", "b"), ("r0", "b", "a"), ("r1", "b", "a")
    ]  # fmt: skip
    assert rows[3]["src_mac"] == rows[1]["dst_mac"] and rows[3]["dst_mac"] == rows[1]["src_mac"]


def _program(tmp_path: Path, text: str) -> Path:
    program = tmp_path / "headrace"
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


async def test_a_command_gives_its_rows_or_the_last_thing_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _program(
        tmp_path,
        'if [ "$2" = bad ]; then echo "headrace: no core" >&2; exit 1; fi\n'
        'echo "{\\"rows\\": [{\\"name\\": \\"$*\\", \\"value\\": 3}]}"\n',
    )
    monkeypatch.setattr(command_run, "_program", lambda: str(program))
    assert await run_command(["bench", "good"], 1) == [{"name": "bench good --json", "value": 3}]
    with pytest.raises(DeviceError, match="headrace bench bad: headrace: no core"):
        await run_command(["bench", "bad"], 1)
    slow = _program(tmp_path, "exec sleep 60\n")
    monkeypatch.setattr(command_run, "_program", lambda: str(slow))
    monkeypatch.setattr(command_run, "PATIENCE", -50)
    with pytest.raises(DeviceError, match="not ended after"):
        await run_command(["bench", "slow"], 0.0999)


def test_the_list_has_every_experiment_with_what_lacks() -> None:
    rows = {row.name: row for row in listed(PLAN)}
    assert set(rows) >= {f"{path.parent.name}/{path.stem}" for path in FILES}
    compositions = rows["hong/compositions"]
    assert compositions.minutes_small and compositions.minutes_paper
    assert "Tables 2 and 3" in compositions.figures and compositions.lacks
    outcome = CliRunner().invoke(app, ["bench", "list", "--json"])
    assert outcome.exit_code == 0
    assert len(json.loads(outcome.output)["rows"]) == len(rows)


def test_a_paper_runs_as_one_campaign_and_no_row_is_absent(tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    words = ["bench", "run", "luizelli", "--profile", "small", "--simulate"]
    outcome = CliRunner().invoke(app, [*words, "--results", str(results)])
    assert outcome.exit_code == 0, outcome.output
    expected: list[Experiment] = load_papers(["luizelli"], SMALL)
    with Store(results) as store:
        campaign = store.campaign()
        assert campaign.status == "complete"
        assert [one["name"] for one in campaign.manifest["experiments"]] == [
            one.name for one in expected
        ]
        assert set(campaign.manifest["took_s"]) == {one.name for one in expected}
        measured = {case for case in store.cases(campaign.id).values()}
        skipped = {(skip.scenario, skip.what) for skip in store.skips(campaign.id)}
        for one in expected:
            if isinstance(one, CommandExperiment):
                assert (one.name, f"headrace {' '.join(one.command)}") in skipped
                continue
            for case in one.cases():
                assert case in measured or (one.name, case.name) in skipped, case.name
        kernel = [skip for skip in store.skips(campaign.id) if skip.switch == "ovs-kernel/veth"]
        assert kernel and all("datapath" in skip.reason for skip in kernel)


def test_profiles_are_for_files_that_have_them() -> None:
    outcome = CliRunner().invoke(
        app, ["bench", "run", "port-to-port", "--profile", "paper", "--simulate"]
    )
    assert outcome.exit_code == 1
    assert (SCENARIOS / "port-to-port.yaml").exists()
