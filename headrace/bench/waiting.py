# SPDX-License-Identifier: Apache-2.0
"""The time for which a switch's workers waited for their core.

If a worker is preempted between the start of a round and a poll that finds packets, the round, and
with it the whole waiting time, counts as busy: in OVS as in Headrace. Other waiting times are in
idle rounds. Which is which is unknown, so they cannot be subtracted; but the kernel reports how
long a runnable thread waited (`schedstat`), and a trial with a large share of that is marked
(`Trial.disturbed`). Time taken by a hypervisor is not visible.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from headrace.bench.owned import owned

_PROC = Path("/proc")
VNF_PROGRAM = "headrace-vnf"


def worker_threads(rundir: Path, cores: Iterable[int]) -> list[Path]:
    """Folders in /proc of the threads that the node in `rundir` has pinned to `cores`."""
    wanted = set(cores)
    found = []
    for pid in owned(rundir):
        try:
            tasks = list((_PROC / str(pid) / "task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                if os.sched_getaffinity(int(task.name)) == wanted:
                    found.append(task)
            except OSError:
                continue
    return found


def vnf_threads(rundir: Path) -> list[Path]:
    """Folders in /proc of all threads of the VNF programs that the node in `rundir` runs."""
    found = []
    for pid in owned(rundir):
        try:
            if (_PROC / str(pid) / "comm").read_text().startswith(VNF_PROGRAM):
                found += list((_PROC / str(pid) / "task").iterdir())
        except OSError:
            continue
    return found


def waited_ns(threads: Iterable[Path]) -> int | None:
    """Nanoseconds that the threads have waited for their core since they started.

    None if the kernel has no schedstat or there is no thread.
    """
    total, known = 0, False
    for thread in threads:
        try:
            total += int((thread / "schedstat").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue
        known = True
    return total if known else None
