# SPDX-License-Identifier: Apache-2.0
"""A switch with a source, a sink and enough pass VNFs for the longest chain.

All are started once. For each chain only the rules change; VNFs outside it are stopped.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.chains.rules import ENTRY, EXIT, port_in, port_out, rules
from headrace.bench.chains.vnf import Vnf, shm_port, vhost_port
from headrace.bench.peers.switches import Headrace, OpenVSwitchLike, OvsDpdk
from headrace.bench.peers.systems import run
from headrace.protocols.control import call
from headrace.protocols.pmd import STATS, parse_pmd

VNF_CORE = 0
VNF_MEMORY_MB = 48
GROUP = "chain"
SIZE = 64
BURST = 32
"""The source's burst size; single packets would each cost a round over all ports."""
LINKS_S = 0.5
"""Seconds with traffic for links to be made or removed, before VNFs are stopped."""


@dataclass(frozen=True)
class Cycles:
    """Counters of the switch's worker: TSC cycles spent on packets, and their number."""

    busy: int
    packets: int


async def cycles_of(system: OpenVSwitchLike) -> Cycles:
    """Reads the worker's counters."""
    if isinstance(system, Headrace):
        workers = (await call(system.rundir / "headrace-switch.ctl", "cycles"))["workers"]
        return Cycles(
            sum(worker["busy_cycles"] for worker in workers),
            sum(worker["packets"] for worker in workers),
        )
    control = str(system.rundir / "ovs.ctl")
    threads = parse_pmd(run("ovs-appctl", "-t", control, STATS))
    return Cycles(
        sum(thread.busy_cycles for thread in threads), sum(thread.packets for thread in threads)
    )


class Bed:
    """A switch with its VNFs."""

    def __init__(self, system: OpenVSwitchLike, vnfs: int, ports: str) -> None:
        """`ports` is the kind of the VNFs' ports: shm or vhost-user. Nothing is started."""
        self.system = system
        self._folder = system.rundir
        self._kind = ports
        self.source = self._end("source")
        self.sink = self._end("sink")
        self.vnfs = [self._pass(number) for number in range(vnfs)]

    def _end(self, function: str) -> Vnf:
        port = vhost_port(function, self._folder / f"{function}.sock")
        memory = VNF_MEMORY_MB
        return Vnf(self._folder, function, function, [port], cpu=VNF_CORE, memory_mb=memory)

    def _pass(self, number: int) -> Vnf:
        names = self._names(number)
        if self._kind == "shm":
            group = self._folder / f"{GROUP}.shm"
            ports = [shm_port(name, group, name) for name in names]
        else:
            ports = [vhost_port(name, self._folder / f"{name}.sock") for name in names]
        name = f"pass{number}"
        return Vnf(self._folder, name, "pass", ports, cpu=VNF_CORE, memory_mb=VNF_MEMORY_MB)

    @staticmethod
    def _names(number: int) -> tuple[str, str]:
        return f"v{number}in", f"v{number}out"

    async def start(self, program: Path) -> None:
        """Starts the switch with all ports, then every VNF."""
        assert isinstance(self.system, Headrace | OvsDpdk)
        self.system.start()
        system = self.system
        system.vsctl("add-br", "br0", *system.bridge_options("br0"))
        words: list[str] = []
        for name, number in (("source", ENTRY), ("sink", EXIT)):
            words += self._add(name, number, "vhost-user")
        for number in range(len(self.vnfs)):
            into, out = self._names(number)
            words += self._add(into, port_in(number), self._kind)
            words += self._add(out, port_out(number), self._kind)
        system.vsctl(*words[1:])
        system.ofctl("del-flows")
        everyone = [self.source, self.sink, *self.vnfs]
        for vnf in everyone:
            await vnf.start(program, self._paced(1.0) if vnf is self.source else {})
        for vnf in everyone:
            await vnf.ready()

    def _add(self, name: str, number: int, kind: str) -> list[str]:
        if kind == "shm":
            options = ["type=shm", f"options:group={GROUP}", f"options:ports={2 * len(self.vnfs)}"]
        else:
            path = self._folder / f"{name}.sock"
            options = ["type=dpdkvhostuserclient", f"options:vhost-server-path={path}"]
        return [
            *("--", "add-port", "br0", name),
            *("--", "set", "Interface", name, f"ofport_request={number}", *options),
        ]

    @staticmethod
    def _paced(rate_pps: float) -> dict[str, int]:
        return {"size": SIZE, "rate_pps": max(1, round(rate_pps)), "burst": BURST}

    async def load(self, rate_pps: float | None) -> None:
        """Sets the source's rate; None: as fast as it can."""
        await self.source.reconfigure({"size": SIZE} if rate_pps is None else self._paced(rate_pps))

    async def chain(self, length: int, match: str) -> None:
        """Sets up a chain of this length, and stops the VNFs outside it."""
        self.resume()
        await self.load(1000.0)
        self.system.ofctl("del-flows")
        text = "\n".join(rules(length, match=match)) + "\n"
        self.system.ofctl("add-flows", "-", stdin=text)
        await asyncio.sleep(LINKS_S)
        for vnf in self.vnfs[length:]:
            vnf.park()

    def everyone(self) -> Sequence[Vnf]:
        """All VNFs, source and sink included."""
        return [self.source, self.sink, *self.vnfs]

    def resume(self) -> None:
        """Continues the switch and all VNFs."""
        self.system.resume()
        for vnf in self.everyone():
            vnf.resume()

    def park(self) -> None:
        """Stops all processes (SIGSTOP), so that they take no CPU time."""
        for vnf in self.everyone():
            vnf.park()
        self.system.park()

    async def stop(self) -> None:
        """Terminates all processes: the VNFs first, which need the switch to detach."""
        if self.system.children:
            self.resume()
        await asyncio.gather(*(vnf.stop() for vnf in self.everyone()))
        self.system.stop()
