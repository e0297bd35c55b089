# SPDX-License-Identifier: Apache-2.0
"""Draws the charts of Annex C as SVG, in the style of the reports."""

from headrace.conformance.findings import Chart
from headrace.report import style

_COLOURS = ("#0b6e8f", "#d9822b", "#5a8f4e", "#b0413e", "#3d5a98", "#8c6d46", "#9a6fb0",
            "#4fb3bf", "#7d8794", "#c2a83e", "#1c2430", "#d46a92", "#6b8e23")  # fmt: skip
_MARKERS = "osD^vP*Xdph<>"


def drawn(chart: Chart) -> str | None:
    """The chart as inline SVG; None if no line has a point."""
    lines = [line for line in chart.lines if line.points]
    if not lines:
        return None
    with style.figure(7.4, 3.6) as (made, axes):
        for number, line in enumerate(lines):
            xs, ys = zip(*line.points, strict=True)
            axes.plot(xs, ys, label=line.label, color=_COLOURS[number % len(_COLOURS)],
                      marker=_MARKERS[number % len(_MARKERS)], markersize=4.5)  # fmt: skip
        positive = all(x > 0 for line in lines for x, _ in line.points)
        if chart.log_x and positive:
            axes.set_xscale("log")
            style.plain_log(axes.xaxis)
        if chart.log_y and all(y > 0 for line in lines for _, y in line.points):
            axes.set_yscale("log")
            style.plain_log(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(chart.title)
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5)
        return style.svg(made, chart.title, chart.title)
