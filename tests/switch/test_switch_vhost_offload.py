# SPDX-License-Identifier: Apache-2.0
"""Checksums and segmentation that guests leave to others: carried where they can be, else done."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace.protocols.tunnel_actions import Kind
from tests.support.frames import checksum
from tests.support.segments import CHECKSUM_AT, Segment
from tests.support.switch import Switch, running_switch, unique_bridge
from tests.support.vhost_guest import (
    F_CSUM,
    F_GUEST_CSUM,
    F_GUEST_TSO4,
    F_GUEST_TSO6,
    F_HOST_TSO4,
    F_HOST_TSO6,
    F_MRG_RXBUF,
    Guest,
    VnetHeader,
    guest,
)
from tests.support.vhost_ports import add_guest_ports, collect, wait_for_link, wait_until

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

LEAVES = F_CSUM | F_HOST_TSO4 | F_HOST_TSO6
TAKES = F_GUEST_CSUM | F_GUEST_TSO4 | F_GUEST_TSO6 | F_MRG_RXBUF
OFFLOADS = LEAVES | TAKES & ~F_MRG_RXBUF
MSS = 1428  # with the longer headers of IPv6 not longer than an MTU of 1500 allows
PAYLOAD = random.Random(10).randbytes(20_001)
TURNS = 20


@pytest.fixture
def switch(rundir: object) -> Iterator[Switch]:
    """A switch with more memory than others: a burst of large segments takes a thousand buffers."""
    with running_switch(rundir, extra=("--no-huge",)) as running:  # type: ignore[arg-type]
        yield running


def partial(segment: Segment, *, gso_size: int = 0) -> VnetHeader:
    """What a guest says of a packet whose checksum, or all but the payload, is left."""
    gso_type = VnetHeader.TCPV6 if segment.ipv6 else VnetHeader.TCPV4
    return VnetHeader(
        flags=VnetHeader.NEEDS_CSUM,
        gso_type=gso_type if gso_size else 0,
        length=segment.headers if gso_size else 0,
        gso_size=gso_size,
        csum_start=segment.l4,
        csum_offset=CHECKSUM_AT,
    )


def collect_with_headers(to: Guest, count: int) -> list[tuple[VnetHeader, bytes]]:
    """Frames with their headers, until there are `count` or nothing has come for a second."""
    frames: list[tuple[VnetHeader, bytes]] = []
    deadline = time.monotonic() + 1
    while len(frames) < count and time.monotonic() < deadline:
        if more := to.received_with_headers(0):
            frames += more
            deadline = time.monotonic() + 1
    return frames


def statistic(switch: Switch, port: str, name: str) -> int:
    """A statistic of a port in the database, as it is now or a moment later."""
    return int(dict(switch.interface(port, "statistics")[1]).get(name, 0))


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
def test_what_the_receiver_takes_stays_left(switch: Switch, ipv6: bool) -> None:
    add_guest_ports(switch, "from", "to")
    with (
        guest(switch.rundir / "from", features=LEAVES) as sender,
        guest(switch.rundir / "to", features=TAKES) as receiver,
    ):
        wait_for_link(switch, "from", "to")
        one, large = Segment(PAYLOAD[:1000], ipv6), Segment(PAYLOAD, ipv6)
        for _ in range(TURNS):
            sender.transmit(0, one.frame(partial=True), partial(one))
            sender.transmit(0, large.frame(partial=True), partial(large, gso_size=MSS))
            frames = collect_with_headers(receiver, 2)
            assert [frame for _, frame in frames] == [
                one.frame(partial=True),
                large.frame(partial=True),
            ], switch.call("drops")
            slots = -(-(12 + large.headers + len(PAYLOAD)) // 2048)
            assert [header for header, _ in frames] == [
                VnetHeader(**{**partial(one).__dict__, "buffers": 1}),
                VnetHeader(**{**partial(large, gso_size=MSS).__dict__, "buffers": slots}),
            ]
    status = dict(switch.interface("to", "status")[1])
    assert status["tx_offloads"] in {"checksum, tso4, tso6", "none"}


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
def test_what_the_receiver_does_not_take_is_done(switch: Switch, ipv6: bool) -> None:
    add_guest_ports(switch, "from", "to")
    with (
        guest(switch.rundir / "from", features=LEAVES) as sender,
        guest(switch.rundir / "to") as receiver,
    ):
        wait_for_link(switch, "from", "to")
        one, large = Segment(PAYLOAD[:1000], ipv6), Segment(PAYLOAD, ipv6)
        expected = [one.frame(partial=False), *large.cut(MSS)]
        for _ in range(TURNS):
            sender.transmit(0, one.frame(partial=True), partial(one))
            sender.transmit(0, large.frame(partial=True), partial(large, gso_size=MSS))
            frames = collect_with_headers(receiver, len(expected))
            assert [frame for _, frame in frames] == expected, switch.call("drops")
            assert {header.flags | header.gso_type for header, _ in frames} == {0}


def test_segments_of_one_ip_version(switch: Switch) -> None:
    add_guest_ports(switch, "from", "to")
    features = F_GUEST_CSUM | F_GUEST_TSO4 | F_MRG_RXBUF
    with (
        guest(switch.rundir / "from", features=LEAVES) as sender,
        guest(switch.rundir / "to", features=features) as receiver,
    ):
        wait_for_link(switch, "from", "to")
        four, six = Segment(PAYLOAD), Segment(PAYLOAD, ipv6=True)
        for segment in (four, six):
            sender.transmit(0, segment.frame(partial=True), partial(segment, gso_size=MSS))
        expected = [four.frame(partial=True), *six.cut(MSS)]
        assert collect(receiver, len(expected))[0] == expected, switch.call("drops")


def test_the_next_guest_may_take_less(switch: Switch) -> None:
    """Segments go on while the guests change: each gets only what it has negotiated."""
    add_guest_ports(switch, "from", "to")
    large = Segment(PAYLOAD)
    whole, cut = [large.frame(partial=True)], large.cut(MSS)
    with guest(switch.rundir / "from", features=LEAVES) as sender:
        for turn in range(10):
            features = TAKES if turn % 2 == 0 else F_MRG_RXBUF
            with guest(switch.rundir / "to", features=features) as receiver:
                wait_for_link(switch, "from", "to")
                for _ in range(4):
                    sender.transmit(0, large.frame(partial=True), partial(large, gso_size=MSS))
                expected = 4 * (whole if turn % 2 == 0 else cut)
                assert collect(receiver, len(expected))[0] == expected, f"turn {turn}"
                sender.transmit(0, large.frame(partial=True), partial(large, gso_size=MSS))
            wait_for_link(switch, "to", up=False)


def test_a_tag_that_is_pushed_moves_what_is_left(switch: Switch) -> None:
    bridge = add_guest_ports(switch, "from", "to")
    switch.ofctl(
        "add-flow", bridge, "in_port=1,actions=push_vlan:0x8100,set_field:4103->vlan_vid,output:2"
    )
    with (
        guest(switch.rundir / "from", features=LEAVES) as sender,
        guest(switch.rundir / "to", features=TAKES) as receiver,
    ):
        wait_for_link(switch, "from", "to")
        large = Segment(PAYLOAD)
        sender.transmit(0, large.frame(partial=True), partial(large, gso_size=MSS))
        frames = collect_with_headers(receiver, 1)
        assert len(frames) == 1, switch.call("drops")
        header, frame = frames[0]
        plain = large.frame(partial=True)
        assert frame == plain[:12] + b"\x81\x00\x00\x07" + plain[12:]
        assert (header.csum_start, header.length) == (large.l4 + 4, large.headers + 4)


def test_offloads_can_be_switched_off(switch: Switch) -> None:
    add_guest_ports(switch, "on")
    add_guest_ports(switch, "off", columns=("options:offloads=false",))
    for name, expected in (("on", OFFLOADS), ("off", 0)):
        with Guest(switch.rundir / name) as asking:
            assert asking.ask(1) & OFFLOADS == expected


def test_segments_that_cannot_be(switch: Switch) -> None:
    """One octet in each would make 20,000 packets of one; the next packet passes."""
    add_guest_ports(switch, "from", "to")
    with (
        guest(switch.rundir / "from", features=LEAVES) as sender,
        guest(switch.rundir / "to") as receiver,
    ):
        wait_for_link(switch, "from", "to")
        large, one = Segment(PAYLOAD), Segment(PAYLOAD[:1000])
        sender.transmit(0, large.frame(partial=True), partial(large, gso_size=1))
        arp = one.frame(partial=True)[:12] + b"\x08\x06" + bytes(46)
        sender.transmit(0, arp, VnetHeader(**{**partial(one).__dict__, "csum_start": 65000}))
        sender.transmit(0, one.frame(partial=True), partial(one))
        assert collect(receiver, 2)[0] == [arp, one.frame(partial=False)]
        wait_until(lambda: statistic(switch, "from", "rx_errors") == 1, "the packet is not counted")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_large_segment_leaves_by_a_tunnel_in_frames(switch: Switch, kind: Kind) -> None:
    near, far = "192.168.7.1", "192.168.7.2"
    over, under = unique_bridge(), unique_bridge()
    with ExitStack() as stack:
        for bridge, name in ((over, "from"), (under, "wire")):
            switch.vsctl("add-br", bridge, "--", "set-fail-mode", bridge, "secure")
            switch.vsctl(
                *("add-port", bridge, name, "--", "set", "Interface", name),
                *("type=dpdkvhostuser", "ofport_request=1"),
            )
        switch.vsctl(
            *("add-port", over, "tunnel", "--", "set", "Interface", "tunnel"),
            *(f"type={kind.name.lower()}", "ofport_request=10", f"options:remote_ip={far}"),
            *(f"options:local_ip={near}", f"options:underlay={under}", "options:key=77"),
            "options:remote_mac=02:00:00:00:07:02",
        )
        switch.ofctl("add-flow", over, "in_port=1,actions=output:10")
        switch.ofctl("add-flow", under, "in_port=LOCAL,actions=output:1")
        sender = stack.enter_context(guest(switch.rundir / "from", features=LEAVES))
        # It would take large segments; inside a tunnel nobody has negotiated them.
        wire = stack.enter_context(guest(switch.rundir / "wire", features=TAKES))
        wait_for_link(switch, "from", "wire")
        large = Segment(PAYLOAD)
        sender.transmit(0, large.frame(partial=True), partial(large, gso_size=1300))
        expected = large.cut(1300)
        frames = collect_with_headers(wire, len(expected))
        assert len(frames) == len(expected), switch.call("drops")
        for (header, frame), inner in zip(frames, expected, strict=True):
            carried = inner[14:] if kind is Kind.GTPU else inner
            assert frame.endswith(carried)
            assert len(frame) <= 1514 and header.gso_type == 0
            assert checksum(frame[14:34]) == 0
            assert int.from_bytes(frame[16:18]) == len(frame) - 14
            if kind is not Kind.GRE:
                assert int.from_bytes(frame[38:40]) == len(frame) - 34
