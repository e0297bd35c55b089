# SPDX-License-Identifier: Apache-2.0
"""A steady stream from p0 to p1, by which losses and interruptions are told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from headrace.bench.core_plan import plan_cores
from headrace.bench.errors import DeviceError
from headrace.bench.lifecycle.bed import Bed
from headrace.traffic.client import TrafficError, TrafficProcess
from headrace.traffic.models import StreamSpec

PPS = 5_000.0
SETTLE_S = 0.3


@dataclass(frozen=True)
class Outcome:
    """A stream during one action; `unsent` are packets that a port without a peer did not take."""

    sent: int
    lost: int
    unsent: int
    duplicated: int
    pps: float = PPS

    @property
    def away_ms(self) -> float:
        """How long the path carried nothing: packets that did not arrive, at the stream's rate."""
        return 1e3 * (self.lost + self.unsent) / self.pps


class Stream:
    """The generator at both ports of a node."""

    def __init__(self, traffic: TrafficProcess, pps: float) -> None:
        self._traffic, self._pps = traffic, pps

    async def during(self, work: Callable[[], Awaitable[None]], after_s: float) -> Outcome:
        """What became of the packets before, while and `after_s` after `work`."""
        await self._traffic.start(self._pps, drain_s=0.2, yield_core=True)
        await asyncio.sleep(SETTLE_S)
        await work()
        await asyncio.sleep(after_s)
        result = await self._traffic.stop()
        unsent = result.intended - result.sent
        return Outcome(result.sent, result.lost, unsent, result.duplicated, self._pps)

    async def until_clean(self, patience_s: float = 20.0) -> None:
        """Returns when the path carries everything.

        Raises:
            DeviceError: it does not after `patience_s`.
        """
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            said = "the generator has no link"
            with suppress(TrafficError):
                outcome = await self.during(_nothing, 0.0)
                if outcome.lost == 0 and outcome.sent:
                    return
                said = f"{outcome.lost} of {outcome.sent} packets are lost at rest"
            if asyncio.get_running_loop().time() > deadline:
                raise DeviceError(said)


async def _nothing() -> None:
    pass


@asynccontextmanager
async def stream(
    bed: Bed, flows: int = 100, pps: float = PPS, vlan: int | None = None
) -> AsyncIterator[Stream]:
    """A stream of UDP from p0 to p1 of the node."""
    core = plan_cores().generator[0]
    async with TrafficProcess(cpu=core, memory_mb=128) as traffic:
        devargs = bed.devargs()
        for name in ("p0", "p1"):
            await traffic.add_port(name, devargs[name], wait_link_s=30)
        await traffic.configure(
            [StreamSpec(name="stream", tx_port="p0", rx_port="p1", flows=flows)]
        )
        yield Stream(traffic, pps)
