# SPDX-License-Identifier: Apache-2.0
"""Function `program` of the engine `process`: any DPDK program of the operator's.

It is started as

    PROGRAM <EAL arguments> -- <arguments>

as the VNF's user, in its cgroups, without network and capabilities, as every process VNF. The EAL
arguments are the VNF's cores (`-l`), its memory, a file prefix of its own, `--no-pci`, and one
`--vdev` for each port of the graph, in order, so that port n of the graph is DPDK's port n. The
environment has the same as JSON in HEADRACE_PORTS: `[{"id", "devargs", "mac"}, ...]`.

In `arguments`, `{ports}` is the number of ports, `{cores}` the list of cores, and `{mac:N}` the MAC
address that the graph has for port N.
"""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.cpu_time import cycles_as_cpu_time
from headrace.engines.process import ProcessEngine, devargs, file_prefix
from headrace.machine.processes import ProcessError
from headrace.switches.base import PortKind

GRAPH_SETTINGS = frozenset({"ready", "start_s"})
"""What may come from a graph. Arguments may name files and devices of the host: EAL's do."""

_PLACEHOLDER = re.compile(r"\{(ports|cores|mac:\d+)\}")


class ProgramSettings(BaseModel):
    """`program`, a file of the host, with `arguments` after those of EAL, and `eal` among them.

    It is ready when `ready` is in its output, within `start_s` seconds; without `ready`, when it
    has made the sockets of its ports.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    program: str
    arguments: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    eal: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    ready: str = ""
    start_s: Annotated[float, Field(gt=0, le=600)] = 30.0

    @field_validator("program")
    @classmethod
    def _is_executable(cls, text: str) -> str:
        if not Path(text).is_absolute() or not os.access(text, os.X_OK) or Path(text).is_dir():
            raise ValueError(f"there is no program {text}; give an absolute path")
        return text


class ProgramEngine(ProcessEngine):
    """DPDK programs of others."""

    port_kinds: tuple[PortKind, ...] = (PortKind.VHOST_USER, PortKind.VETH)

    def settings(self, vnf: VnfSpec) -> ProgramSettings:
        """The VNF's configuration.

        Raises:
            EngineError: it is wrong; names the key.
        """
        try:
            return ProgramSettings.model_validate(vnf.configuration)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in ("configuration", *first["loc"]))
            raise EngineError(f"VNF {vnf.vnf}: {place}: {first['msg']}") from None

    async def check(self, vnf: VnfSpec) -> None:
        """See Engine."""
        settings = self.settings(vnf)
        if not vnf.cores or not vnf.memory_mb:
            text = f"template {vnf.template} needs `cores` and `memory-mb`"
            raise EngineError(f"VNF {vnf.vnf}: {text}")
        self.command(vnf, settings)

    def command(self, vnf: VnfSpec, settings: ProgramSettings) -> list[str]:
        """The whole command.

        Raises:
            EngineError: an argument asks for what the graph does not have.
        """
        memory = ["--no-huge"]
        if self._hugepages:
            memory = ["--huge-dir", str(self._confinement.huge(vnf)), "--single-file-segments"]
        words = [settings.program, "-l", ",".join(map(str, vnf.cores)), "-m", str(vnf.memory_mb)]
        words += [*memory, "--no-pci", "--no-telemetry", "--file-prefix", file_prefix(vnf)]
        for port in _ports(vnf):
            words += ["--vdev", port["devargs"]]
        return [*words, *settings.eal, "--", *(_filled(vnf, word) for word in settings.arguments)]

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine."""
        settings = self.settings(vnf)
        await self.check(vnf)
        if not self.running(vnf):
            await self.stop(vnf)
            huge = vnf.memory_mb if self._hugepages else 0
            await asyncio.to_thread(self._confinement.prepare, vnf, hugepages_mb=huge)
            log = self._supervisor.log_of(self._process(vnf))
            begin = log.stat().st_size if log.exists() else 0
            self._confinement.write_config(vnf, str(begin))
            try:
                await self._launch(vnf, self.command(vnf, settings), self._made_from(vnf))
            except ProcessError as error:
                await self.stop(vnf)
                raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        deadline = asyncio.get_running_loop().time() + settings.start_s
        while (missing := self._lacking(vnf, settings)) is not None:
            ended = self._supervisor.find(self._process(vnf)) is None
            if ended or asyncio.get_running_loop().time() > deadline:
                words = self._supervisor.last_words(self._process(vnf))
                await self.stop(vnf)
                late = f"{missing} after {settings.start_s:g} s: {words}"
                text = f"ended while starting: {words}" if ended else late
                raise EngineError(f"VNF {vnf.vnf}: {text}")
            await asyncio.sleep(0.05)

    def environment(self, vnf: VnfSpec) -> dict[str, str]:
        """See ProcessEngine: with the ports."""
        return {**super().environment(vnf), "HEADRACE_PORTS": json.dumps(_ports(vnf))}

    def _lacking(self, vnf: VnfSpec, settings: ProgramSettings) -> str | None:
        """What the program lacks to be ready."""
        if self._supervisor.find(self._process(vnf)) is None:
            return "it does not run"
        if settings.ready:
            log = self._supervisor.log_of(self._process(vnf))
            with log.open("rb") as output:
                output.seek(int(self._confinement.config(vnf).read_text()))
                said = output.read().decode(errors="replace")
            return None if settings.ready in said else f"no {settings.ready!r} in its output"
        for port in vnf.ports:
            path = port.switch_port.options.get("path")  # an interface has none, and is there
            if path is not None and not Path(path).is_socket():
                return f"no socket of port {port.id}"
        return None

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: what a program counts is inside it."""
        del vnf
        return {"ports": {}, "reason": "a program counts inside; see the switch's ports"}

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: CPU time, as the kernel counts it."""
        reason = "which of a program's cycles are for packets is known only inside it"
        return await cycles_as_cpu_time(self._supervisor, self._process(vnf), vnf, reason)


def _ports(vnf: VnfSpec) -> list[dict[str, str]]:
    """What a program has to know of each port."""
    return [
        {
            "id": port.id,
            "devargs": devargs(port.switch_port, number, {"mac": port.mac} if port.mac else None),
            **({"mac": port.mac} if port.mac else {}),
        }
        for number, port in enumerate(vnf.ports)
    ]


def _filled(vnf: VnfSpec, word: str) -> str:
    """An argument with its placeholders filled in."""

    def value(found: re.Match[str]) -> str:
        name, _, number = found[1].partition(":")
        if name == "ports":
            return str(len(vnf.ports))
        if name == "cores":
            return ",".join(map(str, vnf.cores))
        mac = vnf.ports[int(number)].mac if int(number) < len(vnf.ports) else None
        if mac is None:
            raise EngineError(f"VNF {vnf.vnf}: configuration.arguments: port {number} has no mac")
        return mac

    return _PLACEHOLDER.sub(value, word)
