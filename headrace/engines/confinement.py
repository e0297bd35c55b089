# SPDX-License-Identifier: Apache-2.0
"""What a VNF may reach and use on the host, beside what its engine gives it.

Each VNF has a user of its own (`VnfSpec.user`, planned by the node), who has no other process and
no file but these:

    <rundir>/vnf/<digest>/            the node's; the VNF may pass through
        config.json                   what it reads (a container: settings/config.json)
        run/                          its own: sockets that it makes, DPDK's runtime files
        huge/                         its own hugetlbfs, as large as its memory
    <rundir>/ports/<port>/            vhost-user: its own, for it makes the socket
                                      memif: the switch's, the VNF may connect

The trust group's socket (`shm`) is for the users of the graph's group. So that all these can be
reached, the node's directory and those in it that hold them may be passed, not listed, by the
node's group, which all VNFs have beside their own.

The node never writes below a directory that a VNF owns: a symbolic link there would lead it
anywhere. Control groups limit memory, cores and the number of processes; all of a node's VNFs
together are in one that has a smaller share of a contended core than the node's own processes.
"""

import logging
import os
import shutil
import subprocess
from pathlib import Path

from headrace.engines import namespaces
from headrace.engines.base import EngineError, VnfSpec
from headrace.machine.cgroups import CONTROLLERS, CgroupError, Group, Limits, find_hierarchies
from headrace.machine.confined import Confined
from headrace.machine.names import digest_of
from headrace.machine.processes import write_atomically
from headrace.switches.base import PortKind

log = logging.getLogger("headrace.node")

OVERHEAD_MB = 192
"""What a DPDK process needs beside its own memory: programs, page tables, its peers' rings."""

MAX_PROCESSES = 64
WEIGHT = 256
"""Of all VNFs of a node together; an ordinary process beside them has 1024 (cgroups.Limits), the
node's own nearly ten times that (machine/priority.py)."""

_YIELDING = "-yield"
"""The end of the name of the group of those VNFs that have no part in that weight."""
_SHARE = 1024
"""Weight of each of those VNFs: that of an ordinary process in a session of its own."""

_AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")
_MOUNT, _UMOUNT = "/usr/bin/mount", "/usr/bin/umount"
_PAGE_MB = 2
_NO_MEMORY = "Cannot allocate memory"  # mount(8) of ENOMEM


class Confinement:
    """The private places and limits of the VNFs of one node directory.

    `weight`: of all VNFs together, beside what else runs on their cores; None: all of them yield.

    sched_yield(2) gives way to processes of its own group only, and where the kernel has autogroups
    (sched(7)) a session is a group: of two pollers in sessions of their own, less than 1 % of the
    yields let the other one run. There, the VNFs that yield are in one group of the CPU's
    controller, with the weight of as many ordinary processes, if that controller has a hierarchy of
    its own (version 1). Without autogroups they need none: then they alternate with all others that
    yield, as a generator. In version 2 a process is in one group for all controllers, so they are
    scheduled as any other process, and version 2 has groups of processes without a weight only
    where no other process has enabled it at the root.
    """

    def __init__(self, rundir: Path, weight: int | None = WEIGHT) -> None:
        self._rundir = rundir.resolve()
        self._weight = weight
        self.parent = f"headrace-{digest_of(str(self._rundir), size=6)}"

    def place(self, vnf: VnfSpec) -> Path:
        """The VNF's directory."""
        return self._rundir / "vnf" / digest_of(vnf.name)

    def own(self, vnf: VnfSpec) -> Path:
        """The directory that the VNF itself may write to."""
        return self.place(vnf) / "run"

    def huge(self, vnf: VnfSpec) -> Path:
        """Where the VNF's own hugetlbfs is mounted, if it has one."""
        return self.place(vnf) / "huge"

    def config(self, vnf: VnfSpec) -> Path:
        """What the VNF reads; written by `write_config`."""
        return self.place(vnf) / "config.json"

    def group(self, vnf: VnfSpec) -> str:
        """The VNF's control group."""
        return f"{self._parent_of(vnf)}/{vnf.name}"

    def _parent_of(self, vnf: VnfSpec) -> str:
        return self.parent + (_YIELDING if self._weight is not None and _yields(vnf) else "")

    def _controllers(self, vnf: VnfSpec) -> tuple[str, ...]:
        weighed = self._weight is not None and not _yields(vnf)
        return tuple(c for c in CONTROLLERS if weighed or c != "cpu")

    def prepare(self, vnf: VnfSpec, *, hugepages_mb: int = 0) -> None:
        """Makes the VNF's directories, and gives it the sockets of its ports. Repeatable.

        Raises:
            EngineError: something cannot be made; names it.
        """
        try:
            self._make_directories(vnf)
            if hugepages_mb and vnf.user is not None:
                self._mount_hugepages(vnf, hugepages_mb)
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error

    def _make_directories(self, vnf: VnfSpec) -> None:
        for directory in (self._rundir, self._rundir / "ports", self._rundir / "vnf"):
            self._passage(directory, vnf)
        self._directory(self.place(vnf), 0o710, 0, vnf.user)
        self._directory(self.own(vnf), 0o700, vnf.user, vnf.user)
        for port in vnf.ports:
            spec = port.switch_port
            if spec.kind is PortKind.VHOST_USER:
                self._directory(Path(spec.options["path"]).parent, 0o700, vnf.user, vnf.user)
            elif spec.kind is PortKind.MEMIF:
                path = Path(spec.options["socket"])
                self._directory(path.parent, 0o710, 0, vnf.user)
                self._give_socket(path, vnf.user)
            elif spec.kind is PortKind.SHM:
                path = Path(spec.options["socket"])
                self._passage(path.parent, vnf)
                self._give_socket(path, vnf.group)

    def _passage(self, directory: Path, vnf: VnfSpec) -> None:
        """A directory of the node's that VNFs may pass."""
        self._directory(directory, 0o710, 0, vnf.node_group)

    def _directory(self, path: Path, mode: int, user: int | None, group: int | None) -> None:
        if path == self._rundir or path.is_relative_to(self._rundir):
            path.mkdir(parents=True, exist_ok=True)
            if user is not None and group is not None:
                os.chown(path, user, group)
                path.chmod(mode)

    @staticmethod
    def _give_socket(path: Path, group: int | None) -> None:
        """Lets a group connect to a socket of the switch's."""
        if group is not None and path.is_socket():
            os.chown(path, 0, group)
            path.chmod(0o660)

    def _mount_hugepages(self, vnf: VnfSpec, megabytes: int) -> None:
        """Gives the VNF a hugetlbfs with its pages reserved; none if so many are not free.

        Of VNFs that start at once each would else count the pages that another is about to take.
        """
        place = self.huge(vnf)
        if place.is_mount():
            return
        place.mkdir(exist_ok=True)
        rounded = -(-megabytes // _PAGE_MB) * _PAGE_MB
        size = f"pagesize={_PAGE_MB}M,size={rounded}M,min_size={rounded}M"
        owner = f"mode=0700,uid={vnf.user},gid={vnf.user}"
        options = f"nosuid,nodev,{size},{owner}"
        try:
            _run(_MOUNT, "-t", "hugetlbfs", "-o", options, "none", str(place))
        except OSError as error:
            if _NO_MEMORY not in str(error):
                raise
            place.rmdir()
            log.warning(
                "VNF %s: %d MB of hugepages are not free; it runs on ordinary pages",
                vnf.name,
                rounded,
            )

    def mounted_config(self, vnf: VnfSpec) -> Path:
        """What a container reads, in a directory that it has as a whole.

        Of a file that is mounted alone it would go on to see the old one when that is replaced.
        """
        return self.place(vnf) / "settings" / "config.json"

    def write_config(self, vnf: VnfSpec, text: str, file: Path | None = None) -> None:
        """Writes what the VNF reads (`config`, or `file`); only it and the node can."""
        file = file or self.config(vnf)
        if file.parent != self.place(vnf):
            self._directory(file.parent, 0o750, 0, vnf.user)
        write_atomically(file, text)
        if vnf.user is not None:
            os.chown(file, vnf.user, vnf.user)
        file.chmod(0o400)

    def limits(self, vnf: VnfSpec) -> Limits:
        """What the VNF may use."""
        return Limits(
            cores=vnf.cores,
            memory_mb=vnf.memory_mb + OVERHEAD_MB,
            processes=MAX_PROCESSES,
        )

    def make_parent(self, vnf: VnfSpec) -> None:
        """Makes the group of all VNFs of the node that are scheduled as this one is.

        Raises:
            EngineError: the machine cannot do that.
        """
        try:
            group = Group(self._parent_of(vnf), controllers=self._controllers(vnf))
            group.make(Limits(weight=self._weight))
        except CgroupError as error:
            raise EngineError(str(error)) from error

    def confined(
        self,
        vnf: VnfSpec,
        further_groups: tuple[int, ...] = (),
        waits_at: int | None = None,
        joins: int | None = None,
    ) -> Confined | None:
        """How the VNF's process is to be started; its control group is made. None: as the node.

        `waits_at` is the descriptor at which it waits for its interfaces, if it has any; `joins`
        the process whose namespaces it shares, if that is not itself.

        Raises:
            EngineError: the machine has not what that needs.
        """
        if vnf.user is None:
            return None
        self.make_parent(vnf)
        group = Group(self.group(vnf), controllers=self._controllers(vnf))
        try:
            group.make(self.limits(vnf))
            together = self._together(vnf)
        except CgroupError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        groups = tuple(g for g in (vnf.group, vnf.node_group, *further_groups) if g is not None)
        files = tuple(str(file) for file in (*group.process_files(), *together))
        return Confined(vnf.user, groups, files, waits_at, namespaces.locked_mb(vnf), joins)

    def _together(self, vnf: VnfSpec) -> list[Path]:
        """The file by which a VNF that yields joins the group of all these; none in version 2."""
        if not _yields(vnf) or not autogroups() or not _has_own_hierarchy():
            return []
        group = Group(self.parent + _YIELDING, controllers=("cpu",))
        group.make(Limits(weight=_SHARE * (1 + group.count())))
        return group.process_files()

    def environment(self, vnf: VnfSpec) -> dict[str, str]:
        """The whole environment of the VNF's process: nothing of the node's own."""
        own = {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self.own(vnf))}
        return {**own, **vnf.environment}

    def remove(self, vnf: VnfSpec) -> None:
        """Removes all of this; the VNF's processes have ended.

        Raises:
            EngineError: something is still in use.
        """
        try:
            group = Group(self.group(vnf))
            group.kill()  # what the VNF has left, or a command in it
            group.remove()
            if self.huge(vnf).is_mount():
                _run(_UMOUNT, "--lazy", str(self.huge(vnf)))
            shutil.rmtree(self.place(vnf), ignore_errors=True)
            for port in vnf.ports:
                if port.switch_port.kind is PortKind.VHOST_USER:
                    Path(port.switch_port.options["path"]).unlink(missing_ok=True)
        except (CgroupError, OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error


def autogroups() -> bool:
    """Whether the kernel schedules sessions as groups (sched(7))."""
    try:
        return _AUTOGROUPS.read_text().strip() == "1"
    except OSError:
        return False


def give_way() -> bool:
    """Whether VNFs that yield let others run that do so on their core."""
    return not autogroups() or _has_own_hierarchy()


def _has_own_hierarchy() -> bool:
    """Whether the CPU's controller is one of version 1 of control groups."""
    return "cpu" in find_hierarchies().version1


def _yields(vnf: VnfSpec) -> bool:
    return vnf.idle == "yield"


def remove_remains(rundir: Path) -> None:
    """Unmounts and removes whatever VNFs of this directory have left, for `down`."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        place = Path(line.split()[1])
        if any(place.is_relative_to(rundir.resolve() / name) for name in ("vnf", "bundles")):
            _run(_UMOUNT, "--lazy", str(place))
    for name in ("", _YIELDING):
        Group(Confinement(rundir).parent + name).remove_all()


def _run(*words: str) -> None:
    """Runs a program to its end; a failure says what it said."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(  # noqa: S603
        words, check=False, capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise OSError(f"{words[0]}: {done.stderr.strip()}")
