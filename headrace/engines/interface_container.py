# SPDX-License-Identifier: Apache-2.0
"""What programs of others have in common: a container whose ports are kernel interfaces.

runc makes the container with a network namespace of its own, which its user namespace owns; the
ends of the ports' veth pairs are moved there and set up; only then does the program start.
`running` is a container whose program runs and has all its interfaces.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import Field, ValidationError

from headrace.engines.base import EngineError, Observed, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.cpu_time import cycles_as_cpu_time
from headrace.engines.execution import Executed, NotRunning
from headrace.engines.forwarding import Forwarder
from headrace.engines.interfaces import (
    InterfaceSettings,
    check_ports,
    counters,
    move_in,
    present,
)
from headrace.engines.namespaces import giving_back
from headrace.engines.observation import observe
from headrace.engines.oci import Container
from headrace.engines.runc import RUNC, Runc
from headrace.machine.processes import ProcessError, Supervisor
from headrace.switches.base import PortKind

_PATIENCE_S = 2.0
"""Between SIGTERM, which the first process of a container ignores unless it handles it, and
SIGKILL."""


class ProgramSettings(InterfaceSettings):
    """`ready`: a text of the program's output without which it does not count as started.

    `start_s` is how long that may take. Without `ready` a program counts as started when it runs.
    """

    ready: str = ""
    start_s: float = Field(30.0, gt=0, le=600)


S = TypeVar("S", bound=ProgramSettings)


class InterfaceContainerEngine(Generic[S]):
    """Containers with kernel interfaces. Who derives from it says what is in them."""

    name = "container"
    port_kinds: tuple[PortKind, ...] = (PortKind.VETH,)
    settings_model: type[S]
    patience_s = _PATIENCE_S

    def __init__(
        self, rundir: Path, prefix: str, supervisor: Supervisor, confinement: Confinement
    ) -> None:
        self._rundir = rundir
        self._prefix = prefix
        self._supervisor = supervisor
        self._confinement = confinement
        self._runc = Runc(rundir / "runc")
        self._forwarder = Forwarder(supervisor)

    def _bundle(self, vnf: VnfSpec) -> Path:
        return self._rundir / "bundles" / vnf.name

    def _process(self, vnf: VnfSpec) -> str:
        return f"vnf-{vnf.name}"

    def settings(self, vnf: VnfSpec) -> S:
        """The VNF's configuration.

        Raises:
            EngineError: it is wrong; names the key.
        """
        try:
            found = self.settings_model.model_validate(vnf.configuration)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in ("configuration", *first["loc"]))
            raise EngineError(f"VNF {vnf.vnf}: {place}: {first['msg']}") from None
        check_ports(vnf, found)
        return found

    async def check(self, vnf: VnfSpec) -> None:
        """See Engine."""
        self.settings(vnf)
        if not vnf.cores:
            raise EngineError(f"VNF {vnf.vnf}: template {vnf.template} needs `cores`, at least 1")

    def _prepare(self, vnf: VnfSpec, settings: S, bundle: Path) -> Container:
        """Makes the bundle's directory with what belongs in it; what the container is to be.

        Raises:
            EngineError, ImageError, OSError: that fails.
        """
        raise NotImplementedError

    def _ready_text(self, settings: S) -> str:
        """The text of the program's output without which it is not ready; none: at once."""
        return settings.ready

    def _clean(self, vnf: VnfSpec) -> None:
        """Removes what `_prepare` has made; the container has ended."""
        raise NotImplementedError

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine."""
        settings = self.settings(vnf)
        await self.check(vnf)
        if not self._is_up(vnf):
            await self.stop(vnf)
            try:
                await self._start(vnf, settings)
            except (ProcessError, EngineError, OSError) as error:
                await self.stop(vnf)
                text = str(error)
                named = text if text.startswith("VNF ") else f"VNF {vnf.vnf}: {text}"
                raise EngineError(named) from error
        await self._wait(vnf, settings)
        process = self._supervisor.find(self._process(vnf))
        if process is None:
            words = self._supervisor.last_words(self._process(vnf))
            await self.stop(vnf)
            raise EngineError(f"VNF {vnf.vnf}: ended: {words}")
        try:
            await self._forwarder.ensure(vnf, process)
        except EngineError:
            await self.stop(vnf)
            raise

    async def _start(self, vnf: VnfSpec, settings: S) -> None:
        self._runc.check()
        name = self._process(vnf)
        await asyncio.to_thread(self._confinement.prepare, vnf)
        await asyncio.to_thread(self._confinement.make_parent)
        bundle = self._bundle(vnf)
        container = await asyncio.to_thread(self._prepare, vnf, settings, bundle)
        log = self._supervisor.log_of(name)
        pid = await self._runc.create(vnf.name, bundle, log)
        if pid is None:
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(name)}")
        self._supervisor.adopt(name, pid, container.argv, vnf.digest)
        self._log_from(vnf).write_text(str(log.stat().st_size))
        await asyncio.to_thread(move_in, vnf, f"/proc/{pid}/ns/net", self._prefix, settings)
        if not await self._runc.start(vnf.name, log):
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(name)}")

    def _log_from(self, vnf: VnfSpec) -> Path:
        """Where in its log the output of the VNF begins."""
        return self._confinement.place(vnf) / "log-from"

    async def _wait(self, vnf: VnfSpec, settings: S) -> None:
        deadline = asyncio.get_running_loop().time() + settings.start_s
        noted = self._confinement.place(vnf) / "ready"
        text = self._ready_text(settings)
        while text and not noted.exists():
            if text in self._output(vnf):
                noted.touch()
                return
            why = ""
            if self._supervisor.find(self._process(vnf)) is None:
                why = f"ended: {self._supervisor.last_words(self._process(vnf))}"
            elif asyncio.get_running_loop().time() > deadline:
                why = f"no {text!r} in its output after {settings.start_s:g} s"
            if why:
                await self.stop(vnf)
                raise EngineError(f"VNF {vnf.vnf}: {why}")
            await asyncio.sleep(0.05)

    def _output(self, vnf: VnfSpec) -> str:
        """What this container has written so far."""
        with self._supervisor.log_of(self._process(vnf)).open("rb") as log:
            log.seek(int(self._log_from(vnf).read_text()))
            return log.read().decode(errors="replace")

    def network(self, vnf: VnfSpec) -> Path | None:
        """See Networked."""
        process = self._supervisor.find(self._process(vnf))
        return Path(f"/proc/{process.pid}/ns/net") if process else None

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        """See Executor."""
        if self._supervisor.find(self._process(vnf)) is None:
            raise NotRunning(f"VNF {vnf.vnf}: it does not run")
        return await self._runc.execute(vnf, self._bundle(vnf), command, stdin, timeout_s)

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine. Its namespace goes with it, but not the pairs whose ends are in there."""
        await self._forwarder.end(vnf)
        process = self._supervisor.find(self._process(vnf))
        async with giving_back(vnf, process, self._prefix):
            try:
                await self._supervisor.end(self._process(vnf), self.patience_s)
            except ProcessError as error:
                raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        await self._runc.delete(vnf)
        await asyncio.to_thread(self._clean, vnf)
        await asyncio.to_thread(self._confinement.remove, vnf)

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine: with its forwards."""
        process = self._supervisor.find(self._process(vnf))
        up = process is not None and self._is_up(vnf)
        return up and process is not None and self._forwarder.runs(vnf, process)

    def _is_up(self, vnf: VnfSpec) -> bool:
        """Whether its container runs as specified, with all interfaces."""
        name = self._process(vnf)
        process = self._supervisor.find(name)
        return (
            process is not None
            and self._supervisor.digest(name) == vnf.digest
            and present(process.pid, vnf)
        )

    def observed(self, vnf: VnfSpec) -> Observed | None:
        """See Engine."""
        found = observe(self._supervisor.find(self._process(vnf)))
        return found and found.model_copy(update={"engine": self.name})

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: the kernel's counters of each interface."""
        process = self._supervisor.find(self._process(vnf))
        if process is None:
            raise EngineError(f"VNF {vnf.vnf}: it does not run")
        return {"ports": await asyncio.to_thread(counters, process.pid, vnf)}

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: CPU time of the first process; the kernel's part is in softirq time."""
        reason = "packets pass the kernel; their cost is in the switch's softirq time"
        return await cycles_as_cpu_time(
            self._supervisor, self._process(vnf), vnf, reason, children=True
        )

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        """See Engine."""
        return (self._process(vnf), *self._forwarder.names(vnf))
