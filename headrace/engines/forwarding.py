# SPDX-License-Identifier: Apache-2.0
"""The forwarder of a VNF: a process that carries TCP connections of the host to the VNF's own.

It is beside the VNF, as machine/forwarder.py says, and made anew for each process of the VNF.
"""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.engines.base import EngineError, VnfSpec
from headrace.machine.forwarder import Forwarding
from headrace.machine.processes import ProcessError, ProcessId, Supervisor

_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Way:
    """How connections reach the program: from which network (its own if None), at which address."""

    network: Path | None = None
    address: str = "127.0.0.1"


LOOPBACK = Way()


class Forwarder:
    """The forwarders of a node's VNFs."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def name(self, vnf: VnfSpec) -> str:
        """Its name at the supervisor."""
        return f"forward-{vnf.name}"

    def names(self, vnf: VnfSpec) -> tuple[str, ...]:
        """The names of the processes that the VNF needs for its forwards."""
        return (self.name(vnf),) if vnf.forwards else ()

    def _wanted(self, vnf: VnfSpec, process: ProcessId, way: Way) -> tuple[Forwarding, str]:
        """What it is to do, and the digest of that."""
        assert vnf.user is not None, "checked by whoever plans"
        ports = tuple((forward.host_port, forward.vnf_port) for forward in vnf.forwards)
        network = str(way.network or f"/proc/{process.pid}/ns/net")
        forwarding = Forwarding(
            vnf.forwards[0].address, ports, process.pid, vnf.user, network, way.address, -1
        )
        return forwarding, f"{forwarding} {process.start_ticks}"

    def runs(self, vnf: VnfSpec, process: ProcessId, way: Way = LOOPBACK) -> bool:
        """Whether the VNF has the forwards that it wants, and no others."""
        if not vnf.forwards:
            return self._supervisor.find(self.name(vnf)) is None
        return self._supervisor.runs(self.name(vnf), self._wanted(vnf, process, way)[1])

    async def ensure(self, vnf: VnfSpec, process: ProcessId, way: Way = LOOPBACK) -> None:
        """Makes it carry what the VNF wants, or ends it; returns when it listens.

        Raises:
            EngineError: a port of the host is taken; names it.
        """
        if self.runs(vnf, process, way):
            return
        await self.end(vnf)
        if not vnf.forwards:
            return
        forwarding, digest = self._wanted(vnf, process, way)
        reading, writing = os.pipe()
        try:
            command = replace(forwarding, ready_at=writing).command()
            started, _ = await self._supervisor.ensure(
                self.name(vnf), command, digest=digest, inherit=(writing,), bare=True
            )
            os.close(writing)
            writing = -1
            octet = await asyncio.wait_for(asyncio.to_thread(os.read, reading, 1), _PATIENCE_S)
        except (ProcessError, TimeoutError) as error:
            await self.end(vnf)
            raise EngineError(f"VNF {vnf.vnf}: unify-control: {error}") from error
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)
        if not octet or not started.alive():
            words = self._supervisor.last_words(self.name(vnf), lines=1)
            await self.end(vnf)
            raise EngineError(f"VNF {vnf.vnf}: unify-control: {words}")

    async def end(self, vnf: VnfSpec) -> None:
        """Ends it, if it runs.

        Raises:
            EngineError: it does not end.
        """
        try:
            await self._supervisor.end(self.name(vnf))
        except ProcessError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
