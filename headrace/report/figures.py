# SPDX-License-Identifier: Apache-2.0
"""The figures: the measurements with their intervals, and the papers' numbers for comparison.

Each function returns inline SVG, or None if the campaign has no data for it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headrace.report import style
from headrace.report.view import View
from headrace.results import Case, Trial, published
from headrace.results.bounds import bounded
from headrace.results.frame_sizes import mean_bytes
from headrace.results.summary import Row
from headrace.results.units import digits

MPPS = 1e6


def _ends(row: Row) -> tuple[float, float]:
    """Ends of the interval, or of the range of fewer than 6 samples; the median is within."""
    summary = row.summary
    low = summary.low if summary.low is not None else summary.minimum
    high = summary.high if summary.high is not None else summary.maximum
    return min(low, summary.median), max(high, summary.median)


def _whiskers(row: Row) -> tuple[float, float, float]:
    """Median, low and high end in Mpps."""
    low, high = _ends(row)
    return row.summary.median / MPPS, low / MPPS, high / MPPS


def _line(axes: Any, xs: Sequence[float], rows: Sequence[Row], subject: str, **look: Any) -> None:
    middle, low, high = zip(*(_whiskers(row) for row in rows), strict=True)
    errors = [np.subtract(middle, low), np.subtract(high, middle)]
    axes.errorbar(
        xs,
        middle,
        yerr=errors,
        color=style.colour(subject),
        marker=style.marker(subject),
        capsize=3,
        label=subject,
        **look,
    )


def _grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.case.subject].append(row)
    return found


def _is_at(row: Row, size: str, subject: str) -> bool:
    return (row.case.size, row.case.subject) == (size, subject)


def throughput_by_size(view: View) -> str | None:
    """Rates port to port: a dot with its interval for each frame size, subject and search goal.

    Beside each its value, with `≥` where the generator limited it or may have.
    """
    # Of several scenarios with the same point, the one that was measured most often.
    most: dict[tuple[str, str, str], Row] = {}
    for row in view.port_to_port("mrr", "pdr", "ndr"):
        key = (row.case.subject, row.case.size, f"{row.metric} {row.point}")
        if key not in most or most[key].summary.count < row.summary.count:
            most[key] = row
    rows = list(most.values())
    if not rows:
        return None
    sizes = sorted({row.case.size for row in rows}, key=mean_bytes)
    subjects = list(dict.fromkeys(row.case.subject for row in rows))
    fills = {"mrr": "none", "pdr": "full", "ndr": "bottom"}
    # A line for each size and subject that there is, and a gap between sizes.
    lines: dict[tuple[str, str], float] = {}
    ticks: list[float] = []
    for size in sizes:
        there = [one for one in subjects if any(_is_at(row, size, one) for row in rows)]
        first = max(lines.values(), default=-1.8) + 1.8
        lines |= {(size, one): first + at for at, one in enumerate(there)}
        ticks.append(first + (len(there) - 1) / 2)
    last = max(lines.values())
    with style.figure(9.2, 0.9 + 0.24 * (last + 1)) as (made, axes):
        for row in rows:
            middle, low, high = _whiskers(row)
            place = lines[row.case.size, row.case.subject]
            axes.errorbar(
                middle,
                place,
                xerr=[[middle - low], [high - middle]],
                color=style.colour(row.case.subject),
                marker=style.marker(row.case.subject),
                fillstyle=fills[row.kind],
                capsize=3,
                linestyle="none",
            )
            if row.bound:
                # An arrow where the value is a bound only: the switch may carry more.
                axes.plot(
                    high * 1.06, place, marker=9, color=style.colour(row.case.subject), ls="none"
                )
            axes.annotate(
                bounded(digits(middle), row.bound),
                (high, place),
                (12 if row.bound else 7, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
                color=style.INK,
            )
        limits = {(row.case.subject, row.case.size): view.port_ceiling(row.case) for row in rows}
        for (subject, size), limit in limits.items():
            if limit is not None:
                place = lines[size, subject]
                axes.plot(
                    [limit / MPPS] * 2, [place - 0.5, place + 0.5],
                    color=style.QUIET, lw=1.6, ls=(0, (2, 1.2)),
                )  # fmt: skip
        for subject in subjects:
            axes.plot(
                [], [], color=style.colour(subject), marker=style.marker(subject), ls="none",
                label=subject,
            )  # fmt: skip
        if any(limits.values()):
            axes.plot([], [], color=style.QUIET, lw=1.6, ls=(0, (2, 1.2)),
                      label="the generator's limit\nover such ports")  # fmt: skip
        if any(row.bound for row in rows):
            axes.plot([], [], color=style.INK, marker=9, ls="none", label="a bound only")
        for metric, text in (("mrr", "overload"), ("pdr", "PDR"), ("ndr", "NDR")):
            if any(row.kind == metric for row in rows):
                axes.plot([], [], color=style.INK, marker="o", ls="none", fillstyle=fills[metric],
                          label=text)  # fmt: skip
        axes.set_xscale("log")
        style.plain_log(axes.xaxis)
        axes.set_xlabel("million frames per second, one direction (logarithmic)")
        axes.set_yticks(ticks, [f"{s} B" if s.isdigit() else s for s in sizes])
        axes.set_ylim(last + 0.8, -0.8)
        axes.margins(x=0.12)
        axes.grid(visible=False, axis="y")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return style.svg(made, "Throughput port to port by frame size and switch", "size")


def _panels(view: View, purposes: set[str]) -> list[tuple[str, dict[Case, list[Trial]]]]:
    panels: dict[str, dict[Case, list[Trial]]] = defaultdict(dict)
    for case, trials in view.trials.items():
        if case.shape != "p2p" or case.prefixes:
            continue
        found = [trial for trial in trials if trial.purpose in purposes]
        if found:
            panels[case.size][case] = found
    return sorted(panels.items(), key=lambda item: mean_bytes(item[0]))


def loss_by_load(view: View) -> str | None:
    """Share of frames lost over the offered load, one dot for each trial, one panel a size."""
    panels = _panels(view, {"search", "overload", "latency", "loss"})
    if not panels:
        return None
    with style.figure(9.2, 3.1, columns=len(panels), sharey=True, squeeze=False) as (made, grid):
        for axes, (size, cases) in zip(grid[0], panels, strict=True):
            for case, trials in cases.items():
                axes.plot(
                    [trial.tx_pps / MPPS for trial in trials],
                    [max(100 * trial.loss_ratio, 1e-3) for trial in trials],
                    ls="none",
                    ms=3.4,
                    alpha=0.55,
                    color=style.colour(case.subject),
                    marker=style.marker(case.subject),
                    label=case.subject,
                )
            axes.axhline(0.5, color=style.QUIET, lw=0.9, ls=(0, (4, 3)))
            axes.set_title(f"{size} B" if size.isdigit() else size)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_ylim(7e-4, 130)
            style.plain_log(axes.xaxis)
            axes.set_yticks(
                [1e-3, 1e-2, 1e-1, 1, 10, 100], ["none", "0.01", "0.1", "1", "10", "100"]
            )
            axes.set_xlabel("offered, Mpps")
        grid[0][0].set_ylabel("lost, %")
        grid[0][-1].annotate("PDR\n0.5 %", (1.01, 0.5), xycoords=("axes fraction", "data"),
                             fontsize=9, color=style.QUIET, va="center")  # fmt: skip
        made.legend(*_legend(grid[0]), loc="outside lower center", ncols=4)
        return style.svg(made, "Loss over offered load, port to port", "loss")


def _legend(axes: Iterable[Any]) -> tuple[list[Any], list[str]]:
    entries: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return list(entries.values()), list(entries)


PERCENTILES = (("min", 0.0), ("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99_9", 99.9))


def latency_percentiles(view: View) -> str | None:
    """One-way latency percentiles at fractions of the PDR, port to port, smallest frames."""
    names = [f"latency_{name}" for name, _ in PERCENTILES]
    rows = view.port_to_port(*names)
    if not rows:
        return None
    size = min((row.case.size for row in rows), key=mean_bytes)
    points = sorted({row.point for row in rows}, key=_percent)
    with style.figure(9.2, 3.2, columns=len(points), sharey=True, squeeze=False) as (made, grid):
        for axes, point in zip(grid[0], points, strict=True):
            chosen = [row for row in rows if row.point == point and row.case.size == size]
            for subject, found in _grouped(chosen).items():
                found.sort(key=lambda row: names.index(row.metric))
                xs = [names.index(row.metric) for row in found]
                for x, row in zip(xs, found, strict=True):
                    axes.vlines(x, row.summary.minimum / 1e3, row.summary.maximum / 1e3, lw=1,
                                alpha=0.6, color=style.colour(subject))  # fmt: skip
                axes.plot(xs, [row.summary.median / 1e3 for row in found], label=subject,
                          color=style.colour(subject), marker=style.marker(subject))  # fmt: skip
            ticks = [("min" if not percent else f"{percent:g} %") for _, percent in PERCENTILES]
            axes.set_xticks(range(len(PERCENTILES)), ticks)
            axes.set_yscale("log")
            style.plain_log(axes.yaxis)
            axes.set_title("at " + point.replace("% pdr", " % of its PDR"))
            axes.set_xlabel("percentile of frames")
        grid[0][0].set_ylabel(f"one-way latency of {size} B, µs")
        made.legend(*_legend(grid[0]), loc="outside lower center", ncols=4)
        return style.svg(made, "Latency percentiles at fractions of the PDR", "latency")


def _percent(point: str) -> float:
    return float(point.split("%")[0]) if "%" in point else 0.0


def multi_vnf(view: View) -> str | None:
    """Rate over the number of VNFs side by side."""
    rows = view.by_vnfs("mrr", "pdr")
    if not rows:
        return None
    panels = [("pdr", "at most 0.5 % lost (PDR)"), ("mrr", "under overload")]
    shown = [(m, title) for m, title in panels if any(row.kind == m for row in rows)]
    with style.figure(9.2, 3.3, columns=len(shown), sharey=True, squeeze=False) as (made, grid):
        for axes, (metric, title) in zip(grid[0], shown, strict=True):
            for subject, found in _grouped(r for r in rows if r.kind == metric).items():
                found.sort(key=lambda row: row.case.vnfs)
                _line(axes, [row.case.vnfs for row in found], found, subject)
            axes.set_title(title)
            axes.set_xlabel("VNFs side by side")
            axes.set_xticks(sorted({row.case.vnfs for row in rows}))
        grid[0][0].set_ylim(0, grid[0][0].get_ylim()[1])
        grid[0][0].set_ylabel("Mpps, all VNFs together")
        made.legend(*_legend(grid[0]), loc="outside lower center", ncols=3)
        return style.svg(made, "Throughput over the number of parallel VNFs", "vnfs")


def flow_sweep(view: View) -> str | None:
    """Rate and cycles per packet over the number of flows, ours and D5.6's Table 5."""
    rows = view.by_flows("mrr")
    if not rows:
        return None
    with style.figure(9.2, 3.7, columns=2) as (made, (left, right)):
        for subject, found in _grouped(rows).items():
            found.sort(key=lambda row: row.case.flows)
            _line(left, [row.case.flows for row in found], found, subject)
        theirs: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for value in published.throughput():
            if value.where == "Table 5" and value.flows is not None:
                theirs[value.system].append((value.flows, value.value / 1e3))
        dashes = {"erfs": (0, (6, 2)), "ovs-dpdk": (0, (3, 2)), "ovs-kernel": (0, (1, 1.5))}
        for system, points in theirs.items():
            xs, ys = zip(*sorted(points), strict=True)
            left.plot(xs, ys, color=style.PAPER, lw=1.3, marker="x", ms=4,
                      ls=dashes.get(system, "-"), label=f"D5.6: {system}")  # fmt: skip
        left.set_title("Mpps of one core, under overload")
        for subject, found in _grouped(view.by_flows("cycles_per_packet")).items():
            found.sort(key=lambda row: row.case.flows)
            middle = [row.summary.median for row in found]
            low, high = zip(*(_ends(row) for row in found), strict=True)
            right.errorbar(
                [row.case.flows for row in found],
                middle,
                yerr=[np.subtract(middle, low), np.subtract(high, middle)],
                color=style.colour(subject),
                marker=style.marker(subject),
                capsize=3,
            )
        right.set_title("TSC cycles of the switch for a packet")
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            style.plain_log(axes.xaxis)
            style.plain_log(axes.yaxis)
            axes.set_xlabel("flows")
        made.legend(*_legend([left]), loc="outside lower center", ncols=5)
        return style.svg(made, "Throughput over the number of flows beside D5.6 Table 5", "flows")
