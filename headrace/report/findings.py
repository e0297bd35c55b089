# SPDX-License-Identifier: Apache-2.0
"""The findings of a campaign in sentences: computed from rows, with their uncertainty."""

from headrace.report.answers import answers
from headrace.report.view import View
from headrace.results.bounds import NOT_DETERMINED as NO_RATIO
from headrace.results.bounds import bounded
from headrace.results.statistics import NOT_DETERMINED
from headrace.results.summary import RatioRow, Row, kind_of
from headrace.results.units import nanoseconds, rate


def _span(entry: RatioRow) -> str:
    ratio = entry.ratio
    return f"95 % interval {ratio.low:.2f} to {ratio.high:.2f}, {ratio.pairs} rounds"


def _times(entry: RatioRow) -> str:
    verdict = entry.ratio.verdict
    if entry.bound == NO_RATIO:
        measured = f"{entry.ratio.value:.2f} times"
        return f"{measured} (not determined: the generator may have limited both)"
    value = bounded(f"{entry.ratio.value:.2f}", entry.bound) + " times"
    if entry.ratio.low is None:
        times = "one round" if entry.ratio.pairs == 1 else f"{entry.ratio.pairs} rounds"
        return f"{value} (in {times}, too few to conclude)"
    if verdict == NOT_DETERMINED:
        return f"{value}, so which is faster is not determined ({_span(entry)})"
    return f"{value} ({_span(entry)})"


def _limited_by(view: View, row: Row) -> str:
    limiters = view.limiters(row)
    return f" (limited by {limiters})" if limiters else ""


def _best_ratio(view: View, shape_prefixes: bool, size: str | None) -> RatioRow | None:
    for metric in ("pdr", "mrr"):
        for entry in view.ratios:
            case = entry.ours
            if (
                kind_of(entry.metric) == metric
                and case.shape == "p2p"
                and bool(case.prefixes) == shape_prefixes
                and (size is None or case.size == size)
            ):
                return entry
    return None


def findings(view: View) -> list[str]:
    """The answers to the three questions, then up to six sentences more."""
    said = answers(view)
    if not view.rows:
        said.append("Nothing was measured; the reasons are below.")
    carried = []
    for subject in view.subjects:
        rows = [r for r in view.port_to_port("pdr", "mrr") if r.case.subject == subject]
        rows = [row for row in rows if row.case.size == "64"]
        if rows:
            row = next((r for r in rows if r.kind == "pdr"), rows[0])
            how = " with at most 0.5 % lost" if row.kind == "pdr" else " under overload"
            value = bounded(rate(row.summary.median), row.bound)
            carried.append(f"{subject} {value}{how}{_limited_by(view, row)}")
    if carried:
        said.append(f"Port to port, 64 B: {', '.join(carried)}.")
    entry = _best_ratio(view, False, "64")
    if entry is not None:
        said.append(
            f"Side by side on the same {entry.ours.ports} ports, Headrace carries {_times(entry)} "
            "what OVS-DPDK carries of 64 B frames."
        )
    sweep = [entry for entry in view.ratios if entry.ours.prefixes and entry.metric == "mrr"]
    if sweep:
        many = max(sweep, key=lambda row: row.ours.flows)
        said.append(
            f"With {many.ours.flows:,} flows over {many.ours.prefixes} prefixes it is "
            f"{_times(many)}."
        )
    costs = [e for e in view.ratios if e.metric == "cpu_percent" and e.ours.vnfs == 3]
    if costs:
        ends = [f"{end(entry.ratio.value for entry in costs):.2f}" for end in (min, max)]
        said.append(
            "For the same load through three VNFs Headrace's worker is busy "
            f"{' to '.join(dict.fromkeys(ends))} times as long as OVS-DPDK's."
        )
    latency = [
        row
        for row in view.port_to_port("latency_p99")
        if row.case.size == "64" and row.point.startswith("50")
    ]
    if latency:
        text = ", ".join(f"{r.case.subject} {nanoseconds(r.summary.median)}" for r in latency)
        said.append(f"The 99th percentile of one-way latency at half the PDR, 64 B: {text}.")
    if view.skips:
        said.append(f"{len(view.skips)} rows could not be measured here; the reasons are below.")
    return said
