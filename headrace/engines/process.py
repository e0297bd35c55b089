# SPDX-License-Identifier: Apache-2.0
"""The engine for DPDK VNFs: headrace-vnf as a process of its own, pinned to its core.

The VNF's settings are a JSON file below `<rundir>/vnf`; it outlives the node, and is started anew
only if what it was made from differs. If nothing but its configuration does, it reads that file
again, without losing a packet or what it has learnt. `confinement.py` says what it may reach and
use. Its ports are sockets of the switch's or, where the switch has none, interfaces
(`namespaces.py`).
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.engines import namespaces
from headrace.engines.base import EngineError, Observed, VnfPort, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.execution import Executed, NotRunning, run
from headrace.engines.interfaces import present
from headrace.engines.observation import observe
from headrace.machine.confined import Confined
from headrace.machine.eal import remove_remains
from headrace.machine.names import digest_of
from headrace.machine.patience import patient
from headrace.machine.processes import ProcessError, ProcessId, Supervisor, write_atomically
from headrace.machine.programs import ProgramMissing, find_program
from headrace.protocols.control import ControlError, call
from headrace.switches.base import PortKind, PortSpec, vdev_devargs

log = logging.getLogger("headrace.node")

_TIMEOUT_S = 20.0
_ATTEMPTS = 3
_CHECKS = 2
_CHECK_S = 10.0
_ERRORS_SHOWN = 5
"""Checks of a configuration at once, how long one may take, and the errors of one that are told."""


_RIGHT_KEPT = 256
"""Configurations that were found right, of which that is remembered."""

_READY_POLL_S = 0.005
_RECONNECT_S = 3.0
"""How long a VNF that runs already may take to find its peers, as after a restart of its switch."""


def _mac(port: VnfPort) -> dict[str, str]:
    """The address that a program is to give its port; an interface has it already."""
    is_interface = port.switch_port.kind is PortKind.VETH
    return {"mac": port.mac} if port.mac and not is_interface else {}


class _TryAgain(EngineError):
    """The process did not get to forwarding, but a new one may."""


def file_prefix(vnf: VnfSpec) -> str:
    """DPDK's file prefix of a VNF."""
    return f"hrvnf{digest_of(vnf.name)}"


def _peer(port: PortSpec, number: int) -> dict[str, Any]:
    """How headrace-vnf's port number `number` meets the switch's `port`."""
    if port.kind is PortKind.SHM:
        return {"shm": {"socket": port.options["socket"], "port": port.name}}
    return {"devargs": devargs(port, number)}


def devargs(port: PortSpec, number: int, options: Mapping[str, str] | None = None) -> str:
    """The vdev of port `number` of a DPDK program, which meets the switch's `port`."""
    if port.kind is PortKind.VETH:
        return namespaces.interface_devargs(number)
    return vdev_devargs(port, options).replace("{n}", str(number))


async def reload(socket: Path) -> None:
    """Makes the headrace-vnf of this control socket read its configuration again.

    Raises:
        ControlError: it cannot, or does not answer.
    """
    await call(socket, "reload")


class ProcessEngine:
    """headrace-vnf processes."""

    name = "process"
    port_kinds: tuple[PortKind, ...] = (
        PortKind.MEMIF,
        PortKind.VHOST_USER,
        PortKind.SHM,
        PortKind.VETH,
    )

    def __init__(
        self,
        rundir: Path,
        supervisor: Supervisor,
        hugepages: bool,
        confinement: Confinement | None = None,
        prefix: str = "",
    ) -> None:
        self._prefix = prefix
        self._confinement = confinement or Confinement(rundir)
        self._supervisor = supervisor
        self._hugepages = hugepages
        self._checking = asyncio.Semaphore(_CHECKS)
        self._right: dict[tuple[object, ...], None] = {}

    def _process(self, vnf: VnfSpec) -> str:
        return f"vnf-{vnf.name}"

    def control(self, vnf: VnfSpec) -> Path:
        """The VNF's control socket."""
        return self._confinement.own(vnf) / "ctl"

    def _settings_file(self, vnf: VnfSpec) -> Path:
        """What headrace-vnf reads."""
        return self._confinement.config(vnf)

    def configuration(self, vnf: VnfSpec) -> dict[str, Any]:
        """What headrace-vnf reads."""
        return {
            "function": vnf.configuration,
            "cpu": vnf.cores[0],
            "idle": vnf.idle,
            "sleep_us": vnf.sleep_us,
            "burst": vnf.burst,
            "eal": {
                "hugepages": "auto" if self._hugepages else "off",
                "memory_mb": vnf.memory_mb,
                "file_prefix": file_prefix(vnf),
            },
            "ports": [
                {
                    "name": port.id,
                    **_peer(port.switch_port, number),
                    **_mac(port),
                }
                for number, port in enumerate(vnf.ports)
            ],
        }

    async def check(self, vnf: VnfSpec) -> None:
        """See Engine: by headrace-vnf itself, which lists all errors by their place.

        What it has found right is not asked again.
        """
        configuration = self.configuration(vnf)
        text = json.dumps(configuration)
        try:
            program = find_program("headrace-vnf")
        except ProgramMissing as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        ports = [(port.id, port.mac, port.switch_port.kind) for port in vnf.ports]
        asked = (
            str(program),
            program.stat().st_mtime_ns,
            vnf.function,
            json.dumps([configuration["function"], vnf.idle, vnf.burst, ports]),
        )
        if asked in self._right:
            return
        async with self._checking:
            try:
                child = await asyncio.create_subprocess_exec(
                    str(program),
                    *(vnf.function, "--check", "--config", "/dev/stdin"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                )
            except OSError as error:
                raise EngineError(f"VNF {vnf.vnf}: {error}") from error
            try:
                _, said = await asyncio.wait_for(child.communicate(text.encode()), _CHECK_S)
            except TimeoutError as error:
                child.kill()
                await child.wait()
                text = f"VNF {vnf.vnf}: its configuration is not checked after {_CHECK_S:.0f} s"
                raise EngineError(text) from error
        if child.returncode:
            lines = said.decode(errors="replace").replace("function.", "configuration.").split("\n")
            errors = (
                [line.strip() for line in lines[1:] if line]
                if lines[0].endswith(":")
                else lines[:1]
            )
            raise EngineError(f"VNF {vnf.vnf}: {'; '.join(errors[:_ERRORS_SHOWN])}")
        while len(self._right) >= _RIGHT_KEPT:
            del self._right[next(iter(self._right))]
        self._right[asked] = None

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine.

        A VNF that ends while starting is tried again: a virtio-user server does not survive a vhost
        client that hangs up in the middle of their handshake, as OVS does now and then when it
        reconfigures its ports. So is one that outlived its switch and does not reconnect, as DPDK's
        memif client does not.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._start(vnf)
                return
            except _TryAgain as error:
                if attempt == _ATTEMPTS:
                    raise
                log.warning("%s; trying again", error)

    async def _start(self, vnf: VnfSpec) -> None:
        text = json.dumps(self.configuration(vnf), indent=2)
        file = self._settings_file(vnf)
        command = [vnf.function, "--config", str(file), "--ctl", str(self.control(vnf))]
        await self._reload(vnf, text)
        adopted = self.running(vnf)
        if not adopted:
            await self.stop(vnf)  # also what a killed one left: its sockets would be in the way
        await asyncio.to_thread(
            self._confinement.prepare,
            vnf,
            hugepages_mb=vnf.memory_mb if self._hugepages else 0,
        )
        self._confinement.write_config(vnf, text, self._settings_file(vnf))
        write_atomically(self._fixed(vnf), vnf.fixed)
        try:
            program = find_program("headrace-vnf")
            process = await self._launch(vnf, [str(program), *command], self._made_from(vnf))
        except (ProgramMissing, ProcessError, EngineError) as error:
            await self.stop(vnf)
            if isinstance(error, EngineError):
                raise
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        timeout_s = patient(_RECONNECT_S if adopted else _TIMEOUT_S)
        deadline = asyncio.get_running_loop().time() + timeout_s
        while (missing := await self._missing(vnf)) is not None:
            if not process.alive():
                words = self._supervisor.last_words(self._process(vnf))
                await self.stop(vnf)
                raise _TryAgain(f"VNF {vnf.vnf}: ended while starting: {words}")
            if asyncio.get_running_loop().time() > deadline:
                await self.stop(vnf)
                words = f"VNF {vnf.vnf}: {missing} after {timeout_s:.0f} s"
                raise _TryAgain(words) if adopted else EngineError(words)
            await asyncio.sleep(_READY_POLL_S)

    def _fixed(self, vnf: VnfSpec) -> Path:
        """Where it is noted what a running VNF was made from, apart from its configuration."""
        return self._confinement.place(vnf) / "fixed"

    async def _reload(self, vnf: VnfSpec, text: str) -> None:
        """Gives its configuration to a VNF that runs with another, if that is all that differs."""
        name = self._process(vnf)
        made_from = self._made_from(vnf)
        # One that an earlier version has started may read another file.
        if self._supervisor.find(name) is None or not self._settings_file(vnf).exists():
            return
        before = self._supervisor.digest(name) or ""
        same_pages = before.partition(" ")[2] == made_from.partition(" ")[2]
        try:
            same = same_pages and self._fixed(vnf).read_text() == vnf.fixed
        except OSError:
            same = False  # of an earlier version, which did not note it
        if before == made_from or not same:
            return
        self._confinement.write_config(vnf, text, self._settings_file(vnf))
        try:
            await reload(self.control(vnf))
        except ControlError as error:
            log.warning("VNF %s is started anew, since it cannot reload: %s", vnf.vnf, error)
            return
        self._supervisor.note(name, made_from)

    async def _launch(self, vnf: VnfSpec, argv: Sequence[str], digest: str) -> ProcessId:
        """Starts the VNF, or keeps the one that runs and was made from the same `digest`.

        Raises:
            ProcessError: it cannot be started.
        """
        if not namespaces.has_interfaces(vnf):
            confined = await asyncio.to_thread(self._confinement.confined, vnf)
            process, _ = await self._spawn(vnf, argv, digest, confined)
            return process
        if vnf.user is None:
            raise EngineError(f"VNF {vnf.vnf}: its interfaces need a user of its own")
        waits_at, go = os.pipe()
        try:
            confined = await asyncio.to_thread(self._confinement.confined, vnf, (), waits_at)
            process, is_new = await self._spawn(vnf, argv, digest, confined, (waits_at,))
            if is_new:
                await namespaces.give(vnf, process, self._prefix)
                os.write(go, b"1")
        finally:
            os.close(waits_at)
            os.close(go)
        return process

    async def _spawn(
        self,
        vnf: VnfSpec,
        argv: Sequence[str],
        digest: str,
        confined: Confined | None,
        inherit: Sequence[int] = (),
    ) -> tuple[ProcessId, bool]:
        return await self._supervisor.ensure(
            self._process(vnf),
            [*(confined.command() if confined else ()), *argv],
            cores=vnf.cores,
            digest=digest,
            environment=self.environment(vnf),
            inherit=inherit,
            bare=confined is not None,
        )

    def environment(self, vnf: VnfSpec) -> dict[str, str]:
        """The environment of the VNF's process."""
        return self._confinement.environment(vnf)

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        """See Executor: as the VNF's user, in its network and cgroups."""
        process = self._supervisor.find(self._process(vnf))
        if process is None:
            raise NotRunning(f"VNF {vnf.vnf}: it does not run")
        confined = await asyncio.to_thread(self._confinement.confined, vnf, joins=process.pid)
        if confined is None:
            raise EngineError(f"VNF {vnf.vnf}: it has no user of its own to run commands as")
        argv = [*confined.command(), *command]
        return await run(argv, self.environment(vnf), stdin, timeout_s)

    async def _missing(self, vnf: VnfSpec) -> str | None:
        """What a starting VNF still lacks to forward: its worker, or a peer on a port."""
        try:
            # Refused until the ports are open and the worker runs.
            counters = await call(self.control(vnf), "counters", timeout_s=2.0)
        except ControlError as error:
            return str(error)
        down = [name for name, port in counters["ports"].items() if port["link"] != "up"]
        return f"no peer on port {down[0]}" if down else None

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine."""
        process = self._supervisor.find(self._process(vnf))
        async with namespaces.giving_back(vnf, process, self._prefix):
            try:
                await self._supervisor.end(self._process(vnf))
            except ProcessError as error:
                raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        await asyncio.to_thread(self._confinement.remove, vnf)
        remove_remains(file_prefix(vnf))

    def _made_from(self, vnf: VnfSpec) -> str:
        """What the supervisor notes of the VNF: all that it is made from."""
        return f"{vnf.digest} {'hugepages' if self._hugepages else 'pages'}"

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine."""
        name = self._process(vnf)
        process = self._supervisor.find(name)
        if process is None or self._supervisor.digest(name) != self._made_from(vnf):
            return False
        return not namespaces.has_interfaces(vnf) or present(process.pid, vnf)

    def observed(self, vnf: VnfSpec) -> Observed | None:
        """See Engine."""
        return observe(self._supervisor.find(self._process(vnf)))

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine."""
        return await self._ask(vnf, "counters")

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine."""
        return {"approximate": False, **await self._ask(vnf, "cycles")}

    async def _ask(self, vnf: VnfSpec, method: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await call(self.control(vnf), method)
        except ControlError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        return answer

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        """See Engine."""
        return (self._process(vnf),)
