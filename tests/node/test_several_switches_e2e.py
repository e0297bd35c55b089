# SPDX-License-Identifier: Apache-2.0
"""Two switches on one node: graphs on each, joined by an internal end-point and by veth pairs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.node.config import from_dict
from headrace.node.errors import ConfigError, GraphRefused
from headrace.node.node import Node
from headrace.node.parts import prefix_of
from headrace.node.tear_down import tear_down
from headrace.switches.veth import silence
from tests.node.conftest import StartNode
from tests.node.test_linux_bridge_e2e import devices
from tests.node.wire import Wire, udp

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]

A, B = f"{os.getpid()}a", f"{os.getpid()}b"
SETTINGS: dict[str, Any] = {
    "switch": "headrace",
    "switch_memory_mb": 128,
    "ports": [{"name": A, "kind": "tap"}, {"name": B, "kind": "tap"}],
    "switches": [{"name": "slow", "driver": "ovs", "options": {"datapath": "userspace"}}],
}


def graph(port: str, switch: str | None = None) -> dict[str, Any]:
    """A physical port and the internal group `lan`, joined both ways."""
    rules = [
        {
            "id": f"r{number}",
            "priority": 10,
            "match": {"port_in": f"endpoint:{source}"},
            "actions": [{"output_to_port": f"endpoint:{target}"}],
        }
        for number, (source, target) in enumerate((("port", "lan"), ("lan", "port")))
    ]
    points = [
        {"id": "port", "type": "interface", "interface": {"if-name": port}},
        {"id": "lan", "type": "internal", "internal": {"internal-group": "lan"}},
    ]
    whole = {"end-points": points, "big-switch": {"flow-rules": rules}}
    return {"forwarding-graph": {**whole, **({"switch": switch} if switch else {})}}


async def crosses(node: Node, frames: int = 30) -> None:
    """Frames both ways through both graphs."""
    first, second = (node.driver.attach(node.ports[name]).iface for name in (A, B))
    assert first is not None and second is not None
    silence(first)
    silence(second)
    here, beyond = "02:00:00:00:00:02", "02:00:00:00:00:01"
    there = [udp(b"there %3d" % n + bytes(20)) for n in range(frames)]
    back = [
        udp(b"back %3d" % n + bytes(20), source_mac=here, dest_mac=beyond) for n in range(frames)
    ]
    with Wire(first) as a, Wire(second) as b:
        for frame in there:
            a.send(frame)
        assert await udp_of(b, frames) == there
        for frame in back:
            b.send(frame)
        assert await udp_of(a, frames) == back


async def udp_of(wire: Wire, count: int) -> list[bytes]:
    """The next frames with IPv4: the kernel says something of IPv6 on a tap that comes up."""
    found: list[bytes] = []
    for _ in range(20):
        more = await wire.receive(count - len(found))
        found += [frame for frame in more if frame[12:14] == b"\x08\x00"]
        if len(found) == count or not more:
            break
    return found


async def test_a_graph_on_each_switch_joined_by_an_internal_end_point(
    start_node: StartNode, rundir: Path
) -> None:
    node = await start_node(**SETTINGS)
    await node.graphs.create("fast", graph(A))
    await node.graphs.create("slow", graph(B, "slow"))
    on = {rule.label: rule.lsi for rule in node.graphs.record("slow").plan.rules()}
    assert on["slow/r1"] == f"{node.prefix}-2b" and on["slow/r0"] == node.lsi0
    await crosses(node)
    for _ in range(100):  # Open vSwitch counts with a delay
        counted = await node.driver.rule_statistics(f"{node.prefix}-2b")
        if min(row.packets for row in counted) >= 30:
            break
        await asyncio.sleep(0.05)
    assert [row.packets >= 30 for row in counted] == [True, True], "they passed Open vSwitch"

    # Another node process adopts both, and nothing is missing.
    await node.close()
    node = await start_node(**SETTINGS)
    names = {r.port for r in await node.driver.port_statistics()}
    assert await node.driver.missing(names) == set()
    assert node.status(node.graphs.record("slow"))["status"] == "complete"
    await crosses(node)

    # The graph moves to the other switch and back.
    await node.graphs.update("slow", graph(B))
    await crosses(node)
    await node.graphs.update("slow", graph(B, "slow"))
    await crosses(node)
    await node.graphs.delete("slow")
    await node.graphs.delete("fast")
    assert {row.lsi for row in await node.driver.port_statistics()} == {node.lsi0}
    await node.close()
    await tear_down(rundir)
    assert devices(prefix_of(rundir)) == set()


async def test_refusals(start_node: StartNode, rundir: Path) -> None:
    node = await start_node(**SETTINGS)
    (told,) = node.information()["switches"]
    assert (told["name"], told["driver"], told["vnf_kinds"]) == (
        "slow",
        "ovs",
        ["veth", "patch", "tap"],
    )
    with pytest.raises(GraphRefused, match="no switch 'fast'; there are: headrace, slow"):
        node.graphs.create("g", graph(A, "fast"))
    with pytest.raises(GraphRefused, match="switch slow has no gre-tunnel end-points"):
        document = graph(A, "slow")
        tunnel = {"local-ip": "192.0.2.1", "remote-ip": "192.0.2.2", "gre-key": "1"}
        document["forwarding-graph"]["end-points"][1] = {"id": "lan", "gre-tunnel": tunnel}
        node.graphs.create("g", document)
    alone = {**SETTINGS, "switches": [{"name": "far", "driver": "openflow"}]}
    with pytest.raises(ConfigError, match="far cannot be joined with the first: openflow takes no"):
        Node(from_dict(alone), rundir)
    twice = {**SETTINGS, "switches": [{"name": "headrace", "driver": "ovs"}]}
    with pytest.raises(ConfigError, match="two switches are named headrace"):
        from_dict(twice)
