# SPDX-License-Identifier: Apache-2.0
"""Where a packet's cycles go, per switch and way: one stacked bar for each, from fitted costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.report.style import figure, svg

COLOURS = {
    "packet": "#0b6e8f",
    "bytes": "#d9822b",
    "bursts": "#5a8f4e",
    "rounds": "#7d8794",
}


@dataclass(frozen=True)
class Stack:
    """One bar: its label, and TSC cycles of a packet at full bursts by part (COLOURS)."""

    label: str
    parts: Mapping[str, float]


def draw(stacks: Sequence[Stack]) -> str:
    """The figure as SVG; empty bars are refused.

    Raises:
        ValueError: there is nothing to draw.
    """
    if not stacks:
        raise ValueError("no switch was measured, so there is no packet's cost to draw")
    with figure(7.2, 0.9 + 0.42 * len(stacks)) as (made, axes):
        places = list(range(len(stacks)))[::-1]
        left = [0.0] * len(stacks)
        for part, colour in COLOURS.items():
            widths = [stack.parts.get(part, 0.0) for stack in stacks]
            axes.barh(places, widths, left=left, color=colour, label=part, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, total in zip(places, left, strict=True):
            axes.annotate(
                f"{total:.0f}", (total, place), (4, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(places, [stack.label for stack in stacks])
        axes.set_xlabel("TSC cycles of a packet, all bursts full")
        axes.grid(visible=False, axis="y")
        axes.legend(loc="lower right", ncols=2)
        told = ", ".join(f"{s.label} {t:.0f}" for s, t in zip(stacks, left, strict=True))
        return svg(made, f"Cycles of a packet: {told}", "packet-cost")
