# SPDX-License-Identifier: Apache-2.0
"""`headrace bench chains` as the command runs it: rounds over lengths and subjects."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.bench.chains import figures
from headrace.bench.chains.bed import BURST, SIZE, VNF_CORE, Bed, cycles_of
from headrace.bench.chains.figures import DIRECT, OVS, SUBJECTS, THROUGH, Sample
from headrace.bench.chains.rules import LENGTHS
from headrace.bench.chains.vnf import ChainError
from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import place
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import Missing, Place
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row
from headrace.machine.programs import ProgramMissing, find_program

Say = Callable[[str], None]

# With this match the switch must parse each packet, so no direct link is made for the rule.
LOOK = "dl_type=0x0800"
DIRECT_CROSSINGS = 2.5
"""With direct links the switch receives each packet twice, whatever the chain's length."""


@dataclass(frozen=True)
class Plan:
    """Number and duration of the windows per length and subject."""

    lengths: Sequence[int] = LENGTHS
    repeats: int = 5
    window_s: float = 0.6
    settle_s: float = 0.2
    load_pps: float = 200_000.0


async def run(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures all subjects at all lengths in turn, and again for each repeat.

    OVS-DPDK is skipped with its reason where it is not installed.

    Raises:
        ChainError, PeerError: a chain could not be made or measured.
    """
    try:
        switch, vnf = find_program("headrace-switch"), find_program("headrace-vnf")
    except ProgramMissing as error:
        raise ChainError(str(error)) from error
    priority = raise_priority()
    taken: dict[tuple[str, int], list[Sample]] = {}
    failed: dict[str, str] = {}
    with place() as where:
        ours = Bed(Headrace(where, switch), max(plan.lengths), "shm")
        theirs = Bed(OvsDpdk(where), max(plan.lengths), "vhost-user")
        beds = {THROUGH: ours, DIRECT: ours, OVS: theirs}
        try:
            await ours.start(vnf)
            ours.park()
            try:
                await theirs.start(vnf)
                theirs.park()
            except Missing as error:
                failed[OVS] = str(error)
            for number in range(plan.repeats):
                await _round(plan, beds, taken, failed)
                say(f"round {number + 1} of {plan.repeats}")
        finally:
            await theirs.stop()
            await ours.stop()
    rows = list(figures.rows_of(taken, failed, plan.lengths, os.cpu_count() or 1))
    return rows, manifest(plan, where, priority)


async def _round(
    plan: Plan,
    beds: dict[str, Bed],
    taken: dict[tuple[str, int], list[Sample]],
    failed: dict[str, str],
) -> None:
    for length in plan.lengths:
        for subject in SUBJECTS:
            if subject in failed:
                continue
            bed = beds[subject]
            await bed.chain(length, LOOK if subject == THROUGH else "")
            sample = await _sample(bed, plan)
            bed.park()
            if subject == DIRECT and length > 1 and sample.crossings > DIRECT_CROSSINGS:
                failed[DIRECT] = (
                    f"no direct links were made: the switch got each packet {sample.crossings:.1f} "
                    f"times in a chain of {length}"
                )
                continue
            taken.setdefault((subject, length), []).append(sample)


async def _sample(bed: Bed, plan: Plan) -> Sample:
    """One window at the fixed load, then one with the source unpaced."""
    await bed.load(plan.load_pps)
    await asyncio.sleep(plan.settle_s)
    cycles, (received, _) = await cycles_of(bed.system), await bed.sink.packets()
    await asyncio.sleep(plan.window_s)
    later, (arrived, _) = await cycles_of(bed.system), await bed.sink.packets()
    packets = arrived - received
    if packets == 0:
        raise ChainError(f"{bed.system.name}: no packets reached the sink of the chain")
    await bed.load(None)
    await asyncio.sleep(plan.settle_s)
    (received, _), start = await bed.sink.packets(), time.monotonic()
    await asyncio.sleep(plan.window_s)
    (arrived, _), end = await bed.sink.packets(), time.monotonic()
    await bed.load(1.0)
    return Sample(
        cycles=(later.busy - cycles.busy) / packets,
        crossings=(later.packets - cycles.packets) / packets,
        mpps=(arrived - received) / (end - start) / 1e6,
    )


def manifest(plan: Plan, where: Place, priority: str) -> dict[str, Any]:
    """The setup, the definitions, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "definitions": {
            "cycles": "TSC cycles that the switch's worker spent on packets, for each packet at "
            f"the sink, at {plan.load_pps:g} packets per second, {BURST} at once, on every subject",
            "rate": "packets at the sink per second with the source unpaced: an overload",
            "for each VNF more": "slope of the least squares of a round's cycles over its lengths; "
            f"met if the 95 % interval of the rounds' slopes ends below {figures.GROWTH:.0%} of "
            "the shortest chain's cycles",
        },
        "subjects": {
            THROUGH: f"shm ports; rules match {LOOK} besides the port, so that no direct link can "
            "be made of them",
            DIRECT: "shm ports; rules match the port alone",
            OVS: "vhost-user: dpdkvhostuserclient, packed rings, vectorised; rules match the port",
        },
        "ends": "source and sink are headrace-vnf by vhost-user on every subject",
        "frames": f"{SIZE} octets with FCS, one flow",
        "lengths": list(plan.lengths),
        "worker_core": where.worker_core,
        "shared": f"source, sink and VNFs share core {VNF_CORE} with control threads and this "
        "command, and yield it when they find nothing; the switch's worker has its core alone. "
        "Only the measured subject runs, the others are stopped",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s, "settle": plan.settle_s},
        "priority": priority,
        "order": "lengths in turn, at each all subjects, and again for each repeat",
    }
