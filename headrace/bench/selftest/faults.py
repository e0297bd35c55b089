# SPDX-License-Identifier: Apache-2.0
"""Faults in real programs: each makes one element of the path the limit, by a known amount.

* The switch is slowed by the flow source, which makes each frame cost its poller so many cycles.
* The generator is throttled: the source is given a rate far below what the switch takes.
* The VNF is slowed: headrace-vnf's `cpu` does so many units of computation for each packet.
* The switch's core is stolen: a busy loop runs on it, at the same priority.
"""

import dataclasses
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.cost.bed import Bed, Window
from headrace.bench.peers.frames import Pace
from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import PeerError, Place
from headrace.bench.rows import Row, row
from headrace.bench.vnfs.mixes import Mix
from headrace.machine.processes import UNTIL_PARENT_ENDS
from headrace.results.limiter import Limiter

MIX = Mix("64B", (64,))
SPINS = (100, 400)
"""Cycles that each frame costs the slowed switch besides; the switch's own are about 35."""
UNITS = (150, 300)
"""Units of computation of the slowed VNF for each packet; the second is twice the first."""
THROTTLE = 0.25
COST_GOAL = 10.0  # percent
STOLEN_GOAL = 15.0  # percent


@dataclass(frozen=True)
class Fault:
    """How the faults are measured: windows of each, and where."""

    repeats: int
    seconds: float
    hz: float
    where: Place
    switch: Path
    vnf: Path

    def bed(self, name: str, way: str) -> Bed:
        """A Headrace switch of its own."""
        folder = self.where.rundir / name
        folder.mkdir()
        here = dataclasses.replace(self.where, rundir=folder)
        return Bed(Headrace(here, self.switch), "pvp" if way == "pvp" else "p2p", self.vnf)

    async def windows(self, bed: Bed, pace: Pace) -> list[Window]:
        """Repeated windows under one load; PeerError if nothing came through."""
        found = [await bed.window(MIX, pace, self.seconds, self.hz) for _ in range(self.repeats)]
        if min(window.delivered for window in found) <= 0:
            raise PeerError(f"{bed.name}: no packets came through")
        return found


def cycles_per_packet(window: Window) -> float:
    """The switch's busy cycles of each packet."""
    return window.switch.busy_cycles / window.delivered


def verdicts(name: str, expected: Limiter, windows: Sequence[Window], switch: str) -> Row:
    """The share of windows in which the verdict was the expected one."""
    found = [window.verdict(switch) for window in windows]
    hits = [100.0 * (verdict.limiter == expected) for verdict in found]
    reason = next((one.reason for one in found if one.limiter != expected), found[0].reason)
    share = statistics.fmean(hits)
    made = row(f"{name}: verdict {expected}", [share], "% of windows", goal=100.0, note=reason)
    return made.model_copy(update={"samples": hits})


def error(found: float, known: float) -> float:
    """A relative error in percent."""
    return 100 * abs(found / known - 1)


async def slowed_switch(fault: Fault) -> list[Row]:
    """Each frame costs the switch a known number of cycles more."""
    bed = fault.bed("slowed-switch", "p2p")
    rows = []
    try:
        await bed.start()
        base = [cycles_per_packet(one) for one in await fault.windows(bed, Pace())]
        for spin in SPINS:
            slow = await fault.windows(bed, Pace(spin=spin))
            name = f"switch slowed by {spin} cycles a packet"
            rows.append(verdicts(name, "switch", slow, bed.name))
            added = [cycles_per_packet(one) - statistics.median(base) for one in slow]
            note = f"{statistics.median(added):.1f} found over {statistics.median(base):.1f}"
            errors = [error(one, spin) for one in added]
            rows.append(
                row(f"{name}: cost", errors, "% error", goal=COST_GOAL, better="lower", note=note)
            )
    finally:
        await bed.stop()
    return rows


async def throttled_generator(fault: Fault) -> list[Row]:
    """The source has a rate below what the switch takes: the rate is the generator's."""
    bed = fault.bed("throttled-generator", "p2p")
    name = f"generator throttled to {THROTTLE:.0%}"
    try:
        await bed.start()
        top = statistics.median(one.pps for one in await fault.windows(bed, Pace()))
        slow = await fault.windows(bed, Pace(pps=THROTTLE * top, burst=32))
        share = [error(one.pps, THROTTLE * top) for one in slow]
        return [
            verdicts(name, "generator", slow, bed.name),
            row(f"{name}: rate", share, "% error", goal=2.0, better="lower"),
        ]
    finally:
        await bed.stop()


async def slowed_vnf(fault: Fault) -> list[Row]:
    """The VNF computes for each packet: the switch has time left, its VNF's queue is full."""
    rows: list[Row] = []
    costs: list[float] = []
    for units in (0, *UNITS):
        bed = fault.bed(f"slowed-vnf-{units}", "pvp")
        try:
            await bed.start("cpu", {"units": max(1, units)})
            found = await fault.windows(bed, Pace())
        finally:
            await bed.stop()
        spent = [one.vnf.busy_cycles / one.vnf.packets for one in found if one.vnf is not None]
        costs.append(statistics.median(spent))
        if units:
            rows.append(verdicts(f"VNF slowed by {units} units a packet", "VNF", found, bed.name))
    ratio = (costs[2] - costs[0]) / (costs[1] - costs[0])
    known = (UNITS[1] - 1) / (UNITS[0] - 1)
    note = "cycles a packet: " + ", ".join(f"{cost:.0f}" for cost in costs)
    name = "VNF slowed by twice as many units: cost"
    goal = COST_GOAL
    rows.append(row(name, [error(ratio, known)], "% error", goal=goal, better="lower", note=note))
    return rows


class Thief:
    """A busy loop on a core, for as long as the context lasts."""

    def __init__(self, core: int) -> None:
        self._core = core
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Thief":
        loop = f"import os; os.sched_setaffinity(0, {{{self._core}}})\nwhile True: pass"
        self._process = subprocess.Popen([*UNTIL_PARENT_ENDS, sys.executable, "-c", loop])  # noqa: S603
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


async def stolen_core(fault: Fault) -> list[Row]:
    """A busy loop takes turns with the switch: its share of the core says so, and its cost."""
    bed = fault.bed("stolen-core", "p2p")
    name = "core stolen by a busy loop"
    try:
        await bed.start()
        base = statistics.median(cycles_per_packet(o) for o in await fault.windows(bed, Pace()))
        with Thief(fault.where.worker_core):
            found = await fault.windows(bed, Pace())
        noticed = [100.0 * (not one.undisturbed) for one in found]
        # Cycles by TSC go on while the loop runs; of these the switch had its share of the core.
        corrected = [cycles_per_packet(one) * one.on_core for one in found]
        share = statistics.median(one.on_core for one in found)
        note = f"{100 * share:.0f} % of the time on its core; {base:.1f} cycles a packet alone"
        errors = [error(one, base) for one in corrected]
        return [
            verdicts(name, "switch", found, bed.name),
            row(f"{name}: marked as disturbed", noticed, "% of windows", goal=100.0, note=note),
            row(f"{name}: cost", errors, "% error", goal=STOLEN_GOAL, better="lower", note=note),
        ]
    finally:
        await bed.stop()
