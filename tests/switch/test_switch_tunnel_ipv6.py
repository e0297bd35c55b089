# SPDX-License-Identifier: Apache-2.0
"""Flow-based tunnel ports over IPv6: far ends and sources that rules and packets name."""

from __future__ import annotations

import ipaddress
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.protocols.tunnel_actions import Kind
from tests.support.frames import checksum as internet_checksum
from tests.support.frames import mac
from tests.support.switch import Switch
from tests.support.veth import RawPort
from tests.switch.test_switch_tunnel_actions import (
    FAR,
    FAR_MAC,
    INNER,
    NEAR,
    NEAR_MAC,
    carried,
    header,
    outer,
)
from tests.switch.test_switch_tunnel_ports import (
    FAR6,
    NEAR6,
    OVER,
    TUNNEL,
    UNDER,
    add_kernel_end,
    add_tunnel,
    bridges,
    drops,
    echo_answers,
    ip,
    namespace,
    run_in,
)

__all__ = ["bridges"]
pytestmark = [pytest.mark.root, pytest.mark.dpdk]

OTHER6 = "fd00:7::99"
FROM_HOST = 6 + 6 + 2  # octets of Ethernet before what the tests compare


def outer6(kind: Kind, tunnel_id: int, source: str, destination: str) -> bytes:
    """An INNER encapsulated in IPv6 (RFC 8200), its UDP checksum 0 (RFC 6935)."""
    proto, tunnel = header(kind, tunnel_id)
    body = tunnel + carried(kind)
    fixed = struct.pack("!IHBB", 6 << 28, len(body), proto, 64)
    addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return mac(FAR_MAC) + mac(NEAR_MAC) + b"\x86\xdd" + fixed + addresses + body


def without_entropy(kind: Kind, frame: bytes) -> bytes:
    """From IP on, without the UDP source port, which is the flow's."""
    at = FROM_HOST + (40 if frame[12:14] == b"\x86\xdd" else 20)
    return frame[FROM_HOST:at] + frame[at + (0 if kind is Kind.GRE else 2) :]


@contextmanager
def remote_endpoints(switch: Switch, pair: tuple[str, str]) -> Iterator[tuple[RawPort, RawPort]]:
    """What stands at port 1 of the overlay and of the underlay, which has addresses of its own."""
    for address in (f"{NEAR}/24", f"{NEAR6}/64"):
        ip("addr", "add", address, "dev", UNDER, *(["nodad"] if ":" in address else []))
    ip("link", "set", UNDER, "up")
    for bridge in (OVER, UNDER):
        switch.ofctl("del-flows", bridge)
    switch.ofctl("add-flow", UNDER, "in_port=LOCAL,actions=output:1")
    switch.ofctl("add-flow", UNDER, "in_port=1,actions=LOCAL")
    inside, below = (RawPort(far) for far in pair)
    try:
        yield inside, below
    finally:
        inside.close()
        below.close()


def send_until(inside: RawPort, below: RawPort, expected: bytes) -> bytes:
    """What the underlay gets of INNER, a frame of the length and IP version of `expected`; the
    first is lost, as its far end is not known before."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        inside.send(INNER)
        for frame in below.receive(8, 0.3):
            if len(frame) == len(expected) and frame[12:14] == expected[12:14]:
                return frame
    raise AssertionError("nothing that was sent into the tunnel left by the underlay")


def packets_of(switch: Switch, rule: str) -> int:
    (line,) = [each for each in switch.ofctl("dump-flows", OVER).splitlines() if rule in each]
    (count,) = re.findall(r"n_packets=(\d+)", line)
    return int(count)


@pytest.mark.parametrize("kind", list(Kind))
def test_both_versions_by_flow(switch: Switch, bridges: tuple[str, str], kind: Kind) -> None:
    """One port, each packet over the IP version of the far end that its rule names."""
    with remote_endpoints(switch, bridges) as (inside, below):
        add_tunnel(
            *(switch, kind.name.lower(), "remote_ip=flow", "local_ip=flow", "key=flow"),
            f"remote_mac={FAR_MAC}",
        )
        came = "in_port=10,tun_id=0x4d"
        over4 = f"{came},tun_src={FAR},tun_dst={NEAR}"
        over6 = f"tun_ipv6_src={FAR6},tun_ipv6_dst={NEAR6}"
        near6 = "tun_ipv6_src=fd00:7::/64"
        switch.ofctl("add-flow", OVER, f"{over4},tun_ipv6_src=::,actions=output:1")
        switch.ofctl("add-flow", OVER, f"priority=40000,{came},{over6},tun_dst=0.0.0.0,actions=1")
        switch.ofctl("add-flow", OVER, f"priority=100,{came},{near6},actions=output:1")
        for actions, source, far in (
            (f"set_field:{FAR6}->tun_ipv6_dst", NEAR6, FAR6),
            (f"set_field:{OTHER6}->tun_ipv6_src,set_field:{FAR6}->tun_ipv6_dst", OTHER6, FAR6),
            (f"set_field:{FAR6}->tun_ipv6_dst,set_field:{FAR}->tun_dst", NEAR, FAR),
        ):
            switch.ofctl(
                "add-flow", OVER, f"in_port=1,actions=set_field:77->tun_id,{actions},output:10"
            )
            build = outer6 if ":" in source else outer
            expected = build(kind, 77, source, far)
            sent = send_until(inside, below, expected)
            assert sent[:6] == mac(FAR_MAC)
            assert without_entropy(kind, sent) == without_entropy(kind, expected)

        switch.ofctl("add-flow", OVER, "in_port=1,actions=set_field:77->tun_id,output:10")
        inside.send(INNER)
        deadline = time.monotonic() + 10
        while drops(switch, OVER).get("tunnel-no-remote") != 1:
            assert time.monotonic() < deadline, drops(switch, OVER)

        inside.receive(100, 0.2)
        for frame in (
            outer6(kind, 77, FAR6, NEAR6),
            outer6(kind, 77, OTHER6, NEAR6),
            outer(kind, 77, FAR, NEAR),
            outer6(kind, 77, "fd00:8::1", NEAR6),
            outer6(kind, 78, FAR6, NEAR6),
        ):
            below.send(frame)
        arrived = inside.receive(3)
        assert [carried(kind) in frame for frame in arrived] == [True] * 3
        assert inside.silence() == []
        for rule in (f"tun_src={FAR}", over6, near6):
            assert packets_of(switch, rule) == 1, switch.ofctl("dump-flows", OVER)
        assert dict(switch.interface(TUNNEL, "status")[1])["tunnel_local_ip"] == f"{NEAR} {NEAR6}"


def test_checksum_covers_the_source_of_the_flow(switch: Switch, bridges: tuple[str, str]) -> None:
    with remote_endpoints(switch, bridges) as (inside, below):
        add_tunnel(
            *(switch, "vxlan", f"remote_ip={FAR6}", "local_ip=flow", "csum=true"),
            f"remote_mac={FAR_MAC}",
        )
        switch.ofctl(
            "add-flow", OVER, f"in_port=1,actions=set_field:{OTHER6}->tun_ipv6_src,output:10"
        )
        sent = send_until(inside, below, outer6(Kind.VXLAN, 0, OTHER6, FAR6))
        assert sent[22:38] == ipaddress.ip_address(OTHER6).packed
        pseudo = sent[22:54] + struct.pack("!II", len(sent) - 54, 17)
        assert sent[60:62] != b"\0\0" and internet_checksum(pseudo + sent[54:]) == 0


def test_talk_to_the_kernel_by_flow(switch: Switch, bridges: tuple[str, str]) -> None:
    """The kernel's VXLAN over IPv6, next hop by neighbor discovery, addresses by rules."""
    inside, below = bridges
    with namespace(inside, "10.9.0.1/24") as near, namespace(below, "10.8.0.1/24") as far:
        ip("-n", far, "addr", "add", f"{FAR6}/64", "dev", below, "nodad")
        add_kernel_end(
            *(far, "vxlan", "id", "42", "dstport", "4789", "local", FAR6, "remote", NEAR6),
        )
        options = (f"underlay={UNDER}", f"local_ip={NEAR6}", "csum=true")
        add_tunnel(switch, "vxlan", "remote_ip=flow", "key=flow", *options)
        switch.ofctl("del-flows", OVER)
        send = f"set_field:42->tun_id,set_field:{FAR6}->tun_ipv6_dst,output:10"
        switch.ofctl("add-flow", OVER, f"in_port=1,actions={send}")
        came = f"in_port=10,tun_id=42,tun_ipv6_src={FAR6},tun_ipv6_dst={NEAR6}"
        switch.ofctl("add-flow", OVER, f"{came},actions=output:1")
        for name, interface in ((near, inside), (far, below), (far, "tun")):
            run_in(name, "ethtool", "-K", interface, "tx", "off")
        assert echo_answers(near, far, "10.9.0.2"), switch.call("drops")
        assert packets_of(switch, "tun_ipv6_src") >= 5
        assert dict(switch.interface(TUNNEL, "status")[1])["tunnel_resolved"] == "1"
