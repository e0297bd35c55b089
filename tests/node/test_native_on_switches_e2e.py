# SPDX-License-Identifier: Apache-2.0
"""VNFs of the kernel on the OpenFlow switches: a veth pair joins a namespace to the switch."""

import asyncio
import os
from pathlib import Path

import pytest
from pyroute2 import netns

from headrace.node.restarts import Restarter
from headrace.node.tear_down import tear_down
from tests.node import graphs
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]


def left(prefix: str) -> list[str]:
    """The interfaces and namespaces of the node's VNFs that there are."""
    devices = [name for name in os.listdir("/sys/class/net") if name.startswith(prefix)]
    return [
        *(name for name in devices if name[len(prefix)] in "gx"),
        *(name for name in netns.listnetns() if name.startswith(prefix)),
    ]


async def test_a_deployed_graph_forwards_the_first_frame(bench: Bench) -> None:
    """No link of a pair is still coming up, at the switch or in the VNF, when it is complete."""
    node = bench.node
    for number in range(6):
        await node.graphs.create("g", graphs.chain("bridge", 1))
        bench.p1.send(first := udp(b"first %d" % number + bytes(20)))
        assert first in await bench.p0.receive(1)
        await node.graphs.delete("g")


async def crosses(bench: Bench) -> None:
    """Frames pass the graph both ways."""
    there = udp(b"there" + bytes(20))
    back = udp(b"back" + bytes(20), source_mac="02:00:00:00:00:02", dest_mac="02:00:00:00:00:01")
    assert await bench.comes_to_pass(there, through=True)
    bench.p1.send(back)
    assert back in await bench.p0.receive(1)


async def test_a_bridge_of_the_kernel_between_ports_of_the_switch(
    bench: Bench, rundir: Path
) -> None:
    node = bench.node
    await node.graphs.create("g", graphs.chain("bridge", 1))
    (vnf,) = node.graphs.record("g").plan.vnfs()
    assert [port.switch_port.kind for port in vnf.ports] == ["veth", "veth"]
    await crosses(bench)
    await asyncio.to_thread(netns.remove, vnf.name)
    async with asyncio.timeout(30):
        while not await node.driver.missing([p.switch_port.name for p in vnf.ports]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await Restarter(node).look()
    assert node.status(node.graphs.record("g"))["status"] == "complete"
    await crosses(bench)
    await node.graphs.update("g", graphs.port_to_port())
    async with asyncio.timeout(30):
        while left(node.prefix):  # noqa: ASYNC110  (the kernel takes its time)
            await asyncio.sleep(0.02)
    await node.graphs.update("g", graphs.chain("bridge", 1))
    await node.close()
    await tear_down(rundir)
    assert left(node.prefix) == []
