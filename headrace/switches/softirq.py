# SPDX-License-Identifier: Apache-2.0
"""What packets cost that the kernel forwards: softirq time of whole cores, other work included.

Counted by BPF where the kernel lets it be (machine/softirq_time.py), else by the ticks of
/proc/stat, which are samples: too few in a short trial to tell anything.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.machine.softirq_time import NoSoftirqTime, SoftirqTime
from headrace.switches.base import WorkerCycles

log = logging.getLogger("headrace.switches.softirq")

CLOCK_TICKS_HZ = 100
"""USER_HZ, the unit of /proc/stat."""


READING_NS = 1000
"""Of a core's count: a softirq that runs while it is read is counted when it ends."""


@dataclass(frozen=True)
class Softirq:
    """Cycles of the cores, what they are counted by, and how far a difference may be off."""

    workers: tuple[WorkerCycles, ...]
    source: str
    resolution_cycles: float


@cache
def _counter() -> SoftirqTime | None:
    """Counts for as long as this process lives; None if the kernel does not let it."""
    try:
        return SoftirqTime()
    except NoSoftirqTime as error:
        log.info("softirq time is taken from /proc/stat: %s", error)
        return None


def softirq_of(cores: Sequence[int], hz: float) -> Softirq:
    """Softirq time of these cores until now; `hz` is that of the TSC."""
    sampled = softirq_cycles(Path("/proc/stat").read_text(), cores, hz)
    counter = _counter()
    if counter is None:
        resolution = len(cores) * hz / CLOCK_TICKS_HZ
        return Softirq(sampled, "softirq time of /proc/stat", resolution)
    counted = counter.nanoseconds()
    workers = tuple(
        one.model_copy(
            update={
                "busy_cycles": (busy := round(counted[one.core] * hz / 1e9)),
                "idle_cycles": max(0, one.busy_cycles + one.idle_cycles - busy),
            }
        )
        for one in sampled
    )
    resolution = len(cores) * hz * READING_NS / 1e9
    return Softirq(workers, "time in network softirqs, counted by BPF", resolution)


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
