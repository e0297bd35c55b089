# SPDX-License-Identifier: Apache-2.0
"""`headrace bench workers` as the command runs it: cases, interleaved windows, rows."""

import os
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import CONTROL_CORE, place, switch_program
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import Missing, PeerError, Place
from headrace.bench.rows import Row, row, skipped
from headrace.bench.workers.bed import Bed, OvsForVirtioUser, side_by_side, together, write_frames
from headrace.bench.workers.cases import CASES, Case
from headrace.machine.tsc import tsc_hz

OURS, OVS = Headrace.__name__.lower(), OvsDpdk.name
MOST_WORKERS = 8

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How often and how long to look."""

    repeats: int = 7
    window_s: float = 0.4
    settle_s: float = 0.2


@dataclass(frozen=True)
class Windows:
    """Packets per second of one switch in one case, by the number of workers; or why none."""

    pps: dict[int, list[float]]
    failed: str | None = None


def worker_counts(cpus: int) -> list[int]:
    """1, 2, 4, ... and at most MOST_WORKERS or the CPUs that there are."""
    counts = [1]
    while counts[-1] * 2 <= min(cpus, MOST_WORKERS):
        counts.append(counts[-1] * 2)
    return counts


def worker_cpus(cpus: int) -> list[int]:
    """CPUs in the order in which workers get them: the one of all other threads last."""
    return [cpu for cpu in reversed(range(cpus)) if cpu != CONTROL_CORE] + [CONTROL_CORE]


def chosen_cases(only: str) -> list[Case]:
    """The cases whose name holds one of the words of `only` (comma-separated); all without any."""
    words = [word.strip() for word in only.split(",") if word.strip()]
    found = [case for case in CASES if not words or any(word in case.name for word in words)]
    if not found:
        names = ", ".join(case.name for case in CASES)
        raise PeerError(f"no case holds {only!r}: {names}")
    return found


def run(plan: Plan, only: str, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures the cases with 1, 2 and more workers, Headrace and OVS-DPDK in turn.

    Raises:
        PeerError: a switch could not be started, or Headrace not be measured.
    """
    chosen = chosen_cases(only)
    cpus = os.cpu_count() or 1
    counts = worker_counts(cpus)
    if len(counts) < 2:
        raise PeerError("a second worker needs a second CPU")
    order = worker_cpus(cpus)
    program = switch_program()
    with place() as where, ExitStack() as stack:
        write_frames(where.flow_dir, counts[-1])
        rows = list(_ceiling(plan, where, side_by_side(where, program, order[:2]), say))
        beds, missing = _start(where, program, counts[-1], stack)
        for case in chosen:
            taken = _measure(case, beds, plan, counts, order, say)
            if missing:
                taken[OVS] = Windows({}, missing)
            rows += rows_of(case, taken, counts)
            if case is CASES[0]:
                rows.append(_of_ceiling(case, taken[OURS], rows[0]))
    return rows, manifest(plan, where, order, chosen)


def _start(
    where: Place, program: Any, streams: int, stack: ExitStack
) -> tuple[list[Bed], str | None]:
    """The switches, started and parked; and why OVS is not among them."""
    beds: list[Bed] = []
    missing = None
    for system in (Headrace(where, program), OvsForVirtioUser(where)):
        bed = Bed(system, streams)
        stack.callback(system.stop)
        try:
            bed.start()
        except Missing as reason:
            missing = str(reason)
            continue
        system.park()
        beds.append(bed)
    return beds, missing


def _measure(
    case: Case, beds: list[Bed], plan: Plan, counts: list[int], order: list[int], say: Say
) -> dict[str, Windows]:
    """Windows of each switch, with each number of workers, in turn."""
    taken: dict[str, Windows] = {}
    ready: list[Bed] = []
    for bed in beds:
        taken[bed.name] = Windows({count: [] for count in counts})
        try:
            bed.load(case)
            bed.window(order[:1], plan.settle_s, plan.settle_s)  # one that does not count
            ready.append(bed)
        except PeerError as error:
            taken[bed.name] = Windows({}, str(error))
            bed.system.park()
    for turn in range(plan.repeats):
        for bed in ready if turn % 2 == 0 else reversed(ready):
            for count in counts if turn % 2 == 0 else reversed(counts):
                pps = bed.window(order[:count], plan.settle_s, plan.window_s)
                taken[bed.name].pps[count].append(pps)
    for name, windows in taken.items():
        shown = ", ".join(
            f"{count}: {statistics.median(pps) / 1e6:.2f} Mpps"
            for count, pps in windows.pps.items()
        )
        say(f"{case.name}: {name} {windows.failed or shown}")
        if not windows.failed and min(min(pps) for pps in windows.pps.values()) <= 0:
            taken[name] = Windows({}, "no packets came out")
    return taken


def rows_of(case: Case, taken: dict[str, Windows], counts: list[int]) -> Iterator[Row]:
    """Rates, their ratios to one worker's, and what Headrace's second worker costs each packet."""
    for name, windows in taken.items():
        goal = case.goal if name == OURS else None
        if windows.failed:
            yield skipped(f"{case.name} {name} x2", "ratio", windows.failed, goal=goal)
            continue
        for count in counts:
            mpps = [pps / 1e6 for pps in windows.pps[count]]
            workers = "1 worker" if count == 1 else f"{count} workers"
            yield row(f"{case.name} {name} {workers}", mpps, "Mpps")
        one = windows.pps[1]
        for count in counts[1:]:
            ratios = [more / less for more, less in zip(windows.pps[count], one, strict=True)]
            note = f"shared: {case.shares}" if name == OURS else None
            wanted = goal if count == 2 else None
            yield row(f"{case.name} {name} x{count}", ratios, "ratio", goal=wanted, note=note)
        if name == OURS:
            more = [
                tsc_hz() * (2 / two - 1 / alone)
                for two, alone in zip(windows.pps[2], one, strict=True)
            ]
            yield row(f"{case.name} {name} added by a second worker", more, "cycles/packet")


def _of_ceiling(case: Case, windows: Windows, ceiling: Row) -> Row:
    """What the second worker brings, of what the machine allows."""
    name = f"{case.name} {OURS} x2 / ceiling"
    if windows.failed or ceiling.value is None:
        return skipped(name, "ratio", windows.failed or "no ceiling")
    ratios = [two / one for two, one in zip(windows.pps[2], windows.pps[1], strict=True)]
    return row(name, [ratio / ceiling.value for ratio in ratios], "ratio")


def _ceiling(plan: Plan, where: Place, beds: list[Bed], say: Say) -> Iterator[Row]:
    """Two switches that share nothing but the machine, beside each alone."""
    alone: list[list[float]] = [[] for _ in beds]
    both: list[float] = []
    with ExitStack() as stack:
        for bed in beds:
            stack.callback(bed.system.stop)
            bed.start()
            bed.load(CASES[0])
            bed.use([bed.system.place.worker_core])
            bed.system.park()
        for _ in range(plan.repeats):
            for rates, bed in zip(alone, beds, strict=True):
                rates.append(together([bed], plan.settle_s, plan.window_s))
            both.append(together(beds, plan.settle_s, plan.window_s))
    first, second = alone
    ratios = [pair / one for pair, one in zip(both, first, strict=True)]
    apart = statistics.median([b / a for a, b in zip(first, second, strict=True)])
    cpus = " and ".join(str(bed.system.place.worker_core) for bed in beds)
    say(f"ceiling: {statistics.median(ratios):.2f}")
    yield row(
        "ceiling: two switches of one worker side by side",
        ratios,
        "ratio",
        note=f"CPUs {cpus}; the second alone is {apart:.2f} of the first alone",
    )


def manifest(plan: Plan, where: Place, order: list[int], chosen: list[Case]) -> dict[str, Any]:
    """What the figures were taken with, what they mean, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "tsc_hz": tsc_hz(),
        "frames": "64 bytes with FCS; a stream, of 64 flows, for each worker of the most",
        "source": "net_null with the flow source plugin, one for each stream, unpaced",
        "sink": "net_null",
        "cases": {case.name: case.shares for case in chosen},
        "vhost-user": "each stream goes by a vhost-user port whose guest is a virtio-user port of "
        "the same switch and worker, and from there to its sink: the switch does both sides' work",
        "x2": "rate with two workers / rate with one, of neighboring windows of one process; the "
        "workers are changed by pmd-cpu-mask and pmd-rxq-affinity",
        "added": "TSC cycles per packet: 2 workers' time - 1 worker's. The ceiling's own loss "
        "is in it",
        "ceiling": "two headrace-switch processes with one worker and one stream each",
        "worker_cpus": order,
        "shared": f"CPU {CONTROL_CORE}, the last that gets a worker, has the switches' other "
        "threads, this command and its tools, too; the switches that are not measured are stopped",
        "memory_mb": where.memory_mb,
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s},
    }
