# SPDX-License-Identifier: Apache-2.0
"""Whole frames through the OpenFlow switches: what each kind of rule does to what comes out.

The physical ports are net_tap devices, so that frames can be made and compared byte by byte. The
same tests run on every switch of the OVSDB and OpenFlow driver.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.processes import gone
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.errors import GraphRefused, SwitchDown
from headrace.node.node import Node
from headrace.switches.ovs_dpdk import PROGRAM as OVS_DPDK
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.graphs import out, rule
from tests.node.wire import Wire, in_namespace, udp

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]


def _available(switch: str) -> bool:
    if switch == "ovs-dpdk":
        return os.access(OVS_DPDK, os.X_OK)
    try:
        find_program("headrace-switch")
    except ProgramMissing:
        return False
    return True


class Bench:
    """A node with two tap ports, and the wires to them."""

    def __init__(self, node: Node, p0: Wire, p1: Wire) -> None:
        self.node, self.p0, self.p1 = node, p0, p1

    async def deploy(self, *rules: graphs.Json, points: list[graphs.Json] | None = None) -> None:
        points = points or [graphs.interface("in", "p0"), graphs.interface("out", "p1")]
        document = graphs.document(points, list(rules))
        if any(record.id == "g" for record in self.node.graphs.records()):
            await self.node.graphs.update("g", document)
        else:
            await self.node.graphs.create("g", document)

    async def over(self, frame: bytes, count: int = 1) -> list[bytes]:
        """What comes out at p1 when `frame` goes in at p0."""
        self.p0.send(frame)
        return await self.p1.receive(count, patience_s=3.0 if count else 0.3)

    async def comes_to_pass(self, frame: bytes, *, through: bool) -> bool:
        """Whether the frame comes out (or no longer does) at last. A switch that caches decisions
        may take until its next revalidation to see that a rule of a known flow has changed."""
        for _ in range(20):
            self.p0.send(frame)
            if bool(await self.p1.receive(1, patience_s=0.5)) == through:
                return True
        return False


@pytest.fixture(params=["ovs-dpdk", "headrace"])
async def bench(request: pytest.FixtureRequest, start_node: StartNode) -> AsyncIterator[Bench]:
    """A node on the switch of the parameter, `SWITCH` or `SWITCH+KIND` of its VNFs' ports."""
    async with bench_of(start_node, request.param) as made:
        yield made


@asynccontextmanager
async def bench_of(
    start_node: StartNode, which: str, second_port: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[Bench]:
    """As `bench`, with further settings of node.yaml, and of the second of its ports."""
    switch, _, vnf_ports = which.partition("+")
    if not _available(switch):
        pytest.skip(f"{switch} is not installed or not built")
    names = [f"hr{os.getpid() % 100000}t{n}" for n in range(2)]
    # net_tap wants as many receive as transmit queues; a switch makes one of these for each worker
    # and one for its main thread.
    queues = {"n_rxq": "2"}
    ports: list[dict[str, Any]] = [
        {
            "name": f"p{n}",
            "kind": "dpdk",
            "options": {"devargs": f"net_tap{n},iface={name}", **queues},
        }
        for n, name in enumerate(names)
    ]
    ports[1] |= second_port or {}
    node = await start_node(switch=switch, ports=ports, vnf_ports=vnf_ports or None, **more)
    process = node.supervisor.find("switch")
    assert process is not None
    namespace = f"/proc/{process.pid}/ns/net"

    def up() -> tuple[Wire, Wire]:
        for name in names:
            # The kernel would send IPv6 packets of its own.
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            subprocess.run(["/usr/sbin/ip", "link", "set", name, "up"], check=True)
        return Wire(names[0]), Wire(names[1])

    wires = await asyncio.to_thread(in_namespace, namespace, up)
    with wires[0] as p0, wires[1] as p1:
        await asyncio.sleep(0.2)
        await p0.receive(100, patience_s=0.1)  # what the kernel says when an interface comes up
        await p1.receive(100, patience_s=0.1)
        yield Bench(node, p0, p1)


async def test_forwards_both_ways_and_stops(bench: Bench) -> None:
    await bench.deploy(*graphs.joined(("endpoint:in", "endpoint:out")))
    assert await bench.over(udp(b"one" + bytes(20))) == [udp(b"one" + bytes(20))]
    bench.p1.send(udp(b"two" + bytes(20)))
    assert await bench.p0.receive(1) == [udp(b"two" + bytes(20))]
    statistics = {(s.lsi, s.port): s for s in await bench.node.driver.port_statistics()}
    assert statistics[bench.node.lsi0, "p1"].tx_packets == 1
    await bench.node.graphs.delete("g")
    assert await bench.comes_to_pass(udp(), through=False)


async def test_header_actions(bench: Bench) -> None:
    match = {"port_in": "endpoint:in", "ether_type": "0x800", "protocol": "17"}
    await bench.deploy(
        rule(
            "r",
            match,
            {"set_ethernet_dst_address": "02:00:00:00:00:99"},
            {"set_ip_src_address": "192.0.2.7"},
            {"set_ip_dst_address": "192.0.2.8"},
            {"set_l4_dst_port": "4000"},
            out("endpoint:out"),
        )
    )
    expected = udp(
        dest_mac="02:00:00:00:00:99", source="192.0.2.7", dest="192.0.2.8", dest_port=4000
    )
    assert await bench.over(udp()) == [expected]


async def test_vlan_actions(bench: Bench) -> None:
    await bench.deploy(
        rule(
            "tag",
            {"port_in": "endpoint:in", "vlan_id": "NO_VLAN"},
            {"push_vlan": "31"},
            {"set_vlan_priority": "5"},
            out("endpoint:out"),
        ),
        rule(
            "swap",
            {"port_in": "endpoint:in", "vlan_id": "40"},
            {"set_vlan_id": "41"},
            out("endpoint:out"),
        ),
        rule(
            "untag",
            {"port_in": "endpoint:in", "vlan_id": "50"},
            {"pop_vlan": True},
            out("endpoint:out"),
        ),
    )
    assert await bench.over(udp()) == [udp(tags=(0xA01F,))]
    assert await bench.over(udp(tags=(40,))) == [udp(tags=(41,))]
    assert await bench.over(udp(tags=(50,))) == [udp()]
    assert await bench.over(udp(tags=(51,)), 0) == []


async def test_vlan_end_points(bench: Bench) -> None:
    points = [
        graphs.vlan("office", "p0", 31),
        graphs.interface("raw", "p1"),
        graphs.vlan("lab", "p1", 32),
    ]
    await bench.deploy(
        rule("r", {"port_in": "endpoint:office"}, out("endpoint:lab"), out("endpoint:raw")),
        rule("s", {"port_in": "endpoint:lab"}, out("endpoint:office")),
        points=points,
    )
    received = await bench.over(udp(tags=(31,)), 2)
    assert sorted(received) == sorted([udp(), udp(tags=(32,))])
    assert await bench.over(udp(), 0) == []
    bench.p1.send(udp(tags=(32,)))
    assert await bench.p0.receive(1) == [udp(tags=(31,))]


async def test_back_out_of_the_same_port(bench: Bench) -> None:
    points = [graphs.interface("raw", "p0"), graphs.vlan("office", "p0", 31)]
    await bench.deploy(
        rule("r", {"port_in": "endpoint:raw", "vlan_id": "NO_VLAN"}, out("endpoint:office")),
        rule("s", {"port_in": "endpoint:office"}, out("endpoint:raw")),
        points=points,
    )
    bench.p0.send(udp())
    assert await bench.p0.receive(1) == [udp(tags=(31,))]
    bench.p0.send(udp(tags=(31,)))
    assert await bench.p0.receive(1) == [udp()]


async def test_priority_drop_and_masks(bench: Bench) -> None:
    base = {"port_in": "endpoint:in"}
    await bench.deploy(
        rule("all", base, out("endpoint:out"), priority=1),
        rule(
            "net",
            {**base, "dest_ip": "10.1.0.0", "ipv4_dst_mask": "255.255.0.0"},
            {"drop": True},
            priority=20,
        ),
        rule(
            "port",
            {**base, "dest_ip": "10.1.0.0/16", "protocol": "17", "dest_port": "53"},
            out("endpoint:out"),
            priority=30,
        ),
    )
    assert len(await bench.over(udp(dest="10.2.0.1"))) == 1
    assert await bench.over(udp(dest="10.1.7.7"), 0) == []
    assert len(await bench.over(udp(dest="10.1.7.7", dest_port=53))) == 1


async def test_update_leaves_other_rules_alone(bench: Bench) -> None:
    keep = rule(
        "keep", {"port_in": "endpoint:in", "dest_mac": "02:00:00:00:00:02"}, out("endpoint:out")
    )
    change = {"port_in": "endpoint:in", "dest_mac": "02:00:00:00:00:03"}
    await bench.deploy(keep, rule("change", change, {"drop": True}))
    assert len(await bench.over(udp())) == 1
    assert await bench.over(udp(dest_mac="02:00:00:00:00:03"), 0) == []
    await bench.deploy(keep, rule("change", change, out("endpoint:out")))
    assert await bench.comes_to_pass(udp(dest_mac="02:00:00:00:00:03"), through=True)
    record = bench.node.graphs.record("g")
    kept = next(r for r in record.plan.rules() if r.label == "g/keep")
    assert any(
        s.cookie == kept.cookie and s.packets == 1
        for s in await bench.node.driver.rule_statistics(bench.node.lsi0)
    )


async def test_restarted_node_adopts_the_switch(bench: Bench, start_node: StartNode) -> None:
    await bench.deploy(*graphs.joined(("endpoint:in", "endpoint:out")))
    assert len(await bench.over(udp())) == 1
    process = bench.node.supervisor.find("switch")
    settings = bench.node.config.model_dump(mode="json")
    await bench.node.close()
    again = await start_node(**settings)
    assert again.supervisor.find("switch") == process
    assert len(await bench.over(udp())) == 1
    await again.graphs.delete("g")
    assert await bench.comes_to_pass(udp(), through=False)


async def test_refusals_leave_nothing(bench: Bench) -> None:
    await bench.deploy(*graphs.joined(("endpoint:in", "endpoint:out")))
    document = graphs.port_to_port()
    with pytest.raises(GraphRefused, match="port p0 is in use by graph g"):
        bench.node.graphs.create("h", document)
    assert [record.id for record in bench.node.graphs.records()] == ["g"]
    assert len(await bench.over(udp())) == 1


async def test_no_graph_is_deployed_on_a_switch_that_has_ended(bench: Bench) -> None:
    await bench.node.supervisor.end("switch")
    with pytest.raises(SwitchDown, match="nothing was changed"):
        await bench.deploy(*graphs.joined(("endpoint:in", "endpoint:out")))
    assert bench.node.graphs.records() == []


async def test_chain_of_vnfs(bench: Bench) -> None:
    await _chain_passes_all_both_ways(bench)


@pytest.mark.parametrize("bench", ["headrace+vhost-user"], indirect=True)
async def test_chain_of_vnfs_over_vhost_user(bench: Bench) -> None:
    # The graph is complete as soon as the VNFs see their links: the switch must send from then on.
    await _chain_passes_all_both_ways(bench)


async def _chain_passes_all_both_ways(bench: Bench) -> None:
    try:
        find_program("headrace-vnf")
    except ProgramMissing as error:
        pytest.skip(str(error))
    bench.node.config.oversubscribe = True  # two VNFs on one core
    await bench.node.graphs.create("g", graphs.chain("pass", 2))
    frames = [udp(b"frame %3d" % n + bytes(20)) for n in range(50)]
    for frame in frames:
        bench.p0.send(frame)
    assert await bench.p1.receive(50) == frames
    for frame in frames:
        bench.p1.send(frame)
    assert await bench.p0.receive(50) == frames
    for name in ("v0", "v1"):
        spec, engine = bench.node.vnf("g", name)
        ports = (await engine.counters(spec))["ports"]
        assert [ports[port]["rx_packets"] for port in ("port:0", "port:1")] == [50, 50]
        assert (await engine.cycles(spec))["packets"] == 100
    running = bench.node.supervisor.all()
    assert sum(name.startswith("vnf-") for name in running) == 2
    await bench.node.graphs.delete("g")
    assert not any(name.startswith("vnf-") for name in bench.node.supervisor.all())
    assert list((bench.node.rundir / "vnf").iterdir()) == []


async def test_restart_takes_over_switch_and_vnfs(bench: Bench, start_node: StartNode) -> None:
    if not _available("headrace"):
        pytest.skip("headrace-vnf is not built")
    await bench.node.graphs.create("g", graphs.chain("pass", 1))
    before = bench.node.supervisor.all()
    assert len(before) == 3  # ovsdb-server, the switch, the VNF
    settings = bench.node.config.model_dump(mode="json")
    await bench.node.close()
    again = await start_node(**settings)
    assert again.supervisor.all() == before
    assert again.hugepages == bench.node.hugepages
    assert await bench.over(udp()) == [udp()]


async def test_lost_switch_and_vnf_are_made_again(bench: Bench, start_node: StartNode) -> None:
    if not _available("headrace"):
        pytest.skip("headrace-vnf is not built")
    await bench.node.graphs.create("g", graphs.chain("pass", 1))
    for name, process in bench.node.supervisor.all().items():
        if name != "ovsdb-server":
            process.signal(signal.SIGKILL)
            assert await gone(process, 10)
    status = bench.node.status(bench.node.graphs.record("g"))
    assert status["status"] == "error" and "has ended" in status["message"]
    settings = bench.node.config.model_dump(mode="json")
    await bench.node.close()
    again = await start_node(**settings)
    assert again.status(again.graphs.record("g"))["status"] == "complete"
    statistics = await again.driver.rule_statistics(again.lsi0)
    assert len(statistics) == 4  # two from the ports, two from the links
    await again.graphs.delete("g")


async def test_cycles_count_up(bench: Bench) -> None:
    first = await bench.node.driver.cycles()
    await asyncio.sleep(0.3)
    second = await bench.node.driver.cycles()
    assert [worker.core for worker in second.workers] == bench.node.config.cores.switch
    spent = second.workers[0].busy_cycles + second.workers[0].idle_cycles
    spent -= first.workers[0].busy_cycles + first.workers[0].idle_cycles
    seconds = (second.at_ns - first.at_ns) / 1e9
    # A worker accounts for its time: but for what the machine gives to others on the same core.
    assert 0.02 < spent / (seconds * second.tsc_hz) < 1.1
