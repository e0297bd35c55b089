# SPDX-License-Identifier: Apache-2.0
"""A node with headrace-switch learns what a packet costs it, from packets of its own switch.

Its model is 25 % too dear at first, for switch and VNF: not so far off that what is counted would
be taken for something else (`OUTLIER`). Source and sink are in the switch, which gets all that it
takes, so its cycles for each packet are those of full bursts however fast the machine is.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from headrace.bench.node_process import SINK_DEVICE, SOURCE, SOURCE_DEVICE
from headrace.bench.peers import frames
from headrace.bench.peers.bed import flow_source
from headrace.bench.peers.systems import PeerError
from headrace.bench.priority import raise_owned
from headrace.machine.programs import ProgramMissing, find_program
from headrace.machine.waiting import processor
from headrace.model.mechanistic import stored
from headrace.model.mechanistic.fitting import Fitted, RoleModel
from headrace.model.mechanistic.windows import Key
from headrace.node.config import usable_cores
from headrace.node.learning import Counted, follow, learn
from headrace.node.node import Node
from headrace.node.observing import plans, read
from headrace.node.prediction import LEARNED
from headrace.node.rest.app import make_app
from tests.node import graphs
from tests.node.conftest import StartNode

SUBJECT = "headrace/in-process+vhost-user"
SWITCH, VNF = Key(SUBJECT, "switch"), Key(SUBJECT, "VNF", "pass")
TOO_DEAR = 1.25
SIZE = 64.0
CORES = usable_cores()
SECOND_S = 0.25
WINDOWS = 12
LEAST = 4
"""Windows that are to be learned from, of `WINDOWS` and as many again while too few were."""

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a switch on a core"),
    pytest.mark.skipif(len(CORES) < 2, reason="VNF and switch need a core each"),
]


@dataclass
class Traffic:
    """The source in the switch, whose plugin and files are in a folder that only root may write."""

    folder: Path
    plugin: Path

    def open(self) -> None:
        """Gives the switch all that it takes."""
        flows = np.arange(10, dtype=np.uint32)
        made = frames.udp_frames(
            eth_dst=frames.mac("02:00:00:00:00:02"),
            eth_src=frames.mac("02:00:00:00:00:01"),
            ipv4_src=0x0A000001 + flows,
            ipv4_dst=0x14000001 + flows,
            length=int(SIZE),
        )
        frames.write(self.folder / f"{SOURCE}.frames", made)

    def close(self) -> None:
        """Gives it nothing."""
        frames.close(self.folder / f"{SOURCE}.frames")


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traffic]:
    try:
        source = flow_source(find_program("headrace-switch"))
        find_program("headrace-vnf")
    except (ProgramMissing, PeerError) as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="headrace-learning-", dir="/run") as name:
        folder = Path(name)
        plugin = folder / "flowsource.so"
        plugin.write_bytes(source.read_bytes())
        monkeypatch.setenv("HEADRACE_FLOW_DIR", str(folder))
        made = Traffic(folder, plugin)
        made.close()
        yield made


def settings(traffic: Traffic, model: Path | None = None) -> dict[str, Any]:
    return {
        "switch": "headrace",
        "ports": [
            {"name": "p0", "kind": "dpdk", "options": {"devargs": SOURCE_DEVICE}},
            {"name": "p1", "kind": "dpdk", "options": {"devargs": SINK_DEVICE}},
        ],
        "dpdk_plugins": [str(traffic.plugin)],
        "vnf_ports": "vhost-user",
        "hugepages": "off",
        "idle": "yield",
        "oversubscribe": True,
        "cores": {"control": [CORES[0]], "switch": [CORES[-1]], "vnf": [CORES[0]]},
        **({"model": str(model)} if model else {}),
    }


async def whole(node: Node) -> Counted:
    """A reading in which the VNF has answered: it is given a second each time."""
    for _ in range(30):
        found = await read(node)
        if ("g", "v0") in found.vnfs and "g" in found.received:
            return found
    pytest.skip("other programs had the cores: the VNF did not answer in 30 s")


async def between(node: Node) -> tuple[Counted, Counted]:
    """Two readings, some time apart."""
    first = await whole(node)
    await asyncio.sleep(SECOND_S)
    return first, await whole(node)


def cost(first: Counted, last: Counted, role: Key) -> float:
    """Counted busy cycles of a role for each packet that it got."""
    if role == SWITCH:
        assert first.workers is not None and last.workers is not None
        busy = last.workers["busy_cycles"] - first.workers["busy_cycles"]
        return busy / (last.received["g"][0] - first.received["g"][0])
    before, after = first.vnfs["g", "v0"], last.vnfs["g", "v0"]
    return (after.busy_cycles - before.busy_cycles) / (after.packets - before.packets)


def role(key: Key, cycles: float, hz: float) -> RoleModel:
    """A role that spends so many cycles on each packet."""
    return RoleModel(
        key=key, names=("packets",), values=(cycles,), covariance=(((0.05 * cycles) ** 2,),),
        residual=0.05, points=20, idle_round=100.0, left_out={}, hz=hz,
        spans={"size": (64, 1518), "vnfs": (1, 1), "pps": (1e3, 1e8)},
    )  # fmt: skip


def predicted(told: dict[str, Any]) -> dict[str, float]:
    """Cycles of a packet by role."""
    return {part["role"]: part["cycles"]["value"] for part in told["roles"]}


async def deploy(node: Node, http: httpx.AsyncClient) -> dict[str, float]:
    """Deploys the graph; the prediction that was stored with it."""
    answer = await http.put("/NF-FG/g", json=graphs.chain("pass", 1))
    assert answer.status_code == 201, answer.text
    raise_owned(node.rundir)  # the tests beside this one are to take no core from it
    told = (await http.get("/NF-FG/g/prediction?seconds=0")).json()
    return predicted(told["predicted"]) if told["predicted"] else {}


def client(node: Node) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=make_app(node))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60)


async def carrying(node: Node, traffic: Traffic) -> None:
    """Opens the source; returns when packets come through the VNF."""
    traffic.open()
    for _ in range(100):
        first, last = await between(node)
        packets = last.vnfs["g", "v0"].packets - first.vnfs["g", "v0"].packets
        if packets > 0 and last.received["g"][0] > first.received["g"][0]:
            return
    pytest.fail("no packets come through the VNF")


async def counted(node: Node) -> dict[Key, float]:
    """The median of what several windows counted for a packet."""
    windows = [await between(node) for _ in range(5)]
    return {key: float(np.median([cost(*one, key) for one in windows])) for key in (SWITCH, VNF)}


async def test_predictions_move_to_what_is_measured(
    start_node: StartNode, traffic: Traffic, tmp_path: Path
) -> None:
    node = await start_node(**settings(traffic))
    async with client(node) as http:
        assert await deploy(node, http) == {}  # there is no model
        await carrying(node, traffic)
        truth = await counted(node)
        first, _ = await between(node)
        traffic.close()
        assert (await http.delete("/NF-FG/g")).status_code == 204
    file = tmp_path / "model.json"
    await node.close()
    roles = {key: role(key, TOO_DEAR * cycles, first.hz) for key, cycles in truth.items()}
    stored.write(Fitted(roles, {}, {"machine": processor()}), file)

    node = await start_node(**settings(traffic, file))
    async with client(node) as http:
        before = await deploy(node, http)
        assert before["switch"] == pytest.approx(TOO_DEAR * truth[SWITCH])
        assert before["v0"] == pytest.approx(TOO_DEAR * truth[VNF])
        await carrying(node, traffic)
        # What was disturbed teaches nothing, whatever it would say.
        one, other = await between(node)
        kept = node.model.current()
        assert one.waited_ns is not None and other.workers is not None
        far = {name: 3 * value for name, value in other.workers.items()}
        waited = one.waited_ns + 0.5e9 * (other.at - one.at)
        disturbed = replace(other, workers=far, waited_ns=waited)
        assert learn(node.model, one, disturbed, plans(node))["switch"] == "disturbed"
        assert node.model.current().roles[SWITCH].values == kept.roles[SWITCH].values
        learning = asyncio.create_task(
            follow(
                node.model,
                lambda: read(node),
                lambda: plans(node),
                lambda text: node.store.set_meta(LEARNED, text),
                SECOND_S,
            )
        )
        try:
            for _ in range(2):
                await asyncio.sleep(WINDOWS * SECOND_S)
                learned = (await http.get("/NF-FG/g/prediction?seconds=0")).json()["learned"]
                windows = {key: learned.get(str(key), {}).get("windows", {}) for key in truth}
                if min(one.get("learned", 0) for one in windows.values()) >= LEAST:
                    break
            now = await counted(node)
        finally:
            learning.cancel()
            await asyncio.gather(learning, return_exceptions=True)
        traffic.close()
        if min(one.get("learned", 0) for one in windows.values()) < LEAST:
            pytest.skip(f"this machine left too few windows undisturbed: {windows}")
        assert node.store.meta(LEARNED) is not None
        assert (await http.delete("/NF-FG/g")).status_code == 204
        after = await deploy(node, http)
    for name, key in (("switch", SWITCH), ("v0", VNF)):
        was, is_now = abs(before[name] / now[key] - 1), abs(after[name] / now[key] - 1)
        assert is_now < was, (name, before, after, now, windows)
