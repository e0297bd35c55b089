# SPDX-License-Identifier: Apache-2.0
"""The first sentences of a report: its three questions, answered in plain words.

Which switch is faster, what does a chain cost, what do flows cost. A question without rows is left
out; one whose interval leaves the answer open says so.
"""

from collections.abc import Sequence

from headrace.report.view import View
from headrace.results.contrasts import OURS, PEER
from headrace.results.statistics import PAIRS_FROM, Ratio, ratio_of_groups
from headrace.results.summary import RatioRow, Row
from headrace.results.units import digits

NAMES = {OURS: "Headrace", PEER: "OVS-DPDK"}


def _interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.pairs} round{'' if ratio.pairs == 1 else 's'}, too few for an interval"
    return f"95 % interval {digits(ratio.low)} to {digits(ratio.high)}"


def _rate_ratio(view: View, size: str) -> RatioRow | None:
    """Port to port under overload, on ports that both switches have.

    One in which the switches were the limit is taken before one that a generator bounds.
    """
    found = [
        entry
        for entry in view.ratios
        if entry.metric == "mrr"
        and entry.ours.shape == "p2p"
        and not entry.ours.prefixes
        and entry.ours.size == size
    ]
    return min(found, key=lambda entry: entry.bound != "", default=None)


def faster(view: View) -> str | None:
    """Which switch carries more 64-byte frames from port to port."""
    entry = _rate_ratio(view, "64")
    if entry is None:
        return None
    ratio, ports = entry.ratio, entry.ours.ports
    limit = "the generator may have been the limit" if entry.bound else "the switches the limit"
    ends = "source and sink in the switch" if ports == "in-process" else f"{ports} ports"
    where = f"from port to port, 64-byte frames, {ends}, as fast as they can be sent, {limit}"
    if ratio.verdict == "same":
        return f"Which is faster? Neither by more than 5 % ({where}; {_interval(ratio)})."
    if ratio.verdict not in ("higher", "lower"):
        return (
            f"Which is faster? Not determined: Headrace carried {digits(ratio.value)} times what "
            f"OVS-DPDK did ({where}; {_interval(ratio)})."
        )
    winner = NAMES[OURS] if ratio.verdict == "higher" else NAMES[PEER]
    return (
        f"Which is faster? {winner}: Headrace carries {digits(ratio.value)} times what OVS-DPDK "
        f"does ({where}; {_interval(ratio)})."
    )


def _chain(view: View, switch: str) -> dict[int, Row]:
    """Cycles per packet at the highest load by length of the chain, smallest frames."""
    rows = [
        row
        for row in view.select("cycles_per_packet")
        if row.case.switch == switch
        and row.case.vnfs
        and row.case.shape != "p2p"
        and (row.case.shape == "chain" or row.case.vnfs == 1)
        and row.point.endswith(" pps")
        and row.case.size.isdigit()
    ]
    if not rows:
        return {}
    size = min(int(row.case.size) for row in rows)
    load = max(float(row.point.split()[0]) for row in rows)
    kept = [r for r in rows if int(r.case.size) == size and float(r.point.split()[0]) == load]
    return {row.case.vnfs: row for row in kept}


def chain_cost(view: View) -> str | None:
    """What each VNF more takes of the switch."""
    said = []
    point = ""
    for switch, name in NAMES.items():
        lengths = _chain(view, switch)
        if len(lengths) < 2:
            continue
        short, long = min(lengths), max(lengths)
        first, last = lengths[short].summary.median, lengths[long].summary.median
        said.append(
            f"{name} {digits((last - first) / (long - short))} cycles for a packet (from "
            f"{digits(first)} with {short} to {digits(last)} with {long})"
        )
        row = lengths[long]
        point = f"{row.case.frames} at {float(row.point.split()[0]) / 1e3:g} kpps"
    if not said:
        return None
    return f"What does a chain cost? Each further VNF takes the switch {', '.join(said)}; {point}."


def _kept(few: Row, many: Row) -> str:
    if min(len(few.samples), len(many.samples)) < PAIRS_FROM:
        return f"{100 * many.summary.median / few.summary.median:.0f} %"
    ratio = ratio_of_groups(many.samples, few.samples)
    if ratio.low is None or ratio.high is None:
        return f"{100 * ratio.value:.0f} %"
    return f"{100 * ratio.value:.0f} % ({100 * ratio.low:.0f} to {100 * ratio.high:.0f})"


def flow_cost(view: View) -> str | None:
    """What is left of the rate of one flow with the most flows."""
    said: list[str] = []
    counts: Sequence[int] = ()
    for switch, name in NAMES.items():
        rows = {row.case.flows: row for row in view.by_flows("mrr") if row.case.switch == switch}
        if len(rows) < 2:
            continue
        counts = (min(rows), max(rows))
        said.append(f"{name} keeps {_kept(rows[counts[0]], rows[counts[1]])}")
    if not said:
        return None
    return (
        f"What do flows cost? With {counts[1]:,} flows instead of {counts[0]:,} "
        f"{' and '.join(said)} of its rate."
    )


def answers(view: View) -> list[str]:
    """The answers that the campaign's rows allow, in the order of the questions."""
    return [said for said in (faster(view), chain_cost(view), flow_cost(view)) if said]
