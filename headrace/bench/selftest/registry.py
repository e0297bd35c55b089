# SPDX-License-Identifier: Apache-2.0
"""The parts of the self-test: each gives rows with goals. Another part is one line below."""

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.campaign import Silent
from headrace.bench.peers.bed import place
from headrace.bench.peers.systems import PeerError
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row, row, skipped
from headrace.bench.same_build import GOAL_SHARE
from headrace.bench.scenario import find
from headrace.bench.searching.comparison import compare_all
from headrace.bench.selftest import faults
from headrace.bench.selftest.faults import Fault
from headrace.bench.session import Options, measure_twice
from headrace.machine.programs import ProgramMissing, find_program
from headrace.machine.tsc import tsc_hz
from headrace.results.store import Store
from headrace.results.units import seconds

Run = Callable[["Settings"], Awaitable[list[Row]]]


@dataclass(frozen=True)
class Settings:
    """How long the parts measure."""

    repeats: int = 5
    seconds: float = 0.2


@dataclass(frozen=True)
class Part:
    """One part, by the name that `--only` takes."""

    name: str
    run: Run


MEMORY_MB = 320


@contextlib.contextmanager
def _place(settings: Settings) -> Iterator[Fault]:
    """Where the faults of real programs are measured; PeerError if they can't be started."""
    try:
        switch, vnf = find_program("headrace-switch"), find_program("headrace-vnf")
    except ProgramMissing as error:
        raise PeerError(str(error)) from error
    raise_priority()
    with place() as whole:
        where = dataclasses.replace(whole, memory_mb=MEMORY_MB)
        yield Fault(settings.repeats, settings.seconds, tsc_hz(), where, switch, vnf)


def _fault(measure: Callable[[Fault], Awaitable[list[Row]]]) -> Run:
    async def run(settings: Settings) -> list[Row]:
        with _place(settings) as fault:
            return await measure(fault)

    return run


async def _searches(_: Settings) -> list[Row]:
    return await compare_all()


SAME_BUILD_ROUNDS = 6


async def _same_build(settings: Settings) -> list[Row]:
    """A/A on simulated devices; `bench same-build` does it with real nodes."""
    with tempfile.TemporaryDirectory(prefix="headrace-selftest-") as folder:
        options = Options(quick=True, rounds=SAME_BUILD_ROUNDS, simulate=True)
        with Store(Path(folder) / "results.sqlite") as store:
            found = await measure_twice(find([]), store, options, Silent())
    name = "A/A on simulated devices: rows that differ"
    note = f"{len(found.changes)} rows, {found.rounds} rounds each"
    goal = 100 * GOAL_SHARE
    made = row(name, [100 * found.share], "%", goal=goal, better="lower", note=note)
    return [made.model_copy(update={"met": found.met})]


PARTS: tuple[Part, ...] = (
    Part("slowed-switch", _fault(faults.slowed_switch)),
    Part("throttled-generator", _fault(faults.throttled_generator)),
    Part("slowed-vnf", _fault(faults.slowed_vnf)),
    Part("stolen-core", _fault(faults.stolen_core)),
    Part("searches", _searches),
    Part("same-build", _same_build),
)


def chosen(text: str) -> list[Part]:
    """The parts named in a list by comma; all if it is empty.

    Raises:
        ValueError: one is not known.
    """
    words = [word for part in text.split(",") if (word := part.strip())]
    known = {part.name for part in PARTS}
    if unknown := [word for word in words if word not in known]:
        raise ValueError(f"--only: {unknown[0]!r} is none of {', '.join(sorted(known))}")
    return [part for part in PARTS if not words or part.name in words]


@dataclass(frozen=True)
class Outcome:
    """All rows, and the seconds that each part took, by its name."""

    rows: list[Row]
    took_s: dict[str, float]


async def run(parts: list[Part], settings: Settings, say: Callable[[str], None]) -> Outcome:
    """Runs the parts; one that can't be measured here is a row with its reason."""
    rows: list[Row] = []
    took_s: dict[str, float] = {}
    for part in parts:
        say(f"self-test: {part.name}")
        begun = time.monotonic()
        try:
            rows += await part.run(settings)
        except PeerError as error:
            rows.append(skipped(part.name, "rows", str(error), goal=1.0))
        took_s[part.name] = round(time.monotonic() - begun, 1)
        say(f"self-test: {part.name} took {seconds(took_s[part.name])}")
    return Outcome(rows, took_s)
