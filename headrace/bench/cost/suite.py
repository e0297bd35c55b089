# SPDX-License-Identifier: Apache-2.0
"""`headrace bench cost` as the command runs it: windows of all switches in turn, way by way."""

import dataclasses
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.bench.cost import figures
from headrace.bench.cost.bed import SETTLE_S, Bed, Way
from headrace.bench.cost.figures import Saturation, Taken
from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import CONTROL_CORE, place
from headrace.bench.peers.frames import Pace
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import Missing, PeerError, Place
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row
from headrace.bench.vnfs.mixes import Mix
from headrace.machine.core_distance import Transfer
from headrace.machine.programs import ProgramMissing, find_program
from headrace.machine.tsc import tsc_hz

Say = Callable[[str], None]

MEMORY_MB = 320
FIT_MIXES = (
    Mix("64B", (64,)),
    Mix("1518B", (1518,)),
    Mix("IMIX", (64, 570, 1518), (28, 16, 4)),
)
SATURATED_MIXES = (
    *FIT_MIXES,
    Mix("512B", (512,)),
    Mix("64B and 1024B", (64, 1024), (1, 1)),
)
"""The last two are in no window of the fit."""
ARRIVALS = (Pace(burst=1), Pace(burst=4), Pace(burst=32), Pace(burst=128), Pace(poisson=True))
SWITCHES = ("headrace", "ovs-dpdk")
IDLE_PORTS = 6
"""Ports without packets that are polled besides, to tell a poll from the rest of a round."""


@dataclass(frozen=True)
class Plan:
    """What is measured, how often and how long; `saturated` windows of each size in a round."""

    ways: Sequence[Way] = ("p2p", "pvp")
    repeats: int = 6
    window_s: float = 0.08
    loads: Sequence[float] = (0.05, 0.2, 0.6)
    saturated: int = 3
    seed: int = 1
    switches: Sequence[str] = field(default=SWITCHES)


def label(pace: Pace) -> str:
    """An arrival process in words."""
    return "poisson" if pace.poisson else f"bursts of {pace.burst}"


async def run(plan: Plan, say: Say) -> tuple[list[Row], list[Taken], dict[str, Any]]:
    """Measures; returns rows, what they were computed from, and the manifest.

    Raises:
        PeerError, ChainError: something could not be started or measured.
    """
    try:
        switch, vnf = find_program("headrace-switch"), find_program("headrace-vnf")
    except ProgramMissing as error:
        raise PeerError(str(error)) from error
    priority = raise_priority()
    hz = tsc_hz()
    taken: list[Taken] = []
    rows: list[Row] = []
    with place() as whole:
        where = dataclasses.replace(whole, memory_mb=MEMORY_MB)
        for way in plan.ways:
            folder = where.rundir / way
            folder.mkdir()
            here = dataclasses.replace(where, rundir=folder)
            found, failed = await _one_way(way, here, switch, vnf, plan, hz, say)
            taken += found
            rows += list(figures.rows_of(way, found, failed, hz, figures.entries_of(taken)))
    return rows, taken, _manifest(plan, where, priority)


def _make(name: str, where: Place, program: Path) -> Headrace | OvsDpdk:
    return Headrace(where, program) if name == "headrace" else OvsDpdk(where)


async def _one_way(
    way: Way, where: Place, switch: Path, vnf: Path, plan: Plan, hz: float, say: Say
) -> tuple[list[Taken], dict[str, str]]:
    beds: list[Bed] = []
    failed: dict[str, str] = {}
    transfer = Transfer(where.worker_core)
    try:
        for name in plan.switches:
            bed = Bed(_make(name, where, switch), way, vnf, transfer=transfer)
            try:
                beds.append(bed)
                await bed.start()
            except Missing as error:
                failed[name] = str(error)
                beds.remove(bed)
        taken = [Taken(bed.name, way) for bed in beds]
        for turn in range(plan.repeats):
            order = list(zip(beds, taken, strict=True))
            for bed, into in order if turn % 2 == 0 else order[::-1]:
                await _round(bed, into, plan, turn, hz)
                say(f"{way} {bed.name}: round {turn + 1} of {plan.repeats}")
    finally:
        for bed in beds:
            await bed.stop()
        transfer.close()
    if way == "p2p":
        for into in taken:
            into.polls = await _polls(into, where, switch, vnf, plan, hz)
    return taken, failed


async def _round(bed: Bed, into: Taken, plan: Plan, turn: int, hz: float) -> None:
    """One window of each arrival process, load and size, and `saturated` of each size unpaced.

    All in one random order, another each time: a slow phase of the machine, which lasts seconds, is
    then part of what the fit sees and of what it is compared with alike.
    """
    top: dict[str, float] = {}
    for mix in FIT_MIXES:
        top[mix.name] = (await bed.window(mix, Pace(), plan.window_s, hz)).pps
    points: list[tuple[Mix, Pace, str | None]] = [
        (mix, dataclasses.replace(pace, pps=share * top[mix.name]), f"{label(pace)} at {share:g}")
        for mix in FIT_MIXES
        for pace in ARRIVALS
        for share in plan.loads
    ]
    points += [(mix, Pace(), None) for mix in SATURATED_MIXES for _ in range(plan.saturated)]
    random.Random(plan.seed + turn).shuffle(points)  # noqa: S311
    turns: Counter[str] = Counter()
    for mix, pace, group in points:
        window = await bed.counted(mix, pace, plan.window_s, hz)
        if group is not None:
            into.windows.append((group, window))
            continue
        turns[mix.name] += 1
        if not window.undisturbed:
            continue
        verdict = window.verdict(bed.name)
        into.saturations.append(
            Saturation(
                mix.name,
                mix.mean,
                mix.changes,
                window.full_pps or window.pps if verdict.limiter == "switch" else window.pps,
                verdict.limiter,
                verdict.reason,
                turns[mix.name],
                window.refused_share,
                window.transfer_ns,
            )
        )


async def _polls(
    into: Taken, where: Place, switch: Path, vnf: Path, plan: Plan, hz: float
) -> list[tuple[int, float]]:
    """Cycles of an idle round over the ports of p2p, and over more that bring nothing."""
    found = []
    for extra in (0, IDLE_PORTS):
        folder = where.rundir / f"{into.switch}-{extra}"
        folder.mkdir()
        here = dataclasses.replace(where, rundir=folder)
        bed = Bed(_make(into.switch, here, switch), "p2p", vnf, idle_ports=extra)
        try:
            await bed.start()
            for _ in range(plan.repeats):
                window = await bed.window(FIT_MIXES[0], Pace(pps=1000.0), plan.window_s, hz)
                worker = window.switch
                cycles = worker.idle_cycles / max(1, worker.rounds - worker.busy_rounds)
                found.append((2 + extra, cycles))
        finally:
            await bed.stop()
    return found


def _manifest(plan: Plan, where: Place, priority: str) -> dict[str, Any]:
    return {
        "machine": machine(),
        "versions": versions(),
        "definitions": {
            "cycles": "TSC cycles of the poller",
            "saturation": "TSC rate / the worker's busy cycles for each packet at the sink, the "
            "source unpaced, where the switch is the limit; else packets per second at the sink; "
            "windows in which a worker had less than 90 % of its core are left out",
            "state": "with a VNF, only windows count in which the cores were as far apart as in "
            "most (a cache line there and back, before and after each window)",
            "undisturbed": "the highest of as many windows as there are rounds",
            "predicted": "TSC rate / (per packet + per byte x size + per burst x bursts + per "
            "round x rounds of a packet when all bursts are full), fitted from windows below "
            f"{max(plan.loads):.0%} of saturation of {', '.join(m.name for m in FIT_MIXES)}",
            "held out": "median relative error of the busy cycles at loads left out of the fit",
        },
        "arrivals": [label(pace) for pace in ARRIVALS],
        "loads": list(plan.loads),
        "cores": {"switch, source, sink": where.worker_core, "vnf": CONTROL_CORE},
        "of": os.cpu_count() or 1,
        "windows": {
            "repeats": plan.repeats,
            "saturated": plan.repeats * plan.saturated,
            "seconds": plan.window_s,
            "settle": SETTLE_S,
        },
        "priority": priority,
    }
