# SPDX-License-Identifier: Apache-2.0
"""A switch and VNFs on the fake world whose counters grow steadily, for pages that show rates."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.engines.base import VnfSpec
from headrace.node.config import from_dict
from headrace.node.node import Node
from headrace.switches.base import PortStatistics, RuleStatistics, SwitchCycles, WorkerCycles
from headrace.switches.direct_links import DirectLink
from tests.node.crashing import SETTINGS
from tests.node.fakes import FakeDriver, FakeEngine, World
from tests.node.served import served

TO_VNF, FROM_VNF, DROPPED, MATCHED, DIRECT = 20_000, 30_000, 700, 40_000, 50_000
"""Packets per second of each port (the switch's tx and rx), each rule, each direct link."""

VNF_CYCLES = {"busy_cycles": 2_500_000, "idle_cycles": 7_500_000, "packets": 10_000}
"""Per second: 250 cycles per packet, 25 % busy."""


class MovingDriver(FakeDriver):
    """A switch whose counters grow."""

    name = "headrace"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.node: Node | None = None
        self.begun = time.monotonic()
        self.directs: list[tuple[str, str]] = []

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        now = self.passed
        return [
            PortStatistics(
                lsi=owner, port=name, ofport=number,
                rx_packets=int(FROM_VNF * now), tx_packets=int(TO_VNF * now),
                rx_bytes=int(64 * FROM_VNF * now), tx_bytes=int(64 * TO_VNF * now),
                rx_dropped=0, tx_dropped=int(DROPPED * now) if name == "g1p0" else 0,
            )
            for number, (name, owner) in enumerate(self.world.read()["ports"].items(), 1)
            if lsi in (None, owner)
        ]  # fmt: skip

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        if self.node is None:
            return []
        now = self.passed
        plans = self.node.graphs.holdings.plans().values()
        rules = [rule for plan in plans for rule in plan.rules() if rule.lsi == lsi]
        packets = int(MATCHED * now)
        return [RuleStatistics(cookie=r.cookie, packets=packets, bytes=64 * packets) for r in rules]

    async def cycles(self) -> SwitchCycles:
        now = self.passed
        worker = WorkerCycles(
            core=1, busy_cycles=int(6e5 * now), idle_cycles=int(4e5 * now), packets=int(4e3 * now)
        )
        return SwitchCycles(
            switch=self.name, approximate=False, source="test", tsc_hz=1e6,
            at_ns=time.monotonic_ns(), workers=(worker,),
        )  # fmt: skip

    async def direct_links(self) -> list[DirectLink]:
        packets = int(DIRECT * self.passed)
        return [
            DirectLink(
                lsi="", port=port, to=to, state="open", packets=packets, bytes=0, reason=None
            )
            for port, to in self.directs
        ]


class MovingEngine(FakeEngine):
    """VNFs that spend cycles, and have a log."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.begun = time.monotonic()

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        now = time.monotonic() - self.begun
        return {name: int(value * now) for name, value in VNF_CYCLES.items()}


@asynccontextmanager
async def moving(rundir: Path, **settings: Any) -> AsyncIterator[tuple[Node, MovingDriver, str]]:
    """A node with such parts, behind a port: the node, its switch, its address."""
    world = World(rundir / "world.json")
    driver = MovingDriver(world)
    rest = {"port": 0, **settings.pop("rest", {})}
    config = from_dict({**SETTINGS, **settings, "memory_mb": 2048, "rest": rest})
    node = driver.node = Node(config, rundir, driver, {"process": MovingEngine(world)})
    await node.start()
    try:
        async with served(node) as port:
            yield node, driver, f"http://127.0.0.1:{port}"
    finally:
        await node.close()
