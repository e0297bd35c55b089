# SPDX-License-Identifier: Apache-2.0
"""Measures all setups of one switch in turn: chains of each length, kinds of ports, functions."""

import dataclasses
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.bench.cost.bed import Bed, Ports, Window
from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import CONTROL_CORE, place
from headrace.bench.peers.frames import Pace
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import PeerError, Place
from headrace.bench.priority import raise_priority
from headrace.bench.vnfs.mixes import Mix
from headrace.machine.context_switch import context_switch_ns
from headrace.machine.core_distance import Transfer
from headrace.machine.programs import ProgramMissing, find_program
from headrace.machine.tsc import tsc_hz
from headrace.model.mechanistic.predict import SWITCH_CYCLES

Say = Callable[[str], None]

SWITCHES = ("headrace", "ovs-dpdk")
PORTS: tuple[Ports, ...] = ("vhost-user", "shm", "memif")
FUNCTIONS: dict[str, dict[str, Any]] = {
    "pass": {},
    "firewall": {"default": "allow"},
    "cpu": {"units": 20},
}
"""Functions that pass every packet, with what they are set to."""
ARRIVALS = (Pace(burst=1), Pace(burst=8), Pace(burst=32), Pace(poisson=True))
MEMORY_MB = 288
MOST_VNFS = 4


@dataclass(frozen=True)
class Setup:
    """What is between source and sink."""

    vnfs: int = 0
    ports: Ports = "vhost-user"
    function: str = "pass"

    def __str__(self) -> str:
        """For people."""
        return f"{self.vnfs} x {self.function} by {self.ports}" if self.vnfs else "port to port"


def setups_of(
    switch: str, lengths: Sequence[str], ports: Sequence[str], functions: Sequence[str]
) -> list[Setup]:
    """Chains of the lengths with the first kind and function; one VNF of every other pair of them.

    Raises:
        ValueError: something of it is not known; says what is.
    """
    if switch not in SWITCHES:
        raise ValueError(f"no switch {switch!r}; there are {', '.join(SWITCHES)}")
    kinds = [kind for kind in PORTS if kind in ports]
    if not kinds or set(ports) - set(PORTS):
        raise ValueError(f"ports: give some of {', '.join(PORTS)}")
    if switch != "headrace" and kinds != ["vhost-user"]:
        raise ValueError(f"{switch} has no other ports than vhost-user here")
    if not functions or set(functions) - set(FUNCTIONS):
        raise ValueError(f"functions: give some of {', '.join(FUNCTIONS)}")
    if not lengths or any(not one.isdigit() or int(one) > MOST_VNFS for one in lengths):
        raise ValueError(f"lengths: give some of 0 to {MOST_VNFS}")
    kinds.sort(key=list(ports).index)
    found = [Setup(int(one), kinds[0], functions[0]) for one in lengths]
    # All pairs: a kind or a function is held out by what it does in the others (validate.py).
    found += [Setup(1, kind, function) for kind in kinds for function in functions][1:]
    return [Setup() if one.vnfs == 0 else one for one in dict.fromkeys(found)]


@dataclass(frozen=True)
class Plan:
    """What is measured, how often and how long; `saturated` windows of each size in a round.

    No round begins that would probably end after `seconds`, but the first.
    """

    switch: str
    setups: Sequence[Setup]
    sizes: Sequence[int] = (64, 256, 640, 1518)
    loads: Sequence[float] = (0.1, 0.3, 0.6, 0.9)
    repeats: int = 8
    seconds: float = 240.0
    window_s: float = 0.08
    saturated: int = 2
    seed: int = 1
    arrivals: Sequence[Pace] = field(default=ARRIVALS)


@dataclass(frozen=True)
class Point:
    """A load of a setup: `load` is its share of what the setup carries, None without a limit."""

    setup: Setup
    mix: Mix
    pace: Pace
    load: float | None

    @property
    def arrivals(self) -> str:
        """The arrival process in words."""
        return "poisson" if self.pace.poisson else f"bursts of {self.pace.burst}"

    @property
    def group(self) -> str:
        """What the repeats of one load have in common."""
        load = "overload" if self.load is None else f"{self.arrivals} at {self.load:g}"
        return f"{self.setup} {self.mix.name} {load}"


@dataclass
class Taken:
    """All windows of one switch."""

    switch: str
    windows: list[tuple[Point, Window]] = field(default_factory=list)


async def run(plan: Plan, say: Say) -> tuple[Taken, dict[str, Any]]:
    """Measures; returns the windows and the manifest.

    Raises:
        PeerError, ChainError: something could not be started or measured.
    """
    try:
        switch, vnf = find_program("headrace-switch"), find_program("headrace-vnf")
    except ProgramMissing as error:
        raise PeerError(str(error)) from error
    priority, hz = raise_priority(), tsc_hz()
    taken = Taken(plan.switch)
    beds: dict[Setup, Bed] = {}
    with place() as whole:
        where = dataclasses.replace(whole, memory_mb=MEMORY_MB)
        transfer = Transfer(where.worker_core)
        try:
            for number, setup in enumerate(plan.setups):
                made = _switch(plan.switch, number, _folder(where, number), switch)
                beds[setup] = await _started(made, setup, vnf, transfer)
            change_ns = context_switch_ns(CONTROL_CORE)
            begun = time.monotonic()
            for turn in range(plan.repeats):
                spent = time.monotonic() - begun
                if turn and spent * (turn + 1) / turn > plan.seconds:
                    say(f"{plan.switch}: the time is used")
                    break
                await _round(beds, plan, turn, hz, taken)
                say(f"{plan.switch}: round {turn + 1} of {plan.repeats}")
        finally:
            for bed in beds.values():
                await bed.stop()
            transfer.close()
    manifest = _manifest(plan, where, priority)
    if change_ns is not None:
        manifest[SWITCH_CYCLES] = change_ns * hz / 1e9
    return taken, manifest


def _folder(where: Place, number: int) -> Place:
    folder = where.rundir / str(number)
    folder.mkdir()
    return dataclasses.replace(where, rundir=folder)


async def _started(switch: Headrace | OvsDpdk, setup: Setup, vnf: Path, transfer: Transfer) -> Bed:
    bed = Bed(
        switch,
        "pvp" if setup.vnfs else "p2p",
        vnf,
        vnfs=setup.vnfs,
        ports=setup.ports,
        transfer=transfer,
    )
    try:
        await bed.start(setup.function, FUNCTIONS[setup.function])
    except BaseException:
        await bed.stop()
        raise
    return bed


def _switch(name: str, number: int, where: Place, program: Path) -> Headrace | OvsDpdk:
    """One of several at a time, whose files of DPDK and devices of the kernel must differ."""
    if name == "headrace":
        return Headrace(where, program, name=f"headrace{number}")
    made = OvsDpdk(where)
    made.alone = True
    made.eal_extra = f" --file-prefix terms-{os.getpid()}-{number}"
    return made


def points(plan: Plan, top: dict[tuple[Setup, str], float]) -> Iterator[Point]:
    """All points of one round; `top` is what each setup carries of each mix."""
    for setup in plan.setups:
        for size in plan.sizes:
            mix = Mix(f"{size}B", (size,))
            for _ in range(plan.saturated):
                yield Point(setup, mix, Pace(), None)
            for pace in plan.arrivals:
                for load in plan.loads:
                    pps = load * top[setup, mix.name]
                    yield Point(setup, mix, dataclasses.replace(pace, pps=pps), load)


async def _round(beds: dict[Setup, Bed], plan: Plan, turn: int, hz: float, taken: Taken) -> None:
    """Every point once, in a random order over all setups.

    A slow phase of the machine, which lasts seconds, then lies on all of them alike.
    """
    top: dict[tuple[Setup, str], float] = {}
    for setup, bed in beds.items():
        for size in plan.sizes:
            mix = Mix(f"{size}B", (size,))
            first = Point(setup, mix, Pace(), None)
            window = await bed.counted(mix, Pace(), plan.window_s, hz)
            taken.windows.append((first, window))
            known = [w.pps for p, w in taken.windows if p.group == first.group]
            # The best so far: a disturbed window would make all loads of the round small.
            top[setup, mix.name] = max(known)
    todo = list(points(plan, top))
    random.Random(plan.seed + turn).shuffle(todo)  # noqa: S311
    for point in todo:
        window = await beds[point.setup].counted(point.mix, point.pace, plan.window_s, hz)
        taken.windows.append((point, window))


def _manifest(plan: Plan, where: Place, priority: str) -> dict[str, Any]:
    return {
        "machine": machine(),
        "versions": versions(),
        "definitions": {
            "cycles": "TSC cycles of the poller, of all packets of a window",
            "window": "the source is opened and closed within it; counters are read outside",
            "on the core": "cycles of a switch are those of the time that its thread had the core",
            SWITCH_CYCLES: "of a yield that lets another process of the same session run, on the "
            "VNFs' core; not there if it could not be measured",
            "transfer_ns": "a cache line from the VNFs' core to the switch's and back, by two "
            "interpreters, their polls included",
            "load": "share of the best rate of the same setup and size with the source unpaced",
        },
        "switch": plan.switch,
        "setups": [str(one) for one in plan.setups],
        "sizes": list(plan.sizes),
        "arrivals": [dataclasses.asdict(pace) for pace in plan.arrivals],
        "loads": list(plan.loads),
        "cores": {"switch, source, sink": where.worker_core, "VNFs": CONTROL_CORE},
        "of": os.cpu_count() or 1,
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s, "in": plan.seconds},
        "priority": priority,
    }
