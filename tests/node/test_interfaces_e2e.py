# SPDX-License-Identifier: Apache-2.0
"""DPDK VNFs whose ports are interfaces: on the kernel's bridge, and on a switch that is told so.

Every frame is counted, and nothing of the VNF's namespaces and pairs is left.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from pyroute2 import netns

from headrace.engines.runc import RUNC
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.node import Node
from headrace.node.parts import prefix_of
from headrace.node.restarts import Restarter
from headrace.node.tear_down import tear_down
from tests.guest.bed import eventually
from tests.node import graphs
from tests.node.conftest import StartNode, give_template
from tests.node.test_linux_bridge_e2e import devices, ends, exchange
from tests.node.test_native_on_switches_e2e import crosses
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import in_namespace

__all__ = ["bench"]

TESTPMD = shutil.which("dpdk-testpmd") or "/usr/bin/dpdk-testpmd"
NEEDS_RUNC = pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed")
BOTH = [pytest.param("pass"), pytest.param("pass-container", marks=NEEDS_RUNC)]
CORES = {"control": [0], "switch": [1], "vnf": [0, 1]}


def _is_built() -> bool:
    try:
        find_program("headrace-vnf")
    except ProgramMissing:
        return False
    return True


pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
    pytest.mark.skipif(not _is_built(), reason="headrace-vnf is not built"),
]


async def on_bridge(start_node: StartNode) -> Node:
    return await start_node(switch="linux-bridge", hugepages="off", oversubscribe=True, cores=CORES)


async def counted(node: Node, vnf: str) -> list[int]:
    """How many packets each port of the VNF has received."""
    spec, engine = node.vnf("g", vnf)
    ports = (await engine.counters(spec))["ports"]
    return [ports[port.id]["rx_packets"] for port in spec.ports]


def status_of(node: Node, vnf: str) -> dict[str, str]:
    """/proc/<pid>/status of a VNF's process."""
    spec, _ = node.vnf("g", vnf)
    process = node.supervisor.find(f"vnf-{spec.name}")
    assert process is not None
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def interfaces_of(pid: str) -> list[str]:
    """The network interfaces that a process sees."""
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    return sorted(line.split(":")[0].strip() for line in lines)


@pytest.mark.parametrize("template", BOTH)
async def test_a_chain_on_the_kernels_bridge(
    start_node: StartNode, rundir: Path, template: str
) -> None:
    node = await on_bridge(start_node)
    before = devices(node.prefix)
    graph = graphs.chain(template, 2)
    graph["forwarding-graph"]["VNFs"][0]["ports"][0]["mac"] = "02:00:00:00:00:11"
    await node.graphs.create("g", graph)
    (first, _) = node.graphs.record("g").plan.vnfs()
    assert [port.switch_port.kind for port in first.ports] == ["veth", "veth"]
    await exchange(node)
    assert await counted(node, "v0") == [50, 50] and await counted(node, "v1") == [50, 50]
    status = status_of(node, "v0")
    # The right to its own network, and nothing else.
    assert int(status["CapEff"], 16) == 1 << 12 | 1 << 13 and status["NoNewPrivs"] == "1"
    assert str(first.user) in status["Uid"].split()
    assert interfaces_of(status["Pid"]) == ["eth0", "eth1", "lo"]

    await node.graphs.delete("g")
    await eventually(lambda: devices(node.prefix) == before)
    assert [name for name in netns.listnetns() if name.startswith(node.prefix)] == []
    await node.close()
    await tear_down(rundir)
    assert devices(prefix_of(rundir)) == set()


@pytest.mark.parametrize("template", BOTH)
async def test_one_that_is_changed_or_killed_keeps_its_ports(
    start_node: StartNode, template: str
) -> None:
    node = await on_bridge(start_node)
    graph = graphs.chain(template, 1)
    await node.graphs.create("g", graph)
    await exchange(node)
    graph["forwarding-graph"]["VNFs"][0]["configuration"] = {"mac": "swap"}
    await node.graphs.update("g", graph)
    del graph["forwarding-graph"]["VNFs"][0]["configuration"]
    await node.graphs.update("g", graph)
    await exchange(node)
    os.kill(int(status_of(node, "v0")["Pid"]), signal.SIGKILL)
    spec, engine = node.vnf("g", "v0")
    await eventually(lambda: not engine.running(spec))
    names = [port.switch_port.name for port in spec.ports]
    async with asyncio.timeout(30):  # its namespace goes with it, and the pairs
        while not await node.driver.missing(names):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await Restarter(node).look()
    await exchange(node)
    other = "pass" if template == "pass-container" else "bridge"
    await node.graphs.update("g", graphs.chain(other, 1))
    await exchange(node)


async def test_a_process_becomes_another_kind_and_back(start_node: StartNode) -> None:
    node = await on_bridge(start_node)
    for template in ("bridge", "pass", "bridge", "pass"):
        graph = graphs.chain(template, 1)
        if any(record.id == "g" for record in node.graphs.records()):
            await node.graphs.update("g", graph)
        else:
            await node.graphs.create("g", graph)
        await exchange(node)


async def test_adopts_a_vnf_that_runs(start_node: StartNode) -> None:
    first = await on_bridge(start_node)
    await first.graphs.create("g", graphs.chain("pass", 1))
    before = status_of(first, "v0")["Pid"]
    await first.close()
    again = await on_bridge(start_node)
    assert status_of(again, "v0")["Pid"] == before
    await exchange(again)


@pytest.mark.skipif(not os.access(TESTPMD, os.X_OK), reason="dpdk-testpmd is not installed")
async def test_a_program_of_others(start_node: StartNode, rundir: Path) -> None:
    words = {
        "id": "pmd",
        "name": "pmd",
        "functional-capability": "pmd",
        "engine": "process",
        "function": "program",
        "cores": 2,
        "memory-mb": 128,
        "configuration": {
            "program": TESTPMD,
            "arguments": [
                "--nb-ports={ports}", "--forward-mode=io", "--total-num-mbufs=8192",
                "--stats-period=1",
            ],
            "ready": "NIC statistics",
        },
    }  # fmt: skip
    file = rundir / "pmd.yaml"
    file.write_text(yaml.safe_dump(words))
    node = await on_bridge(start_node)
    give_template(node, str(file))
    await node.graphs.create("g", graphs.chain("pmd", 1))
    await exchange(node)


@contextmanager
def host(interface: str, address: str) -> Iterator[str]:
    """A network namespace with an interface and an address; the path of its file."""
    name = f"{interface}h"

    def run(*words: str) -> None:
        subprocess.run(["/usr/sbin/ip", *words], check=True)

    run("netns", "add", name)
    try:
        run("link", "set", interface, "netns", name)
        run("-n", name, "address", "add", address, "dev", interface)
        run("-n", name, "link", "set", interface, "up")
        yield f"/run/netns/{name}"
        run("-n", name, "link", "set", interface, "netns", "1")
    finally:
        run("netns", "delete", name)


def transfer(first: str, second: str, octets: int) -> bytes:
    """What a server in `second` receives over TCP from a client in `first`."""

    def listen() -> socket.socket:
        server = socket.create_server(("10.9.0.2", 7000))
        server.settimeout(30)
        return server

    server = in_namespace(second, listen)
    received = bytearray()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            while part := connection.recv(1 << 16):
                received.extend(part)

    thread = threading.Thread(target=serve)
    thread.start()
    client = in_namespace(first, lambda: socket.create_connection(("10.9.0.2", 7000), timeout=30))
    with client:
        client.sendall(bytes(n % 251 for n in range(octets)))
    thread.join(30)
    server.close()
    return bytes(received)


@pytest.mark.parametrize("template", BOTH)
async def test_tcp_between_hosts(start_node: StartNode, template: str) -> None:
    """The kernel leaves checksums and segments to devices; a DPDK program knows neither."""
    node = await on_bridge(start_node)
    await node.graphs.create("g", graphs.chain(template, 1))
    left, right = ends(node)
    octets = 300_000
    with host(left, "10.9.0.1/24") as first, host(right, "10.9.0.2/24") as second:
        received = await asyncio.to_thread(transfer, first, second, octets)
    assert received == bytes(n % 251 for n in range(octets))


@pytest.mark.parametrize("bench", ["headrace+veth", "ovs-dpdk+veth"], indirect=True)
async def test_on_a_switch_that_is_told_so(bench: Bench) -> None:
    node = bench.node
    await node.graphs.create("g", graphs.chain("pass", 1))
    (vnf,) = node.graphs.record("g").plan.vnfs()
    assert [port.switch_port.kind for port in vnf.ports] == ["veth", "veth"]
    await crosses(bench)
    assert min(await counted(node, "v0")) >= 1
