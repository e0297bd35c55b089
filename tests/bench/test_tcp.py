# SPDX-License-Identifier: Apache-2.0
"""`headrace bench tcp`: its rows, and real segments between two guests."""

import os
import re
import time
from pathlib import Path

import pytest

from headrace.bench.peers.bed import place
from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import PeerError
from headrace.bench.tcp import suite
from headrace.bench.tcp.hosts import received_gbps
from headrace.bench.tcp.subjects import (
    BRIDGE,
    HEADRACE,
    HEADRACE_VHOST,
    OVS_NETDEV,
    OVS_VHOST,
    VhostSubject,
    guest_program,
)
from headrace.machine.programs import find_program


def test_each_kind_of_port_is_held_against_its_own_peer() -> None:
    found = {
        HEADRACE: suite.Measured([8.0, 9.0], [80.0, 90.0], "note"),
        OVS_NETDEV: suite.Measured([2.0, 2.0], [100.0, 100.0]),
        HEADRACE_VHOST: suite.Measured([6.0, 6.0], [50.0, 50.0]),
        OVS_VHOST: suite.Measured(missing="not installed"),
    }
    rows = {row.name: row for row in suite.rows_of(found)}
    veth = rows["TCP: headrace / ovs-netdev"]
    assert (veth.samples, veth.goal, veth.met) == ([4.0, 4.5], 3.0, True)
    assert rows["ping: headrace / ovs-netdev"].met
    assert rows["headrace: TCP, one connection"].note == "note"
    vhost = rows["TCP: headrace-vhost / ovs-dpdk-vhost"]
    assert (vhost.value, vhost.met, vhost.skipped) == (None, False, "not installed")


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="hosts and switch need a core each")
def test_guests_leave_their_segments_whole(tmp_path: Path) -> None:
    """TCP connects, and what crosses the switch is longer than any frame: nothing was cut."""
    with place() as where:
        switch = Headrace(where, find_program("headrace-switch"))
        subject = VhostSubject("guests", switch, "", guest_program())
        try:
            with subject.hosts(9) as hosts:
                subject.start()
                hosts.join(tmp_path)
                with hosts.serving(tmp_path / "iperf3.log"):
                    deadline = time.monotonic() + 10
                    while not hosts.is_serving():
                        assert time.monotonic() < deadline
                        time.sleep(0.05)
                    assert hosts.gbps(1) > 0
                told = switch.ofctl_on(BRIDGE, "dump-ports", "client")
                counted = re.search(r"rx pkts=(\d+), bytes=(\d+)", told)
                assert counted is not None, told
                assert int(counted[2]) / int(counted[1]) > 3000
                assert len(hosts.round_trips_us(3)) == 3
        finally:
            subject.stop()


def test_a_report_without_an_end_is_told() -> None:
    good = '{"start": {}, "end": {"sum_received": {"bits_per_second": 2.5e9}}}'
    assert received_gbps(good) == 2.5
    with pytest.raises(PeerError, match="unable to connect"):
        received_gbps('{"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}')
    with pytest.raises(PeerError, match="no end"):
        received_gbps('{"start": {}, "intervals": [], "end": {}}')
