# SPDX-License-Identifier: Apache-2.0
"""What programs of others have in common: a container whose ports are kernel interfaces.

runc makes the container with a network namespace of its own, which its user namespace owns; the
ends of the ports' veth pairs are moved there and set up; only then does the program start.
`running` is a container whose program runs and has all its interfaces.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, ValidationError

from headrace.engines import management
from headrace.engines.base import EngineError, Observed, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.cpu_time import cycles_as_cpu_time
from headrace.engines.execution import Executed, NotRunning
from headrace.engines.forwarding import LOOPBACK, Forwarder, Way
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

log = logging.getLogger("headrace.node")

SETTINGS_VARIABLE = "HEADRACE_SETTINGS"

_PATIENCE_S = 2.0
"""Between SIGTERM and SIGKILL, where `stop_s` does not say."""


class ProgramSettings(InterfaceSettings):
    """`ready`: a text of the program's output without which it does not count as started.

    `start_s` is how long that may take. Without `ready` a program counts as started when it runs.
    `stop_s` is how long a program that handles SIGTERM has to end; then it is killed. One that
    does not handle it is killed at once.
    `settings` are the program's own: it finds them as JSON in the file that HEADRACE_SETTINGS
    names. After a change of them alone the command `reload` is run in the VNF, if there is one and
    it ends with 0; else the VNF is started anew.
    `management`: it has a NIC by which forwarded connections come (management.py).
    """

    ready: str = ""
    start_s: float = Field(30.0, gt=0, le=600)
    stop_s: float | None = Field(None, ge=0, le=600)
    settings: dict[str, Any] = Field({})
    reload: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    management: bool = False


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
        if found.management and found.meets(management.ADDRESS.network):
            text = f"VNF {vnf.vnf}: configuration.addresses: {management.ADDRESS.network} is of the"
            raise EngineError(f"{text} management NIC")
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
        if self._is_up(vnf) and not self._has_settings(vnf, settings):
            await self._reload(vnf, settings)
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
            await self._forwarder.ensure(vnf, process, self._way(vnf, settings))
        except EngineError:
            await self.stop(vnf)
            raise

    def _way(self, vnf: VnfSpec, settings: S) -> Way:
        """How forwarded connections come to it."""
        return management.way(vnf) if settings.management else LOOPBACK

    def _settings_file(self, vnf: VnfSpec) -> Path:
        """The program's own settings, in a directory that it sees as a whole."""
        return self._confinement.mounted_config(vnf)

    def _settings_variable(self, vnf: VnfSpec) -> dict[str, str]:
        return {SETTINGS_VARIABLE: str(self._settings_file(vnf))}

    def _write_settings(self, vnf: VnfSpec, settings: S) -> None:
        text = json.dumps(settings.settings, sort_keys=True)
        self._confinement.write_config(vnf, text, self._settings_file(vnf))

    def _has_settings(self, vnf: VnfSpec, settings: S) -> bool:
        """Whether the program was given these settings."""
        try:
            text = self._settings_file(vnf).read_text()
        except OSError:
            return not settings.settings  # of an earlier version, which had none
        return bool(text == json.dumps(settings.settings, sort_keys=True))

    async def _reload(self, vnf: VnfSpec, settings: S) -> None:
        """Gives a running program other settings; one that cannot take them is stopped."""
        await asyncio.to_thread(self._write_settings, vnf, settings)
        try:
            done = await self.execute(vnf, settings.reload, timeout_s=settings.start_s)
        except EngineError as error:
            log.warning("%s: it does not reload: %s", vnf.vnf, error)
        else:
            if done.exit_code == 0:
                return
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            log.warning("VNF %s: its reload ended with %s: %s", vnf.vnf, done.exit_code, said[:500])
        await self.stop(vnf)

    def _made_from(self, vnf: VnfSpec, settings: S) -> str:
        """What of the VNF cannot change while it runs."""
        if not settings.reload:
            return vnf.digest
        others = {key: value for key, value in vnf.configuration.items() if key != "settings"}
        return vnf.model_copy(update={"configuration": others}).digest

    async def _start(self, vnf: VnfSpec, settings: S) -> None:
        name = self._process(vnf)
        await self._check_runtime(settings)
        await asyncio.to_thread(self._confinement.prepare, vnf)
        await asyncio.to_thread(self._write_settings, vnf, settings)
        pid, argv = await self._create(vnf, settings)
        self._supervisor.adopt(name, pid, argv, self._made_from(vnf, settings))
        network = f"/proc/{pid}/ns/net"
        await asyncio.to_thread(move_in, vnf, network, self._prefix, settings)
        if settings.management:
            await asyncio.to_thread(management.make, vnf, network)
        await self._begin(vnf, settings)

    async def _check_runtime(self, settings: S) -> None:
        """Whether there is what runs such containers.

        Raises:
            EngineError: there is not; says why.
        """
        del settings
        self._runc.check()

    async def _create(self, vnf: VnfSpec, settings: S) -> tuple[int, Sequence[str]]:
        """Makes the container; its first process, and what that is to run.

        Raises:
            EngineError, ProcessError, OSError: that fails.
        """
        await asyncio.to_thread(self._confinement.make_parent, vnf)
        bundle = self._bundle(vnf)
        container = await asyncio.to_thread(self._prepare, vnf, settings, bundle)
        file = self._supervisor.log_of(self._process(vnf))
        pid = await self._runc.create(vnf.name, bundle, file)
        if pid is None:
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(self._process(vnf))}")
        self._log_from(vnf).write_text(str(file.stat().st_size))
        return pid, container.argv

    async def _begin(self, vnf: VnfSpec, settings: S) -> None:
        """Starts the program, whose interfaces are there.

        Raises:
            EngineError, ProcessError, OSError: that fails.
        """
        del settings
        name = self._process(vnf)
        if not await self._runc.start(vnf.name, self._supervisor.log_of(name)):
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(name)}")

    async def _delete(self, vnf: VnfSpec) -> None:
        """Removes what is left of the container, whose processes have ended."""
        await self._runc.delete(vnf)
        await asyncio.to_thread(self._clean, vnf)

    def _log_from(self, vnf: VnfSpec) -> Path:
        """Where in its log the output of the VNF begins."""
        return self._confinement.place(vnf) / "log-from"

    async def _wait(self, vnf: VnfSpec, settings: S) -> None:
        deadline = asyncio.get_running_loop().time() + settings.start_s
        noted = self._confinement.place(vnf) / "ready"
        text = self._ready_text(settings)
        while text and not noted.exists():
            if text in await asyncio.to_thread(self._output, vnf):
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
        with self._supervisor.log_of(self._process(vnf)).open("rb") as said:
            said.seek(int(self._log_from(vnf).read_text()))
            return said.read().decode(errors="replace")

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

    def _stop_s(self, vnf: VnfSpec) -> float:
        """How long the program has to end after SIGTERM; the default if its settings are wrong."""
        try:
            given = self.settings(vnf).stop_s
        except EngineError:  # of an earlier version, which knew other keys
            given = None
        return self.patience_s if given is None else given

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine. Its namespace goes with it, but not the pairs whose ends are in there."""
        await self._forwarder.end(vnf)
        process = self._supervisor.find(self._process(vnf))
        async with giving_back(vnf, process, self._prefix):
            try:
                await self._supervisor.end(self._process(vnf), self._stop_s(vnf))
            except ProcessError as error:
                raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        await self._delete(vnf)
        await asyncio.to_thread(management.remove, vnf)
        await asyncio.to_thread(self._confinement.remove, vnf)

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine: with its forwards and settings."""
        process = self._supervisor.find(self._process(vnf))
        up = process is not None and self._is_up(vnf)
        settings = self.settings(vnf)
        up = up and self._has_settings(vnf, settings)
        way = self._way(vnf, settings)
        return up and process is not None and self._forwarder.runs(vnf, process, way)

    def _is_up(self, vnf: VnfSpec) -> bool:
        """Whether its container runs as specified, with all interfaces."""
        name = self._process(vnf)
        process, settings = self._supervisor.find(name), self.settings(vnf)
        return (
            process is not None
            and self._supervisor.digest(name) == self._made_from(vnf, settings)
            and present(process.pid, vnf)
            and (not settings.management or management.present(vnf, process.pid))
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
