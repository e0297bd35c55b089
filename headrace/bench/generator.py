# SPDX-License-Identifier: Apache-2.0
"""What the generator can do with nothing behind it: `headrace bench generator`.

One worker sends and receives over a ring of its own (net_ring), every packet with sequence number
and time stamp: its ceiling by frame size, and at a moderate load how much later than meant packets
are handed to the device. Whatever a trial measures is at most that fast and that exact.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.rows import Row, row
from headrace.traffic import Calibration, TrafficProcess

SIZES = (64, 512, 1518, 9000)
GOAL_MPPS = 20.0  # at 64 bytes
GOAL_ERROR_US = 1.0  # at the median
LOAD_PPS = 1e6


async def measure(
    repeats: int, seconds: float, say: Callable[[str], None]
) -> tuple[list[Row], dict[str, Any]]:
    """The generator's figures, from `repeats` processes; TrafficError if it can't."""
    cpu = max(os.sched_getaffinity(0))
    found: list[Calibration] = []
    for number in range(repeats):
        async with TrafficProcess(cpu=cpu) as traffic:
            found.append(
                await traffic.calibrate(sizes=SIZES, duration_s=seconds, load_pps=LOAD_PPS)
            )
        ceiling = found[-1].ceilings[0].ceiling_pps / 1e6
        say(f"{number + 1} of {repeats}: {ceiling:.1f} Mpps at {SIZES[0]} B")
    manifest = {
        "machine": machine(),
        "versions": versions(),
        "path": found[0].via,
        "cpu": cpu,
        "shared": "one worker sends and receives; nothing else is started on its core",
        "trials": {"repeats": repeats, "seconds": seconds, "paced_pps": found[0].at_pps},
    }
    return list(rows_of(found)), manifest


def rows_of(found: Sequence[Calibration]) -> list[Row]:
    """The rows of some calibrations of the same sizes."""
    rows = []
    for i, size in enumerate(each.size for each in found[0].ceilings):
        lost = max(each.ceilings[i].loss_ratio for each in found)
        rows.append(
            row(
                f"sent and received {size} B",
                [each.ceilings[i].ceiling_pps / 1e6 for each in found],
                "Mpps",
                goal=GOAL_MPPS if size == SIZES[0] else None,
                note=f"at most {lost:.2%} lost",
            )
        )
    errors = [each.timing_error_ns for each in found]
    floors = [each.latency_floor_ns for each in found]
    rows += [
        row(
            "timing error p50",
            [(each.p50 or 0.0) / 1e3 for each in errors if each.count],
            "us",
            goal=GOAL_ERROR_US,
            better="lower",
        ),
        row("timing error p99", [(each.p99 or 0.0) / 1e3 for each in errors if each.count], "us"),
        row("latency floor p50", [(each.p50 or 0.0) / 1e3 for each in floors if each.count], "us"),
    ]
    return rows
