# SPDX-License-Identifier: Apache-2.0
"""Counters by rule and by end-point are the packets that were sent, and stay over an update."""

import asyncio
import os
from typing import Any

import pytest

from headrace.node.statistics import Counted, graph_statistics
from tests.node import graphs
from tests.node.graphs import out, rule
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

FRAME = udp(bytes(26))
BACK = udp(bytes(26), source_mac="02:00:00:00:00:02", dest_mac="02:00:00:00:00:01")


async def counted(bench: Bench, wanted: int) -> dict[str, Any]:
    """The statistics once `wanted` packets are counted; a switch may count with a delay."""
    async with asyncio.timeout(20):
        while True:
            found = await graph_statistics(
                Counted(bench.node.driver), bench.node.graphs.record("g")
            )
            if sum(entry["packets"] for entry in found["rules"]) >= wanted:
                return found
            await asyncio.sleep(0.2)


async def test_rules_and_end_points_count_every_packet(bench: Bench) -> None:
    await bench.deploy(
        rule("there", {"port_in": "endpoint:in"}, out("endpoint:out")),
        rule("back", {"port_in": "endpoint:out"}, out("endpoint:in")),
        rule(
            "none",
            {"port_in": "endpoint:out", "dest_mac": "02:00:00:00:00:09"},
            {"drop": True},
            priority=20,
        ),
    )
    for _ in range(20):
        bench.p0.send(FRAME)
    for _ in range(5):
        bench.p1.send(BACK)
    assert len(await bench.p1.receive(20)) == 20 and len(await bench.p0.receive(5)) == 5
    found = await counted(bench, 25)
    size = len(FRAME)
    assert found == {
        "rules": [
            {"id": "there", "packets": 20, "bytes": 20 * size},
            {"id": "back", "packets": 5, "bytes": 5 * size},
            {"id": "none", "packets": 0, "bytes": 0},
        ],
        "end-points": [
            {
                "id": "in",
                "received": {"packets": 20, "bytes": 20 * size},
                "sent": {"packets": 5, "bytes": 5 * size},
            },
            {
                "id": "out",
                "received": {"packets": 5, "bytes": 5 * size},
                "sent": {"packets": 20, "bytes": 20 * size},
            },
        ],
    }
    # An update leaves what stays; the rest begins anew.
    await bench.deploy(
        rule("there", {"port_in": "endpoint:in"}, out("endpoint:out")),
        rule("back", {"port_in": "endpoint:out"}, out("endpoint:in"), priority=11),
    )
    found = await counted(bench, 20)
    assert [entry["packets"] for entry in found["rules"]] == [20, 0]


@pytest.mark.parametrize("bench", ["headrace"], indirect=True)
async def test_end_points_behind_a_vnf(bench: Bench) -> None:
    await bench.node.graphs.create("g", graphs.chain("pass", 1))
    assert await bench.comes_to_pass(FRAME, through=True)
    begin = await counted(bench, 2)
    for _ in range(30):
        bench.p0.send(FRAME)
    assert len(await bench.p1.receive(30)) == 30
    end = await counted(bench, sum(entry["packets"] for entry in begin["rules"]) + 60)

    def grown(point: int, direction: str) -> int:
        values = [found["end-points"][point][direction]["packets"] for found in (begin, end)]
        return int(values[1] - values[0])

    assert (grown(0, "received"), grown(1, "sent")) == (30, 30)
    assert (grown(0, "sent"), grown(1, "received")) == (0, 0)
