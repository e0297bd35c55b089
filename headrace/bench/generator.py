# SPDX-License-Identifier: Apache-2.0
"""`headrace bench generator`: the generator's own limits and precision, in loopback.

One worker sends and receives over a ring (net_ring), every packet with sequence number and time
stamp: its ceiling by frame size, and at a moderate load how long after their intended time packets
are passed to the device. No trial can be faster or more precise. Then the same with a worker on
each of two cores, and with one that sends by memif to another that receives.

Trials disturbed by other programs don't count: the kernel reports for each trial the share of the
time for which the worker ran, and a trial with less than `ON_CORE` is repeated, at most three
attempts for each sample. Time taken by a hypervisor is not visible here; the median tolerates some
of it.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row, row, skipped
from headrace.traffic import (
    Calibration,
    CalibrationSize,
    StreamSpec,
    TrafficProcess,
    TrialResult,
    WorkerHealth,
)

SIZES = (64, 512, 1518, 9000)
GOAL_MPPS = 20.0  # at 64 bytes
GOAL_ERROR_US = 1.0  # at the median
LOAD_PPS = 1e6
ON_CORE = 0.98
TRIES = 3  # for each sample

Say = Callable[[str], None]


def on_core(workers: Sequence[WorkerHealth]) -> float:
    """The lowest of the workers' shares of time on their cores."""
    return min(each.on_core_share or 0.0 for each in workers)


def alone(workers: Sequence[WorkerHealth]) -> bool:
    """Whether all workers ran undisturbed."""
    return on_core(workers) >= ON_CORE


async def measure(repeats: int, seconds: float, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures the generator; TrafficError if that fails."""
    priority = raise_priority()
    cpus = sorted(os.sched_getaffinity(0))
    one: list[Calibration] = []
    async with TrafficProcess(cpu=cpus[-1], control_cpu=cpus[0]) as traffic:
        while not enough(one, repeats):
            one.append(await traffic.calibrate(sizes=SIZES, duration_s=seconds, load_pps=LOAD_PPS))
            say(said("one core", one[-1]))
    rows = rows_of(one, repeats)
    if len(cpus) > 1:
        two: list[Calibration] = []
        into_memif: list[TrialResult] = []
        with tempfile.TemporaryDirectory(prefix="headrace-generator-") as folder:
            async with TrafficProcess(cpu=(cpus[-1], cpus[0])) as traffic:
                while not enough(two, repeats):
                    two.append(
                        await traffic.calibrate(
                            sizes=SIZES[:1], duration_s=seconds, load_pps=LOAD_PPS
                        )
                    )
                    say(said("two cores", two[-1]))
                await join_by_memif(traffic, Path(folder))
                while sum(alone(each.generator.workers) for each in into_memif) < repeats:
                    if len(into_memif) == TRIES * repeats:
                        break
                    into_memif.append(await traffic.trial(seconds, None, warmup_s=0.05))
        rows += [two_cores_row(two, repeats), memif_row(into_memif, repeats)]
    else:
        reason = "this machine has one core"
        rows += [skipped(name, "Mpps", reason) for name in (TWO_CORES, INTO_MEMIF)]
    manifest = {
        "machine": machine(),
        "versions": versions(),
        "path": one[0].via,
        "cpus": {"one core": cpus[-1:], "two cores": cpus[:-3:-1]},
        "priority": priority,
        "shared": f"the measured worker has core {cpus[-1]}; its control thread and this command "
        f"wait on core {cpus[0]}, which the second worker shares with them. Trials in which a "
        f"worker had less than {ON_CORE:.0%} of its core's time are not counted",
        "definitions": {
            "timing error": "from the time that the schedule meant for a packet to the time at "
            f"which it is handed to the device, at {LOAD_PPS:g} packets/s of 64 octets",
            "latency floor": "from that time to the poll that brings the packet back",
        },
        "trials": {"repeats": repeats, "seconds": seconds, "paced_pps": one[0].at_pps},
    }
    return rows, manifest


async def join_by_memif(traffic: TrafficProcess, folder: Path) -> None:
    """Adds ports a and b, one per worker, and a stream from a to b."""
    socket = f"socket={folder}/memif.sock,socket-abstract=no,id=0"
    await traffic.add_port("a", f"net_memif0,role=server,{socket}")
    await traffic.add_port("b", f"net_memif1,role=client,{socket}", wait_link_s=10)
    await traffic.wait_links()
    await traffic.configure([StreamSpec(name="ab", tx_port="a", rx_port="b", size=SIZES[0])])


TWO_CORES = f"sent and received {SIZES[0]} B, two cores"
INTO_MEMIF = f"sent from one core into memif {SIZES[0]} B"


def said(what: str, last: Calibration) -> str:
    """A line of progress."""
    return (
        f"{what}: {last.ceilings[0].ceiling_pps / 1e6:.1f} Mpps at {SIZES[0]} B, "
        f"timing error {(last.timing_error_ns.p50 or 0) / 1e3:.3f} us, "
        f"on its core {on_core(last.workers):.1%} of the time"
    )


def taken_alone(found: Sequence[Calibration]) -> list[list[CalibrationSize]]:
    """The undisturbed samples for each size."""
    sizes = range(len(found[0].ceilings)) if found else ()
    return [[each.ceilings[i] for each in found if alone(each.ceilings[i].workers)] for i in sizes]


def enough(found: Sequence[Calibration], repeats: int) -> bool:
    """Whether each figure has `repeats` samples, or the attempts are used up."""
    if len(found) >= TRIES * repeats:
        return True
    paced = sum(alone(each.workers) for each in found)
    return bool(found) and min([paced, *map(len, taken_alone(found))]) >= repeats


def not_alone(shares: Sequence[float]) -> str:
    """The reason for a missing figure."""
    return (
        f"another program had the core in all of {len(shares)} trials (the worker had "
        f"{max(shares):.0%} of its time at best); end it, or measure on an idle machine"
    )


def rows_of(found: Sequence[Calibration], repeats: int) -> list[Row]:
    """The rows of calibrations of the same sizes on one core, `repeats` samples each."""
    rows = []
    for i, samples in enumerate(taken_alone(found)):
        size = found[0].ceilings[i].size
        name = f"sent and received {size} B"
        goal = GOAL_MPPS if size == SIZES[0] else None
        if not samples:
            shares = [on_core(each.ceilings[i].workers) for each in found]
            rows.append(skipped(name, "Mpps", not_alone(shares), goal=goal))
            continue
        samples = samples[:repeats]
        lost = max(each.loss_ratio for each in samples)
        rates = [each.ceiling_pps / 1e6 for each in samples]
        rows.append(row(name, rates, "Mpps", goal=goal, note=f"at most {lost:.2%} lost"))
    paced = [each for each in found if alone(each.workers) and each.timing_error_ns.count]
    names = ("timing error p50", "timing error p99", "latency floor p50")
    goals = (GOAL_ERROR_US, None, None)
    if not paced:
        reason = not_alone([on_core(each.workers) for each in found])
        return rows + [
            skipped(name, "us", reason, goal=goal) for name, goal in zip(names, goals, strict=True)
        ]
    paced = paced[:repeats]
    figures = (
        [each.timing_error_ns.p50 for each in paced],
        [each.timing_error_ns.p99 for each in paced],
        [each.latency_floor_ns.p50 for each in paced],
    )
    share = min(on_core(each.workers) for each in paced)
    note = f"the worker had its core for at least {share:.2%} of the time"
    for name, goal, values in zip(names, goals, figures, strict=True):
        microseconds = [value / 1e3 for value in values if value is not None]
        rows.append(row(name, microseconds, "us", goal=goal, better="lower", note=note))
    return rows


def two_cores_row(found: Sequence[Calibration], repeats: int) -> Row:
    """The total rate of two workers on two cores."""
    [samples] = taken_alone(found)
    if not samples:
        shares = [on_core(each.ceilings[0].workers) for each in found]
        return skipped(TWO_CORES, "Mpps", not_alone(shares))
    rates = [each.ceiling_pps / 1e6 for each in samples[:repeats]]
    return row(TWO_CORES, rates, "Mpps", note="each worker over a ring of its own")


def memif_row(found: Sequence[TrialResult], repeats: int) -> Row:
    """The rate from one worker to another by memif."""
    samples = [each for each in found if alone(each.generator.workers)][:repeats]
    if not samples:
        return skipped(INTO_MEMIF, "Mpps", not_alone([on_core(f.generator.workers) for f in found]))
    lost = max(each.loss_ratio for each in samples)
    note = f"received on the other core; at most {lost:.2%} lost"
    return row(INTO_MEMIF, [each.rx_pps / 1e6 for each in samples], "Mpps", note=note)
