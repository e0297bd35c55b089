# SPDX-License-Identifier: Apache-2.0
"""Computes the rows of `headrace bench peers` from windows: rates, ratios, cycles, flatness.

Cycles and machines. A TSC cycle is a unit of time, not of work. The published figures of VPP and of
an OVS built for that processor come from such a machine whose counter runs at 2.0 GHz, while its
core ran at about 2.7 GHz. So the cycles of different machines are not comparable; they are given in
two forms: TSC cycles of this machine, compared with the goal (stricter if this counter is faster),
and the same time in cycles of a 2.0 GHz counter, for comparison with the published figure.
"""

from collections.abc import Iterator, Mapping, Sequence

from headrace.bench.peers.cases.case import Case, Published
from headrace.bench.peers.compare import Outcome, ratios
from headrace.bench.rows import Row, row, skipped
from headrace.machine.tsc import tsc_hz

L3FWD_GOAL = 0.7
FLATNESS_GOAL = 2 / 3
PUBLISHED_TSC_HZ = 2.0e9

CYCLES = (
    "TSC cycles per packet: the frequency of the counter / packets per second, source and sink "
    "included. "
    "VPP's were taken on another machine of this kind, whose counter runs at 2.0 GHz; the row "
    '"at 2.0 GHz" says the same time in such cycles'
)


def rows_of(case: Case, outcomes: Mapping[str, Outcome]) -> Iterator[Row]:
    """Every system's rate, Headrace's cycles and time per packet, and its ratio to each peer."""
    for outcome in outcomes.values():
        name = f"{case.name} {outcome.system}"
        if outcome.skipped is not None:
            yield skipped(name, "Mpps", outcome.skipped)
        else:
            mpps = [pps / 1e6 for pps in outcome.pps]
            note = f"best setting: {outcome.setting}" if outcome.setting else None
            yield row(name, mpps, "Mpps", note=note)
            yield from arrivals(name, outcome, case)
    ours = outcomes["headrace"]
    yield from _cycles(case.name, ours, case.published)
    goals = {"ovs-dpdk": case.goal, "l3fwd": L3FWD_GOAL}
    for peer, goal in goals.items():
        name = f"{case.name} headrace/{peer}"
        if peer not in outcomes:
            continue
        missing = [o for o in (ours, outcomes[peer]) if o.skipped is not None]
        if missing:
            yield skipped(name, "ratio", f"{missing[0].system}: {missing[0].skipped}", goal=goal)
        else:
            yield row(name, ratios(ours, outcomes[peer]), "ratio", goal=goal)


def arrivals(name: str, outcome: Outcome, case: Case) -> Iterator[Row]:
    """Packets of a window that the sinks did not get, and packets that bystanders got (flooded)."""
    account = outcome.account
    if account is None:
        return
    goal = 0 if outcome.system != "ovs-dpdk" else None
    note = account.told() if account.lost else None
    yield row(f"{name} lost", [account.lost], "packets", goal=goal, better="lower", note=note)
    if case.bystanders:
        yield row(f"{name} strayed", [account.strayed], "packets", goal=goal, better="lower")


def _cycles(case: str, ours: Outcome, published: Published | None) -> Iterator[Row]:
    if ours.skipped is not None:
        yield skipped(f"{case} headrace cycles", "cycles", ours.skipped)
        return
    counted = [tsc_hz() / rate for rate in ours.pps]
    note = None
    if published is not None:
        nanoseconds = published.vpp_cycles / PUBLISHED_TSC_HZ * 1e9
        note = f"VPP: {published.vpp_cycles:g} at 2.0 GHz, {nanoseconds:.1f} ns"
    yield row(
        f"{case} headrace cycles",
        counted,
        "cycles",
        goal=None if published is None else published.goal,
        better="lower",
        note=note,
    )
    same_time = [cycles * PUBLISHED_TSC_HZ / tsc_hz() for cycles in counted]
    yield row(f"{case} headrace cycles at 2.0 GHz", same_time, "cycles", note=note)
    yield row(f"{case} headrace time", [1e9 / rate for rate in ours.pps], "ns", note=note)


def flatness(rows: Sequence[Row], *, whole: bool) -> Iterator[Row]:
    """Headrace's rate with 500k flows relative to 1 flow: the goal is more than two thirds.

    `whole`: all cases were selected, so the row is mandatory.
    """
    name = "l3 headrace 500k flows / 1 flow"
    one = _rate(rows, "l3-1prefix-1flows")
    many = _rate(rows, "l3-2kprefixes-500kflows")
    if one is not None and many is not None:
        shares = [b / a for a, b in zip(one.samples, many.samples, strict=True)]
        yield row(name, shares, "ratio", goal=FLATNESS_GOAL)
    elif whole:
        yield skipped(name, "ratio", "not both measured", goal=FLATNESS_GOAL)


def _rate(rows: Sequence[Row], case: str) -> Row | None:
    return next((each for each in rows if each.name == f"{case} headrace"), None)
