# SPDX-License-Identifier: Apache-2.0
"""Queues and a controller of a graph, asked for by REST, as packets meet them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from os_ken.ofproto.ofproto_v1_3 import OFPT_PACKET_IN

from headrace.node.node import Node
from headrace.switches.openflow import OpenFlowSession
from headrace.switches.veth import silence
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.served import served
from tests.node.wire import Wire, udp

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]

FRAMES = [udp(b"%3d" % number + bytes(955)) for number in range(40)]


@asynccontextmanager
async def controller() -> AsyncIterator[tuple[str, asyncio.Queue[bytes]]]:
    """An OpenFlow controller: its address, and the frames that switches send it."""
    found: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = await OpenFlowSession.over(reader, writer, "the switch")
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                message = await session._receive()
                if message.msg_type == OFPT_PACKET_IN:
                    found.put_nowait(bytes(message.data))
        await session.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}", found
    finally:
        server.close()


@asynccontextmanager
async def node_of(start_node: StartNode) -> AsyncIterator[tuple[Node, httpx.AsyncClient]]:
    """A node with two taps as ports, p0 and p1 of the graphs here, and a client of its API."""
    ports = [{"name": f"{os.getpid()}{n}", "kind": "tap"} for n in ("a", "b")]
    node = await start_node(
        switch="headrace", switch_memory_mb=128, ports=ports, controllers=["127.0.0.0/8"]
    )
    async with (
        served(node) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        yield node, http


def document(node: Node, **big_switch: Any) -> dict[str, Any]:
    """in -> out by rule r0 and back by r1."""
    made = graphs.port_to_port()
    for point, name in zip(made["forwarding-graph"]["end-points"], node.ports, strict=True):
        point["interface"]["if-name"] = name
    made["forwarding-graph"]["big-switch"].update(big_switch)
    return made


def first_rule(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["forwarding-graph"]["big-switch"]["flow-rules"][0]
    return found


def wires(node: Node) -> tuple[Wire, Wire]:
    names = [node.driver.attach(port).iface or "" for port in node.ports.values()]
    for name in names:
        silence(name)
    return Wire(names[0]), Wire(names[1])


async def put(http: httpx.AsyncClient, made: dict[str, Any]) -> httpx.Response:
    return await http.put("/NF-FG/g", json=made)


async def passes(p0: Wire, p1: Wire) -> None:
    """Until frames pass: a tap has its link a moment after it was made."""
    async with asyncio.timeout(20):
        while True:
            p0.send(udp(b"first" + bytes(30)))
            if await p1.receive(1, 0.2):
                break
    p1.drain()


async def test_a_queue_holds_a_rule_to_its_rate(start_node: StartNode) -> None:
    async with node_of(start_node) as (node, http):
        made = document(node, queues=[{"id": "slow", "max-rate": 400_000}])
        first_rule(made)["actions"].append({"output_to_queue": "slow"})
        assert (await put(http, made)).status_code == 201
        p0, p1 = await asyncio.to_thread(wires, node)
        with p0, p1:
            await passes(p0, p1)
            began = time.monotonic()
            for frame in FRAMES:
                p0.send(frame)
            assert await p1.receive(40, 20.0) == FRAMES
            # 40 frames of 1000 octets are 0.8 s at 400 kbit/s; a burst goes at once.
            assert time.monotonic() - began > 0.3
            assert (await put(http, document(node))).status_code in (201, 202)
            for frame in FRAMES:
                p0.send(frame)
            assert await p1.receive(40, 20.0) == FRAMES
        wrong = document(node)
        first_rule(wrong)["actions"].append({"output_to_queue": "gold"})
        refused = await put(http, wrong)
        assert refused.status_code == 400 and "gold" in refused.json()["message"]


async def test_a_controller_gets_copies(start_node: StartNode) -> None:
    async with node_of(start_node) as (node, http), controller() as (address, found):
        made = document(node, controller=address)
        first_rule(made)["actions"].append({"output_to_controller": True})
        assert (await put(http, made)).status_code == 201
        p0, p1 = await asyncio.to_thread(wires, node)
        with p0, p1:
            await passes(p0, p1)
            async with asyncio.timeout(30):
                # The switch connects by itself, a moment after the graph is complete.
                while found.empty():
                    p0.send(udp(b"first" + bytes(30)))
                    await asyncio.sleep(0.1)
            p1.drain()
            p0.send(FRAMES[7])
            assert FRAMES[7] in await p1.receive(1)
            async with asyncio.timeout(20):
                while await found.get() != FRAMES[7]:
                    pass
        elsewhere = document(node, controller="tcp:192.0.2.1:6653")
        first_rule(elsewhere)["actions"].append({"output_to_controller": True})
        refused = await put(http, elsewhere)
        assert refused.status_code == 400 and "127.0.0.0/8" in refused.json()["message"]
        assert (await http.delete("/NF-FG/g")).status_code in (200, 204)
