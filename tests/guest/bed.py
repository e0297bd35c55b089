# SPDX-License-Identifier: Apache-2.0
"""A switch between a generator and something under test: `a` and `b` are the generator's ports.

    generator  a --- switch --- first  (guest or container)
               b --- switch --- second

What comes in on `a` goes out on the first port of a pair and back, and so for `b` and the second.
The generator's ports are memif with the generator as server, so that it outlives the switch.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from headrace.traffic import StreamSpec, TrafficProcess, TrialResult
from tests.guest.guest import IN_LAB
from tests.support.switch import Switch, running_switch, unique_bridge

# The two cores are shared with whatever else runs here: nothing is given up on for being late, and
# each direction fits a ring, so that whoever is not run for a while loses nothing.
LATE_US = 10e6
PER_DIRECTION = 900
LOAD_PPS = 100 if IN_LAB else 6000


async def cross_both_ways(http: httpx.AsyncClient, traffic: TrafficProcess) -> None:
    """Sends PER_DIRECTION packets each way between a node's ports p0 and p1: all arrive, once."""
    for number, port in enumerate((await http.get("/node/ports")).json()):
        devargs = port["attach"]["devargs"].replace("{n}", str(number))
        await traffic.add_port(port["name"], devargs, wait_link_s=10)
    await traffic.configure(
        [
            StreamSpec(name="there", tx_port="p0", rx_port="p1", flows=10),
            StreamSpec(name="back", tx_port="p1", rx_port="p0", flows=10),
        ]
    )
    packets = 2 * PER_DIRECTION
    result = await traffic.trial(
        0.3, packets / 0.3, drain_s=2.0, yield_core=True, late_bound_us=LATE_US
    )
    assert result.sent == result.received == packets
    assert result.duplicated == result.reordered == result.misdelivered == 0


class Bed:
    """The switch, the generator and a bridge; ports under test are added by `add`."""

    def __init__(self, switch: Switch, traffic: TrafficProcess) -> None:
        self.switch = switch
        self.traffic = traffic
        self.bridge = unique_bridge()
        self._numbers = {"a": 1, "b": 2}
        self._pair = ("", "")

    async def prepare(self) -> None:
        """Makes the bridge and the generator's ports."""
        await self.vsctl(
            "add-br", self.bridge, "--", "set", "Bridge", self.bridge, "fail-mode=secure"
        )
        for name in ("a", "b"):
            number = self._numbers[name]
            socket = self.switch.rundir / f"{name}.memif"
            await self.traffic.add_port(
                name, f"net_memif{number},role=server,socket={socket},socket-abstract=no"
            )
            await self._add(name, "memif", f"options:socket={socket}", "options:role=client")

    async def add(self, name: str, kind: str, *options: str) -> None:
        """Adds a port under test, of the OVSDB type `kind`."""
        self._numbers[name] = 1 + max(self._numbers.values())
        await self._add(name, kind, *options)

    async def _add(self, name: str, kind: str, *options: str) -> None:
        await self.vsctl(
            "add-port", self.bridge, name, "--", "set", "Interface", name, f"type={kind}",
            *options, f"ofport_request={self._numbers[name]}",
        )  # fmt: skip

    async def vsctl(self, *words: str) -> str:
        """Runs ovs-vsctl."""
        return await asyncio.to_thread(self.switch.vsctl, *words)

    async def join(self, first: str, second: str) -> None:
        """Steers `a` to the port `first` and `b` to `second`, both ways; links must come up."""
        self._pair = (first, second)
        await asyncio.to_thread(self.switch.ofctl, "del-flows", self.bridge)
        for ours, theirs in (("a", first), ("b", second)):
            for source, target in ((ours, theirs), (theirs, ours)):
                await asyncio.to_thread(
                    self.switch.ofctl, "add-flow", self.bridge,
                    f"in_port={self._numbers[source]},actions=output:{self._numbers[target]}",
                )  # fmt: skip
        await self.traffic.wait_links(timeout_s=20)
        await eventually(self._links_up)

    def _links_up(self) -> bool:
        return all(self.switch.port(name)["link_up"] for name in ("a", "b", *self._pair))

    async def restart_switch(self) -> None:
        """Ends the switch without warning and starts it again; what it steered is steered again."""
        await asyncio.to_thread(self.switch.stop_switch, signal.SIGKILL)
        await asyncio.to_thread(self.switch.start_switch)
        await self.vsctl("set", "Bridge", self.bridge, "external_ids:waits=1")
        await self.join(*self._pair)

    async def trial(
        self, packets: int = 2 * PER_DIRECTION, load_pps: float = LOAD_PPS, drain_s: float = 2.0
    ) -> TrialResult:
        """Sends `packets`, half of them from `a` to `b` and half from `b` to `a`."""
        await self.traffic.configure(
            [
                StreamSpec(name="ab", tx_port="a", rx_port="b", flows=50),
                StreamSpec(name="ba", tx_port="b", rx_port="a", flows=50, size="imix-csit"),
            ]
        )
        return await self.traffic.trial(
            packets / load_pps, load_pps, drain_s=drain_s, yield_core=True, late_bound_us=LATE_US
        )

    async def counters(self, name: str) -> dict[str, int]:
        """The switch's counters of a port."""
        return dict((await asyncio.to_thread(self.switch.port, name))["counters"])

    async def everything(self) -> str:
        """All counters of the switch, for a failed test's message."""
        lines = [f"{name}: {await self.counters(name)}" for name in self._numbers]
        drops = await asyncio.to_thread(self.switch.call, "drops")
        return "\n".join([*lines, f"drops: {drops}"])


async def eventually(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Waits until `condition` holds."""
    end = time.monotonic() + timeout_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, f"{condition.__qualname__} does not hold"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def running_bed() -> AsyncIterator[Bed]:
    """A bed in a directory of its own, gone at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-guest-") as directory,
        running_switch(Path(directory), memory_mb=192, extra=("--no-huge",)) as switch,
    ):
        async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic:
            bed = Bed(switch, traffic)
            await bed.prepare()
            yield bed
