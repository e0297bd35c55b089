# SPDX-License-Identifier: Apache-2.0
"""Labs with NICs: their file, what becomes of subjects, TRex as the generator, nodes that run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from headrace.bench.core_plan import plan_cores
from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.lab import Lab, in_lab, interface_of, load_lab
from headrace.bench.lab_generator import LabTrex
from headrace.bench.lacking import lack, lack_of_subject
from headrace.bench.node_client import NodeClient
from headrace.bench.running_node import RunningNode
from headrace.bench.scenario import find
from headrace.bench.session import relocated
from headrace.bench.subject import Subject
from headrace.traffic import Load, PortInfo, ReplaySpec, StreamSpec, TrafficError, TrialResult

NICS = """
generator: {ports: ["0000:03:00.0", "0000:03:00.1"]}
device: {ports: ["0000:05:00.0", "0000:05:00.1"], n_rxq: 2}
line_gbps: 10
"""
TREX = """
generator: {kind: trex, server: trex.lab, ports: ["0", "1"]}
device: {node: "http://dut:8080"}
"""


def lab_of(tmp_path: Path, text: str) -> Lab:
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    return load_lab(file)


def test_a_lab_gives_nodes_their_ports_and_loads_their_limit(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, NICS)
    assert lab.line_pps("64") == pytest.approx(14_880_952.4)
    assert lab.line_pps("1518") == pytest.approx(812_743.8)
    ports = lab.node_ports(("in0", "out0"), "ovs-dpdk")
    assert ports[1] == {
        "name": "out0", "kind": "dpdk", "options": {"devargs": "0000:05:00.1", "n_rxq": "2"}
    }  # fmt: skip
    with pytest.raises(DeviceError, match="bind it to its kernel driver"):
        interface_of("0000:05:00.0", tmp_path)
    (tmp_path / "0000:05:00.0" / "net" / "eth7").mkdir(parents=True)
    assert interface_of("0000:05:00.0", tmp_path) == "eth7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("generator: {ports: [a]}", r"lab.yaml: generator.ports: .*device"),
        (NICS.replace("n_rxq: 2", "node: x"), "either two `ports`"),
        (TREX.replace("server: trex.lab, ", ""), "host of a TRex server"),
        ("[", "lab.yaml: while parsing"),
    ],
)
def test_a_wrong_lab_file_says_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        lab_of(tmp_path, text)


def test_the_same_scenario_runs_in_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_of(tmp_path, NICS)
    inside = Subject(switch="headrace", ports="in-process", vnf_ports="vhost-user")
    assert in_lab(inside) is inside
    moved = in_lab(Subject(switch="headrace", ports="vhost-user", vnf_ports="shm"))
    assert (moved.ports, moved.vnf_ports) == ("nic", "shm")
    (scenario,) = find(["port-to-port"])
    there = relocated(scenario, lab)
    assert {case.ports for case in there.cases()} == {"nic"}
    assert {case.switch for case in there.cases()} == {case.switch for case in scenario.cases()}
    assert relocated(scenario, None) is scenario
    plan = plan_cores([0, 1, 2, 3])
    assert lack_of_subject(moved, plan, lab) is None
    assert lack_of_subject(moved, plan) is not None
    assert lack("nic:2", lab) is None
    monkeypatch.setattr("headrace.bench.lacking.shutil.which", lambda _: None)
    vpp = in_lab(Subject(switch="vpp", ports="vhost-user"))
    assert "VPP is not installed" in (lack_of_subject(vpp, plan, lab) or "")
    assert lack_of_subject(vpp, plan, lab_of(tmp_path, TREX)) is None  # the other machine's


class FakeTrex:
    """TRex with two ports that keeps what it is told."""

    def __init__(self) -> None:
        self.configured: list[StreamSpec] = []
        self.asked: list[tuple[float, float, float]] = []

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def ports(self) -> list[PortInfo]:
        return [PortInfo(name=name, mac="", link=True) for name in ("0", "1")]

    async def configure(self, streams: Sequence[StreamSpec]) -> None:
        self.configured = list(streams)

    async def trial(self, duration_s: float, pps: float, *, drain_s: float) -> TrialResult:
        self.asked.append((duration_s, pps, drain_s))
        return cast(TrialResult, None)


async def test_trex_sends_at_the_line_s_rate_where_overload_is_asked_for(tmp_path: Path) -> None:
    fake = FakeTrex()
    trex = LabTrex(lab_of(tmp_path, TREX), fake)  # type: ignore[arg-type]
    await trex.connect()
    assert [port.name for port in await trex.wait_links(["0", "1"])] == ["0", "1"]
    with pytest.raises(TrafficError, match="no port 7"):
        await trex.add_port("7", "7")
    ways = [("a", "0", "1"), ("b", "0", "1"), ("c", "1", "0")]
    specs = [StreamSpec(name=name, tx_port=tx, rx_port=rx, size=64) for name, tx, rx in ways]
    await trex.configure(specs)
    await trex.trial(1.0, None)
    await trex.trial(2.0, 1000.0, drain_s=0.05)
    await trex.trial(2.0, Load(pps=10.0))
    assert fake.asked[0][1] == pytest.approx(2 * 14_880_952.4)
    assert fake.asked[1:] == [(2.0, 1000.0, 0.5), (2.0, 10.0, 0.5)]
    with pytest.raises(TrafficError, match="evenly"):
        await trex.trial(1.0, Load(pps=10.0, burst=32))
    with pytest.raises(TrafficError, match="captures"):
        await trex.configure([ReplaySpec(name="r", tx_port="0", rx_port="1", pcap="/a")])
    await trex.close()


async def test_a_node_of_the_other_machine_is_checked_and_left_alone(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, TREX)
    asked: list[tuple[str, str]] = []
    ports: list[dict[str, Any]] = [{"name": "in0", "kind": "dpdk", "attach": {}}]

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        if request.url.path == "/node":
            return httpx.Response(200, json={"switch": {"name": "headrace"}})
        return httpx.Response(200, json={"ports": ports})

    def node(switch: str) -> RunningNode:
        subject = Subject.model_validate({"switch": switch, "ports": "nic", "vnf_ports": "memif"})
        made = RunningNode(subject, plan_cores([0, 1]), lab)
        made.client = NodeClient("http://dut", httpx.MockTransport(answer))
        return made

    wrong = node("ovs-dpdk")
    with pytest.raises(DeviceError, match="has the switch headrace, the subject is ovs-dpdk"):
        await wrong.up()
    await wrong.down()
    right = node("headrace")
    with pytest.raises(DeviceError, match="no port out0"):
        await right.up()
    ports.append({"name": "out0", "kind": "dpdk", "attach": {}})
    assert (await right.up())["switch"]["name"] == "headrace"
    await right.down()
    assert {method for method, _ in asked} == {"GET"} and not right.rundir.exists()
