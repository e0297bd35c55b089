# SPDX-License-Identifier: Apache-2.0
"""`headrace bench builds`: compares two builds of headrace-switch on the cases of `bench peers`.

Both are started, and one of them is stopped at any time. Pairs of short windows are taken in the
order A B, B A, so that disturbances and drift affect both equally. The same program is some percent
faster or slower from one start to the next, by which pages its memory gets; pairs of one start
share that, so their spread doesn't show it. Hence both are started several times, and a ratio is
the median of the starts' medians, with an interval by order statistics of those.
"""

import hashlib
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
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
    """Many short windows; `pairs` in each start."""
    return Plan(repeats=pairs, window_s=seconds, settle_s=0.05, probe_s=0.3, account_s=0.1)


def pairs_of_a_start(pairs: int, starts: int) -> int:
    """Pairs in each of `starts`, for `pairs` or a few more; PeerError if starts exceed pairs."""
    if starts > pairs:
        raise PeerError(f"--starts {starts} is more than --pairs {pairs}: a start needs a pair")
    return -(-pairs // starts)


def run_builds(
    before: Build,
    after: Build,
    plan: Plan,
    starts: int,
    only: str,
    goal: float,
    say: Callable[[str], None],
) -> tuple[list[Row], dict[str, Any]]:
    """Rates and losses of both, and after/before, for the cases that `only` selects.

    `plan.repeats` pairs of windows are taken of each case in each of `starts` starts of both.
    """
    chosen = chosen_cases(only)
    found: dict[str, tuple[list[Outcome], list[Outcome]]] = {case.name: ([], []) for case in chosen}
    for start in range(starts):
        say(f"start {start + 1} of {starts}")
        with place(after.program()) as where:
            switches = [
                Headrace(where, build.program(), name=name, simd=build.simd)
                for name, build in (("before", before), ("after", after))
            ]
            with started(switches) as systems:
                for case in chosen:
                    outcomes = {o.system: o for o in compare(case, systems, where, plan, say)}
                    for side, name in zip(found[case.name], ("before", "after"), strict=True):
                        side.append(outcomes[name])
    rows: list[Row] = []
    for case in chosen:
        rows += list(rows_of(case, *found[case.name], goal))
        if (last := rows[-1]).value is not None:
            say(f"{last.name} {last.value:.3f}; {last.note}")
    return rows, manifest(plan) | {
        "before": before.about(),
        "after": after.about(),
        "starts": starts,
        "ratios": "median over the starts of both programs of the medians of the ratios of pairs "
        "of windows in the order A B, B A; interval of that median by order statistics",
    }


def rows_of(
    case: Case, before: Sequence[Outcome], after: Sequence[Outcome], goal: float
) -> Iterator[Row]:
    """The rows of one case, from each side's outcome of each start; the last is the ratio."""
    for side in (before, after):
        name = f"{case.name} {side[0].system}"
        if (reason := _skipped(side)) is not None:
            yield skipped(name, "Mpps", reason)
        else:
            yield row(name, [pps / 1e6 for outcome in side for pps in outcome.pps], "Mpps")
            yield from figures.arrivals(name, _worst(side), case)
    name = f"{case.name} after/before"
    for side in (before, after):
        if (reason := _skipped(side)) is not None:
            yield skipped(name, "ratio", f"{side[0].system}: {reason}", goal=goal)
            return
    pairs = [ratios(one, other) for one, other in zip(after, before, strict=True)]
    count = f"{sum(map(len, pairs))} pairs in {len(pairs)} starts"
    medians = [statistics.median(one) for one in pairs]
    if len(medians) < INTERVAL_FROM:
        note = f"{count}: too few starts for an interval"
    else:
        low, high = median_interval(medians)
        note = f"95 %: {low:.3f} to {high:.3f}, {count}"
    yield row(name, medians, "ratio", goal=goal, note=note)


def _skipped(side: Sequence[Outcome]) -> str | None:
    """Why one of its starts gave nothing; None if each gave its windows."""
    return next((outcome.skipped for outcome in side if outcome.skipped is not None), None)


def _worst(side: Sequence[Outcome]) -> Outcome:
    """The start in which most packets were lost or strayed."""

    def astray(outcome: Outcome) -> int:
        account = outcome.account
        return -1 if account is None else account.lost + account.strayed

    return max(side, key=astray)
