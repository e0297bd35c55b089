# SPDX-License-Identifier: Apache-2.0
"""`headrace bench vnfs` as the command runs it: rounds over all functions, then medians."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.rows import Row, row
from headrace.bench.vnfs.cases import FLOWS, Case
from headrace.bench.vnfs.mixes import MIXES, Mix
from headrace.bench.vnfs.program import Place, Vnf, VnfError, Window
from headrace.machine.programs import ProgramMissing, find_program

CORE = 1
MEMORY_MB = 128

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Number and duration of the windows per function and size."""

    repeats: int = 3
    window_s: float = 0.3


@contextmanager
def place() -> Iterator[Place]:
    """A run directory with the flow source, removed afterwards; VnfError with the remedy."""
    try:
        program = find_program("headrace-vnf")
    except ProgramMissing as error:
        raise VnfError(str(error)) from error
    plugin = program.parents[1] / "flowsource" / "libheadrace-flowsource.so"
    if not plugin.exists():
        raise VnfError(f"{plugin} is missing; run `make build`")
    if os.geteuid() != 0:
        raise VnfError("measuring VNFs needs root: they poll a pinned core and use hugepages")
    if (os.cpu_count() or 1) <= CORE:
        raise VnfError("measuring VNFs needs two cores: one for the VNF, one for the rest")
    # DPDK refuses plugins under a world-writable directory such as /tmp.
    with tempfile.TemporaryDirectory(prefix="headrace-vnfs-", dir="/run") as folder:
        own = Path(folder) / plugin.name
        own.write_bytes(plugin.read_bytes())
        yield Place(Path(folder), own, program, CORE, MEMORY_MB)


async def _round(
    case: Case, where: Place, plan: Plan, windows: dict[tuple[str, str], list[Window]]
) -> str:
    """One window of each size of one function; returns the kind of pages used."""
    vnf = Vnf(case, where)
    try:
        await vnf.start()
        for mix in _mixes(case):
            windows.setdefault((case.name, mix.name), []).append(
                await vnf.measure(mix, plan.window_s)
            )
    finally:
        await vnf.stop()
    return vnf.pages


def _mixes(case: Case) -> Sequence[Mix]:
    """All mixes; for a function that generates its frames, one size."""
    return MIXES if case.frames is not None else MIXES[:1]


async def run(plan: Plan, chosen: Sequence[Case], say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures the chosen functions.

    Raises:
        VnfError: one of them cannot be measured.
    """
    windows: dict[tuple[str, str], list[Window]] = {}
    pages: set[str] = set()
    with place() as where:
        for number in range(plan.repeats):
            for case in chosen:
                pages.add(await _round(case, where, plan, windows))
            say(f"round {number + 1} of {plan.repeats}")
    rows: list[Row] = []
    for case in chosen:
        for mix in _mixes(case):
            taken = windows[case.name, mix.name]
            name, note = f"{case.name} {mix.name}", case.note or None
            rows.append(row(f"{name} rate", [one.mpps for one in taken], "Mpps", note=note))
            cost = [one.cycles for one in taken]
            rows.append(row(f"{name} cost", cost, "cycles/packet", note=note))
    return rows, manifest(plan, chosen, sorted(pages))


def manifest(plan: Plan, chosen: Sequence[Case], pages: Sequence[str]) -> dict[str, Any]:
    """The setup, the definitions, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "definitions": {
            "rate": "packets that came in, for each second of CPU time of the worker's thread",
            "cost": "TSC cycles of that time; the row `sink` is what source and driver "
            "cost, and is part of all others",
            "sizes": {mix.name: f"mean {mix.mean:.1f} octets with FCS" for mix in MIXES},
        },
        "source": "net_null with the flow source plugin (copies prepared frames), unpaced",
        "sink": "net_null",
        "flows": FLOWS,
        "functions": {
            case.name: {"function": case.function, "configuration": case.configuration}
            for case in chosen
        },
        "pages": pages,
        "worker_core": CORE,
        "shared": f"one VNF at a time, alone on core {CORE} but for its own control thread; "
        "this command runs on the other cores",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s},
        "order": "all functions in turn, and again for each repeat",
    }
