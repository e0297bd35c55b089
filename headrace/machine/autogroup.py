# SPDX-License-Identifier: Apache-2.0
"""The nice values of sessions, by which Linux divides a core between processes of several.

With autogroups (sched(7)) each session is a group of the scheduler. A nice value of nice(2) weighs
processes of one session against each other; sessions are weighed by a nice value of their own
(/proc/PID/autogroup). Processes in a control group of the CPU's controller are weighed by that
instead, and are left out here.

Between sessions of unequal nice values sched_yield(2) hardly ever gives the core away: of two
processes on one core that compute for 5 µs and yield, 97 % of the yields let the other run if their
sessions have one nice value, 1 % with -20 and 0. Pollers that share a core therefore have two
rates, and which of the two is seen depends on what started them. `level` makes the values equal;
`unequal` says where they are not.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_FORM = re.compile(r"/autogroup-(\d+) nice (-?\d+)")
_IN_ROOT = re.compile(r"^\d+:(?:[^:\n]*,)?cpu(?:,[^:\n]*)?:/$", re.MULTILINE)
_CPU = re.compile(r"^\d+:(?:[^:\n]*,)?cpu(?:,[^:\n]*)?:", re.MULTILINE)


@dataclass(frozen=True)
class Session:
    """A session's group: its number and its nice value."""

    group: int
    nice: int


def session_of(pid: int | str, proc: Path = PROC) -> Session | None:
    """The group of a process (`self` is this one).

    None without autogroups, if it has ended, or if a control group of the CPU's has it instead.
    """
    try:
        found = _FORM.search((proc / str(pid) / "autogroup").read_text())
        groups = (proc / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    if _CPU.search(groups) and not _IN_ROOT.search(groups):
        return None
    return Session(int(found[1]), int(found[2])) if found else None


def set_nice(pid: int | str, nice: int, proc: Path = PROC) -> bool:
    """Sets the nice value of a process's session; False if the kernel refuses.

    True without autogroups: there is nothing to set. A value below 0 needs CAP_SYS_NICE, and
    without CAP_SYS_ADMIN the kernel takes one change each 0.1 s.
    """
    file = proc / str(pid) / "autogroup"
    try:
        if file.exists():
            file.write_text(str(nice))
    except OSError:
        return False
    return True


def processes_of(threads: Iterable[Path]) -> list[int]:
    """The processes of threads that are given by their folders (/proc/PID/task/TID), each once."""
    return list(dict.fromkeys(int(thread.parent.parent.name) for thread in threads))


def nice_by_core(
    pollers: Mapping[int, Sequence[Path]], proc: Path = PROC
) -> dict[str, dict[str, int]]:
    """By core, the nice value of the session of each process that has a poller there.

    Processes of which it is not known are left out; keys are text, as in JSON.
    """
    found: dict[str, dict[str, int]] = {}
    for core, threads in pollers.items():
        known = {str(pid): session_of(pid, proc) for pid in processes_of(threads)}
        found[str(core)] = {pid: of.nice for pid, of in known.items() if of is not None}
    return found


def unequal(by_core: Mapping[str, Mapping[str, int]]) -> str:
    """Why pollers that share a core don't share it evenly; empty if they do."""
    off = [
        f"core {core}: {', '.join(map(str, sorted(values.values())))}"
        for core, values in by_core.items()
        if len(set(values.values())) > 1
    ]
    if not off:
        return ""
    return f"sessions of pollers on one core have unequal nice values ({'; '.join(off)})"


def level(pollers: Mapping[int, Sequence[Path]], proc: Path = PROC) -> int:
    """Gives the sessions of pollers that share a core their lowest nice value; returns how many.

    Where the kernel refuses they stay as they are, which `unequal` then tells.
    """
    changed = 0
    for core, values in nice_by_core(pollers, proc).items():
        if not unequal({core: values}):
            continue
        lowest = min(values.values())
        changed += sum(
            set_nice(pid, lowest, proc) for pid, nice in values.items() if nice != lowest
        )
    return changed


def own_nice() -> int | None:
    """The nice value of this process's session; None without autogroups."""
    found = session_of(os.getpid())
    return None if found is None else found.nice
