# SPDX-License-Identifier: Apache-2.0
"""What each role spends on a packet of a graph: one bar for each, by term, with its interval."""

from collections.abc import Sequence

from headrace.model.mechanistic.predict import RolePart
from headrace.report.style import figure, svg

COLOURS = {
    "packets": "#0b6e8f",
    "octets": "#d9822b",
    "visits": "#4fb3bf",
    "visit_octets": "#e3b778",
    "bursts": "#5a8f4e",
    "busy_rounds": "#7d8794",
    "wakes": "#b0413e",
}


def draw(roles: Sequence[RolePart], title: str) -> str:
    """The figure as SVG."""
    with figure(7.2, 1.1 + 0.5 * len(roles)) as (made, axes):
        places = list(range(len(roles)))[::-1]
        left = [0.0] * len(roles)
        for term, colour in COLOURS.items():
            widths = [part.parts.get(term, 0.0) for part in roles]
            if any(widths):
                axes.barh(places, widths, left=left, color=colour, label=term, height=0.6)
                left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, part in zip(places, roles, strict=True):
            low, high = part.cycles.low, part.cycles.high
            axes.plot([low, high], [place, place], color="#1c2430", lw=1)
        axes.set_yticks(places, [part.role for part in roles])
        axes.set_xlabel("TSC cycles of a packet, all bursts full; line: 95 %")
        axes.set_title(title)
        axes.grid(visible=False, axis="y")
        axes.legend(fontsize=9, ncols=2)
        told = ", ".join(f"{part.role} {part.cycles.value:.0f}" for part in roles)
        return svg(made, f"Cycles of a packet: {told}", "role-cycles")
