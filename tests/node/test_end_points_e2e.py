# SPDX-License-Identifier: Apache-2.0
"""End-points that are no physical ports, with packets, on the switches that carry them."""

import asyncio
import os
import socket

import pytest

from headrace.node.statistics import Counted, graph_statistics
from headrace.protocols.tunnel_actions import Kind
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.test_openflow_e2e import Bench, bench, bench_of
from tests.node.wire import udp
from tests.switch.test_switch_tunnel_actions import FAR_MAC, INNER, carried, outer

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]


def back(text: bytes) -> bytes:
    """A frame the other way."""
    return udp(text, source_mac="02:00:00:00:00:02", dest_mac="02:00:00:00:00:01")


def member(port: str, group: str = "5") -> graphs.Json:
    points = [graphs.interface("in", port), graphs.internal("group", group)]
    return graphs.document(points, graphs.joined(("endpoint:in", "endpoint:group")))


async def test_frames_cross_between_the_graphs_of_a_group(bench: Bench) -> None:
    create, delete = bench.node.graphs.create, bench.node.graphs.delete
    await create("a", member("p0"))
    await create("b", member("p1"))
    there = [udp(b"there %3d" % n + bytes(20)) for n in range(20)]
    returning = [back(b"back %3d" % n + bytes(20)) for n in range(20)]
    for frame in there:
        bench.p0.send(frame)
    assert await bench.p1.receive(20) == there
    for frame in returning:
        bench.p1.send(frame)
    assert await bench.p0.receive(20) == returning
    if bench.node.driver.name == "headrace":  # OVS counts with a delay
        counted = await graph_statistics(Counted(bench.node.driver), bench.node.graphs.record("a"))
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


NEAR, FAR = "192.168.7.1", "192.168.7.2"


def answer_of(request: bytes) -> bytes | None:
    """The reply of FAR if it is asked for by ARP."""
    wanted = socket.inet_aton(FAR)
    if request[12:14] != b"\x08\x06" or request[20:22] != b"\0\1" or request[38:42] != wanted:
        return None
    ours = bytes.fromhex(FAR_MAC.replace(":", ""))
    reply = request[6:12] + ours + request[12:20] + b"\0\2" + ours + wanted + request[22:32]
    return reply.ljust(60, b"\0")


async def resolve(bench: Bench) -> bytes:
    """Sends until the far end of the tunnel has been asked for and is known; one outer packet."""
    async with asyncio.timeout(20):
        while True:
            bench.p0.send(INNER)
            for frame in await bench.p1.receive(2, patience_s=0.3):
                reply = answer_of(frame)
                if reply is not None:
                    bench.p1.send(reply)
                if frame[12:14] == b"\x08\x00" and frame[26:34] == ADDRESSES:
                    return frame


ADDRESSES = socket.inet_aton(NEAR) + socket.inet_aton(FAR)
TUNNELS = [
    (Kind.GRE, "gre-tunnel", {"gre-key": "77"}),
    (Kind.VXLAN, "vxlan", {"vni": 77}),
    (Kind.GTPU, "gtpu", {"teid": "77"}),
]


@pytest.mark.parametrize("switch", ["ovs-dpdk", "headrace"])
@pytest.mark.parametrize(("kind", "name", "key"), TUNNELS, ids=[name for _, name, _ in TUNNELS])
async def test_tunnels(
    start_node: StartNode, switch: str, kind: Kind, name: str, key: graphs.Json
) -> None:
    at = {"addresses": [f"{NEAR}/24"]}
    async with bench_of(start_node, switch, second_port=at) as bench:
        options = {"local-ip": NEAR, "remote-ip": FAR, "ttl": "9", **key}
        points = [graphs.interface("in", "p0"), {"id": "far", name: options}]
        await bench.deploy(*graphs.joined(("endpoint:in", "endpoint:far")), points=points)
        sent = await resolve(bench)
        expected = outer(kind, 77, NEAR, FAR)
        assert sent[:6] == bytes.fromhex(FAR_MAC.replace(":", "")) and sent[22] == 9
        start = 38 if kind is Kind.GRE else 36  # the UDP source port is the flow's
        if kind is not Kind.GTPU:
            assert sent[start:] == expected[start:]
        assert sent.endswith(carried(kind))
        await bench.p1.receive(100, patience_s=0.3)
        for _ in range(20):
            bench.p0.send(INNER)
        found = await bench.p1.receive(20)
        assert [frame[26:34] for frame in found] == [ADDRESSES] * 20
        near_mac = sent[6:12]
        for _ in range(20):
            bench.p1.send(near_mac + outer(kind, 77, FAR, NEAR)[6:])
        bench.p1.send(near_mac + outer(kind, 78, FAR, NEAR)[6:])
        inside = await bench.p0.receive(21, patience_s=2.0)
        assert len(inside) == 20 and all(frame.endswith(carried(kind)) for frame in inside)
        # What is not the tunnel's passes by it.
        bench.p1.send(udp())
        assert await bench.p0.receive(1, patience_s=0.3) == []
        await bench.node.graphs.delete("g")
        bench.p1.send(near_mac + outer(kind, 77, FAR, NEAR)[6:])
        assert await bench.p0.receive(1, patience_s=0.3) == []
