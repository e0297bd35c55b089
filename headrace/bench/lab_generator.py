# SPDX-License-Identifier: Apache-2.0
"""The generators of a lab as the bench knows them: TRex has no overload and no calibration.

Where the bench asks for as much as can be sent, TRex sends at the line's rate: more does not leave
a NIC. What it can't do (bursts, Poisson gaps, captures) it says.
"""

from collections.abc import Sequence

from headrace.bench.lab import Lab
from headrace.traffic import (
    Load,
    PortInfo,
    ReplaySpec,
    StreamSpec,
    TrafficClient,
    TrafficError,
    TrialResult,
)
from headrace.traffic.trex.generator import TrexGenerator

DRAIN_S = 0.5


class LabTrex(TrafficClient):
    """A TRex server."""

    def __init__(self, lab: Lab, trex: TrexGenerator | None = None) -> None:
        super().__init__("")
        generator = lab.generator
        self._lab = lab
        self._trex = trex or TrexGenerator(generator.server, generator.server_port)
        self._specs: list[StreamSpec] = []

    async def connect(self) -> None:
        """Connects and acquires the ports."""
        await self._trex.connect()

    async def close(self) -> None:
        """Releases them."""
        await self._trex.close()

    async def ports(self) -> list[PortInfo]:
        """TRex's ports, with their links."""
        return await self._trex.ports()

    async def add_port(
        self,
        name: str,
        devargs: str,
        *,
        mac: str | None = None,
        n_descriptors: int | None = None,
        max_frame: int | None = None,
        wait_s: float | None = None,
        wait_link_s: float = 0.0,
    ) -> PortInfo:
        """The port of this number, which is there; TrafficError if it is not."""
        found = {port.name: port for port in await self.ports()}
        if name not in found:
            raise TrafficError("not_found", f"TRex has no port {name}; it has {', '.join(found)}")
        return found[name]

    async def remove_port(self, name: str) -> None:
        """Nothing to remove."""

    async def configure(self, streams: Sequence[StreamSpec | ReplaySpec]) -> None:
        """Replaces all streams; TrafficError `unsupported` for a capture."""
        specs = [one for one in streams if isinstance(one, StreamSpec)]
        if len(specs) < len(streams):
            raise TrafficError("unsupported", "TRex by this driver sends no captures")
        self._specs = specs
        await self._trex.configure(specs)

    async def trial(
        self,
        duration_s: float | None,
        load: Load | float | None,
        *,
        warmup_s: float = 0.0,
        drain_s: float = DRAIN_S,
        yield_core: bool = False,
        late_bound_us: float | None = None,
        histograms: bool = False,
        bare: bool = False,
    ) -> TrialResult:
        """One trial; without a load at the line's rate of each sending port.

        Raises:
            TrafficError: TRex refused it, or it can't send so.
        """
        if isinstance(load, Load):
            if load.burst or load.poisson or load.pps is None:
                raise TrafficError("unsupported", "TRex by this driver sends evenly, in packets/s")
            load = load.pps
        if duration_s is None or histograms:
            raise TrafficError("unsupported", "TRex by this driver has trials of a length, only")
        wanted = self._line_pps() if load is None else load
        return await self._trex.trial(duration_s, wanted, drain_s=max(DRAIN_S, drain_s))

    def _line_pps(self) -> float:
        """What all sending ports carry together: each stream has the same share of its line."""
        senders = {spec.tx_port for spec in self._specs}
        rates = [self._lab.line_pps(str(spec.size)) for spec in self._specs]
        return len(senders) * sum(rates) / max(1, len(rates))
