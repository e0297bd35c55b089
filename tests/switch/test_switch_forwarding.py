# SPDX-License-Identifier: Apache-2.0
"""The switch from end to end: stock tools outside, real packets through it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.support.frames import mac, udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]


BR0 = unique_bridge()
BR1 = unique_bridge()


@dataclass
class Wired:
    """A bridge BR0 with two kernel ports, 1 and 2, and the far ends of both."""

    switch: Switch
    names: tuple[str, str]
    far: tuple[RawPort, RawPort]


@pytest.fixture
def wired(switch: Switch) -> Iterator[Wired]:
    with ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(2)]
        # No internal port of the bridge sends frames of its own: `secure`, and rules of ours only.
        switch.vsctl("add-br", BR0, "--", "set", "Bridge", BR0, "fail-mode=secure")
        for number, pair in enumerate(pairs, start=1):
            switch.vsctl(
                "add-port",
                BR0,
                pair.near,
                "--",
                "set",
                "Interface",
                pair.near,
                "type=system",
                f"ofport_request={number}",
            )
        far = tuple(RawPort(pair.far) for pair in pairs)
        for port in far:
            stack.callback(port.close)
        yield Wired(switch, (pairs[0].near, pairs[1].near), (far[0], far[1]))
        for pair in pairs:
            switch.vsctl("del-port", BR0, pair.near)


def flow_packets(switch: Switch, needle: str) -> int:
    """n_packets of the one flow whose line has `needle`."""
    lines = [line for line in switch.ofctl("dump-flows", BR0).splitlines() if needle in line]
    assert len(lines) == 1, lines
    found = re.search(r"n_packets=(\d+)", lines[0])
    assert found is not None
    return int(found[1])


def test_ports_have_their_numbers(wired: Wired) -> None:
    assert wired.switch.interface(wired.names[0], "ofport") == 1
    assert wired.switch.interface(wired.names[1], "ofport") == 2
    shown = wired.switch.ofctl("show", BR0)
    assert f"1({wired.names[0]})" in shown
    assert f"2({wired.names[1]})" in shown


def test_every_packet_arrives_and_is_counted(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    switch.ofctl("add-flow", BR0, "in_port=1,actions=output:2")
    frames = [udp_frame(udp_src=number) for number in range(200)]
    for frame in frames:
        one.send(frame)
    assert two.receive(200) == frames, "in order and untouched"
    assert two.silence() == []
    assert flow_packets(switch, "in_port=1") == 200
    assert switch.port(wired.names[0])["counters"]["rx_packets"] == 200
    assert switch.port(wired.names[1])["counters"]["tx_packets"] == 200
    assert switch.port(wired.names[1])["counters"]["tx_bytes"] == 200 * 60
    ports = switch.ofctl("dump-ports", BR0, "2")
    assert "tx pkts=200, bytes=12000" in ports


def test_no_rule_no_way(wired: Wired) -> None:
    wired.far[0].send(udp_frame())
    assert wired.far[1].silence() == []
    drops = wired.switch.call("drops")["lsis"][0]["drops"]
    assert drops == {"table-miss": 1}


def test_two_tables_rewrite_a_route(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    switch.ofctl("add-flow", BR0, "table=0,in_port=1,dl_dst=02:00:00:00:00:02,actions=goto_table:1")
    switch.ofctl(
        "add-flow",
        BR0,
        "table=1,priority=24,ip,nw_dst=10.0.0.0/24,actions=dec_ttl,"
        "set_field:02:00:00:00:00:0a->eth_src,set_field:02:00:00:00:00:0b->eth_dst,output:2",
    )
    one.send(udp_frame(ttl=64))
    one.send(udp_frame(ip_dst="10.0.1.2"))  # no route
    expected = udp_frame(eth_src="02:00:00:00:00:0a", eth_dst="02:00:00:00:00:0b", ttl=63)
    assert two.receive(1) == [expected], "addresses, TTL and checksum"
    assert two.silence() == []
    tables = {t["table_id"]: t for t in switch.call("tables")["lsis"][0]["tables"]}
    assert (tables[0]["lookups"], tables[0]["matched"]) == (2, 2)
    assert (tables[1]["lookups"], tables[1]["matched"]) == (2, 1)
    assert tables[1]["structure"] and tables[1]["reason"]


def test_packet_in_and_packet_out(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    frame = udp_frame()
    switch.ofctl("packet-out", BR0, f"in_port=controller packet={frame.hex()} actions=output:2")
    assert two.receive(1) == [frame]
    assert one.silence() == []


def test_patch_ports_join_two_bridges(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    switch.vsctl(
        "add-br",
        BR1,
        "--",
        "set",
        "Bridge",
        BR1,
        "fail-mode=secure",
        "--",
        "add-port",
        BR0,
        "p0",
        "--",
        "set",
        "Interface",
        "p0",
        "type=patch",
        "options:peer=p1",
        "ofport_request=10",
        "--",
        "add-port",
        BR1,
        "p1",
        "--",
        "set",
        "Interface",
        "p1",
        "type=patch",
        "options:peer=p0",
        "ofport_request=11",
    )
    switch.ofctl("add-flow", BR0, "in_port=1,actions=output:10")
    switch.ofctl("add-flow", BR1, "in_port=11,actions=mod_dl_dst:02:00:00:00:00:0c,in_port")
    switch.ofctl("add-flow", BR0, "in_port=10,actions=output:2")
    for _ in range(5):
        one.send(udp_frame())
    received = two.receive(5)
    assert [frame[:6] for frame in received] == [mac("02:00:00:00:00:0c")] * 5
    switch.vsctl("del-br", BR1)
    one.send(udp_frame())
    assert two.silence() == []


def test_removing_a_port_leaves_the_others(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    switch.ofctl("add-flow", BR0, "in_port=1,actions=output:2")
    with VethPair() as third:
        for _ in range(3):
            switch.vsctl(
                "add-port", BR0, third.near, "--", "set", "Interface", third.near, "type=system"
            )
            one.send(udp_frame())
            switch.vsctl("del-port", BR0, third.near)
            one.send(udp_frame())
    assert len(two.receive(6)) == 6
    assert two.silence() == []


def test_a_bad_port_shows_its_error(switch: Switch) -> None:
    switch.vsctl("add-br", BR0)
    switch.vsctl(
        "--no-wait",
        "add-port",
        BR0,
        "bad",
        "--",
        "set",
        "Interface",
        "bad",
        "type=memif",
        "options:sockett=/tmp/x",
    )
    switch.vsctl("set", "Bridge", BR0, "external_ids:waits=1")  # waits for the switch
    assert "options:socket" in switch.interface("bad", "error")
    assert switch.interface("bad", "ofport") == -1


def test_restart_keeps_numbers(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    assert switch.stop_switch() == 0
    switch.start_switch()
    switch.vsctl("set", "Bridge", BR0, "external_ids:waits=1")
    switch.ofctl("add-flow", BR0, "in_port=1,actions=output:2")
    one.send(udp_frame())
    assert len(two.receive(1)) == 1


def test_killed_switch_comes_back(wired: Wired) -> None:
    switch, (one, two) = wired.switch, wired.far
    switch.stop_switch(signal.SIGKILL)
    switch.start_switch()
    switch.vsctl("set", "Bridge", BR0, "external_ids:waits=1")
    switch.ofctl("add-flow", BR0, "in_port=1,actions=output:2")
    one.send(udp_frame())
    assert len(two.receive(1)) == 1


def test_worker_tells_its_cycles(wired: Wired) -> None:
    switch, (one, _) = wired.switch, wired.far
    assert switch.call("cycles")["lsis"] == [], "without timing there is nothing by tables"
    before = switch.call("cycles", stages=True)["workers"][0]
    for _ in range(10):
        one.send(udp_frame())
    wired.far[1].silence()
    cycles = switch.call("cycles", stages=False)
    after = cycles["workers"][0]
    assert after["packets"] - before["packets"] == 10
    assert after["stages"]["packets"] == 10
    (table,) = next(lsi["tables"] for lsi in cycles["lsis"] if lsi["name"] == BR0)
    assert (table["table_id"], table["packets"]) == (0, 10)
    assert table["lookup_cycles"] > 0 and table["action_cycles"] > 0
    assert table["lookup_cycles"] + table["action_cycles"] < after["stages"]["pipeline"]
    assert after["busy_cycles"] > before["busy_cycles"]
    assert after["idle_cycles"] > before["idle_cycles"]
    assert cycles["tsc_hz"] > 1e8
