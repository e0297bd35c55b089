# SPDX-License-Identifier: Apache-2.0
"""Computes rows from windows: rates of all kinds and cases, and Headrace's relative to others.

A rate is packets received per second. Where packets circulate (direct, ring), untouched packets
count in both directions, since both ends send and receive; touched ones count in one, as on any
other kind, since only empty buffers return.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from headrace.bench.channels.kinds import CASES, SIZES, Case, Kind, cases_of
from headrace.bench.channels.program import Window
from headrace.bench.rows import Row, row, skipped

PAPER_MPPS = 350.0
OF_BARE_RING = 0.9
TO_BEST = 2.5
TO_MEMIF = 1.5
BEST_OF = ("vhost-split", "vhost-packed", "memif", "memif-zc")

Rates = Mapping[tuple[str, Case], Sequence[float]]
"""Mpps of each window by kind and case, in the order of the rounds."""


def mpps(kind: Kind, case: Case, window: Window) -> float:
    """The rate of a window."""
    packets = window.packets
    if kind.circulates and not case.touch:
        packets += window.sent
    return packets / window.seconds / 1e6


def goal_of(kind: str, case: Case) -> float | None:
    """The goal of a rate: the paper's figure, for the kind that passes only numbers."""
    return PAPER_MPPS if kind == "direct" and not case.touch else None


def rates(kinds: Sequence[Kind], taken: Rates, failed: Mapping[str, str]) -> Iterator[Row]:
    """A row for each kind and case; a kind that failed has its reason in `failed`."""
    for kind in kinds:
        for case in cases_of(kind):
            name, goal = f"{kind.name} {case.name}", goal_of(kind.name, case)
            if kind.name in failed:
                yield skipped(name, "Mpps", failed[kind.name], goal=goal)
                continue
            note = "both ways together" if kind.circulates and not case.touch else None
            yield row(name, taken[kind.name, case], "Mpps", goal=goal, note=note)


def in_turn(taken: Rates, failed: Mapping[str, str], *, whole: bool) -> Iterator[Row]:
    """Direct links and the bare ring, by short windows that alternate between the two.

    `taken` are those windows only. `whole`: both kinds were selected, so each figure must have a
    row, measured or skipped.
    """
    for size in SIZES:
        case = Case(size, touch=False)
        for kind in ("direct", "ring"):
            if (kind, case) in taken:
                name, goal = f"{kind} {case.name} in turn", goal_of(kind, case)
                note = "both ways together"
                yield row(name, taken[kind, case], "Mpps", goal=goal, note=note)
        yield from _ratio("direct", ["ring"], case, OF_BARE_RING, taken, failed, whole)


def ratios(taken: Rates, failed: Mapping[str, str], *, whole: bool) -> Iterator[Row]:
    """Headrace's rates relative to those of the kinds in the goals.

    `whole`: all kinds were selected, so each ratio must have a row, measured or skipped.
    """
    for size in SIZES:
        case = Case(size, touch=True)
        yield from _ratio("direct", BEST_OF, case, TO_BEST, taken, failed, whole)
    for case in CASES:
        yield from _ratio("switch-shm", ["switch-memif"], case, TO_MEMIF, taken, failed, whole)


def _ratio(
    ours: str,
    others: Sequence[str],
    case: Case,
    goal: float,
    taken: Rates,
    failed: Mapping[str, str],
    whole: bool,
) -> Iterator[Row]:
    """The ratio to the best of the others, window by window in the order of `taken`."""
    measured = [other for other in others if (other, case) in taken]
    name = f"{ours}/{others[0] if len(others) == 1 else 'best of memif and vhost-user'} {case.name}"
    if not measured or (ours, case) not in taken:
        if whole:
            why = "; ".join(f"{kind}: {failed[kind]}" for kind in (ours, *others) if kind in failed)
            yield skipped(name, "ratio", why or "not measured", goal=goal)
        return
    best = max(measured, key=lambda other: statistics.median(taken[other, case]))
    pairs = zip(taken[ours, case], taken[best, case], strict=True)
    note = f"best: {best}" if len(others) > 1 else None
    yield row(name, [a / b for a, b in pairs], "ratio", goal=goal, note=note)
