# SPDX-License-Identifier: Apache-2.0
"""Table Mirror, with ovs-vsctl outside and real frames inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk, pytest.mark.timeout(120)]


@dataclass
class Wired:
    """A bridge with kernel ports 0..3; 0 and 1 send to each other."""

    switch: Switch
    bridge: str
    names: list[str]
    far: list[RawPort]

    def mirror(self, *columns: str, output: int | None = 2) -> None:
        """Replaces the bridge's mirrors by one, as ovs-vsctl(8) shows it."""
        ids = [word for port in self.names for word in ("--id=@" + port, "get", "Port", port, "--")]
        target = [] if output is None else [f"output_port=@{self.names[output]}"]
        self.switch.vsctl(
            *ids, "--id=@m", "create", "Mirror", "name=m", *target, *columns, "--",
            "set", "Bridge", self.bridge, "mirrors=@m",
        )  # fmt: skip

    def heard(self, sender: int, *frames: bytes) -> list[list[bytes]]:
        """What each port gets of frames that one of them sends."""
        for frame in frames:
            self.far[sender].send(frame)
        return [port.silence(0.2) for port in self.far]

    def statistics(self) -> dict[str, int]:
        """The mirror's column `statistics`."""
        text = self.switch.vsctl("get", "Mirror", "m", "statistics").strip("{}")
        pairs = [each.split("=") for each in text.split(", ") if each]
        return {key: int(value) for key, value in pairs}

    def error(self) -> str:
        """What the bridge says is wrong."""
        status = self.switch.vsctl("get", "Bridge", self.bridge, "status")
        return "" if status == "{}" else status


@pytest.fixture
def wired(switch: Switch) -> Iterator[Wired]:
    bridge = unique_bridge()
    with ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(4)]
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        for number, pair in enumerate(pairs, start=1):
            switch.vsctl(
                "add-port", bridge, pair.near, "--", "set", "Interface", pair.near, "type=system",
                f"ofport_request={number}",
            )  # fmt: skip
        switch.ofctl("add-flow", bridge, "in_port=1,actions=mod_dl_src:02:00:00:00:00:ff,output:2")
        switch.ofctl("add-flow", bridge, "in_port=2,actions=output:1")
        far = [RawPort(pair.far) for pair in pairs]
        for port in far:
            stack.callback(port.close)
        stack.callback(switch.vsctl, "del-br", bridge)
        yield Wired(switch, bridge, [pair.near for pair in pairs], far)


def rewritten(frame: bytes) -> bytes:
    """The frame as port 1 (number 2) gets it."""
    return frame[:6] + bytes.fromhex("0200000000ff") + frame[12:]


def test_a_mirror_copies_what_its_columns_select(wired: Wired) -> None:
    frame = udp_frame(size=100)
    wired.mirror(f"select_src_port=@{wired.names[0]}")
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [frame], []]
    assert wired.heard(1, frame) == [[frame], [], [], []]
    wired.mirror(f"select_dst_port=@{wired.names[0]},@{wired.names[1]}")
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [rewritten(frame)], []]
    assert wired.heard(1, frame) == [[frame], [], [frame], []]
    wired.mirror("select_all=true", "snaplen=60")
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [frame[:60]], []]
    wired.mirror("select_all=true", "select_vlan=7")
    tagged = udp_frame(vlan=7, size=100)
    assert wired.heard(0, frame, tagged) == [
        [], [rewritten(frame), rewritten(tagged)], [tagged], [],
    ]  # fmt: skip
    assert wired.error() == ""
    wired.switch.vsctl("clear", "Bridge", wired.bridge, "mirrors")
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [], []]


def test_statistics_count_what_it_sent(wired: Wired) -> None:
    wired.mirror("select_all=true", "snaplen=80")
    wired.heard(0, *[udp_frame(size=100)] * 10, udp_frame(size=60))
    assert wired.switch.process is not None
    wired.switch.process.wait_until(  # they are written every 5 s
        lambda: wired.statistics() == {"tx_packets": 11, "tx_bytes": 10 * 80 + 60}
    )


def test_the_output_port_serves_nothing_else(wired: Wired) -> None:
    frame = udp_frame()
    wired.switch.ofctl("add-flow", wired.bridge, "in_port=4,actions=output:3")
    wired.switch.ofctl("add-flow", wired.bridge, "in_port=3,actions=output:4")
    wired.mirror(f"select_src_port=@{wired.names[0]}")
    assert wired.heard(3, frame) == [[], [], [], []]
    assert wired.heard(2, frame) == [[], [], [], []]
    assert wired.switch.process is not None
    wired.switch.process.wait_until(
        lambda: wired.switch.call("drops")["lsis"][0]["drops"].get("mirror-port") == 2
    )
    wired.switch.vsctl("clear", "Bridge", wired.bridge, "mirrors")
    assert wired.heard(3, frame) == [[], [], [frame], []]
    assert wired.heard(2, frame) == [[], [], [], [frame]]


def test_copies_go_into_a_vlan(wired: Wired) -> None:
    frame = udp_frame(size=100)
    wired.switch.vsctl("set", "Port", wired.names[1], "trunks=5")
    wired.switch.vsctl("set", "Port", wired.names[3], "tag=99")
    wired.mirror(f"select_src_port=@{wired.names[0]}", "output_vlan=99", output=None)
    copy = frame[:12] + bytes.fromhex("81000063") + frame[12:]
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [copy], [frame]]


def test_copies_leave_by_a_tunnel(wired: Wired) -> None:
    wired.switch.vsctl(
        "add-port", wired.bridge, "span", "--", "set", "Interface", "span", "type=gre",
        "ofport_request=9", "options:remote_ip=192.0.2.2", "options:local_ip=192.0.2.1",
        "options:remote_mac=02:00:00:00:00:99",
    )  # fmt: skip
    wired.names.append("span")
    wired.switch.ofctl("add-flow", wired.bridge, "in_port=LOCAL,actions=output:4")
    wired.mirror(f"select_dst_port=@{wired.names[1]}", output=4)
    frame = udp_frame(size=100)
    heard = wired.heard(0, frame)
    assert heard[1] == [rewritten(frame)]
    (outer,) = heard[3]
    assert outer[:6] == bytes.fromhex("020000000099")
    assert outer[23] == 47, "GRE"
    assert outer[14 + 20 + 4 :] == rewritten(frame)


def test_what_makes_no_mirror_says_so(wired: Wired) -> None:
    frame = udp_frame()
    wired.mirror("select_all=true", output=None)
    assert "mirror m: it has neither output_port nor output_vlan" in wired.error()
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [], []]
    wired.mirror("select_all=true", "output_vlan=9")
    assert "output_vlan has no effect together with output_port" in wired.error()
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [frame], []]
    wired.mirror("select_vlan=9")
    assert "set select_all too" in wired.error()
    other = unique_bridge()
    wired.switch.vsctl("add-br", other)
    wired.names.append(other)
    wired.mirror(f"select_src_port=@{other}")
    wired.names.pop()
    assert "select_src_port names a port of another bridge" in wired.error()
    wired.switch.vsctl("del-br", other)
    wired.mirror(f"select_src_port=@{wired.names[0]}")
    assert wired.error() == ""


def test_an_output_port_may_be_made_anew(wired: Wired) -> None:
    frame = udp_frame()
    wired.mirror(f"select_src_port=@{wired.names[0]}")
    span = wired.names[2]
    wired.switch.vsctl("set", "Interface", span, "options:mode=wrong")
    assert f"mirror m: port {span} could not be made" in wired.error()
    wired.switch.vsctl("remove", "Interface", span, "options", "mode")
    assert wired.error() == ""
    assert wired.heard(0, frame) == [[], [rewritten(frame)], [frame], []]
