# SPDX-License-Identifier: Apache-2.0
"""Control groups of version 1, version 2 and the mixture of both (cgroups(7)).

In version 1 each controller has a hierarchy of its own, in version 2 all are in one; in hybrid
mode each controller is in one or the other. A `Group` is one path in whichever hierarchies have the
controllers that are asked for. Limits that a machine has no controller for are an error, never
ignored: the caller believes in them.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = ("memory", "cpuset", "pids", "cpu")
_MOUNTS = Path("/proc/self/mounts")
_PATIENCE_S = 2.0
_SHARES_MAX, _WEIGHT_MAX = 262144, 10000


class CgroupError(Exception):
    """A group cannot be made or removed; the text says which and why."""


@dataclass(frozen=True)
class Limits:
    """What the processes of a group may use together. `weight`: its share of a contended CPU.

    A weight is in the unit of version 1 (cpu.shares): 1024 is that of one ordinary process of the
    root group there, and of one group.
    """

    cores: tuple[int, ...] = ()
    memory_mb: int | None = None
    processes: int | None = None
    weight: int | None = None


@dataclass(frozen=True)
class Hierarchies:
    """Where each controller is: its hierarchy, and of which version that is.

    `roots` are of all that are mounted, those included that have no controller of ours.
    """

    version1: dict[str, Path] = field(default_factory=dict)
    version2: Path | None = None
    controllers2: frozenset[str] = frozenset()
    roots: tuple[Path, ...] = ()

    def of(self, controller: str) -> tuple[Path, int]:
        """The root of the hierarchy with this controller, and its version.

        Raises:
            CgroupError: no hierarchy has it.
        """
        if controller in self.version1:
            return self.version1[controller], 1
        if self.version2 is not None and controller in self.controllers2:
            return self.version2, 2
        raise CgroupError(f"this machine has no cgroup controller {controller} (see cgroups(7))")


def find_hierarchies(mounts: Path = _MOUNTS) -> Hierarchies:
    """The hierarchies that are mounted."""
    version1: dict[str, Path] = {}
    version2, controllers2 = None, frozenset[str]()
    roots: list[Path] = []
    for line in mounts.read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind in ("cgroup", "cgroup2"):
            roots.append(Path(place))
        if kind == "cgroup":
            for controller in set(options.split(",")) & set(CONTROLLERS):
                version1.setdefault(controller, Path(place))
        elif kind == "cgroup2" and version2 is None:
            version2 = Path(place)
            with contextlib.suppress(OSError):
                controllers2 = frozenset((version2 / "cgroup.controllers").read_text().split())
    return Hierarchies(version1, version2, controllers2, tuple(roots))


class Group:
    """The group `name` (parts separated by slashes) in the hierarchies of its controllers."""

    def __init__(
        self,
        name: str,
        hierarchies: Hierarchies | None = None,
        controllers: tuple[str, ...] = CONTROLLERS,
    ) -> None:
        self.name = name
        self._hierarchies = hierarchies or find_hierarchies()
        self._controllers = controllers

    def make(self, limits: Limits) -> None:
        """Makes the group with these limits, or gives an existing one these limits.

        Raises:
            CgroupError: a limit cannot be set.
        """
        try:
            for controller in self._controllers:
                root, version = self._hierarchies.of(controller)
                self._descend(root, version, controller)
                for file, value in _settings(controller, version, limits):
                    (root / self.name / file).write_text(value)
        except OSError as error:
            raise CgroupError(f"cgroup {self.name}: {error}") from error

    def _descend(self, root: Path, version: int, controller: str) -> None:
        """Makes each group on the way; a child has only what its parent passes on."""
        at = root
        for part in Path(self.name).parts:
            if version == 2:
                (at / "cgroup.subtree_control").write_text(f"+{controller}")
            child = at / part
            child.mkdir(exist_ok=True)
            if version == 1 and controller == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    if not (child / file).read_text().strip():
                        (child / file).write_text((at / file).read_text())
            at = child

    def places(self) -> list[Path]:
        """The group's directories, one in each hierarchy."""
        roots = dict.fromkeys(self._hierarchies.of(one)[0] for one in self._controllers)
        return [root / self.name for root in roots]

    def _all_places(self) -> list[Path]:
        """Wherever the group may be: runc makes a container's in all hierarchies."""
        elsewhere = [root / self.name for root in self._hierarchies.roots]
        return list(dict.fromkeys([*self.places(), *elsewhere]))

    def process_files(self) -> list[Path]:
        """The files to which a process writes 0 to join the group."""
        return [place / "cgroup.procs" for place in self.places()]

    def count(self) -> int:
        """How many processes are in the group itself; 0 if it is not there."""
        return max((len(_processes(place)) for place in self.places()), default=0)

    def kill(self) -> None:
        """Kills all processes that are in the group, if it is there."""
        for place in self.places():
            deadline = time.monotonic() + _PATIENCE_S
            while (pids := _processes(place)) and time.monotonic() < deadline:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)

    def remove(self) -> None:
        """Removes the group, whose processes have ended, if it is there.

        Raises:
            CgroupError: processes are in it, or other groups.
        """
        for place in self._all_places():
            deadline = time.monotonic() + _PATIENCE_S
            while place.is_dir():
                try:
                    place.rmdir()
                except OSError as error:
                    # The kernel takes a moment to take leave of processes that have ended.
                    if time.monotonic() > deadline:
                        raise CgroupError(f"cgroup {place}: {error.strerror}") from error
                    time.sleep(0.01)

    def remove_all(self) -> None:
        """Removes the group and all below it."""
        for place in self._all_places():
            for below, _, _ in os.walk(place, topdown=False):
                self._at(Path(below).relative_to(place.parent)).remove()

    def _at(self, name: Path) -> "Group":
        return Group(str(name), self._hierarchies, self._controllers)


def _processes(place: Path) -> list[int]:
    try:
        return [int(line) for line in (place / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _settings(controller: str, version: int, limits: Limits) -> Iterable[tuple[str, str]]:
    """The files of a controller and what to write there."""
    if controller == "memory" and limits.memory_mb is not None:
        file = "memory.limit_in_bytes" if version == 1 else "memory.max"
        yield file, str(limits.memory_mb << 20)
    elif controller == "cpuset" and limits.cores:
        yield "cpuset.cpus", ",".join(map(str, limits.cores))
    elif controller == "pids" and limits.processes is not None:
        yield "pids.max", str(limits.processes)
    elif controller == "cpu" and limits.weight is not None:
        if version == 1:
            yield "cpu.shares", str(min(limits.weight, _SHARES_MAX))
        else:
            # As systemd and runc convert: 1024 shares are a weight of 100.
            yield "cpu.weight", str(min(max(1, limits.weight * 100 // 1024), _WEIGHT_MAX))
