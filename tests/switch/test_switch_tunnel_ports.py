# SPDX-License-Identifier: Apache-2.0
"""Tunnel ports: against the kernel's own tunnels in a namespace, and against crafted packets."""

from __future__ import annotations

import ipaddress
import itertools
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from headrace.protocols.tunnel_actions import Kind
from tests.support.frames import checksum as internet_checksum
from tests.support.frames import mac, udp_frame
from tests.support.janitor import removed_at_the_latest
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair
from tests.switch.test_switch_tunnel_actions import (
    FAR,
    INNER,
    NEAR,
    carried,
    outer,
)

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

OVER, UNDER = unique_bridge(), unique_bridge()
NEAR6, FAR6 = "fd00:7::1", "fd00:7::2"
TUNNEL = f"tun{os.getpid() % 100000}"
_numbers = itertools.count()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextmanager
def namespace(interface: str, address: str) -> Iterator[str]:
    """A namespace that owns `interface`, with an address."""
    name = f"hr{os.getpid()}-{next(_numbers)}"
    with removed_at_the_latest("namespace", name):
        ip("netns", "add", name)
        try:
            ip("link", "set", interface, "netns", name)
            ip("-n", name, "addr", "add", address, "dev", interface)
            ip("-n", name, "link", "set", interface, "up")
            yield name
        finally:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def run_in(name: str, *words: str) -> None:
    subprocess.run(["ip", "netns", "exec", name, *words], check=True, capture_output=True)


SERVE = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7777))
while True:
    data, peer = s.recvfrom(2000)
    s.sendto(data, peer)
"""
ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.5)
answered = 0
end = time.monotonic() + 15
while answered < 5 and time.monotonic() < end:
    s.sendto(b"x" * 1200, (sys.argv[1], 7777))
    try:
        answered += s.recvfrom(2000)[0] == b"x" * 1200
    except TimeoutError:
        pass
sys.exit(answered < 5)
"""


def echo_answers(near: str, far: str, address: str) -> bool:
    """Whether UDP of 1200 octets comes back from a server in `far`."""
    enter = ["ip", "netns", "exec"]
    server = subprocess.Popen([*enter, far, sys.executable, "-c", SERVE])
    try:
        asked = subprocess.run([*enter, near, sys.executable, "-c", ASK, address], check=False)
        return asked.returncode == 0
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bridges(switch: Switch) -> Iterator[tuple[str, str]]:
    """Far ends of port 1 of either bridge: of the overlay and of the underlay."""
    with ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(2)]
        for bridge, pair in zip((OVER, UNDER), pairs, strict=True):
            switch.vsctl("add-br", bridge)
            switch.vsctl(
                *("add-port", bridge, pair.near, "--", "set", "Interface", pair.near),
                *("type=system", "ofport_request=1"),
            )
        yield pairs[0].far, pairs[1].far
        for bridge in (OVER, UNDER):
            switch.vsctl("--if-exists", "del-br", bridge)


def add_tunnel(switch: Switch, kind: str, *options: str) -> None:
    switch.vsctl(
        *("add-port", OVER, TUNNEL, "--", "set", "Interface", TUNNEL, f"type={kind}"),
        *("ofport_request=10", *(f"options:{option}" for option in options)),
    )
    assert switch.interface(TUNNEL, "ofport") == 10


def drops(switch: Switch, bridge: str) -> dict[str, int]:
    (found,) = [lsi for lsi in switch.call("drops")["lsis"] if lsi["name"] == bridge]
    return dict(found["drops"])


def add_kernel_end(name: str, device: str, *words: str) -> None:
    """A tunnel device `tun` in a namespace; a skip where the kernel has none of this type."""
    made = subprocess.run(
        ["ip", "-n", name, "link", "add", "tun", "type", device, *words],
        check=False,
        capture_output=True,
        text=True,
    )
    if "Unknown device type" in made.stderr:
        pytest.skip(f"this kernel has no {device} devices")
    assert made.returncode == 0, made.stderr
    ip("-n", name, "addr", "add", "10.9.0.2/24", "dev", "tun")
    ip("-n", name, "link", "set", "tun", "mtu", "1400", "up")


@dataclass(frozen=True)
class KernelTunnel:
    """A kernel's tunnel device, and our port that talks to it."""

    kind: str
    device: str
    ipv6: bool
    stock: bool  # our address is the kernel's, as with OVS; else nobody's, and the switch answers

    def __str__(self) -> str:
        version = "ipv6" if self.ipv6 else "ipv4"
        return f"{self.device}-{version}-{'stock' if self.stock else 'underlay'}"


KERNEL_TUNNELS = [
    *(KernelTunnel("vxlan", "vxlan", v6, stock) for v6 in (False, True) for stock in (False, True)),
    KernelTunnel("gre", "gretap", ipv6=False, stock=False),
    KernelTunnel("gre", "ip6gretap", ipv6=True, stock=False),
]


@pytest.mark.parametrize("tunnel", KERNEL_TUNNELS, ids=str)
def test_talk_to_the_kernel(switch: Switch, bridges: tuple[str, str], tunnel: KernelTunnel) -> None:
    inside, below = bridges
    ours, theirs, width = (NEAR6, FAR6, 64) if tunnel.ipv6 else (NEAR, FAR, 24)
    no_dad = ("nodad",) if tunnel.ipv6 else ()
    with namespace(inside, "10.9.0.1/24") as near, namespace(below, "10.8.0.1/24") as far:
        ip("-n", far, "addr", "add", f"{theirs}/{width}", "dev", below, *no_dad)
        own = ("id", "42", "dstport", "4789") if tunnel.kind == "vxlan" else ("key", "42")
        add_kernel_end(far, tunnel.device, *own, "local", theirs, "remote", ours)
        # Over IPv6 the kernel takes no UDP without a checksum unless told to.
        options = ["key=42", *(["csum=true"] if tunnel.ipv6 else [])]
        if tunnel.stock:
            ip("addr", "add", f"{ours}/{width}", "dev", UNDER, *no_dad)
            ip("link", "set", UNDER, "up")
        else:
            options += [f"local_ip={ours}", f"underlay={UNDER}"]
        add_tunnel(switch, tunnel.kind, f"remote_ip={theirs}", *options)
        for name, interface in ((near, inside), (far, below), (far, "tun")):
            run_in(name, "ethtool", "-K", interface, "tx", "off")
        assert echo_answers(near, far, "10.9.0.2"), switch.call("drops")
        status = switch.interface(TUNNEL, "status")
        assert dict(status[1])["tunnel_egress_iface"] == UNDER
        counted = switch.ofctl("dump-ports", OVER, "10")
        packets = [int(number) for number in re.findall(r"[rt]x pkts=(\d+)", counted)]
        assert len(packets) == 2 and min(packets) >= 5


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_by_bytes(switch: Switch, bridges: tuple[str, str], kind: Kind) -> None:
    with ExitStack() as stack:
        inside, below = (RawPort(far) for far in bridges)
        stack.callback(inside.close)
        stack.callback(below.close)
        for bridge in (OVER, UNDER):
            switch.ofctl("del-flows", bridge)
        options = (f"local_ip={NEAR}", f"underlay={UNDER}", "remote_mac=02:00:00:00:07:02")
        add_tunnel(switch, kind.name.lower(), f"remote_ip={FAR}", "key=77", *options)
        switch.ofctl("add-flow", OVER, "in_port=1,actions=output:10")
        switch.ofctl("add-flow", OVER, f"in_port=10,tun_id=77,tun_src={FAR},actions=output:1")
        switch.ofctl("add-flow", UNDER, "in_port=LOCAL,actions=output:1")
        switch.ofctl("add-flow", UNDER, "in_port=1,actions=LOCAL")
        inside.receive(100, 0.2)  # noise of interfaces that come up
        below.receive(100, 0.2)

        inside.send(INNER)
        (sent,) = below.receive(1)
        expected = outer(kind, 77, NEAR, FAR)
        assert sent[:6] == mac("02:00:00:00:07:02")
        start = 38 if kind is Kind.GRE else 36  # the UDP source port is the flow's
        assert sent[14:34] == expected[14:34]
        assert sent[start:] == expected[start:]

        below.send(outer(kind, 77, FAR, NEAR))
        below.send(outer(kind, 78, FAR, NEAR))
        below.send(outer(kind, 77, "192.168.7.9", NEAR))
        (arrived,) = inside.receive(1)
        assert arrived[12:] == INNER[12:] and arrived[14:] == INNER[14:]
        assert carried(kind) in arrived
        assert inside.silence() == []
        assert drops(switch, UNDER) == {"tunnel-unknown": 2}


def test_remote_and_key_by_flow(switch: Switch, bridges: tuple[str, str]) -> None:
    with ExitStack() as stack:
        inside, below = (RawPort(far) for far in bridges)
        stack.callback(inside.close)
        stack.callback(below.close)
        for bridge in (OVER, UNDER):
            switch.ofctl("del-flows", bridge)
        add_tunnel(
            switch, "vxlan", "remote_ip=flow", "key=flow", f"local_ip={NEAR}", f"underlay={UNDER}"
        )
        to_tunnel = f"set_field:5->tun_id,set_field:{FAR}->tun_dst,output:10"
        switch.ofctl("add-flow", OVER, f"in_port=1,actions={to_tunnel}")
        switch.ofctl("add-flow", OVER, f"in_port=10,tun_id=9,tun_src={FAR},actions=output:1")
        switch.ofctl("add-flow", UNDER, "in_port=LOCAL,actions=output:1")
        switch.ofctl("add-flow", UNDER, "in_port=1,actions=LOCAL")
        below.receive(100, 0.2)

        inside.send(INNER)  # lost, but now the switch asks for the far end
        (request,) = [f for f in below.receive(3, 1.5) if f[12:14] == b"\x08\x06"][:1]
        assert request[28:32] == bytes(int(part) for part in NEAR.split("."))
        assert request[38:42] == bytes(int(part) for part in FAR.split("."))
        reply = request[6:12] + mac("02:00:00:00:07:02") + request[12:20] + b"\0\2"
        reply += mac("02:00:00:00:07:02") + request[38:42] + request[22:32]
        below.send(reply.ljust(60, b"\0"))
        deadline = time.monotonic() + 5
        sent: list[bytes] = []
        while not sent and time.monotonic() < deadline:
            inside.send(INNER)
            sent = [f for f in below.receive(1, 0.3) if f[12:14] == b"\x08\x00"]
        assert sent[0][42:50] == struct.pack("!II", 0x08000000, 5 << 8)
        assert sent[0][50:] == INNER

        below.send(outer(Kind.VXLAN, 9, FAR, NEAR))
        assert udp_frame(size=100) in inside.receive(2, 1.0)
        assert "tunnel-unresolved" in drops(switch, OVER)


@pytest.mark.parametrize("checksum", [False, True], ids=["plain", "csum"])
def test_local_by_flow(switch: Switch, bridges: tuple[str, str], checksum: bool) -> None:
    """`local_ip=flow`: a packet's tun_src is its outer source; without one it is the underlay's."""
    ip("addr", "add", f"{NEAR}/24", "dev", UNDER)
    with ExitStack() as stack:
        inside, below = (RawPort(far) for far in bridges)
        stack.callback(inside.close)
        stack.callback(below.close)
        for bridge in (OVER, UNDER):
            switch.ofctl("del-flows", bridge)
        options = (f"remote_ip={FAR}", "local_ip=flow", f"csum={checksum}".lower())
        add_tunnel(switch, "vxlan", *options, "remote_mac=02:00:00:00:07:02")
        switch.ofctl("add-flow", UNDER, "in_port=LOCAL,actions=output:1")
        below.receive(100, 0.2)
        for actions, source in (
            ("set_field:192.168.7.99->tun_src,output:10", "192.168.7.99"),
            ("output:10", NEAR),
        ):
            switch.ofctl("add-flow", OVER, f"in_port=1,actions={actions}")
            inside.send(INNER)
            (sent,) = below.receive(1)
            assert sent[26:30] == ipaddress.ip_address(source).packed
            assert internet_checksum(sent[14:34]) == 0
            assert sent[50:] == INNER
            if checksum:
                pseudo = sent[26:34] + struct.pack("!BBH", 0, 17, len(sent) - 34)
                assert internet_checksum(pseudo + sent[34:]) == 0
            else:
                assert sent[40:42] == b"\0\0"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("remote_ip=nowhere", "it must be an IP address or `flow`"),
        ("remote_ip=239.1.1.1", "a multicast address can't be a tunnel's far end"),
        ("key=16777216", "options:key is '16777216': it must be `flow` or a number to 16777215"),
        ("out_key=x", "options:out_key is 'x'"),
        ("ttl=0", "it must be a number from 1 to 255"),
        ("exts=gbp", "exts"),
        ("gateway=fd00::1", "not of the IP version of the tunnel"),
    ],
)
def test_bad_options_are_named(
    switch: Switch, bridges: tuple[str, str], option: str, words: str
) -> None:
    assert len(bridges) == 2
    first = () if option.startswith("remote_ip") else (f"options:remote_ip={FAR}",)
    switch.vsctl(
        *("add-port", OVER, TUNNEL, "--", "set", "Interface", TUNNEL, "type=vxlan"),
        *(*first, f"options:{option}"),
    )
    assert words in switch.interface(TUNNEL, "error")


def test_routes_and_neighbors_of_the_kernel(switch: Switch, bridges: tuple[str, str]) -> None:
    """Source, next hop and its MAC are the kernel's, and follow what it changes."""
    inside, below = (RawPort(far) for far in bridges)
    with ExitStack() as stack:
        stack.callback(inside.close)
        stack.callback(below.close)
        switch.ofctl("del-flows", OVER)
        switch.ofctl("add-flow", OVER, "in_port=1,actions=output:10")
        switch.ofctl("del-flows", UNDER)
        switch.ofctl("add-flow", UNDER, "in_port=LOCAL,actions=output:1")
        ip("addr", "add", "198.18.71.1/24", "dev", UNDER)
        ip("link", "set", UNDER, "up")
        first, second = ("198.18.71.2", "02:00:00:00:71:02"), ("198.18.71.3", "02:00:00:00:71:03")
        for gateway, lladdr in (first, second):
            by = ("lladdr", lladdr, "dev", UNDER, "nud", "permanent")
            ip("neigh", "replace", gateway, *by)
        add_tunnel(switch, "vxlan", "remote_ip=198.19.71.9", "key=7")

        def carried_to(lladdr: str, source: str) -> None:
            def seen() -> bool:
                inside.send(INNER)
                sent = below.receive(1, 0.2)
                return any(
                    each[:6] == mac(lladdr) and each[26:30] == ipaddress.ip_address(source).packed
                    for each in sent
                )

            assert switch.process is not None
            switch.process.wait_until(seen)

        for gateway, lladdr in (first, second):
            ip("route", "replace", "198.19.71.0/24", "via", gateway)
            carried_to(lladdr, "198.18.71.1")
        ip("neigh", "change", second[0], "lladdr", first[1], "dev", UNDER, "nud", "permanent")
        carried_to(first[1], "198.18.71.1")
        ip("addr", "add", "198.18.71.5/24", "dev", UNDER)
        words = ("via", second[0], "src", "198.18.71.5")
        ip("route", "replace", "198.19.71.0/24", *words)
        carried_to(first[1], "198.18.71.5")
