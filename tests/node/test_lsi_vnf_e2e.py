# SPDX-License-Identifier: Apache-2.0
"""A VNF that is an OpenFlow pipeline inside the switch: packets through several of its tables."""

from __future__ import annotations

import os
from typing import Any

import pytest

from headrace.engines.base import EngineError
from headrace.node.errors import DeployFailed, GraphRefused
from headrace.node.node import Node
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.sites import received, site_of
from tests.node.wire import udp

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]

SWITCHES = ["headrace", "ovs", "ovs-dpdk"]
WITHOUT = ["linux-bridge", "openflow"]
"""What makes no LSIs has no place for such a VNF; no more have VPP's cross connects and SR-IOV."""

# What comes in at 1 for UDP port 2000 gets another address by the second table; port 2001 is
# dropped there; all else goes through, both ways.
FLOWS = [
    "table=0,priority=9,in_port=1,udp,actions=goto_table:1",
    "table=0,priority=1,in_port=1,actions=output:2",
    "table=0,priority=1,in_port=2,actions=output:1",
    "table=1,priority=9,udp,tp_dst=2000,actions=set_field:192.0.2.9->ip_dst,output:2",
    "table=1,priority=5,udp,tp_dst=2001,actions=drop",
    "table=1,priority=1,actions=output:2",
]


def graph(node: Node, flows: list[str]) -> dict[str, Any]:
    """in -> pipeline -> out and back."""
    document = graphs.chain("flows", 1)
    whole = document["forwarding-graph"]
    whole["VNFs"][0]["configuration"] = {"flows": flows}
    for point, name in zip(whole["end-points"], node.ports, strict=True):
        point["interface"]["if-name"] = name
    return document


@pytest.mark.parametrize("switch", SWITCHES)
async def test_a_pipeline_as_a_vnf(start_node: StartNode, switch: str) -> None:
    async with site_of(start_node, switch) as site:
        node, a, b = site.node, site.first, site.second
        await node.graphs.create("g", graph(node, FLOWS))
        for frame in (udp(dest_port=2001), udp(), udp(dest_port=7)):
            a.send(frame)
        expected = [udp(dest="192.0.2.9"), udp(dest_port=7)]  # two flows, in any order
        assert sorted(await received(b, 2)) == sorted(expected)
        b.send(udp(dest_port=2001))
        assert await received(a, 1) == [udp(dest_port=2001)]

        vnf, engine = node.vnf("g", "v0")
        ports = (await engine.counters(vnf))["ports"]
        assert [(p["rx_packets"], p["tx_packets"]) for p in ports] == [(3, 1), (1, 2)]
        status = node.status(node.graphs.record("g"))
        assert status["status"] == "complete" and status["vnfs"][0]["engine"] == "lsi"

        # Other flows, in place: the same LSI and ports.
        await node.graphs.update("g", graph(node, [FLOWS[1], FLOWS[2]]))
        a.send(udp(dest_port=2001))
        assert await received(b, 1) == [udp(dest_port=2001)]

        with pytest.raises(DeployFailed, match="v0"):  # accepted by its notation alone
            await node.graphs.update("g", graph(node, ["in_port=1,actions=goto_table:0"]))
        a.send(udp(dest_port=2001))
        assert await received(b, 1) == [udp(dest_port=2001)]
        await node.graphs.delete("g")
        assert {row.lsi for row in await node.driver.port_statistics()} <= {node.lsi0}


@pytest.mark.parametrize("switch", WITHOUT)
async def test_a_switch_without_lsis_says_so(start_node: StartNode, switch: str) -> None:
    async with site_of(start_node, switch) as site:
        assert "patch" not in site.node.driver.capabilities.vnf_kinds
        with pytest.raises(GraphRefused, match=f"engine lsi, whose ports the switch {switch} does"):
            site.node.graphs.draft("g", graph(site.node, FLOWS))


async def test_flows_are_checked_before_anything_starts(start_node: StartNode) -> None:
    node = await start_node(switch="ovs", switch_options={"datapath": "userspace"})
    with pytest.raises(GraphRefused, match=r"v0: configuration.flows: .*nonsense"):
        await node.check("g", graph(node, ["in_port=1,actions=nonsense"]))
    with pytest.raises(GraphRefused, match="give a list of flows"):
        await node.check("g", graph(node, []))
    _, engine = node.graphs.draft("g", graph(node, FLOWS)).vnfs()[0], node.engines["lsi"]
    with pytest.raises(EngineError, match="is no line of text"):
        vnf = node.graphs.draft("g", graph(node, ["in_port=1\nactions=drop"])).vnfs()[0]
        await engine.check(vnf)
