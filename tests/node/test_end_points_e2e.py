# SPDX-License-Identifier: Apache-2.0
"""End-points that are no physical ports, with packets, on the switches that carry them."""

import os

import pytest

from headrace.node.statistics import graph_statistics
from tests.node import graphs
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

BACK = {"source_mac": "02:00:00:00:00:02", "dest_mac": "02:00:00:00:00:01"}


def member(port: str, group: str = "5") -> graphs.Json:
    points = [graphs.interface("in", port), graphs.internal("group", group)]
    return graphs.document(points, graphs.joined(("endpoint:in", "endpoint:group")))


async def test_frames_cross_between_the_graphs_of_a_group(bench: Bench) -> None:
    create, delete = bench.node.graphs.create, bench.node.graphs.delete
    await create("a", member("p0"))
    await create("b", member("p1"))
    there = [udp(b"there %3d" % n + bytes(20)) for n in range(20)]
    back = [udp(b"back %3d" % n + bytes(20), **BACK) for n in range(20)]
    for frame in there:
        bench.p0.send(frame)
    assert await bench.p1.receive(20) == there
    for frame in back:
        bench.p1.send(frame)
    assert await bench.p0.receive(20) == back
    if bench.node.driver.name == "headrace":  # OVS counts with a delay
        counted = await graph_statistics(bench.node.driver, bench.node.graphs.record("a"))
        point = counted["end-points"][1]
        assert (point["received"]["packets"], point["sent"]["packets"]) == (20, 20)
    # The first of the group may leave and come back; another group is another switch.
    await delete("a")
    assert await bench.comes_to_pass(udp(), through=False)
    await create("a", member("p0"))
    assert await bench.comes_to_pass(udp(), through=True)
    await bench.node.graphs.update("b", member("p1", "6"))
    assert await bench.comes_to_pass(udp(), through=False)
    await delete("b")
    await delete("a")
    rows = await bench.node.driver.port_statistics()
    assert {row.lsi for row in rows} <= {bench.node.lsi0}
