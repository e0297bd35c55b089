# SPDX-License-Identifier: Apache-2.0
"""What else ran on the measured cores, and on the siblings that share their execution units.

A poller has its core to itself only if nothing else is ever run there. The kernel accounts the time
of all tasks for each core (cgroup v1: `cpuacct.usage_percpu`, in nanoseconds; else /proc/stat, in
ticks of 10 ms) and that of each thread (`schedstat`): the difference is other programs' time. With
simultaneous multithreading a core shares its units with siblings; their time is recorded, too. What
a hypervisor runs on the other half of a physical core is seen by nobody in a guest.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.machine.autogroup import level, nice_by_core, unequal

CPUACCT = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu")
STAT = Path("/proc/stat")
CPUS = Path("/sys/devices/system/cpu")
_IDLE = (3, 4, 7)
"""Columns of a `cpuN` line that are not time of this machine's tasks: idle, iowait, steal; 8 and 9
(guests) are contained in the first two."""
_TASKS = 8


def siblings(core: int, cpus: Path = CPUS) -> list[int]:
    """The other hardware threads of a core's physical core."""
    try:
        text = (cpus / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return []
    return [one for one in _numbers(text) if one != core]


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def used_ns(cpuacct: Path = CPUACCT, stat: Path = STAT) -> dict[int, int]:
    """Nanoseconds for which each core has run tasks; empty if the kernel does not say."""
    try:
        return {core: int(ns) for core, ns in enumerate(cpuacct.read_text().split())}
    except (OSError, ValueError):
        pass
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    found = {}
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            ran = [int(t) for at, t in enumerate(fields[:_TASKS]) if at not in _IDLE]
            found[int(name.removeprefix("cpu"))] = sum(ran) * tick_ns
    return found


def ran_ns(threads: Iterable[Path]) -> int | None:
    """Nanoseconds for which the threads have run since they started; None if none is readable."""
    total, known = 0, False
    for thread in threads:
        try:
            total += int((thread / "schedstat").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            continue
        known = True
    return total if known else None


@dataclass(frozen=True)
class Look:
    """The times of all cores and of the measured threads, at one time."""

    at: float
    used: Mapping[int, int]
    own: Mapping[int, int | None]


class Cores:
    """The measured cores.

    Args:
        pollers: the folders in /proc of the threads that are measured, by their core.
    """

    def __init__(self, pollers: Mapping[int, Sequence[Path]]) -> None:
        self._pollers = {core: list(threads) for core, threads in pollers.items()}
        self._siblings = {
            core: [one for one in siblings(core) if one not in self._pollers]
            for core in self._pollers
        }

    def level(self) -> None:
        """Makes the sessions of pollers that share a core equal, where that is allowed."""
        level(self._pollers)

    def sessions(self) -> dict[str, Any]:
        """What a trial tells of its pollers' sessions: their nice values, and why they are off."""
        found = nice_by_core(self._pollers)
        return {"sessions": found, "unequal_sessions": unequal(found)}

    def look(self) -> Look:
        """Reads all times."""
        own = {core: ran_ns(threads) for core, threads in self._pollers.items()}
        return Look(time.monotonic(), used_ns(), own)

    def between(self, first: Look, last: Look) -> dict[str, dict[str, float]]:
        """Shares of the time between two looks by core: `others`, and `siblings` if it has any.

        A core is left out if the kernel does not tell its time, or that of what is measured on it.
        """
        window_ns = 1e9 * (last.at - first.at)
        found: dict[str, dict[str, float]] = {}
        if window_ns <= 0:
            return found

        def share(ns: float) -> float:
            return round(min(1.0, max(0.0, ns / window_ns)), 4)

        for core in self._pollers:
            ours, before = last.own[core], first.own[core]
            if core not in last.used or core not in first.used or ours is None or before is None:
                continue
            shares = {"others": share(last.used[core] - first.used[core] - (ours - before))}
            beside = [
                share(last.used[one] - first.used[one])
                for one in self._siblings[core]
                if one in last.used and one in first.used
            ]
            if beside:
                shares["siblings"] = max(beside)
            found[str(core)] = shares
        return found


def threads_of(pid: int) -> list[Path]:
    """The folders in /proc of a process's threads."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def by_core(threads: Iterable[Path]) -> dict[int, list[Path]]:
    """The threads that may run on one core only, by that core."""
    found: dict[int, list[Path]] = {}
    for thread in threads:
        try:
            allowed = os.sched_getaffinity(int(thread.name))
        except OSError:
            continue
        if len(allowed) == 1:
            found.setdefault(min(allowed), []).append(thread)
    return found
