# SPDX-License-Identifier: Apache-2.0
"""Queues of OVSDB's QoS and Queue tables: chosen by set_queue, counted, limited."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

import pytest

from tests.support.switch import Switch, running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = f"que{os.getpid()}"
FRAME = "ffffffffffff02000000000188cc" + "00" * 986  # 1000 octets


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    with running_switch(tmp_path_factory.mktemp("queues"), extra=("--no-huge",)) as running:
        running.vsctl(
            *("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure"),
            *("--", "add-port", BRIDGE, "q1", "--", "set", "Interface", "q1", "type=dpdk"),
            *("ofport_request=1", "options:dpdk-devargs=net_null_q,no-rx=1"),
        )
        running.vsctl(
            *("set", "Port", "q1", "qos=@qos", "--", "--id=@qos", "create", "QoS"),
            *("type=linux-htb", "other-config:max-rate=1000000000", "queues:0=@q0"),
            *("queues:5=@q5", "--", "--id=@q0", "create", "Queue", "other-config:min-rate=1000000"),
            *("--", "--id=@q5", "create", "Queue", "other-config:max-rate=80000"),
        )
        yield running


def sent(switch: Switch, queue: int) -> int:
    """Packets that a queue of port 1 has sent."""
    text = switch.ofctl("queue-stats", BRIDGE, 1, queue)
    found = re.search(r"pkts=(\d+)", text)
    assert found is not None, text
    return int(found[1])


def packet_out(switch: Switch, queue: int, packets: int) -> None:
    """Sends frames by a queue of port 1."""
    actions = ",".join([f"set_queue:{queue},output:1"] * packets)
    switch.ofctl("packet-out", BRIDGE, f"in_port=controller,packet={FRAME},actions={actions}")


def wait_for_more(switch: Switch, queue: int, than: int) -> None:
    """Waits until a queue has sent more packets than this."""
    end = time.monotonic() + 20
    while sent(switch, queue) <= than:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_packets_go_by_the_queue_that_they_ask_for(switch: Switch) -> None:
    before = sent(switch, 0), sent(switch, 5)
    packet_out(switch, 5, 1)
    wait_for_more(switch, 5, before[1])
    packet_out(switch, 0, 2)
    wait_for_more(switch, 0, before[0] + 1)
    packet_out(switch, 77, 1)  # there is none: the default queue
    wait_for_more(switch, 0, before[0] + 2)
    assert (sent(switch, 0), sent(switch, 5)) == (before[0] + 3, before[1] + 1)


def test_queues_and_their_rates_are_told(switch: Switch) -> None:
    config = switch.ofctl("queue-get-config", BRIDGE, 1)
    assert re.findall(r"queue (\d+):", config) == ["0", "5"]
    assert "2 queues" in switch.ofctl("queue-stats", BRIDGE, 1)


def test_a_limited_queue_takes_its_time(switch: Switch) -> None:
    before = sent(switch, 5)
    began = time.monotonic()
    packet_out(switch, 5, 23)
    wait_for_more(switch, 5, before + 22)
    # 80 kbit/s are 10 frames of 1000 octets per second; a burst of three full frames goes at once.
    assert time.monotonic() - began > 1.0


def test_a_port_without_queues_again(switch: Switch) -> None:
    switch.vsctl("clear", "Port", "q1", "qos")
    assert "1 queues" in switch.ofctl("queue-stats", BRIDGE, 1)
    before = sent(switch, 0)
    packet_out(switch, 5, 1)
    wait_for_more(switch, 0, before)
