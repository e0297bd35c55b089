# SPDX-License-Identifier: Apache-2.0
"""Tunnel push and pop as actions, given by stock ovs-ofctl, with real packets."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace.protocols.tunnel_actions import Kind, PopTunnel, PushTunnel, Remember
from tests.support.frames import checksum, udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = unique_bridge()
NEAR, FAR = "192.168.7.1", "192.168.7.2"
NEAR_MAC, FAR_MAC = "02:00:00:00:07:01", "02:00:00:00:07:02"
INNER = udp_frame(size=100)


@pytest.fixture
def ends(switch: Switch) -> Iterator[tuple[RawPort, RawPort]]:
    """Far ends of ports 1 (inside) and 2 (underlay)."""
    with ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(2)]
        switch.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure")
        for number, pair in enumerate(pairs, start=1):
            switch.vsctl(
                *("add-port", BRIDGE, pair.near, "--", "set", "Interface", pair.near),
                *("type=system", f"ofport_request={number}"),
            )
        far = [RawPort(pair.far) for pair in pairs]
        for port in far:
            stack.callback(port.close)
        yield far[0], far[1]
        switch.vsctl("del-br", BRIDGE)


def push(kind: Kind, tunnel_id: int | None) -> PushTunnel:
    return PushTunnel(
        kind=kind,
        local=ipaddress.ip_address(NEAR),
        remote=ipaddress.ip_address(FAR),
        src_mac=NEAR_MAC,
        dst_mac=FAR_MAC,
        tunnel_id=tunnel_id,
    )


def carried(kind: Kind) -> bytes:
    """What a tunnel of this kind carries of INNER."""
    return INNER[14:] if kind is Kind.GTPU else INNER


def header(kind: Kind, tunnel_id: int) -> tuple[int, bytes]:
    """IP protocol and what stands between the outer IP header and what is carried."""
    size = len(carried(kind))
    if kind is Kind.GRE:
        return 47, struct.pack("!HHI", 0x2000, 0x6558, tunnel_id)
    if kind is Kind.VXLAN:
        udp = struct.pack("!HHHH", 49152, 4789, 16 + size, 0)
        return 17, udp + struct.pack("!II", 0x08000000, tunnel_id << 8)
    udp = struct.pack("!HHHH", 49152, 2152, 16 + size, 0)
    return 17, udp + struct.pack("!BBHI", 0x30, 255, size, tunnel_id)


def outer(kind: Kind, tunnel_id: int, source: str, destination: str) -> bytes:
    """An encapsulated INNER, built from the RFCs here."""
    proto, tunnel = header(kind, tunnel_id)
    body = tunnel + carried(kind)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, 64, proto, 0)
    ip += ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    macs = bytes.fromhex((FAR_MAC + NEAR_MAC).replace(":", ""))
    return macs + b"\x08\x00" + ip + body


@pytest.mark.parametrize("kind", list(Kind))
def test_push_and_pop(switch: Switch, ends: tuple[RawPort, RawPort], kind: Kind) -> None:
    inside, underlay = ends
    note = push(kind, 77).note()
    switch.ofctl("add-flow", BRIDGE, f"in_port=1,actions={note},output:2")
    switch.ofctl("add-flow", BRIDGE, f"in_port=2,actions={PopTunnel(kind).note()},goto_table:1")
    rewrite = "set_field:02:00:00:00:00:09->eth_dst"
    switch.ofctl(
        "add-flow",
        BRIDGE,
        f"table=1,tun_id=77,tun_src={FAR},tun_dst={NEAR},actions={rewrite},output:1",
    )

    inside.send(INNER)
    (sent,) = underlay.receive(1)
    expected = outer(kind, 77, NEAR, FAR)
    if kind is not Kind.GRE:  # the source port is the flow's
        assert int.from_bytes(sent[34:36]) >= 49152
        sent = sent[:34] + expected[34:36] + sent[36:]
    assert sent == expected

    underlay.send(outer(kind, 77, FAR, NEAR))
    underlay.send(outer(kind, 78, FAR, NEAR))  # no rule: dropped
    source = bytes(6) if kind is Kind.GTPU else INNER[6:12]
    assert inside.receive(1) == [bytes.fromhex("020000000009") + source + INNER[12:]]
    assert inside.silence() == []
    drops = switch.call("drops")["lsis"][0]["drops"]
    assert drops == {"table-miss": 1}


def test_what_was_said_is_shown(switch: Switch, ends: tuple[RawPort, RawPort]) -> None:
    assert len(ends) == 2
    note = push(Kind.VXLAN, None).note()
    switch.ofctl("add-flow", BRIDGE, f"in_port=1,actions=set_field:5->tun_id,{note},output:2")
    assert note in switch.ofctl("dump-flows", BRIDGE)
    switch.ofctl(
        "add-group", BRIDGE, f"group_id=1,type=select,bucket=weight:1,actions={note},output:2"
    )
    assert note in switch.ofctl("dump-groups", BRIDGE)


def test_a_groups_memory_is_shown(switch: Switch, ends: tuple[RawPort, RawPort]) -> None:
    inside, underlay = ends
    note = Remember(60).note()
    bucket = f"bucket=weight:1,actions={note},output:2"
    switch.ofctl("add-group", BRIDGE, f"group_id=2,type=select,{bucket}")
    assert note in switch.ofctl("dump-groups", BRIDGE)
    switch.ofctl("add-flow", BRIDGE, "in_port=1,actions=group:2")
    inside.send(INNER)
    assert underlay.receive(1) == [INNER]


def test_the_id_may_be_the_fields(switch: Switch, ends: tuple[RawPort, RawPort]) -> None:
    inside, underlay = ends
    note = push(Kind.VXLAN, None).note()
    switch.ofctl("add-flow", BRIDGE, f"in_port=1,actions=set_field:9->tun_id,{note},output:2")
    inside.send(INNER)
    (sent,) = underlay.receive(1)
    assert sent[42:50] == struct.pack("!II", 0x08000000, 9 << 8)


def test_malformed_tunnels_are_dropped_by_name(
    switch: Switch, ends: tuple[RawPort, RawPort]
) -> None:
    inside, underlay = ends
    pop = PopTunnel(Kind.VXLAN).note()
    switch.ofctl("add-flow", BRIDGE, f"udp,udp_dst=4789,actions={pop},output:1")
    good = outer(Kind.VXLAN, 1, FAR, NEAR)
    underlay.send(good[:42] + bytes(8) + good[50:])  # without the I flag
    underlay.send(good[:24] + b"\0\0" + good[26:])  # without an IP checksum
    underlay.send(good)
    assert inside.receive(1) == [INNER]
    assert inside.silence() == []
    drops = switch.call("drops")["lsis"][0]["drops"]
    assert drops == {"tunnel-malformed": 1, "tunnel-checksum": 1}
