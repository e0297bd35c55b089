# SPDX-License-Identifier: Apache-2.0
"""The counters and cycles of VNFs, read side by side, each within its time."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engines.base import Engine, EngineError, VnfSpec, engine_of

_PATIENCE_S = 1.0


@dataclass(frozen=True)
class VnfReading:
    """What a VNF said of itself; both are empty if it did not answer in time."""

    counters: dict[str, Any] = field(default_factory=dict)
    cycles: dict[str, Any] = field(default_factory=dict)

    def ports(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """The ports of its counters: engines give them by name, or as a list with names."""
        ports = self.counters.get("ports", {})
        if isinstance(ports, dict):
            return ports.items()
        return [(port["name"], port) for port in ports]


async def read_vnfs(engines: Mapping[str, Engine], vnfs: Sequence[VnfSpec]) -> list[VnfReading]:
    """A reading of each VNF, in their order."""
    return await asyncio.gather(*(_read(engines, vnf) for vnf in vnfs))


async def _read(engines: Mapping[str, Engine], vnf: VnfSpec) -> VnfReading:
    try:
        engine = engine_of(engines, vnf)
        async with asyncio.timeout(_PATIENCE_S):
            return VnfReading(await engine.counters(vnf), await engine.cycles(vnf))
    except (EngineError, TimeoutError, OSError):
        return VnfReading()
