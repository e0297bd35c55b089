# SPDX-License-Identifier: Apache-2.0
"""`headrace bench pvp` as the command runs it: with each VNF all subjects, window by window."""

import asyncio
import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.bench.manifest import machine, versions
from headrace.bench.peers import frames
from headrace.bench.peers.bed import CONTROL_CORE, place
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import Missing, PeerError, Place
from headrace.bench.priority import raise_priority
from headrace.bench.pvp import figures
from headrace.bench.pvp.bed import DEVICE, Floor, Pvp, Subject
from headrace.bench.pvp.figures import FLOOR, OURS, OVS, SHM, Sample
from headrace.bench.pvp.readings import ImpossibleReadings, Reading, sample_of
from headrace.bench.rows import Row
from headrace.bench.vnfs.mixes import MIXES, Mix, frames_of
from headrace.machine.programs import ProgramMissing, find_program

Say = Callable[[str], None]

KINDS: Sequence[str] = ("pass", "testpmd-packed", "testpmd-split")
MEMORY_MB = 320  # of each switch: three and their VNFs share the huge pages
FLOWS = 100
TRIES = 3
"""At one window whose counters are impossible."""


@dataclass(frozen=True)
class Plan:
    """How often and how long to look at each subject."""

    kinds: Sequence[str] = KINDS
    repeats: int = 5
    window_s: float = 0.5
    settle_s: float = 0.15


def parse_kinds(text: str) -> list[str]:
    """VNFs from a list by comma, in the order of KINDS.

    Raises:
        ValueError: one is not known, or there is none.
    """
    words = {word for part in text.split(",") if (word := part.strip())}
    if unknown := sorted(words - set(KINDS)):
        raise ValueError(f"--vnfs: {unknown[0]!r} is none of {', '.join(KINDS)}")
    if not words:
        raise ValueError(f"--vnfs: give at least one of {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in words]


async def run(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures all subjects with each kind of VNF.

    What is not installed is skipped with its reason.

    Raises:
        PeerError, ChainError: something could not be started or measured.
    """
    try:
        switch, vnf = find_program("headrace-switch"), find_program("headrace-vnf")
    except ProgramMissing as error:
        raise PeerError(str(error)) from error
    priority = raise_priority()
    rows: list[Row] = []
    with place() as whole:
        where = dataclasses.replace(whole, memory_mb=MEMORY_MB)
        for kind in plan.kinds:
            folder = where.rundir / kind
            folder.mkdir()
            subjects = _subjects(dataclasses.replace(where, rundir=folder), kind, switch, vnf)
            rows += await _with_one_vnf(kind, subjects, plan, where, say)
    return rows, manifest(plan, where, priority)


def _subjects(where: Place, kind: str, switch: Path, vnf: Path) -> list[Subject]:
    subjects: list[Subject] = [
        Pvp(OURS, Headrace(where, switch), kind, vnf, CONTROL_CORE),
        Pvp(OVS, OvsDpdk(where), kind, vnf, CONTROL_CORE),
    ]
    if kind == "pass":
        shm = Headrace(where, switch, name=SHM)
        subjects.append(Pvp(SHM, shm, "shm", vnf, CONTROL_CORE))
    else:
        subjects.append(Floor(where.rundir / "floor", kind, where.worker_core, CONTROL_CORE))
    return subjects


async def _with_one_vnf(
    kind: str, subjects: list[Subject], plan: Plan, where: Place, say: Say
) -> list[Row]:
    failed: dict[str, str] = {}
    taken: dict[tuple[str, str], list[Sample]] = {}
    file = where.flow_dir / f"{DEVICE}.frames"
    try:
        frames.close(file)
        for subject in subjects:
            try:
                await subject.start()
            except Missing as error:
                failed[subject.name] = str(error)
        running = [subject for subject in subjects if subject.name not in failed]
        for mix in MIXES:
            made, lengths = frames_of(mix, _frames)
            frames.write(file, made, lengths)
            here = [one for one in running if one.name != FLOOR or mix is MIXES[0]]
            for turn in range(plan.repeats):
                for subject in here if turn % 2 == 0 else here[::-1]:
                    sample = await _sample(subject, plan)
                    taken.setdefault((subject.name, mix.name), []).append(sample)
            say(f"{kind} {mix.name}: " + ", ".join(_told(one, mix, taken) for one in here))
    finally:
        for subject in subjects:
            await subject.stop()
    names = [subject.name for subject in subjects]
    mixes = [mix.name for mix in MIXES]
    return list(figures.rows_of(kind, taken, failed, names, mixes))


def _told(subject: Subject, mix: Mix, taken: dict[tuple[str, str], list[Sample]]) -> str:
    samples = taken[subject.name, mix.name]
    rate, cycles = (float(np.median([getattr(s, f) for s in samples])) for f in ("mpps", "switch"))
    return f"{subject.name} {rate:.2f} Mpps, {cycles:.0f} cycles"


def _frames(length: int) -> frames.Bytes:
    flows = np.arange(FLOWS, dtype=np.uint32)
    return frames.udp_frames(
        eth_dst=frames.mac("02:00:00:00:00:02"),
        eth_src=frames.mac("02:00:00:00:00:01"),
        ipv4_src=0x0A000001 + flows,
        ipv4_dst=0x14000001 + flows,
        length=length,
    )


async def _sample(subject: Subject, plan: Plan) -> Sample:
    """One window; the others are parked. One with impossible counters is taken again."""
    told = ""
    for _ in range(TRIES):
        subject.resume()
        first, last = await _window(subject, plan)
        subject.park()
        try:
            sample = sample_of(first, last)
        except ImpossibleReadings as impossible:
            told = str(impossible)
            continue
        if sample is None:
            raise PeerError(f"{subject.name}: no packets came through the VNF")
        return sample
    raise PeerError(f"{subject.name}: its counters make no sense: {told}")


async def _window(subject: Subject, plan: Plan) -> tuple[Reading, Reading]:
    await asyncio.sleep(plan.settle_s)
    first = await subject.read()
    await asyncio.sleep(plan.window_s)
    return first, await subject.read()


def manifest(plan: Plan, where: Place, priority: str) -> dict[str, Any]:
    """What the figures were taken with, what they mean, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "definitions": {
            "rate": "packets per second at the sink with the source unpaced: an overload",
            "switch": "TSC cycles that the switch's worker spent on packets, source, sink and what "
            "it dropped included, for each packet at the sink, under that overload",
            "vnf": "TSC cycles that the VNF spent on packets, for each",
            "ratio": "median of the ratios of neighboring windows",
            FLOOR: "testpmd in io mode between two net_vhost ports, its packets circulating "
            "between it and the VNF as fast as they go; cycles by record-core-cycles",
        },
        "vnfs": {
            "pass": "headrace-vnf by net_virtio_user, packed rings, vectorised; by shared memory "
            f"for {SHM}",
            "testpmd-packed": "io mode, packed rings, in order, vectorised",
            "testpmd-split": "io mode, split rings, in order",
        },
        "frames": f"64, IMIX (28:16:4 of 64, 570, 1518) and 1518 octets with FCS, {FLOWS} flows",
        "cores": {"switch": where.worker_core, "vnf": CONTROL_CORE, "of": os.cpu_count() or 1},
        "shared": f"core {CONTROL_CORE}: the VNF, the switches' other threads and this command",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s, "settle": plan.settle_s},
        "priority": priority,
    }
