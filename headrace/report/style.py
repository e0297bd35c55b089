# SPDX-License-Identifier: Apache-2.0
"""The common style of figures: a colour and a marker per subject, plain axes, direct labels."""

import contextlib
import io
import math
import re
from collections.abc import Iterator
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

INK = "#1c2430"
QUIET = "#6b7685"
GRID = "#e3e7ec"
PAPER = "#9a6fb0"

COLOURS = {
    "headrace/vhost-user": "#0b6e8f",
    "headrace/memif": "#4fb3bf",
    "ovs-dpdk/vhost-user": "#d9822b",
    "linux-bridge/veth": "#7d8794",
    "headrace/in-process": "#0b6e8f",
    "headrace/in-process+vhost-user": "#0b6e8f",
    "ovs-dpdk/in-process": "#d9822b",
    "ovs-dpdk/in-process+vhost-user": "#d9822b",
}
MARKERS = {
    "headrace/vhost-user": "o",
    "headrace/memif": "s",
    "ovs-dpdk/vhost-user": "D",
    "linux-bridge/veth": "^",
    "headrace/in-process": "v",
    "headrace/in-process+vhost-user": "v",
    "ovs-dpdk/in-process": "p",
    "ovs-dpdk/in-process+vhost-user": "p",
}
_SPARE = ("#5a8f4e", "#b0413e", "#3d5a98", "#8c6d46")

RC = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Liberation Sans", "Arial", "DejaVu Sans"],
    "font.size": 10.5,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def colour(subject: str) -> str:
    """The subject's colour, the same in every figure."""
    if subject in COLOURS:
        return COLOURS[subject]
    return _SPARE[sum(subject.encode()) % len(_SPARE)]


def marker(subject: str) -> str:
    """The subject's marker, so that subjects are distinguishable without colour."""
    return MARKERS.get(subject, "v")


@contextlib.contextmanager
def figure(
    width: float, height: float, columns: int = 1, rows: int = 1, **options: Any
) -> Iterator[tuple[Any, Any]]:
    """A figure in the report's style; closed at the end."""
    with pyplot.rc_context(RC):
        made, axes = pyplot.subplots(
            rows, columns, figsize=(width, height), layout="constrained", **options
        )
        try:
            yield made, axes
        finally:
            pyplot.close(made)


def svg(made: Any, label: str, salt: str) -> str:
    """The figure as inline SVG that scales with the page; `label` is for screen readers."""
    buffer = io.StringIO()
    with pyplot.rc_context({**RC, "svg.hashsalt": salt}):
        made.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    quoted = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg", f'<svg role="img" aria-label="{quoted}"', 1)


def plain_log(axis: Any) -> None:
    """Labels a logarithmic axis with plain numbers (0.1, 1, 10, 1k) instead of powers.

    To be called when everything is drawn: a short axis gets labels between the powers too.
    """
    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if low > 0 else 0.0
    between = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0, 3.0) if decades < 2.4 else (1.0,)
    # Within half a decade there may be none of these: a few even steps then.
    axis.set_major_locator(MaxNLocator(3) if decades < 0.5 else LogLocator(subs=between))

    def text(value: float, _: object) -> str:
        if value >= 1e6:
            return f"{value / 1e6:g}M"
        if value >= 1e3:
            return f"{value / 1e3:g}k"
        return f"{value:g}"

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
