# SPDX-License-Identifier: Apache-2.0
"""Ports on kernel interfaces as the kernel is by default: checksums and segments left to the
device, VLAN tags beside the frame, and taps that are moved into network namespaces."""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.namespaces import Namespace
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

# The host answers for its own addresses at any interface, so the test's are to be nobody's else.
SUBNET = f"100.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"
CLIENT = f"{SUBNET}.1"
SERVER = f"{SUBNET}.2"
VIRTUAL = f"{SUBNET}.99"
PORT = 5201
OCTETS = 20_000_000


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for something that the system does by itself."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, f"waited for: {what}"
        time.sleep(0.05)


@contextmanager
def _tcp_server(at: Namespace) -> Iterator[None]:
    """An iperf3 server that listens."""
    server = at.start("iperf3", "-s", "-p", str(PORT))
    try:
        until(lambda: f":{PORT}" in at.run("ss", "-Hltn"), "iperf3 listens")
        yield
    finally:
        server.terminate()
        server.communicate(timeout=10)


def _transfer(client: Namespace, to: str, *options: str, port: int = PORT) -> int:
    """Sends OCTETS by TCP; what the other side had received when the last were sent.

    The sockets' buffers are bounded: left to Linux they grow to hold half of OCTETS, unread.
    """
    words = ["iperf3", "-c", to, "-p", str(port), "-n", str(OCTETS), "-w", "200K"]
    words += ["--connect-timeout", "5000"]
    report = json.loads(client.run(*words, "-J", *options))
    assert "error" not in report, report["error"]
    return int(report["end"]["sum_received"]["bytes"])


class Wire:
    """A bridge with two ports, whose other ends are in namespaces of their own."""

    def __init__(self, switch: Switch, left: str, right: str) -> None:
        self.switch = switch
        self.bridge = unique_bridge()
        self._kinds = (left, right)
        self._all = ExitStack()
        self.ports: list[str] = []
        self.namespaces: list[Namespace] = []

    def __enter__(self) -> Wire:
        self.switch.vsctl(
            "add-br", self.bridge, "--", "set", "Bridge", self.bridge, "datapath_type=netdev"
        )
        self._all.callback(self.switch.vsctl, "--if-exists", "del-br", self.bridge)
        for kind, address in zip(self._kinds, (CLIENT, SERVER), strict=True):
            namespace = self._all.enter_context(Namespace())
            self.namespaces.append(namespace)
            if kind in {"system", "af_xdp"}:
                pair = self._all.enter_context(VethPair())
                mode = ["options:mode=af_xdp"] if kind == "af_xdp" else []
                self._add(pair.near, "type=system", *mode)
                namespace.take(pair.far, f"{address}/24")
                if mode:
                    # What AF_XDP delivers has no notes beside it.
                    namespace.run("ethtool", "-K", pair.far, "tx", "off", "rx", "off")
                self.ports.append(pair.near)
                continue
            name = f"{unique_bridge()}t"
            self._add(name, f"type={kind}")
            self.ports.append(name)
            namespace.take(name, f"{address}/24")
        for port in self.ports:
            self.wait_for_link(port, "up")
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def wait_for_link(self, port: str, state: str) -> None:
        """Waits until the database says that a port's link is `up` or `down`."""
        until(lambda: self.switch.interface(port, "link_state") == state, f"{port}: {state}")

    def _add(self, port: str, *settings: str) -> None:
        self.switch.vsctl("add-port", self.bridge, port, "--", "set", "Interface", port, *settings)


@pytest.mark.parametrize(
    ("left", "right"), [("system", "system"), ("tap", "system"), ("internal", "tap")]
)
def test_tcp_with_default_offloads_crosses_in_whole_segments(
    switch: Switch, left: str, right: str
) -> None:
    with Wire(switch, left, right) as wire, _tcp_server(wire.namespaces[1]):
        client = wire.namespaces[0]
        assert _transfer(client, SERVER) > 0.8 * OCTETS
        assert _transfer(client, SERVER, "-R") > 0.8 * OCTETS
        number = int(switch.interface(wire.ports[0], "ofport"))
        line = switch.ofctl("dump-ports", wire.bridge, str(number))
        packets, octets = (
            int(line.split(f"{word}=")[1].split(",")[0]) for word in ("pkts", "bytes")
        )
        assert octets / packets > 3000, line


def test_an_exit_that_cannot_gets_segments_with_checksums(switch: Switch) -> None:
    """The receiver's interface is told to believe no checksum, and takes frames of 1514 octets."""
    with Wire(switch, "system", "af_xdp") as wire, _tcp_server(wire.namespaces[1]):
        assert _transfer(wire.namespaces[0], SERVER) > 0.8 * OCTETS
        before = wire.namespaces[1].run("cat", "/proc/net/snmp")
        values = [line.split() for line in before.splitlines() if line.startswith("Tcp:")]
        assert dict(zip(*values, strict=True))["InCsumErrors"] == "0"
        received = [line.split() for line in before.splitlines() if line.startswith("Ip:")]
        packets = int(dict(zip(*received, strict=True))["InReceives"])
        assert packets > OCTETS / 1500 * 0.8


def test_a_link_is_seen_when_it_changes(switch: Switch) -> None:
    """Not at the next turn of the housekeeping: what a port sends before would be dropped."""
    with Wire(switch, "system", "system") as wire:
        (far,) = json.loads(wire.namespaces[0].run("ip", "-json", "link", "show", "type", "veth"))

        def resets() -> int:
            return int(switch.interface(wire.ports[0], "link_resets"))

        before, changes = resets(), 40
        for number in range(changes):
            state = "up" if number % 2 else "down"
            wire.namespaces[0].run("ip", "link", "set", far["ifname"], state)
            time.sleep(0.01)
        until(lambda: resets() > before + changes // 2, "most of the changes")


def test_packets_of_any_size_cross(switch: Switch) -> None:
    with Wire(switch, "system", "tap") as wire:
        until(lambda: _ping(wire, 4000), "a ping in fragments")
        until(lambda: _ping(wire, 1), "a short ping")


def test_addresses_and_ports_are_rewritten_under_checksums_that_are_left(switch: Switch) -> None:
    """The far end is an interface whose stack checks every checksum."""
    with Wire(switch, "system", "system") as wire, _tcp_server(wire.namespaces[1]):
        client, server = wire.namespaces
        far = json.loads(server.run("ip", "-json", "link", "show", "type", "veth"))[0]
        server.run("ethtool", "-K", far["ifname"], "rx", "off", "tx", "off")
        client.run(
            "ip", "neigh", "add", VIRTUAL, "lladdr", far["address"], "dev",
            json.loads(client.run("ip", "-json", "link", "show", "type", "veth"))[0]["ifname"],
        )  # fmt: skip
        switch.ofctl(
            "add-flow", wire.bridge,
            f"priority=10,tcp,nw_dst={VIRTUAL},tp_dst=80,"
            f"actions=set_field:{SERVER}->ip_dst,set_field:{PORT}->tcp_dst,normal",
        )  # fmt: skip
        switch.ofctl(
            "add-flow", wire.bridge,
            f"priority=10,tcp,nw_src={SERVER},tp_src={PORT},"
            f"actions=set_field:{VIRTUAL}->ip_src,set_field:80->tcp_src,normal",
        )  # fmt: skip
        assert _transfer(client, VIRTUAL, port=80) > 0.8 * OCTETS


@pytest.fixture
def raw_wire(switch: Switch) -> Iterator[tuple[RawPort, RawPort]]:
    """The far ends of two system ports of one bridge."""
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge)
    with VethPair() as one, VethPair() as other, ExitStack() as closed:
        for pair in (one, other):
            switch.vsctl("add-port", bridge, pair.near, "--", "set", "Interface", pair.near,
                         "type=system")  # fmt: skip
        ends = (RawPort(one.far), RawPort(other.far))
        for end in ends:
            closed.callback(end.close)
        switch.ofctl("del-flows", bridge)
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        yield ends
        switch.vsctl("del-br", bridge)


def _ipv4(fragment: int, payload: bytes) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 7, fragment, 64, 17, 0)
    head += bytes([192, 0, 2, 1, 192, 0, 2, 2])
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", 0xFFFF - total) + head[12:] + payload


ADDRESSES = bytes.fromhex("020000000002 020000000001")


@pytest.mark.parametrize("tpid", [0x8100, 0x88A8])
def test_a_tag_keeps_its_tpid(raw_wire: tuple[RawPort, RawPort], tpid: int) -> None:
    frame = ADDRESSES + struct.pack("!HHHHH", tpid, 0x2007, 0x8100, 5, 0x0800)
    frame += _ipv4(0, bytes(60))
    raw_wire[0].send(frame)
    assert raw_wire[1].receive(1) == [frame]


def test_a_fragment_alone_passes(raw_wire: tuple[RawPort, RawPort]) -> None:
    more_fragments = 0x2000
    frame = ADDRESSES + b"\x08\x00" + _ipv4(more_fragments, bytes(64))
    raw_wire[0].send(frame)
    assert raw_wire[1].receive(1) == [frame]


def _ping(wire: Wire, octets: int = 56) -> bool:
    words = ("busybox", "ping", "-c", "1", "-W", "1", "-s", str(octets), SERVER)
    try:
        wire.namespaces[0].run(*words)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_tap_in_a_namespace_outlives_the_switch(switch: Switch, how: signal.Signals) -> None:
    with Wire(switch, "system", "internal") as wire:
        moved, there = wire.ports[1], wire.namespaces[1]
        until(lambda: _ping(wire), "ping into the namespace")
        before = there.link(moved)
        assert switch.interface(moved, "error") == ["set", []]
        until(lambda: switch.interface(moved, "mac_in_use") == before["address"], "its address")
        switch.stop_switch(how)
        switch.start_switch()
        until(lambda: _ping(wire), "ping after a restart")
        after = there.link(moved)
        assert (after["address"], after["ifindex"]) == (before["address"], before["ifindex"])
        switch.vsctl("del-port", wire.bridge, moved)
        with pytest.raises(AssertionError, match="does not exist"):
            there.link(moved)


def test_a_tap_is_followed_under_another_name_and_back(switch: Switch) -> None:
    with Wire(switch, "system", "tap") as wire:
        moved, there = wire.ports[1], wire.namespaces[1]
        there.run("ip", "link", "set", moved, "down")
        wire.wait_for_link(moved, "down")
        there.run("ip", "link", "set", moved, "name", "eth0")
        there.run("ip", "link", "set", "eth0", "up")
        wire.wait_for_link(moved, "up")
        until(lambda: _ping(wire), "ping to eth0")
