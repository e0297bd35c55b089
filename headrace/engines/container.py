# SPDX-License-Identifier: Apache-2.0
"""The engine for VNFs in containers: headrace-vnf by runc, without a daemon and without an image.

It is the engine `process` with another way to start: the same configuration, the same control
socket, the same ports, the same user of its own. `oci.py` says what the container sees; of the
node's directory that is what `confinement.py` gives to this VNF alone.

The container's process is the supervisor's as any other, found again by its mark; what runc itself
knows of it is below `<rundir>/runc`, and goes with it.
"""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.oci import Container, make_bundle
from headrace.engines.process import ProcessEngine
from headrace.machine.priority import ordinary
from headrace.machine.processes import ProcessError, ProcessId, Supervisor, make_private, open_log
from headrace.switches.base import PortKind

RUNC = "runc"

_GROUP_PATIENCE_S = 3.0


class ContainerEngine(ProcessEngine):
    """headrace-vnf in containers."""

    name = "container"
    reloads = False  # the file that it has read is the one that was there when it was started
    port_kinds: tuple[PortKind, ...] = (PortKind.MEMIF, PortKind.VHOST_USER, PortKind.SHM)

    def __init__(
        self,
        rundir: Path,
        supervisor: Supervisor,
        hugepages: bool,
        confinement: Confinement | None = None,
    ) -> None:
        super().__init__(rundir, supervisor, hugepages, confinement)
        self._state = rundir / "runc"
        self._bundles = rundir / "bundles"

    async def _launch(self, vnf: VnfSpec, argv: Sequence[str], digest: str) -> ProcessId:
        """See ProcessEngine: in a container."""
        if shutil.which(RUNC) is None:
            raise ProcessError(f"{RUNC} is not installed; run `make setup`")
        name = self._process(vnf)
        running = self._supervisor.find(name)
        if running is not None:
            return running  # as it was made: `ensure` ended any other
        await self._delete(vnf)
        bundle = self._bundles / vnf.name
        if vnf.user is None or vnf.group is None or vnf.node_group is None:
            raise ProcessError(f"VNF {vnf.vnf}: a container needs a user and groups of its own")
        own = self._confinement
        await asyncio.to_thread(own.make_parent)
        limits = own.limits(vnf)
        make_bundle(
            Container(
                name=vnf.name,
                argv=list(argv),
                environment={**own.environment(vnf), **self._supervisor.mark(name)},
                limits=limits,
                cgroup=f"/{own.group(vnf)}",
                user=vnf.user,
                group=vnf.group,
                node_group=vnf.node_group,
                readable=(*_outside_of_usr(Path(argv[0]).parent), own.config(vnf)),
                writable=(
                    own.own(vnf),
                    *_port_directories(vnf),
                    *await _group_sockets(vnf, own),
                    *((own.huge(vnf),) if self._hugepages else ()),
                ),
            ),
            bundle,
        )
        pid_file = bundle / "pid"
        words = ["run", "--detach", "--bundle", str(bundle), "--pid-file", str(pid_file), vnf.name]
        log = self._supervisor.log_of(name)
        make_private(log.parent)
        if await self._runc(*words, log=log) != 0:
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(name)}")
        return self._supervisor.adopt(name, int(pid_file.read_text()), list(argv), digest)

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine."""
        await super().stop(vnf)
        await self._delete(vnf)
        shutil.rmtree(self._bundles / vnf.name, ignore_errors=True)

    async def _delete(self, vnf: VnfSpec) -> None:
        """Removes what runc keeps of a container that has ended: its state and its cgroups."""
        if (self._state / vnf.name).exists() and await self._runc("delete", "--force", vnf.name):
            raise EngineError(f"VNF {vnf.vnf}: {RUNC} cannot delete its container")

    async def _runc(self, *words: str, log: Path | None = None) -> int:
        """Runs runc to its end; what it says, and what the container will, goes to `log`."""
        with open_log(log or Path("/dev/null")) as output:
            child = await asyncio.create_subprocess_exec(
                *ordinary([RUNC, "--root", str(self._state), *words]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=0o077,
            )
            return await child.wait()


def _port_directories(vnf: VnfSpec) -> list[Path]:
    """The folders of the sockets of the VNF's ports, each with that one alone."""
    return [
        Path(port.switch_port.options[option]).parent
        for port in vnf.ports
        for kind, option in ((PortKind.MEMIF, "socket"), (PortKind.VHOST_USER, "path"))
        if port.switch_port.kind is kind
    ]


async def _group_sockets(vnf: VnfSpec, own: Confinement) -> list[Path]:
    """The sockets of the trust groups that the VNF's ports are in; runc binds only what exists.

    A switch that was restarted has other sockets under the same names, so a container does not
    outlive its switch: headrace-vnf ends when a group's switch is gone.

    Raises:
        ProcessError: the switch does not serve a group.
    """
    sockets = {
        Path(port.switch_port.options["socket"])
        for port in vnf.ports
        if port.switch_port.kind is PortKind.SHM
    }
    deadline = asyncio.get_running_loop().time() + _GROUP_PATIENCE_S
    while missing := [socket for socket in sockets if not socket.exists()]:
        if asyncio.get_running_loop().time() > deadline:
            raise ProcessError(f"the switch does not serve the trust group of {missing[0]}")
        await asyncio.sleep(0.02)
    await asyncio.to_thread(own.prepare, vnf)  # gives what is there now to the graph's group
    return sorted(sockets)


def _outside_of_usr(directory: Path) -> tuple[Path, ...]:
    """The directory, unless the container has it already."""
    return () if directory.is_relative_to("/usr") else (directory,)
