# SPDX-License-Identifier: Apache-2.0
"""What packets cost that the kernel forwards: softirq time of whole cores, other work included."""

from collections.abc import Sequence
from pathlib import Path

from headrace.switches.base import WorkerCycles

CLOCK_TICKS_HZ = 100
"""USER_HZ, the unit of /proc/stat."""


def softirq_of(cores: Sequence[int], hz: float) -> tuple[WorkerCycles, ...]:
    """Softirq time of these cores until now; `hz` is that of the TSC."""
    return softirq_cycles(Path("/proc/stat").read_text(), cores, hz)


def softirq_cycles(text: str, cores: Sequence[int], hz: float) -> tuple[WorkerCycles, ...]:
    """Softirq time as busy and all else as idle cycles, from /proc/stat (proc(5))."""
    workers = []
    for line in text.splitlines():
        head, *columns = line.split()
        if not head.startswith("cpu") or not head[3:].isdigit() or int(head[3:]) not in cores:
            continue
        ticks = [int(column) for column in columns[:8]]  # guest time is contained in user time
        busy = ticks[6]
        per_tick = hz / CLOCK_TICKS_HZ
        workers.append(
            WorkerCycles(
                core=int(head[3:]),
                busy_cycles=round(busy * per_tick),
                idle_cycles=round((sum(ticks) - busy) * per_tick),
                packets=0,
            )
        )
    return tuple(workers)
