# SPDX-License-Identifier: Apache-2.0
"""The defragmenting virtual port: fragments go out to it, and whole packets come in by it."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.frames import checksum, udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = unique_bridge()
TAP = f"hrd{os.getpid() % 100000}"
WHOLE = "whole"  # no kernel interface: any name will do
PAYLOAD = bytes(i * 7 % 256 for i in range(2000))


@pytest.fixture
def ends(switch: Switch) -> Iterator[tuple[RawPort, RawPort]]:
    """Far ends of ports 1 and 2; port 9 defragments, and only port 2000 of UDP passes it.

    Port 1 is a tap: what comes by packet sockets the kernel has made whole already.
    """
    with ExitStack() as stack:
        pair = stack.enter_context(VethPair())
        switch.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure")
        for number, name, kind in ((1, TAP, "tap"), (2, pair.near, "system")):
            switch.vsctl(
                *("add-port", BRIDGE, name, "--", "set", "Interface", name),
                *(f"type={kind}", f"ofport_request={number}"),
            )
        subprocess.run(["ip", "link", "set", TAP, "up"], check=True)
        switch.vsctl(
            *("add-port", BRIDGE, WHOLE, "--", "set", "Interface", WHOLE),
            *("type=defrag", "ofport_request=9"),
        )
        assert switch.interface(WHOLE, "ofport") == 9
        switch.ofctl("add-flow", BRIDGE, "in_port=1,ip,actions=output:9")
        switch.ofctl("add-flow", BRIDGE, "in_port=9,udp,udp_dst=2000,actions=output:2")
        far = [RawPort(TAP), RawPort(pair.far)]
        for port in far:
            stack.callback(port.close)
        yield far[0], far[1]
        switch.vsctl("del-br", BRIDGE)


def whole_frame(identification: int, *, udp_dst: int = 2000) -> bytes:
    frame = udp_frame(payload=PAYLOAD[:1300], udp_dst=udp_dst)
    return with_ip(frame, identification, 0, frame[34:])


def with_ip(frame: bytes, identification: int, offset_flags: int, body: bytes) -> bytes:
    """The frame with another identification, fragment word and body."""
    ip = frame[14:16] + struct.pack("!HHH", 20 + len(body), identification, offset_flags)
    ip += frame[22:24] + b"\0\0" + frame[26:34]
    return frame[:14] + ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + body


def fragments_of(frame: bytes, identification: int, sizes: tuple[int, ...]) -> list[bytes]:
    """The frame in pieces; `sizes` are of all but the last, in octets, multiples of 8."""
    body, at, pieces = frame[34:], 0, []
    for size in (*sizes, len(frame)):
        more = 0x2000 if at + size < len(body) else 0
        pieces.append(with_ip(frame, identification, more | at // 8, body[at : at + size]))
        at += size
    return pieces


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_fragments_come_back_whole(
    ends: tuple[RawPort, RawPort], switch: Switch, order: tuple[int, ...]
) -> None:
    one, two = ends
    frame = whole_frame(7)
    pieces = fragments_of(frame, 7, (480, 800))
    for place in order:
        one.send(pieces[place])
    assert two.receive(1) == [frame]
    flows = switch.ofctl("dump-flows", BRIDGE)
    assert "n_packets=3" in next(line for line in flows.splitlines() if "in_port=1" in line)
    assert "n_packets=1" in next(line for line in flows.splitlines() if "in_port=9" in line)


def test_rules_match_the_ports_of_what_was_in_pieces(
    ends: tuple[RawPort, RawPort], switch: Switch
) -> None:
    one, two = ends
    switch.ofctl("add-flow", BRIDGE, "in_port=9,udp,udp_dst=2001,actions=drop")
    for identification, port in ((1, 2000), (2, 2001), (3, 2000)):
        frame = whole_frame(identification, udp_dst=port)
        for piece in fragments_of(frame, identification, (640,)):
            one.send(piece)
    assert two.receive(2) == [whole_frame(1), whole_frame(3)]
    assert two.silence() == []
    flows = switch.ofctl("dump-flows", BRIDGE)
    assert "n_packets=1" in next(line for line in flows.splitlines() if "tp_dst=2001" in line)


def test_whole_packets_pass_and_pieces_of_different_packets_never_join(
    ends: tuple[RawPort, RawPort],
) -> None:
    one, two = ends
    first = fragments_of(whole_frame(1), 1, (640,))[0]
    last = fragments_of(whole_frame(2), 2, (640,))[1]
    one.send(first)
    one.send(last)
    one.send(udp_frame(size=100))
    assert two.receive(1) == [udp_frame(size=100)]
    assert two.silence() == []
