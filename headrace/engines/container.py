# SPDX-License-Identifier: Apache-2.0
"""The engine for VNFs in containers: headrace-vnf by runc (images of others: image.py).

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

from headrace.engines import namespaces
from headrace.engines.base import VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.execution import Executed, NotRunning
from headrace.engines.interfaces import InterfaceSettings, move_in
from headrace.engines.oci import Container, make_bundle
from headrace.engines.process import ProcessEngine
from headrace.engines.runc import RUNC, Runc
from headrace.machine.processes import ProcessError, ProcessId, Supervisor
from headrace.switches.base import PortKind

_GROUP_PATIENCE_S = 3.0


class ContainerEngine(ProcessEngine):
    """headrace-vnf in containers."""

    name = "container"

    def __init__(
        self,
        rundir: Path,
        supervisor: Supervisor,
        hugepages: bool,
        confinement: Confinement | None = None,
        prefix: str = "",
    ) -> None:
        super().__init__(rundir, supervisor, hugepages, confinement, prefix)
        self._runc = Runc(rundir / "runc")
        self._bundles = rundir / "bundles"

    async def _launch(self, vnf: VnfSpec, argv: Sequence[str], digest: str) -> ProcessId:
        """See ProcessEngine: in a container."""
        self._runc.check()
        name = self._process(vnf)
        running = self._supervisor.find(name)
        if running is not None:
            return running  # as it was made: `ensure` ended any other
        await self._runc.delete(vnf)
        bundle = self._bundles / vnf.name
        if vnf.user is None or vnf.group is None or vnf.node_group is None:
            raise ProcessError(f"VNF {vnf.vnf}: a container needs a user and groups of its own")
        own, config = self._confinement, self._settings_file(vnf)
        await asyncio.to_thread(own.make_parent, vnf)
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
                readable=(*_outside_of_usr(Path(argv[0]).parent), config.parent),
                writable=(
                    own.own(vnf),
                    *_port_directories(vnf),
                    *await _group_sockets(vnf, own),
                    *((own.huge(vnf),) if self._hugepages else ()),
                ),
                capabilities=namespaces.CAPABILITIES if namespaces.has_interfaces(vnf) else (),
                locked_mb=namespaces.locked_mb(vnf),
            ),
            bundle,
        )
        log = self._supervisor.log_of(name)
        pid = await self._runc.create(vnf.name, bundle, log)
        if pid is None:
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(name)}")
        process = self._supervisor.adopt(name, pid, list(argv), digest)
        if namespaces.has_interfaces(vnf):
            network = f"/proc/{pid}/ns/net"
            await asyncio.to_thread(move_in, vnf, network, self._prefix, InterfaceSettings())
        if not await self._runc.start(vnf.name, log):
            raise ProcessError(f"{RUNC}: {self._supervisor.last_words(name)}")
        return process

    def _settings_file(self, vnf: VnfSpec) -> Path:
        """See ProcessEngine."""
        return self._confinement.mounted_config(vnf)

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        """See Executor."""
        if self._supervisor.find(self._process(vnf)) is None:
            raise NotRunning(f"VNF {vnf.vnf}: it does not run")
        return await self._runc.execute(vnf, self._bundles / vnf.name, command, stdin, timeout_s)

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine."""
        await super().stop(vnf)
        await self._runc.delete(vnf)
        shutil.rmtree(self._bundles / vnf.name, ignore_errors=True)


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
