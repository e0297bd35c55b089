# SPDX-License-Identifier: Apache-2.0
"""What a node reads for its model are the packets that were sent, on real switches."""

import asyncio
import os

import pytest

from headrace.node.observing import measured, plans, read
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
COUNT = 20


async def test_a_reading_has_the_packets_that_were_sent_and_the_workers_rounds(
    bench: Bench,
) -> None:
    await bench.deploy(rule("there", {"port_in": "endpoint:in"}, out("endpoint:out")))
    before = await read(bench.node)
    for _ in range(COUNT):
        bench.p0.send(FRAME)
    assert len(await bench.p1.receive(COUNT)) == COUNT
    async with asyncio.timeout(20):  # a switch may count with a delay
        while True:
            after = await read(bench.node)
            packets = after.received["g"][0] - before.received["g"][0]
            if packets >= COUNT:
                break
            await asyncio.sleep(0.2)
    assert packets == COUNT
    assert after.received["g"][1] - before.received["g"][1] == COUNT * (len(FRAME) + 4)
    # OVS does not count bursts before there was one.
    assert after.workers is not None and after.workers["busy_cycles"] > 0
    async with asyncio.timeout(20):  # workers publish their counts now and then
        while True:
            last = await read(bench.node)
            assert last.workers is not None
            if last.workers["rounds"] > after.workers["rounds"]:
                break
            await asyncio.sleep(0.05)
    assert last.workers["idle_cycles"] >= after.workers["idle_cycles"]
    assert after.waited_ns is not None and before.waited_ns is not None
    assert after.waited_ns >= before.waited_ns
    assert list(plans(bench.node)) == ["g"]
    told = await measured(bench.node, bench.node.graphs.record("g"), 0.1)
    assert told["pps"] == 0 and 0 <= told["busy"]["switch"] < 1
