# SPDX-License-Identifier: Apache-2.0
"""Draws a paper's figure anew: its numbers in one colour, ours over them, in the same axes."""

from collections.abc import Sequence
from typing import Any

from headrace.report import style
from headrace.report.paper_pages.series import Series
from headrace.results.bounds import bounded
from headrace.results.experiment import Axis, Figure
from headrace.results.units import digits

NAMES: dict[Axis, str] = {
    "vnfs": "number of VNFs",
    "size": "frame size, bytes with FCS",
    "flows": "flows (logarithmic)",
    "load": "load, % of the sustained rate",
    "workers": "workers of the switch",
    "taken": "TSC cycles taken from the worker for each frame",
    "nodes": "nodes in a row",
    "system": "",
}
THEIRS = ("s", "D", "^", "P", "X", "v")
OWN = ("#0b6e8f", "#d9822b", "#5a8f4e", "#b0413e", "#3d5a98", "#8c6d46", "#4fb3bf", "#7d8794")
WIDTH = 9.2
MOST_BARS = 40


def draw(figure: Figure, series: Sequence[Series], salt: str) -> str:
    """The figure as inline SVG; `series` has at least one point."""
    if figure.x == "system":
        return _bars(figure, series, salt)
    return _lines(figure, series, salt)


def _lines(figure: Figure, series: Sequence[Series], salt: str) -> str:
    with style.figure(WIDTH, 3.9) as (made, axes):
        for number, one in enumerate(one for one in series if one.theirs):
            axes.plot(
                [point.x for point in one.points],
                [point.y for point in one.points],
                color=style.PAPER,
                marker=THEIRS[number % len(THEIRS)],
                fillstyle="none",
                ls=(0, (4, 2)),
                lw=1.2,
                label=f"paper: {one.label}",
            )
        mine = [one for one in series if not one.theirs]
        for number, one in enumerate(mine):
            _ours(axes, one, number)
        _benchmark(axes, figure, mine)
        if figure.x == "flows":
            axes.set_xscale("log")
            style.plain_log(axes.xaxis)
        else:
            axes.set_xlim(left=0)
        if figure.logarithmic:
            axes.set_yscale("log")
            style.plain_log(axes.yaxis)
        elif figure.y != "% below bare metal":
            axes.set_ylim(bottom=0)
        axes.set_xlabel(NAMES[figure.x])
        axes.set_ylabel(figure.y + (" (logarithmic)" if figure.logarithmic else ""))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)
        return style.svg(made, f"{figure.figure}: {figure.title}", salt)


def _look(label: str, number: int) -> dict[str, Any]:
    """A subject has its colour of all reports; one with further words gets its own here."""
    if " " not in label:
        return {"color": style.colour(label), "marker": style.marker(label), "ls": "-"}
    switch = label.split("/")[0]
    dashes: Any = "-" if switch == "headrace" else (0, (4, 1.5))
    marker = "ovsDp^<>"[number % 8]
    return {"color": OWN[number % len(OWN)], "marker": marker, "ls": dashes}


def _ours(axes: Any, one: Series, number: int) -> None:
    middle = [point.y for point in one.points]
    axes.errorbar(
        [point.x for point in one.points],
        middle,
        yerr=[
            [max(0.0, point.y - point.low) for point in one.points],
            [max(0.0, point.high - point.y) for point in one.points],
        ],
        capsize=3,
        label=one.label,
        **_look(one.label, number),
    )


def _benchmark(axes: Any, figure: Figure, mine: Sequence[Series]) -> None:
    """The value of one VNF times the number of VNFs: what ICPE 2018 calls the benchmark."""
    first = next((one for one in mine if one.label.startswith(figure.benchmark)), None)
    if not figure.benchmark or first is None or first.points[0].x != 1:
        return
    most = max(point.x for one in mine for point in one.points)
    value = first.points[0].y
    axes.plot(
        [1, most], [value, most * value], color=style.QUIET, lw=1, ls=(0, (2, 2)),
        label=f"linear from one VNF\nof {first.label}",
    )  # fmt: skip
    top = max(point.high for one in mine for point in one.points)
    axes.set_ylim(top=1.35 * top)


def _bars(figure: Figure, series: Sequence[Series], salt: str) -> str:
    rows = [(one, point) for one in series for point in one.points][:MOST_BARS]
    with style.figure(WIDTH, 0.8 + 0.27 * len(rows)) as (made, axes):
        for place, (one, point) in enumerate(rows):
            colour = style.PAPER if one.theirs else style.colour(one.label.split(" ")[0])
            axes.errorbar(
                point.y,
                place,
                xerr=[[max(0.0, point.y - point.low)], [max(0.0, point.high - point.y)]],
                color=colour,
                marker="s" if one.theirs else "o",
                fillstyle="none" if one.theirs else "full",
                capsize=3,
                ls="none",
            )
            axes.annotate(
                bounded(digits(point.y), point.bound), (max(point.high, point.y), place),
                (7, 0), textcoords="offset points", va="center", fontsize=9.5, color=style.INK,
            )  # fmt: skip
        axes.set_yticks(
            range(len(rows)),
            [f"paper: {one.label}" if one.theirs else one.label for one, _ in rows],
        )
        axes.set_ylim(len(rows) - 0.4, -0.6)
        if figure.logarithmic:
            axes.set_xscale("log")
            style.plain_log(axes.xaxis)
        else:
            axes.set_xlim(left=min(0.0, *(point.low for _, point in rows)))
        axes.margins(x=0.14)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(figure.y + (" (logarithmic)" if figure.logarithmic else ""))
        return style.svg(made, f"{figure.figure}: {figure.title}", salt)
