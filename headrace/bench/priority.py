# SPDX-License-Identifier: Apache-2.0
"""Raises the priority of the measured programs over all others on the machine.

A poller that is preempted in the middle of a burst counts the other program's time as its own busy
cycles, and two pollers that exchange packets both stall whenever one of them waits for its core.
Generator, switches and VNFs get the same priority, so they share cores evenly.

A nice value alone does not suffice: with autogroups (sched(7)) Linux schedules by session, and a
nice value counts only within one. Every process that the node starts has a separate session, found
by the variable that the node sets in its environment.
"""

import os
from pathlib import Path

from headrace.bench.owned import owned

NICE = -20
_PROC = Path("/proc")


def _raise_session(pid: str, nice: int) -> bool:
    """Sets the nice value of a process's session, if the kernel has autogroups."""
    file = _PROC / pid / "autogroup"
    try:
        if file.exists():
            file.write_text(str(nice))
    except OSError:
        return False
    return True


def raise_priority(nice: int = NICE) -> str:
    """Raises this process and its session if permitted; returns the result for the manifest.

    Children inherit both, unless they start a new session.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError:
        now = os.getpriority(os.PRIO_PROCESS, 0)
        return f"nice {now}: not allowed to raise it, other programs disturb more"
    sessions = _raise_session("self", nice)
    return f"nice {nice} for generator, switches and VNFs alike" + (
        ", and for their sessions" if sessions else ""
    )


def raise_owned(rundir: Path, nice: int = NICE) -> int:
    """Raises the sessions of all processes that the node in `rundir` has started.

    Returns how many. Does nothing without permission, which `raise_priority` reports.
    """
    return sum(_raise_session(str(pid), nice) for pid in owned(rundir))
