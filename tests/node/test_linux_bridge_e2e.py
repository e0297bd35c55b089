# SPDX-License-Identifier: Apache-2.0
"""Frames through the kernel's bridge and a native VNF, counted at both ends."""

import os
from pathlib import Path

import pytest
from pyroute2 import netns

from headrace.node.errors import GraphRefused
from headrace.node.node import Node
from headrace.node.parts import prefix_of
from headrace.node.tear_down import tear_down
from headrace.switches.base import SwitchError
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.wire import Wire, udp

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]


def devices(prefix: str) -> set[str]:
    return {name for name in os.listdir("/sys/class/net") if name.startswith(prefix)}


def ends(node: Node) -> tuple[str, str]:
    first, second = (node.driver.attach(node.ports[name]).iface for name in ("p0", "p1"))
    assert first is not None and second is not None
    return first, second


async def exchange(node: Node, frames: int = 50) -> None:
    """Sends frames both ways and expects exactly those at the other end."""
    first, second = ends(node)
    there = [udp(b"there %3d" % n + bytes(20)) for n in range(frames)]
    back = [
        udp(
            b"back %3d" % n + bytes(20),
            source_mac="02:00:00:00:00:02",
            dest_mac="02:00:00:00:00:01",
        )
        for n in range(frames)
    ]
    with Wire(first) as a, Wire(second) as b:
        for frame in there:
            a.send(frame)
        assert await b.receive(frames) == there
        for frame in back:
            b.send(frame)
        assert await a.receive(frames) == back


async def test_port_to_port(start_node: StartNode) -> None:
    node = await start_node(switch="linux-bridge")
    await node.graphs.create("g", graphs.port_to_port())
    await exchange(node)
    statistics = {s.port: s for s in await node.driver.port_statistics()}
    assert statistics["p0"].rx_packets == statistics["p1"].tx_packets == 50


async def test_rules_that_a_bridge_has_not(start_node: StartNode) -> None:
    """One way, by the destination port, rewritten: nftables does it."""
    node = await start_node(switch="linux-bridge")
    graph = graphs.port_to_port()
    rule, _ = graph["forwarding-graph"]["big-switch"]["flow-rules"]
    rule["match"].update({"ether_type": "0x800", "protocol": "17", "dest_port": "2000"})
    rule["actions"].insert(0, {"set_ip_dst_address": "192.0.2.9"})
    graph["forwarding-graph"]["big-switch"]["flow-rules"] = [rule]
    await node.graphs.create("g", graph)
    first, second = ends(node)
    with Wire(first) as a, Wire(second) as b:
        a.send(udp(dest_port=2001))
        a.send(udp())
        assert await b.receive(1) == [udp(dest="192.0.2.9")]
        b.send(udp())
        assert await a.receive(1, patience_s=0.2) == []
    (counted,) = await node.driver.rule_statistics(node.lsi0)
    assert counted.packets == 1


async def test_chain_of_native_vnfs(start_node: StartNode, rundir: Path) -> None:
    node = await start_node(switch="linux-bridge")
    await node.graphs.create("g", graphs.chain("bridge", 2))
    await exchange(node)
    for vnf in ("v0", "v1"):
        spec, engine = node.vnf("g", vnf)
        ports = (await engine.counters(spec))["ports"]
        assert [port["rx_packets"] for port in ports] == [50, 50]
    await node.graphs.delete("g")
    assert [name for name in netns.listnetns() if name.startswith(node.prefix)] == []
    first, second = ends(node)
    with Wire(first) as a, Wire(second) as b:
        a.send(udp())
        assert await b.receive(1, patience_s=0.3) == []
    await node.close()
    await tear_down(rundir)
    assert devices(prefix_of(rundir)) == set()


async def test_adopts_what_runs(start_node: StartNode) -> None:
    first = await start_node(switch="linux-bridge")
    await first.graphs.create("g", graphs.chain("bridge", 1))
    before = devices(first.prefix)
    await first.close()
    again = await start_node(switch="linux-bridge")
    assert devices(again.prefix) == before
    assert again.status(again.graphs.record("g"))["status"] == "complete"
    await exchange(again)


async def test_update_swaps_a_vnf_in(start_node: StartNode) -> None:
    node = await start_node(switch="linux-bridge")
    await node.graphs.create("g", graphs.port_to_port())
    await node.graphs.update("g", graphs.chain("bridge", 1))
    await exchange(node)
    await node.graphs.update("g", graphs.port_to_port())
    await exchange(node)
    assert [name for name in netns.listnetns() if name.startswith(node.prefix)] == []


async def test_refuses_what_a_bridge_cannot_do(start_node: StartNode) -> None:
    node = await start_node(switch="linux-bridge")
    tagging = graphs.port_to_port()
    rules = tagging["forwarding-graph"]["big-switch"]["flow-rules"]
    rules[1]["actions"].insert(0, {"push_vlan": "7"})
    refusal = rf"flow-rules\[1\] \({rules[1]['id']}\): switch linux-bridge cannot push VLAN tags"
    with pytest.raises(GraphRefused, match=refusal):
        node.graphs.create("g", tagging)
    assert node.graphs.records() == []


async def test_missing_interface(start_node: StartNode) -> None:
    ports = [{"name": "lan", "kind": "system", "options": {"iface": "nosuchdevice"}}]
    with pytest.raises(SwitchError, match="port nosuchdevice: this machine has no interface"):
        await start_node(switch="linux-bridge", ports=ports)
