# SPDX-License-Identifier: Apache-2.0
"""A node on any switch that this machine has, with two ports of which the test has the far ends."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.node import Node
from headrace.node.tear_down import tear_down
from headrace.switches.ovs import OvsDriver
from headrace.switches.veth import silence
from tests.node.conftest import StartNode
from tests.node.test_linux_bridge_e2e import ends
from tests.node.test_openflow_e2e import bench_of
from tests.node.wire import Wire, udp
from tests.switches.theirs import theirs

FRAMES = 30
MOST_VNF_PORTS = 8
"""Wires for VNFs that the switch has which is not the node's (openflow)."""


async def received(wire: Wire, count: int, patience_s: float = 3.0) -> list[bytes]:
    """The next frames, fewer if they do not come in time, without those to groups.

    Kernels send such by themselves: bridges and interfaces that come up tell of their groups.
    """
    frames: list[bytes] = []
    end = time.monotonic() + patience_s
    while len(frames) < count and time.monotonic() < end:
        more = await wire.receive(count - len(frames), end - time.monotonic())
        frames += [frame for frame in more if not frame[0] & 1]
    return frames


@dataclass
class Site:
    """A node, and the wires to its ports."""

    node: Node
    first: Wire
    second: Wire

    async def crosses(self, tag: int | None = None) -> None:
        """Frames pass both ways, each once; on the first port with a tag if there is one.

        A switch that caches decisions may follow an earlier graph for some time: a frame of its own
        says when that is over.
        """
        tags = () if tag is None else (tag,)
        there = {"source_mac": "02:00:00:00:00:01", "dest_mac": "02:00:00:00:00:02"}
        back = {"source_mac": "02:00:00:00:00:02", "dest_mac": "02:00:00:00:00:01"}
        ways: tuple[Any, ...] = (
            (self.first, self.second, there, tags, ()),
            (self.second, self.first, back, (), tags),
        )
        for source, target, addresses, before, after in ways:
            for attempt in range(60):
                probe = b"probe %3d" % attempt + bytes(20)
                source.send(udp(probe, **addresses, tags=before))
                if await received(target, 1, 0.5):
                    break
            else:
                pytest.fail("no frame has come through")
            await received(target, 100, 0.2)
            sent = [b"frame %3d" % number + bytes(20) for number in range(FRAMES)]
            for payload in sent:
                source.send(udp(payload, **addresses, tags=before))
            came = await received(target, FRAMES)
            assert came == [udp(payload, **addresses, tags=after) for payload in sent]
            assert (await received(target, 1, 0.1)) == [], "a frame that nobody has sent"


@asynccontextmanager
async def site_of(start_node: StartNode, switch: str, **more: Any) -> AsyncIterator[Site]:
    """A node on a switch, with two ports."""
    more = {"hugepages": "off", "oversubscribe": True, **more}
    if switch in ("headrace", "ovs-dpdk"):
        async with bench_of(start_node, switch, **more) as bench:
            yield Site(bench.node, bench.p0, bench.p1)
        return
    with ExitStack() as stack:
        if switch == "ovs":
            more["switch_options"] = {"datapath": "userspace"}
            if not os.access(OvsDriver.program, os.X_OK):
                pytest.skip(f"{OvsDriver.program} is not installed (make setup)")
        if switch == "openflow":
            try:
                find_program("headrace-switch")
            except ProgramMissing as error:
                pytest.skip(str(error))
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-of-")))
            more |= stack.enter_context(theirs(place, 2 + MOST_VNF_PORTS)).settings()
        node = await start_node(**{"switch": switch, **more})
        first, second = ends(node)
        for interface in (first, second):
            silence(interface)  # the kernel would send IPv6 packets of its own
        try:
            yield Site(node, *(stack.enter_context(Wire(end)) for end in (first, second)))
        finally:
            if switch == "openflow":  # while it is there
                await node.graphs.settle()
                await node.close()
                await tear_down(node.rundir)
