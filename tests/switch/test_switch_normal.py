# SPDX-License-Identifier: Apache-2.0
"""What a bridge's other_config says of NORMAL and of its own interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

LACP = udp_frame(eth_dst="01:80:c2:00:00:02")


@dataclass
class Learning:
    """A standalone bridge with two kernel ports, and their far ends."""

    switch: Switch
    bridge: str
    far: tuple[RawPort, RawPort]

    def config(self, *settings: str) -> str:
        """Sets keys of other_config; the error that the bridge then has, or ""."""
        self.switch.vsctl(
            *("set", "Bridge", self.bridge),
            *(f"other_config:{setting}" for setting in settings),
        )
        # `status` is written when the columns have been applied, as cur_cfg is.
        return self.switch.vsctl("--if-exists", "get", "Bridge", self.bridge, "status:error")


@pytest.fixture
def learning(switch: Switch) -> Iterator[Learning]:
    with ExitStack() as stack:
        bridge = unique_bridge()
        pairs = [stack.enter_context(VethPair()) for _ in range(2)]
        switch.vsctl("add-br", bridge)
        for pair in pairs:
            switch.vsctl("add-port", bridge, pair.near)
        far = [RawPort(pair.far) for pair in pairs]
        for port in far:
            stack.callback(port.close)
        stack.callback(switch.vsctl, "del-br", bridge)
        yield Learning(switch, bridge, (far[0], far[1]))


def test_bridge_protocols_pass_only_if_asked_for(learning: Learning) -> None:
    one, two = learning.far
    one.send(LACP)
    one.send(udp_frame())
    assert two.receive(1) == [udp_frame()]
    drops = learning.switch.call("drops")["lsis"][0]["drops"]
    assert drops["reserved-address"] == 1
    assert learning.config("forward-bpdu=true") == ""
    one.send(LACP)
    assert two.receive(1) == [LACP]


def test_the_age_of_addresses_has_bounds(learning: Learning) -> None:
    assert learning.config("mac-aging-time=15") == ""
    for bad in ("14", "3601", "soon"):
        assert "is not 15 to 3600 seconds" in learning.config(f"mac-aging-time={bad}")
    assert learning.config("mac-aging-time=3600") == ""


def test_the_bridge_has_the_address_that_it_is_given(learning: Learning) -> None:
    switch, bridge = learning.switch, learning.bridge
    assert learning.config("hwaddr=02:11:22:33:44:55") == ""
    assert switch.interface(bridge, "mac_in_use") == "02:11:22:33:44:55"
    assert "addr:02:11:22:33:44:55" in switch.ofctl("show", bridge)
    switch.vsctl("set", "Interface", bridge, 'mac="02:11:22:33:44:66"')
    assert switch.interface(bridge, "mac_in_use") == "02:11:22:33:44:66"
