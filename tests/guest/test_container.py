# SPDX-License-Identifier: Apache-2.0
"""VNFs in containers: a graph of the node's, its packets counted, and what is left when it ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from headrace.engines.runc import RUNC
from headrace.machine.processes import ProcessId
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from headrace.traffic import TrafficProcess
from tests.guest.bed import PER_DIRECTION, cross_both_ways, eventually
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed (make setup)"),
]


def cgroups_of(name: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/headrace-*/{name}"))


def container_of(node: Node) -> tuple[str, int]:
    """The name of the graph's only VNF, and the id of its process."""
    [vnf] = node.graphs.record("g").plan.vnfs()
    process = node.supervisor.find(f"vnf-{vnf.name}")
    assert process is not None
    return vnf.name, process.pid


@pytest.mark.parametrize("kind", ["memif", "vhost-user", "shm"])
async def test_a_container_passes_every_packet_and_leaves_nothing(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    node = await start_node(
        hugepages="off",
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        vnf_ports=kind,
        oversubscribe=True,
    )
    transport = httpx.ASGITransport(app=make_app(node))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http,
        TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic,
    ):
        graph = graphs.chain("pass-container", 1)
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 201, answer.text
        await cross_both_ways(http, traffic)
        ports = (await http.get("/node/vnfs/g/v0/counters")).json()["ports"]
        for port in ports.values():
            assert port["rx_packets"] == port["tx_packets"] == PER_DIRECTION

        name, pid = container_of(node)
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user")
        status = await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)
        assert "Seccomp:\t2" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NSpid:\t" in status and status.split("NSpid:\t")[1].splitlines()[0].endswith("\t1")
        assert cgroups_of(name)

        # The same again is no change: the container is kept.
        assert (await http.put("/NF-FG/g", json=graph)).status_code < 300
        assert container_of(node) == (name, pid)

        # Killed, and its remains in the way: it can be made again.
        os.kill(pid, signal.SIGKILL)
        vnf, engine = node.vnf("g", "v0")
        for _ in range(200):
            if not engine.running(vnf):
                break
            await asyncio.sleep(0.02)
        await engine.ensure(vnf)
        assert container_of(node)[1] != pid

        if kind == "shm":
            # Another switch has another region, so there is another container.
            second = container_of(node)[1]
            switch = node.supervisor.find("switch")
            assert switch is not None
            os.kill(switch.pid, signal.SIGKILL)
            await eventually(lambda: node.supervisor.find("switch") is None)
            await node.fill_switch()
            assert container_of(node)[1] != second
            vnf, engine = node.vnf("g", "v0")
            ports = (await engine.counters(vnf))["ports"]
            assert [port["link"] for port in ports.values()] == ["up", "up"]

        assert (await http.delete("/NF-FG/g")).status_code == 204
    assert node.supervisor.find(f"vnf-{name}") is None
    assert cgroups_of(name) == []
    assert not (rundir / "runc" / name).exists()
    assert not (rundir / "bundles" / name).exists()


async def test_a_process_that_becomes_a_container_is_one(start_node: StartNode) -> None:
    node = await start_node(
        hugepages="off",
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        oversubscribe=True,
    )
    await node.graphs.create("g", graphs.chain("pass", 1))
    before = container_of(node)[1]
    await node.graphs.update("g", graphs.chain("pass-container", 1))
    after = container_of(node)[1]
    assert after != before and ProcessId.of(before) is None
    assert os.readlink(f"/proc/{after}/ns/net") != os.readlink("/proc/self/ns/net")
    (vnf,) = node.status(node.graphs.record("g"))["vnfs"]
    assert vnf["engine"] == "container" and vnf["running"]
