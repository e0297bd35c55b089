# SPDX-License-Identifier: Apache-2.0
"""VLAN columns of ports, with ovs-vsctl outside and tagged frames inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BROADCAST = "ff:ff:ff:ff:ff:ff"


@dataclass
class Wired:
    """A learning bridge with three kernel ports and their far ends."""

    switch: Switch
    names: list[str]
    far: list[RawPort]

    def set(self, port: int, *columns: str) -> None:
        """Sets columns of a Port row."""
        self.switch.vsctl("set", "Port", self.names[port], *columns)

    def status(self, port: int) -> str:
        """The status column of a Port row."""
        return self.switch.vsctl("get", "Port", self.names[port], "status")

    def heard(self, sender: int, frame: bytes) -> list[list[bytes]]:
        """What each port gets of a frame that one of them sends."""
        self.far[sender].send(frame)
        return [port.silence(0.2) for port in self.far]


@pytest.fixture
def wired(switch: Switch) -> Iterator[Wired]:
    bridge = unique_bridge()
    with ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(3)]
        switch.vsctl("add-br", bridge)  # standalone: NORMAL
        for pair in pairs:
            switch.vsctl(
                "add-port", bridge, pair.near, "--", "set", "Interface", pair.near, "type=system"
            )
        far = [RawPort(pair.far) for pair in pairs]
        for port in far:
            stack.callback(port.close)
        stack.callback(switch.vsctl, "del-br", bridge)
        yield Wired(switch, [pair.near for pair in pairs], far)


def frame(vlan: int | None = None) -> bytes:
    """Nobody's address, so that every port of its VLAN gets it."""
    return udp_frame(eth_dst=BROADCAST, vlan=vlan, size=60 if vlan is None else 64)


def test_modes_follow_their_columns_while_traffic_runs(wired: Wired) -> None:
    assert wired.heard(0, frame()) == [[], [frame()], [frame()]]
    wired.set(0, "tag=10")
    wired.set(1, "tag=20")
    assert wired.heard(0, frame()) == [[], [], [frame(10)]], "access; another VLAN; a trunk"
    assert wired.heard(2, frame(20)) == [[], [frame()], []]
    wired.set(1, "tag=10", "vlan_mode=native-tagged")
    assert wired.heard(0, frame()) == [[], [frame(10)], [frame(10)]]
    wired.set(1, "vlan_mode=native-untagged", "trunks=11,12")
    assert wired.heard(0, frame()) == [[], [frame()], [frame(10)]]
    assert wired.heard(2, frame(11)) == [[], [frame(11)], []]
    assert wired.heard(2, frame(13)) == [[], [], []]
    wired.set(2, "vlan_mode=trunk", "trunks=13")
    assert wired.heard(0, frame()) == [[], [frame()], []]
    drops = wired.switch.call("drops")["lsis"][0]["drops"]
    assert "vlan-refused" not in drops
    assert wired.heard(2, frame(14)) == [[], [], []]
    assert wired.switch.call("drops")["lsis"][0]["drops"]["vlan-refused"] == 1
    for port in range(3):
        assert wired.status(port) == "{}", "all of this is served"


def test_what_is_not_served_says_so(wired: Wired) -> None:
    port = wired.names[0]
    wired.set(0, "tag=10", "trunks=11", "lacp=active", "other_config:stp-enable=false")
    status = wired.status(0)
    for column in ("trunks", "lacp=active", "other_config:stp-enable"):
        assert column in status
    wired.set(0, "vlan_mode=dot1q-tunnel")
    assert "dot1q-tunnel" in wired.status(0)
    assert "dot1q-tunnel" in wired.switch.interface(port, "error")
    assert wired.switch.interface(port, "ofport") == -1
    for column in ("tag", "trunks", "lacp", "vlan_mode", "other_config"):
        wired.switch.vsctl("clear", "Port", port, column)
    assert wired.status(0) == "{}"
    assert wired.switch.interface(port, "error") == ["set", []]
    assert wired.heard(0, frame()) == [[], [frame()], [frame()]]
