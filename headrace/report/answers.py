# SPDX-License-Identifier: Apache-2.0
"""The first sentences of a report: its three questions, answered in plain words.

Which switch is faster, what does a chain cost, what do flows cost: each with its interval and with
who was the limit. What has no result says so with the reason, and what was not asked is left out.
"""

from collections.abc import Iterable, Sequence

from headrace.report.headline import Compared, compared
from headrace.report.view import View
from headrace.results import Case
from headrace.results.bounds import bounded, ratio_bound
from headrace.results.contrasts import OURS, PEER
from headrace.results.statistics import PAIRS_FROM, Ratio, student_interval
from headrace.results.summary import Row
from headrace.results.units import digits, rate

NAMES = {OURS: "Headrace", PEER: "OVS-DPDK"}
IN_PROCESS = "in-process"


def _interval(ratio: Ratio, wanted: float, percent: bool = False) -> str:
    if ratio.low is None or ratio.high is None or ratio.width is None:
        return f"{ratio.pairs} round{'' if ratio.pairs == 1 else 's'}, too few for an interval"
    wide = f", wider than the ±{100 * wanted:.0f} % wanted" if ratio.width > wanted else ""
    factor, unit = (100.0, " %") if percent else (1.0, "")
    low, high = digits(factor * ratio.low), digits(factor * ratio.high)
    return f"95 % interval {low} to {high}{unit}{wide}"


def _where(case: Case) -> str:
    if case.shape == "p2p":
        return "port to port"
    vnfs = "one VNF" if case.vnfs == 1 else f"{case.vnfs} VNFs"
    return f"through {vnfs}" + (" in parallel" if case.shape == "parallel" else "")


def _ends(case: Case) -> str:
    return "source and sink in the switch" if case.ports == IN_PROCESS else f"{case.ports} ports"


def _frames(case: Case) -> str:
    return f"{case.size}-byte frames" if case.size.isdigit() else f"frames of {case.size}"


def _limits(view: View, rows: Iterable[Row]) -> str:
    """Who limited the rates, by the verdicts of their trials."""
    found: dict[str, list[str]] = {}
    for row in rows:
        name = NAMES.get(row.case.switch, row.case.switch)
        found.setdefault(view.limiters(row) or "unknown", []).append(name)
    if set(found) == {"switch"}:
        return "the switch was the limit"
    told = (f"{limit} ({', '.join(dict.fromkeys(names))})" for limit, names in found.items())
    return f"the limit: {'; '.join(told)}"


def _faster_at(view: View, one: Compared) -> str:
    """One case of both switches."""
    if one.over is None or one.under is None or one.pairs is None:
        return one.missing or "the two switches were not measured in the same rounds"
    ours, theirs, pairs = one.over, one.under, one.pairs
    bound = ratio_bound(ours.bound, theirs.bound)
    times = bounded(digits(pairs.ratio.value), bound)
    sides = ((pairs.over, ours.bound), (pairs.under, theirs.bound))
    rates = [bounded(rate(side.value), sign) for side, sign in sides]
    return (
        f"{_where(ours.case)} Headrace carries {times} times what OVS-DPDK does "
        f"({_interval(pairs.ratio, one.width)}; {' and '.join(rates)}, "
        f"{_limits(view, (ours, theirs))})"
    )


def _winner(asked: Sequence[Compared]) -> str:
    verdicts = set()
    for one in asked:
        if one.over is None or one.under is None or one.ratio is None:
            continue
        bound = ratio_bound(one.over.bound, one.under.bound)
        certain = not bound or (bound, one.ratio.verdict) in (("≥", "higher"), ("≤", "lower"))
        verdicts.add(one.ratio.verdict if certain else "not determined")
    if not verdicts:
        return "No result"
    said = {
        "higher": NAMES[OURS],
        "lower": NAMES[PEER],
        "same": "Neither by more than 5 %",
    }
    if len(verdicts) == 1:
        return said.get(verdicts.pop(), "Not determined")
    known = [said[verdict] for verdict in ("higher", "lower", "same") if verdict in verdicts]
    return "It depends on the case" if len(known) > 1 else f"{known[0]}, not in every case"


def faster(view: View, asked: Sequence[Compared]) -> str | None:
    """Which switch carries more: port to port and through a VNF."""
    asked = [
        one
        for one in asked
        if one.contrast.by == "switch" and one.metric == "mrr" and not one.contrast.over.prefixes
    ]
    if not asked:
        return None
    told = "; ".join(_faster_at(view, one) for one in asked)
    how = dict.fromkeys(f"{_frames(c)}, {_ends(c)}" for c in (one.contrast.over for one in asked))
    return (
        f"Which is faster? {_winner(asked)}: {told}. {'; '.join(how)}, as fast as they are taken."
    )


def _longer(one: Compared) -> str:
    """What each VNF more costs one switch."""
    long, short = one.over, one.under
    if long is None or short is None or one.pairs is None:
        return one.missing or "the two lengths were not measured in the same rounds"
    more = long.case.vnfs - short.case.vnfs
    grown = [(ours - theirs) / more for ours, theirs in one.pairs.rounds]
    mean = sum(grown) / len(grown)
    between = ""
    if len(grown) >= PAIRS_FROM:
        low, high = student_interval(grown)
        between = f", 95 % interval {digits(low)} to {digits(high)}"
    name = NAMES.get(long.case.switch, long.case.switch)
    return (
        f"{name} {digits(mean)} cycles of a packet{between} "
        f"({_where(long.case)} it costs {digits(one.pairs.ratio.value)} times what it does "
        f"{_where(short.case)}; {_interval(one.pairs.ratio, one.width)})"
    )


def _load(view: View, rows: Sequence[Row]) -> str:
    """The fixed load, and how much of it was lost at most: nobody is the limit of a fixed load."""
    load = float(rows[0].point.split()[0])
    cases = {row.case for row in rows}
    lost = [
        row.summary.median
        for row in view.select("loss_ratio")
        if row.case in cases and row.point == rows[0].point
    ]
    scenarios = view.campaign.manifest.get("scenarios", [])
    bursts = {one["name"]: one["traffic"].get("burst", 1) for one in scenarios}
    burst = bursts.get(rows[0].case.scenario, 1)
    sent = f"{_frames(rows[0].case)} at {rate(load)}"
    sent += f" in bursts of {burst}" if burst > 1 else ""
    most = f"{100 * max(lost, default=0.0):.2g} %"
    return f"{sent}, {_ends(rows[0].case)}, of which {most} was lost at most"


def chain_cost(view: View, asked: Sequence[Compared]) -> str | None:
    """What each VNF more takes of the switch, and how both switches compare at the longest."""
    lengths = [one for one in asked if one.contrast.by == "vnfs"]
    if not lengths:
        return None
    told = "; ".join(_longer(one) for one in lengths)
    rows = [row for one in lengths for row in (one.over, one.under) if row is not None]
    if not rows:
        return f"What does a chain cost? No result: {told}."
    longest = max(row.case.vnfs for row in rows)
    beside = ""
    for one in asked:
        case = one.contrast.over
        same = one.contrast.by == "switch" and one.metric == lengths[0].metric
        if same and one.ratio is not None and case.vnfs == longest:
            beside = (
                f" With {case.vnfs} VNFs Headrace takes {digits(one.ratio.value)} "
                f"times OVS-DPDK's cycles ({_interval(one.ratio, one.width)})."
            )
    return (
        f"What does a chain cost? Each further VNF takes the switch: {told}. {_load(view, rows)}."
        f"{beside}"
    )


def _kept(view: View, one: Compared) -> str:
    many, few = one.over, one.under
    if many is None or few is None or one.ratio is None:
        return one.missing or "the two numbers of flows were not measured in the same rounds"
    bound = ratio_bound(many.bound, few.bound)
    share = bounded(f"{100 * one.ratio.value:.0f} %", bound)
    return (
        f"with {many.case.flows:,} {share} ({_interval(one.ratio, one.width, percent=True)}; "
        f"{_limits(view, (many, few))})"
    )


def flow_cost(view: View, asked: Sequence[Compared]) -> str | None:
    """What is left of the rate of the fewest flows."""
    by_switch: dict[str, list[Compared]] = {}
    for one in asked:
        if one.contrast.by == "flows":
            by_switch.setdefault(one.contrast.over.switch, []).append(one)
    if not by_switch:
        return None
    told = (
        f"{NAMES.get(switch, switch)} keeps {', '.join(_kept(view, one) for one in found)}"
        for switch, found in by_switch.items()
    )
    fewest = next(iter(by_switch.values()))[0].contrast.under.flows
    start = f"Of its rate with {fewest:,} flow{'' if fewest == 1 else 's'}"
    return f"What do flows cost? {start} {'; '.join(told)}."


def answers(view: View) -> list[str]:
    """The answers to the questions that the campaign asked, in their order."""
    asked = compared(view)
    said = (faster(view, asked), chain_cost(view, asked), flow_cost(view, asked))
    return [one for one in said if one]
