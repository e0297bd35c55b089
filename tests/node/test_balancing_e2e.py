# SPDX-License-Identifier: Apache-2.0
"""Flows over several ports, with packets: all of a flow at one port, and all ports used."""

import os

import pytest

from tests.node import graphs
from tests.node.graphs import rule
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

TAGS = (31, 32, 33)
FLOWS = range(64)


async def deploy(bench: Bench, *tags: int) -> None:
    points = [graphs.interface("in", "p0"), *(graphs.vlan(f"v{t}", "p1", t) for t in TAGS)]
    members = [f"endpoint:v{tag}" for tag in tags]
    await bench.deploy(
        rule("r", {"port_in": "endpoint:in"}, {"output_to_one_of": members}), points=points
    )


async def placed(bench: Bench) -> dict[int, set[int]]:
    """By flow, the tags with which its packets (three of each) came out."""
    for _ in range(3):
        for flow in FLOWS:
            bench.p0.send(udp(source_port=1000 + flow, source=f"10.0.1.{flow}"))
    found: dict[int, set[int]] = {flow: set() for flow in FLOWS}
    frames = await bench.p1.receive(3 * len(FLOWS), patience_s=5.0)
    assert len(frames) == 3 * len(FLOWS)
    for frame in frames:
        assert frame[12:14] == b"\x81\x00"
        flow = int.from_bytes(frame[38:40], "big") - 1000
        found[flow].add(int.from_bytes(frame[14:16], "big") & 0xFFF)
    return found


async def test_flows_keep_their_port(bench: Bench) -> None:
    await deploy(bench, 31, 32)
    first = await placed(bench)
    assert all(len(tags) == 1 for tags in first.values())
    assert set().union(*first.values()) == {31, 32}
    assert await placed(bench) == first
    await deploy(bench, 31, 32, 33)
    second = await placed(bench)
    assert all(len(tags) == 1 for tags in second.values())
    if bench.node.driver.capabilities.keeps_flows:
        assert second == first
        await deploy(bench, 32, 33)
        third = await placed(bench)
        assert all(third[flow] == {32} for flow in FLOWS if first[flow] == {32})
        assert all(third[flow] <= {32, 33} for flow in FLOWS)
    await bench.node.graphs.delete("g")
    bench.p0.send(udp())
    assert await bench.p1.receive(1, patience_s=0.5) == []
