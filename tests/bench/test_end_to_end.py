# SPDX-License-Identifier: Apache-2.0
"""A short campaign on real nodes: frames are counted at both ends and nothing is left behind."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.bench import node_process
from headrace.bench import testbed as testbed_module
from headrace.bench.node_process import NodeProcess
from headrace.cli import app
from headrace.machine.programs import ProgramMissing, find_program
from headrace.results.store import Store
from tests.switches.beds import fake_vpp_program

SCENARIO = """
title: one load
question: Do frames come back?
graphs:
  - {shape: p2p}
  - {shape: chain, vnfs: [1], placement: gather}
subjects:
%s
traffic: {sizes: [64], flows: [10]}
measure: {overload: true, loads_pps: [5000]}
"""
LINUX = "  - {switch: linux-bridge, ports: veth, engine: native, function: bridge}"
HEADRACE = "  - {switch: headrace, ports: memif}\n  - {switch: headrace, ports: vhost-user}"
INSIDE = """  - {switch: headrace, ports: in-process, vnf_ports: memif}
  - {switch: headrace, ports: memif, sink: in-process}"""


def missing(*programs: str) -> str:
    """The programs that are not built, or ""."""
    lacking = []
    for program in programs:
        try:
            find_program(program)
        except ProgramMissing:
            lacking.append(program)
    return ", ".join(lacking)


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The run folders that this test's campaign makes (others may run at the same time)."""
    made: list[Path] = []

    def recorded() -> Path:
        made.append(node_process.run_folder())
        return made[-1]

    monkeypatch.setattr(testbed_module, "NodeProcess", partial(NodeProcess, folder=recorded))
    return made


def commands_with(word: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("subjects", "programs", "counted"),
    [
        (LINUX, ["headrace-traffic"], False),
        (HEADRACE, ["headrace-traffic", "headrace-switch", "headrace-vnf"], True),
        (INSIDE, ["headrace-traffic", "headrace-switch", "headrace-vnf"], True),
    ],
    ids=["linux-bridge", "headrace", "in-process"],
)
def test_a_real_campaign(
    tmp_path: Path, folders: list[Path], subjects: str, programs: list[str], counted: bool
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces, pinned processes")
    if lacking := missing(*programs):
        pytest.skip(f"not built: {lacking}")
    (tmp_path / "one.yaml").write_text(SCENARIO % subjects)
    outcome = CliRunner().invoke(
        app,
        ["bench", "run", str(tmp_path / "one.yaml"), "--quick", "--results",
         str(tmp_path / "r.sqlite")],
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    with Store(tmp_path / "r.sqlite") as store:
        assert store.campaign().status == "complete"
        assert store.skips(1) == [], outcome.output
        cases = store.cases(1)
        assert len(cases) == 2 * len(subjects.splitlines())
        for case_id, case in cases.items():
            trials = list(store.trials(case_id))
            assert {trial.purpose for trial in trials} == {"overload", "cost"}, case.name
            for trial in trials:
                assert trial.received > 0 and trial.received <= trial.sent, case.name
                stamped = "in-process" not in case.ports
                assert (trial.latency_ns.get("min", 0) > 0) == stamped
                assert trial.approximate != counted
                if counted:
                    assert trial.busy_cycles and trial.switch_packets, case.name
                    # A window in which packets come all the time has counters read in turn.
                    window = case.ports == "in-process" and trial.intended_pps is None
                    least = (0.8 if window else 1.0) * trial.received * case.traversals
                    assert trial.switch_packets >= least
        nodes = store.campaign().manifest["nodes"]
        assert len(nodes) == len(subjects.splitlines())
    assert len(folders) == len(subjects.splitlines())
    for folder in folders:
        assert not folder.exists() and commands_with(str(folder)) == []


FIREWALL = """
title: a container
question: Do frames come back both ways?
papers: [icpe18-multi-vnf]
graphs:
  - {shape: chain, vnfs: [1], placement: gather}
subjects:
  - switch: headrace
    ports: memif
    engine: container
    function: firewall
    configuration: {rules: [{action: allow, src: 198.18.0.0/15}]}
  - {switch: sr-iov, ports: nic}
traffic: {sizes: ["pcap:imix-csit"], flows: [10], both_ways: true}
measure: {loads_pps: [4000]}
profiles:
  small: {minutes: 0.2, rounds: 1}
"""


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.full
@pytest.mark.timeout(300)
def test_an_experiment_with_a_container_a_capture_and_a_lack(tmp_path: Path) -> None:
    """Frames of a capture cross a container's firewall both ways; what lacks is a row."""
    if os.geteuid() != 0:
        pytest.skip("needs root: containers")
    if lacking := missing("headrace-traffic", "headrace-switch", "headrace-vnf"):
        pytest.skip(f"not built: {lacking}")
    if shutil.which("runc") is None:
        pytest.skip("runc is not installed")
    folder = tmp_path / "icpe18"
    folder.mkdir()
    (folder / "one.yaml").write_text(FIREWALL)
    results = tmp_path / "r.sqlite"
    outcome = CliRunner().invoke(
        app, ["bench", "run", str(folder / "one.yaml"), "--results", str(results)]
    )
    assert outcome.exit_code == 0, outcome.output
    with Store(results) as store:
        skips = store.skips(1)
        assert {skip.switch for skip in skips} == {"sr-iov/nic both-ways"}, outcome.output
        ((case_id, case),) = store.cases(1).items()
        assert case.name == ("pcap:imix-csit-10f-pvp@headrace/memif both-ways container firewall")
        (trial,) = store.trials(case_id)
        ways = {stream["name"]: stream["received"] for stream in trial.detail["streams"]}
        assert set(ways) == {"s0", "r0"} and min(ways.values()) > 0


VPP = """
title: VPP
question: Does the bench start one, and let it forward alone?
papers: [icpe18-multi-vnf]
graphs: [{shape: p2p}]
subjects:
  - {switch: vpp, ports: veth}
  - {switch: linux-bridge, ports: veth}
traffic: {sizes: [128], flows: [10]}
measure: {loads_pps: [500]}
profiles:
  small: {minutes: 0.2, rounds: 1}
"""


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("installed", [True, False])
def test_a_scenario_with_vpp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Where a program `vpp` is installed (here one that does what VPP's cross connects do) it is
    measured beside another switch; where none is, the row says so."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network interfaces")
    if lacking := missing("headrace-traffic"):
        pytest.skip(f"not built: {lacking}")
    place = tmp_path / "bin"
    place.mkdir()
    if installed:
        fake_vpp_program(place)
    elif shutil.which("vpp"):
        pytest.skip("VPP is installed")
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    folder = tmp_path / "icpe18"
    folder.mkdir()
    (folder / "one.yaml").write_text(VPP)
    results = tmp_path / "r.sqlite"
    outcome = CliRunner().invoke(
        app, ["bench", "run", str(folder / "one.yaml"), "--results", str(results)]
    )
    assert outcome.exit_code == 0, outcome.output
    with Store(results) as store:
        skips = {skip.switch: skip.reason for skip in store.skips(1)}
        cases = {case.switch: case_id for case_id, case in store.cases(1).items()}
        if not installed:
            assert skips == {"vpp/veth": "VPP is not installed (program vpp)"}
            assert cases.keys() == {"linux-bridge"}
            return
        assert skips == {}, outcome.output
        assert cases.keys() == {"vpp", "linux-bridge"}
        (trial,) = store.trials(cases["vpp"])
        assert trial.received > 0
        assert trial.busy_cycles is None and trial.switch_packets is None
