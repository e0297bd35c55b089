# SPDX-License-Identifier: Apache-2.0
"""Raises the priority of the measured programs over all others on the machine.

A poller that is preempted in the middle of a burst counts the other program's time as its own busy
cycles, and two pollers that exchange packets both stall whenever one of them waits for its core.
Generator, switches and VNFs get the same priority, so they share cores evenly.

A nice value alone does not suffice: with autogroups Linux schedules by session, and a nice value
counts only within one (headrace/machine/autogroup.py). Every process that the node starts has a
separate session, found by the variable that the node sets in its environment. VNFs that yield are
in one control group of the CPU's (engines/confinement.py), which then counts instead of their
sessions; it gets the weight of as many sessions of that nice value.
"""

import atexit
import contextlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.bench.owned import owned
from headrace.machine.autogroup import own_nice, set_nice

NICE = -20
_SHARES_OF_NICE = {-20: 88761, 0: 1024}
"""Weights of nice values (sched(7)), in the unit of cpu.shares."""
_MOST_SHARES = 262144
_CPU = Path("/sys/fs/cgroup/cpu")
_PROC = Path("/proc")


def raise_priority(nice: int = NICE) -> str:
    """Raises this process and its session if permitted; returns the result for the manifest.

    Children inherit both, unless they start a new session. The session may be a person's shell:
    when this process ends, it gets its nice value back.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError:
        now = os.getpriority(os.PRIO_PROCESS, 0)
        return f"nice {now}: not allowed to raise it, other programs disturb more"
    before = own_nice()
    sessions = set_nice("self", nice)
    if sessions and before is not None and before != nice:
        atexit.register(set_nice, "self", before)
    return f"nice {nice} for generator, switches and VNFs alike" + (
        ", and for their sessions" if sessions else ""
    )


def raise_owned(rundir: Path, nice: int = NICE) -> int:
    """Raises the sessions of all processes that the node in `rundir` has started.

    Returns how many. Does nothing without permission, which `raise_priority` reports.
    """
    found = list(owned(rundir))
    _raise_groups(found, nice)
    return sum(set_nice(pid, nice) for pid in found)


def _raise_groups(pids: Sequence[int], nice: int) -> None:
    """Gives the control groups that processes are scheduled in the weight of their sessions."""
    together: Counter[str] = Counter()
    for pid in pids:
        with contextlib.suppress(OSError):
            text = (_PROC / str(pid) / "cgroup").read_text()
            found = re.search(r"^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:/(headrace-.+)$", text, re.MULTILINE)
            together.update([found[1]] if found else [])
    for name, count in together.items():
        shares = min(_MOST_SHARES, count * _SHARES_OF_NICE[nice])
        with contextlib.suppress(OSError):
            (_CPU / name / "cpu.shares").write_text(str(shares))
