# SPDX-License-Identifier: Apache-2.0
"""`headrace bench latency` as the command runs it: PDRs, interleaved trials, rows."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.bench.latency.bed import DRAIN_S, FLOWS, GUEST, Bed, Threads
from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import CONTROL_CORE, place, switch_program
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import Missing, PeerError, Place
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row, row, skipped
from headrace.traffic.client import TrafficProcess
from headrace.traffic.models import TrialResult

OURS, OVS = "headrace", OvsDpdk.name
PERCENTILES = ("p50", "p99", "p99_9")
SHARED = "at OVS-DPDK's load"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How often and how long to look, and at which fractions of the PDR.

    Attributes:
        repeats: trials of a load that count: the least disturbed ones.
        attempts: trials for each that counts.
        loss: of the PDR, as the scenarios have it.
    """

    repeats: int = 5
    trial_s: float = 0.25
    attempts: int = 3
    search_s: float = 0.4
    warmup_s: float = 0.1
    search_steps: int = 8
    loss: float = 0.005
    fractions: Sequence[float] = (0.01, 0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Point:
    """A load that is tried: a fraction of a switch's own PDR, or of OVS-DPDK's."""

    subject: str
    fraction: float
    pps: float
    shared: bool

    @property
    def title(self) -> str:
        """As rows have it."""
        return f"{self.subject} {self.fraction:.0%}" + (f" {SHARED}" if self.shared else "")


@dataclass(frozen=True)
class Taken:
    """A trial, and what the switch's threads did meanwhile."""

    result: TrialResult
    threads: Threads

    @property
    def disturbed_ms(self) -> float:
        """How long worker and generator stood still for programs that are not the switch's."""
        away = sum(
            1e3 * self.result.duration_s * (1 - worker.on_core_share)
            for worker in self.result.generator.workers
            if worker.on_core_share is not None
        )
        return self.threads.worker_waited + max(away - self.threads.others_ran, 0.0)


async def run(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures Headrace and OVS-DPDK in turn; OVS-DPDK is skipped where it is not installed.

    Raises:
        PeerError, TrafficError: something could not be started or measured.
    """
    program = switch_program()
    priority = raise_priority()
    with place() as where:
        async with TrafficProcess(cpu=CONTROL_CORE, memory_mb=where.memory_mb) as traffic:
            beds = [
                Bed(Headrace(where, program), traffic, 0),
                Bed(OvsDpdk(where), traffic, 2),
            ]
            missing: dict[str, str] = {}
            try:
                for bed in beds:
                    try:
                        await bed.start()
                    except Missing as error:
                        missing[bed.name] = str(error)
                rows = await _measure([b for b in beds if b.name not in missing], plan, say)
            finally:
                for bed in beds:
                    bed.system.stop()
    rows += [skipped(f"{name} latency", "us", reason) for name, reason in missing.items()]
    return rows, manifest(plan, where, priority)


async def _measure(beds: list[Bed], plan: Plan, say: Say) -> list[Row]:
    pdr: dict[str, float] = {}
    for bed in beds:
        await bed.choose()
        pdr[bed.name] = await bed.pdr(plan.search_s, plan.loss, plan.search_steps)
        bed.park()
        say(f"{bed.name}: PDR {pdr[bed.name] / 1e6:.2f} Mpps")
    taken: dict[str, list[Taken]] = {}
    points = [
        Point(name, fraction, fraction * pdr[of], name != of)
        for fraction in plan.fractions
        for name, of in _pairs(pdr)
    ]
    by_name = {bed.name: bed for bed in beds}
    for turn in range(plan.repeats * plan.attempts):
        for point in points if turn % 2 == 0 else points[::-1]:
            bed = by_name[point.subject]
            await bed.choose()
            before = bed.threads()
            result = await bed.trial(plan.trial_s, point.pps, plan.warmup_s)
            threads = bed.threads() - before
            bed.park()
            taken.setdefault(point.title, []).append(Taken(result, threads))
    rows = [row(f"{name} PDR", [pps / 1e6], "Mpps") for name, pps in pdr.items()]
    quiet = {title: least_disturbed(trials, plan.repeats) for title, trials in taken.items()}
    for point in points:
        rows += _rows(point, quiet, say)
    return rows


def _pairs(pdr: dict[str, float]) -> list[tuple[str, str]]:
    """Whose latency at fractions of whose PDR."""
    pairs = [(name, name) for name in pdr]
    return [*pairs, (OURS, OVS)] if OVS in pdr else pairs


def least_disturbed(trials: Sequence[Taken], count: int) -> list[Taken]:
    """Those in which other programs had the cores of worker and generator for the least time."""
    return sorted(trials, key=lambda each: each.disturbed_ms)[:count]


def percentile_us(trials: Sequence[Taken], name: str) -> list[float]:
    """A percentile of each trial, in microseconds.

    Raises:
        PeerError: nothing came back in one of them.
    """
    values = [getattr(each.result.latency_ns, name) for each in trials]
    if any(value is None for value in values):
        raise PeerError(f"no packet came back in a trial, so it has no {name}")
    return [value / 1e3 for value in values]


def _rows(point: Point, taken: dict[str, list[Taken]], say: Say) -> list[Row]:
    trials = taken[point.title]
    rows = []
    words = []
    for name in PERCENTILES:
        values = percentile_us(trials, name)
        goal = None
        theirs = taken.get(f"{OVS} {point.fraction:.0%}")
        if point.subject == OURS and theirs is not None:
            goal = statistics.median(percentile_us(theirs, name))
        shown = name.replace("_", ".")
        rows.append(
            row(
                f"{point.title} {shown}",
                values,
                "us",
                goal=goal,
                better="lower",
                note=_note(trials),
            )
        )
        words.append(f"{shown} {rows[-1].value:.3g} us")
    say(f"{point.title} ({point.pps / 1e6:.3f} Mpps): {', '.join(words)}; {_note(trials)}")
    return rows


def _note(trials: Sequence[Taken]) -> str:
    """What is not the switch's: how late the generator was, and how long the worker stood still."""
    results = [each.result for each in trials]
    late = [each.generator.timing_error_ns for each in results]
    p99 = [each.p99 for each in late if each is not None and each.p99 is not None]
    loss = statistics.median(each.loss_ratio for each in results)
    waited = statistics.median(each.threads.worker_waited for each in trials)
    others = statistics.median(each.threads.others_ran for each in trials)
    away = statistics.median(
        sum(worker.preemptions for worker in each.generator.workers) for each in results
    )
    sent_late = f"sent late by p99 {statistics.median(p99) / 1e3:.3g} us, " if p99 else ""
    return (
        f"{sent_late}generator preempted {away:.0f} times, worker waited {waited:.3g} ms for its "
        f"core, the switch's other threads ran {others:.3g} ms, lost {loss:.2%}"
    )


def manifest(plan: Plan, where: Place, priority: str) -> dict[str, Any]:
    """What the figures were taken with, what they mean, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "frames": f"64 bytes with FCS, {FLOWS} flows, one way",
        "ports": f"vhost-user; the generator's ends are virtio-user servers, {GUEST}",
        "latency": "one way, from the moment at which a frame was meant to be sent to its arrival, "
        "so what the generator sent late counts",
        "pdr": f"the highest load with at most {plan.loss:.1%} lost, by halving",
        "shared load": f"rows `{SHARED}`: Headrace at the packets per second of OVS-DPDK's row",
        "values": "medians over trials of each trial's percentile; goals are OVS-DPDK's",
        "disturbance": f"of {plan.attempts} trials one counts: those in which worker and generator "
        "stood still for the least time, by the kernel's count, for programs that are not the "
        "switch's. A worker that stands still for 1 % of the time has that as its p99",
        "cores": f"the switch's worker on CPU {where.worker_core}; generator, the switches' other "
        f"threads and this command on CPU {CONTROL_CORE}; the switch not measured is stopped",
        "priority": priority,
        "trials": {
            "repeats": plan.repeats,
            "attempts": plan.attempts,
            "seconds": plan.trial_s,
            "warmup_s": plan.warmup_s,
            "drain_s": DRAIN_S,
        },
    }
