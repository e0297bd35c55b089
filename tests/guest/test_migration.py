# SPDX-License-Identifier: Apache-2.0
"""A guest moves to another machine while the switch writes to its memory (the vhost dirty log)."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines.qemu import VhostUser
from headrace.engines.qmp import Qmp, connected
from tests.guest.guest import Guest, base_image, require_guest
from tests.support.frames import udp_frame
from tests.support.switch import Switch, running_switch
from tests.support.vhost_guest import guest
from tests.support.vhost_ports import add_guest_ports, wait_for_link

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

MAC = "02:00:00:00:00:02"
PER_SECOND = 400
BANDWIDTH = 16 << 20
"""Octets of memory per second: it takes a few seconds, in which hundreds of frames arrive."""
PATIENCE_S = 120.0


@pytest.fixture
def rundir() -> Iterator[Path]:
    """A directory with a short name."""
    with tempfile.TemporaryDirectory(prefix="headrace-move-") as path:
        yield Path(path)


class Stream(threading.Thread):
    """Sends a datagram after the other, at no more than a guest under TCG takes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.ready = threading.Event()
        self.enough = threading.Event()
        self.counted = threading.Event()
        self.sent = 0

    def run(self) -> None:
        with guest(self._path) as sender:
            self.ready.set()
            while not self.enough.wait(1 / PER_SECOND):
                frame = udp_frame(eth_dst=MAC, payload=self.sent.to_bytes(4, "big"), size=600)
                sender.transmit(0, frame)
                self.sent += 1
            self.counted.wait()  # until then its port is not to go down

    def end(self) -> None:
        """Ends it, whatever it does."""
        self.enough.set()
        self.counted.set()
        if self.is_alive():
            self.join(10)


def udp_counters(machine: Guest) -> dict[str, int]:
    """What the guest's kernel says of datagrams: those for a port that nobody has are NoPorts, once
    their checksums were found right."""
    lines = machine.run("grep ^Udp: /proc/net/snmp").splitlines()
    names, values = (line.split()[1:] for line in lines)
    return dict(zip(names, map(int, values), strict=True))


async def migrate(source: Guest, socket: Path) -> None:
    """Moves a guest; returns when the other machine runs it."""
    async with connected(source.qmp) as qmp:
        await qmp.execute(
            "migrate-set-parameters", **{"max-bandwidth": BANDWIDTH, "downtime-limit": 500}
        )
        await qmp.execute("migrate", uri=f"unix:{socket}")
        await _until_completed(qmp)


async def _until_completed(qmp: Qmp) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        state = await qmp.execute("query-migrate")
        if state.get("status") == "completed":
            return
        assert state.get("status") != "failed", state
        assert time.monotonic() < deadline, state
        await asyncio.sleep(0.1)


def arrived(switch: Switch) -> int:
    """Frames that either machine's port has taken."""
    return sum(int(switch.port(name)["counters"]["tx_packets"]) for name in ("here", "there"))


def test_a_guest_moves_under_traffic_and_no_frame_is_lost_on_the_way(rundir: Path) -> None:
    kernel = require_guest()
    with running_switch(rundir, extra=("--no-huge",)) as switch:
        bridge = add_guest_ports(switch, "from", "here", "there")
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2,output:3")
        for number in (2, 3):
            switch.ofctl("add-flow", bridge, f"in_port={number},actions=drop")
        machines: list[Guest] = []
        stream = Stream(rundir / "from")
        try:
            for name, incoming in (("here", None), ("there", rundir / "state")):
                (rundir / f"{name}.d").mkdir()
                nic = VhostUser(rundir / name, MAC, listens=False)
                image = base_image(kernel)
                machines.append(
                    Guest(rundir / f"{name}.d", kernel, image, [nic], incoming=incoming)
                )
            here, there = machines
            here.boot()
            here.run("echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
            here.run("echo 0 >/proc/sys/net/ipv4/icmp_ratelimit")
            here.run("ip addr add 10.0.0.2/24 dev eth0 && ip link set eth0 up")
            wait_for_link(switch, "here")
            stream.start()
            assert stream.ready.wait(10)
            wait_for_link(switch, "from")
            time.sleep(1)
            before = udp_counters(here)["NoPorts"]
            assert before > 0, switch.call("drops")
            asyncio.run(migrate(here, rundir / "state"))
            there.attach()
            wait_for_link(switch, "there")
            time.sleep(1)
            stream.enough.set()
            deadline = time.monotonic() + 10
            counters = udp_counters(there)
            while counters["NoPorts"] != arrived(switch) and time.monotonic() < deadline:
                time.sleep(0.2)
                counters = udp_counters(there)
            assert counters["InCsumErrors"] == 0
            assert counters["NoPorts"] == arrived(switch), (before, counters, switch.call("drops"))
            moved = int(switch.port("there")["counters"]["tx_packets"])
            assert moved > 0 and counters["NoPorts"] > before + moved, "all came after the move"
        finally:
            stream.end()
            for machine in machines:
                machine.stop()
