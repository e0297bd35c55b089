# SPDX-License-Identifier: Apache-2.0
"""What changes while packets go through: one life of a bridge, a port, a guest at a time."""

import asyncio
import os
import random
import signal
from collections import Counter
from dataclasses import dataclass, field

from headrace.bench.soak.bed import BESIDE, GUESTS, PATH_GROUP, PATH_METER, STEADY, Bed, attach
from headrace.machine.patience import patient
from headrace.traffic.client import TrafficProcess

GUEST_PPS = 50_000.0
GUEST_MEMORY_MB = 64
DRAIN_S = 5.0
"""For the packets under way when sending ends. A generator receives until every packet has come
back, so only a loss costs this. A worker that shares its core may not run for seconds, and what
waits in a ring meanwhile is not lost."""


@dataclass
class Account:
    """Packets of one kind of traffic.

    Attributes:
        sent, received: by those who sent and received them.
        dropped: by the switch, by the reasons' names.
        wrong: packets that came twice or to another port.
    """

    sent: int = 0
    received: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    wrong: int = 0

    @property
    def unaccounted(self) -> int:
        """Packets that nobody can tell the fate of; negative: more were counted than sent."""
        return self.sent - self.received - sum(self.dropped.values())


@dataclass
class Log:
    """What was done, and what became of the packets."""

    done: Counter[str] = field(default_factory=Counter)
    accounts: dict[str, Account] = field(default_factory=dict)

    def add(self, kind: str, sent: int, received: int, dropped: Counter[str], wrong: int) -> int:
        """Adds to an account; what this leaves unaccounted."""
        account = self.accounts.setdefault(kind, Account())
        before = account.unaccounted
        account.sent += sent
        account.received += received
        account.dropped += dropped
        account.wrong += wrong
        return account.unaccounted - before


class Changes:
    """The tasks that change the switch, until they are told to stop."""

    def __init__(self, bed: Bed, log: Log, seed: int) -> None:
        """All choices come from `seed`."""
        self._bed = bed
        self._log = log
        self._random = random.Random(seed)  # noqa: S311 - the order of changes is no secret
        self._number = 0

    async def bundles(self, stop: asyncio.Event) -> None:
        """Turns the steady stream to its detour and back: flow, group and meter in one bundle."""
        away = False
        while not stop.is_set():
            away = not away
            out, rate = (10, 900_000_000) if away else (2, 1_000_000_000)
            await self._bed.ofctl(
                STEADY,
                "bundle",
                "-",
                stdin="\n".join(
                    [
                        f"group modify group_id={PATH_GROUP},type=indirect,bucket=output:{out}",
                        f"flow modify in_port=1,actions=meter:{PATH_METER},group:{PATH_GROUP}",
                        f"flow add priority={self._random.randrange(2, 9)},tcp,actions=drop",
                    ]
                )
                + "\n",
            )
            await self._bed.ofctl(
                STEADY, "mod-meter", f"meter={PATH_METER},pktps,bands=type=drop,rate={rate}"
            )
            self._log.done["bundles"] += 1
            await asyncio.sleep(self._random.uniform(0.0, 0.2))

    async def ports(self, stop: asyncio.Event) -> None:
        """Bridges with traffic of their own, ports, workers and the way queues are dealt."""
        kinds = (self._bridge, self._port, self._port, self._dealing, self._workers)
        while not stop.is_set():
            await self._random.choice(kinds)()

    async def guests(self, stop: asyncio.Event) -> None:
        """Guests on vhost-user, one after the other: some leave in order, some are killed."""
        while not stop.is_set():
            await self.guest(killed=self._random.random() < 0.5)

    async def _bridge(self) -> None:
        self._number += 1
        name = f"soak{self._number}"
        await self._bed.add_bridge(name)
        for port, device in ((1, "size=64"), (2, "no-rx=1")):
            await self._bed.vsctl(
                f"add-port {name} {name}p{port} -- set Interface {name}p{port} type=dpdk "
                f"ofport_request={port} options:dpdk-devargs=net_null_{name}p{port},{device}"
            )
        await self._bed.ofctl(name, "add-flow", "in_port=1,actions=output:2")
        await asyncio.sleep(self._random.uniform(0.05, 0.5))
        await self._bed.vsctl(f"del-br {name}")
        self._log.done["bridges"] += 1

    async def _port(self) -> None:
        self._number += 1
        name, bridge = f"soak{self._number}", self._random.choice((STEADY, BESIDE, GUESTS))
        queues = self._random.randrange(1, 4)
        await self._bed.vsctl(
            f"add-port {bridge} {name} -- set Interface {name} type=dpdk "
            f"options:dpdk-devargs=net_null_{name},no-rx=1 options:n_rxq={queues}"
        )
        await asyncio.sleep(self._random.uniform(0.0, 0.2))
        await self._bed.vsctl(f"del-port {name}")
        self._log.done["ports"] += 1

    async def _dealing(self) -> None:
        policy = self._random.choice(("cycles", "roundrobin", "group"))
        await self._bed.vsctl(f"set Open_vSwitch . other_config:pmd-rxq-assign={policy}")
        await self._bed.call("rebalance")
        self._log.done["queues dealt"] += 1

    async def _workers(self) -> None:
        for mask in ("0x2", "0x3"):
            await self._bed.vsctl(f"set Open_vSwitch . other_config:pmd-cpu-mask={mask}")
            await asyncio.sleep(self._random.uniform(0.0, 0.2))
        self._log.done["workers removed and added"] += 1

    async def guest(self, *, killed: bool) -> None:
        """One life of a guest with two ports, from the first of which it sends to the second."""
        self._number += 1
        names = (f"guest{self._number}a", f"guest{self._number}b")
        bed = self._bed
        for number, name in enumerate(names, 1):
            await bed.add_vhost(GUESTS, name, number)
        await bed.ofctl(GUESTS, "add-flow", "in_port=1,actions=output:2")
        before = await bed.drops(GUESTS)
        kind = "killed guests" if killed else "guests"
        async with TrafficProcess(
            cpu=0, memory_mb=GUEST_MEMORY_MB, file_prefix=names[0]
        ) as traffic:
            await attach(traffic, bed, names, flows=64)
            seconds = self._random.uniform(0.2, 1.0)
            if killed:
                await traffic.start(GUEST_PPS, yield_core=True)
                await asyncio.sleep(seconds)
                assert traffic.pid is not None
                os.kill(traffic.pid, signal.SIGKILL)
            else:
                drain_s = patient(DRAIN_S)
                result = await traffic.trial(seconds, GUEST_PPS, drain_s=drain_s, yield_core=True)
                lost = await bed.drops(GUESTS) - before
                wrong = result.duplicated + result.misdelivered
                self._log.add(kind, result.sent, result.received, lost, wrong)
        if killed:
            # What it sent can't be asked; what the switch took from it can.
            await self._all_ports_down(names)
            received, sent = await bed.port_counts(GUESTS)
            self._log.add(kind, received, sent, await bed.drops(GUESTS) - before, 0)
        for name in self._random.sample(names, 2):
            await bed.vsctl(f"del-port {name}")
        self._log.done[kind] += 1

    async def _all_ports_down(self, names: tuple[str, str]) -> None:
        for name in names:
            state = ""
            while state != "down":
                state = (await self._bed.vsctl(f"get Interface {name} link_state")).strip()
