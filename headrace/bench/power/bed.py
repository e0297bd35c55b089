# SPDX-License-Identifier: Apache-2.0
"""The switch whose power is measured: Headrace, port to port, source and sink in its worker."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.bench.cost.bed import Bed
from headrace.bench.peers.bed import place
from headrace.bench.peers.frames import Pace
from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import PeerError
from headrace.bench.vnfs.mixes import Mix
from headrace.machine.programs import ProgramMissing, find_program
from headrace.machine.tsc import tsc_hz

MIX = Mix("64B", (64,))
MEMORY_MB = 320
BURST = 32


class Polling:
    """A bed as `suite.Loaded` has it."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed

    @property
    def name(self) -> str:
        """The switch's."""
        return self._bed.name

    def park(self) -> None:
        """Stops the switch's process."""
        self._bed.park()

    def resume(self) -> None:
        """Lets it go on."""
        self._bed.resume()

    async def rate(self, pps: float | None, seconds: float) -> float:
        """Packets per second at the sink."""
        pace = Pace(pps=pps, burst=1 if pps is None else BURST)
        window = await self._bed.window(MIX, pace, seconds, tsc_hz())
        self._bed.resume()
        return window.pps


@asynccontextmanager
async def running() -> AsyncIterator[Polling]:
    """The switch, started and parked; PeerError if it can't be."""
    try:
        switch, vnf = find_program("headrace-switch"), find_program("headrace-vnf")
    except ProgramMissing as error:
        raise PeerError(str(error)) from error
    with place() as whole:
        where = dataclasses.replace(whole, memory_mb=MEMORY_MB)
        bed = Bed(Headrace(where, switch), "p2p", vnf)
        try:
            await bed.start()
            yield Polling(bed)
        finally:
            await bed.stop()
