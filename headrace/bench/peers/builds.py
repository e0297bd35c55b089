# SPDX-License-Identifier: Apache-2.0
"""`headrace bench builds`: compares two builds of headrace-switch on the cases of `bench peers`.

Both are started, and one of them is stopped at any time. Pairs of short windows are taken in the
order A B, B A, so that disturbances and drift affect both equally. A ratio is the median of the
pairs' ratios, with an interval by order statistics.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bench.peers import figures
from headrace.bench.peers.bed import manifest, place, started
from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.compare import Outcome, Plan, compare, ratios
from headrace.bench.peers.suites import chosen_cases
from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import PeerError
from headrace.bench.rows import Row, row, skipped
from headrace.results.statistics import INTERVAL_FROM, median_interval


@dataclass(frozen=True)
class Build:
    """A folder of programs, and the vector instructions used by its switch."""

    folder: Path
    simd: str = "auto"

    def program(self) -> Path:
        """headrace-switch in the folder or in its dataplane/apps; PeerError if it is in neither."""
        for folder in (self.folder, self.folder / "dataplane" / "apps"):
            program = folder / "headrace-switch"
            if program.is_file() and os.access(program, os.X_OK):
                return program.resolve()
        raise PeerError(f"no headrace-switch in {self.folder} or its dataplane/apps")

    def about(self) -> dict[str, str]:
        """Its entry in the manifest."""
        program = self.program()
        digest = hashlib.sha256(program.read_bytes()).hexdigest()
        return {"program": str(program), "sha256": digest, "simd": self.simd}


def plan_of(pairs: int, seconds: float) -> Plan:
    """Many short windows."""
    return Plan(repeats=pairs, window_s=seconds, settle_s=0.05, probe_s=0.3, account_s=0.1)


def run_builds(
    before: Build, after: Build, plan: Plan, only: str, goal: float, say: Callable[[str], None]
) -> tuple[list[Row], dict[str, Any]]:
    """Rates and losses of both, and after/before, for the cases that `only` selects."""
    chosen = chosen_cases(only)
    rows: list[Row] = []
    with place(after.program()) as where:
        switches = [
            Headrace(where, build.program(), name=name, simd=build.simd)
            for name, build in (("before", before), ("after", after))
        ]
        with started(switches) as systems:
            for case in chosen:
                found = {o.system: o for o in compare(case, systems, where, plan, say)}
                rows += list(rows_of(case, found["before"], found["after"], goal))
                if (last := rows[-1]).value is not None:
                    say(f"{last.name} {last.value:.3f}; {last.note}")
    return rows, manifest(plan) | {
        "before": before.about(),
        "after": after.about(),
        "ratios": "median of the ratios of pairs of windows in the order A B, B A; interval of the "
        "median by order statistics",
    }


def rows_of(case: Case, before: Outcome, after: Outcome, goal: float) -> Iterator[Row]:
    """The rows of one case; the last is the ratio."""
    for outcome in (before, after):
        name = f"{case.name} {outcome.system}"
        if outcome.skipped is not None:
            yield skipped(name, "Mpps", outcome.skipped)
        else:
            yield row(name, [pps / 1e6 for pps in outcome.pps], "Mpps")
            yield from figures.arrivals(name, outcome, case)
    name = f"{case.name} after/before"
    missing = [outcome for outcome in (before, after) if outcome.skipped is not None]
    if missing:
        why = f"{missing[0].system}: {missing[0].skipped}"
        yield skipped(name, "ratio", why, goal=goal)
        return
    pairs = ratios(after, before)
    if len(pairs) < INTERVAL_FROM:
        note = f"{len(pairs)} pairs: too few for an interval"
    else:
        low, high = median_interval(pairs)
        note = f"95 %: {low:.3f} to {high:.3f}, {len(pairs)} pairs"
    yield row(name, pairs, "ratio", goal=goal, note=note)
