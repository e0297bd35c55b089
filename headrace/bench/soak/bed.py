# SPDX-License-Identifier: Apache-2.0
"""The switch of a soak: two workers, a path for the steady stream, a bridge for guests."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import PeerError
from headrace.protocols.control import call
from headrace.traffic.client import TrafficClient
from headrace.traffic.models import StreamSpec

STEADY, BESIDE, GUESTS = "steady", "beside", "guests"
"""The bridges: of the steady stream, of its detour, of guests that come and go."""
PATH_GROUP, PATH_METER = 1, 1
GUEST = "packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1,queue_size=1024"
WORKERS_MASK = 0x3


class Bed:
    """The switch with its bridges; the methods may be called by several tasks."""

    def __init__(self, system: Headrace) -> None:
        """Nothing is started."""
        self.system = system
        self.longest_command_s = 0.0
        """What ovs-vsctl took at most: it waits until the switch has done what it was told."""

    async def start(self) -> None:
        """Starts the switch with two workers, and makes the three bridges."""
        system = self.system
        await asyncio.to_thread(system.start)
        await self.vsctl(f"set Open_vSwitch . other_config:pmd-cpu-mask={WORKERS_MASK:#x}")
        for bridge in (STEADY, BESIDE, GUESTS):
            await self.add_bridge(bridge)
        for bridge, peer, number in ((STEADY, BESIDE, 10), (STEADY, BESIDE, 11)):
            ends = (f"{bridge}{number}", f"{peer}{number}")
            for (name, other), on in zip((ends, ends[::-1]), (bridge, peer), strict=True):
                await self.vsctl(
                    f"add-port {on} {name} -- set Interface {name} type=patch "
                    f"options:peer={other} ofport_request={number}"
                )
        await self.ofctl(
            STEADY, "add-group", f"group_id={PATH_GROUP},type=indirect,bucket=output:2"
        )
        await self.ofctl(
            STEADY, "add-meter", f"meter={PATH_METER},pktps,bands=type=drop,rate=1000000000"
        )
        rules = (
            f"in_port=1,actions=meter:{PATH_METER},group:{PATH_GROUP}",
            "in_port=11,actions=output:2",
        )
        for rule in rules:
            await self.ofctl(STEADY, "add-flow", rule)
        await self.ofctl(BESIDE, "add-flow", "in_port=10,actions=output:11")

    async def add_bridge(self, bridge: str) -> None:
        """A bridge without rules."""
        options = " ".join(self.system.bridge_options(bridge))
        await self.vsctl(f"add-br {bridge} {options}")
        await self.ofctl(bridge, "del-flows")

    async def vsctl(self, words: str) -> str:
        """ovs-vsctl, while the others go on."""
        begin = time.monotonic()
        told = await asyncio.to_thread(self.system.vsctl, *words.split())
        self.longest_command_s = max(self.longest_command_s, time.monotonic() - begin)
        return told

    async def longest_grace_wait_ms(self) -> float:
        """The longest that a thread of the switch waited for workers to end their rounds."""
        return int((await self.call("cycles"))["longest_grace_wait_us"]) / 1e3

    async def ofctl(self, bridge: str, command: str, *words: str, stdin: str | None = None) -> str:
        """ovs-ofctl, while the others go on."""
        told = await asyncio.to_thread(
            lambda: self.system.ofctl_on(bridge, command, *words, stdin=stdin)
        )
        return told

    def socket(self, name: str) -> Path:
        """Of a vhost-user port."""
        return self.system.rundir / f"{name}.sock"

    async def add_vhost(self, bridge: str, name: str, number: int) -> None:
        """A port to a guest that listens at socket()."""
        await self.vsctl(
            f"add-port {bridge} {name} -- set Interface {name} type=dpdkvhostuserclient "
            f"ofport_request={number} options:vhost-server-path={self.socket(name)}"
        )

    async def call(self, method: str) -> Any:
        """A method of the switch's control socket."""
        return await call(self.system.rundir / "headrace-switch.ctl", method, {})

    async def drops(self, *bridges: str) -> Counter[str]:
        """Packets dropped so far at these bridges, by the reasons' names."""
        told = await self.call("drops")
        total: Counter[str] = Counter()
        for lsi in told["lsis"]:
            if lsi["name"] in bridges:
                total.update(lsi["drops"])
        return total

    async def port_counts(self, bridge: str) -> tuple[int, int]:
        """Packets received and sent by all ports of a bridge, but LOCAL."""
        received = sent = 0
        for line in (await self.ofctl(bridge, "dump-ports")).splitlines():
            if ":" in line and "rx pkts=" in line and "LOCAL" not in line:
                received += int(line.partition("rx pkts=")[2].partition(",")[0])
                counted = True
            elif "rx pkts=" in line:
                counted = False
            elif "tx pkts=" in line and counted:
                sent += int(line.partition("tx pkts=")[2].partition(",")[0])
        return received, sent

    def rss_kb(self) -> int:
        """The switch's resident memory.

        Raises:
            PeerError: it has ended.
        """
        process = self.system.polling()
        if process.poll() is not None:
            raise PeerError(f"the switch has ended; {self.system.last_words()}")
        return int(psutil.Process(process.pid).memory_info().rss) >> 10


async def attach(traffic: TrafficClient, bed: Bed, names: tuple[str, str], flows: int) -> None:
    """Gives the generator a virtio-user end at both ports, and a stream from the first."""
    for n, name in enumerate(names):
        device = f"net_virtio_user{n},path={bed.socket(name)},server=1,{GUEST}"
        await traffic.add_port(name, device, wait_link_s=30)
    await traffic.configure(
        [StreamSpec(name="stream", tx_port=names[0], rx_port=names[1], flows=flows)]
    )
