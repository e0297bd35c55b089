# SPDX-License-Identifier: Apache-2.0
"""Servers used and chains refused over time, by placement policy."""

from collections.abc import Sequence

from headrace.placement.simulation import Outcome
from headrace.report.style import figure, svg

COLOURS = ("#0b6e8f", "#d9822b", "#5a8f4e", "#b0413e", "#3d5a98", "#8c6d46", "#7d8794")


def draw(outcomes: Sequence[Outcome]) -> str:
    """The figure as SVG."""
    with figure(10.0, 3.4, columns=2) as (made, axes):
        for number, one in enumerate(outcomes):
            colour = COLOURS[number % len(COLOURS)]
            times = [at for at, _, _ in one.series]
            axes[0].plot(times, [used for _, used, _ in one.series], color=colour, lw=1.3)
            refused = [100 * share for _, _, share in one.series]
            axes[1].plot(times, refused, color=colour, lw=1.3, label=one.policy)
        axes[0].set_ylabel("servers used")
        axes[1].set_ylabel("% of chains refused so far")
        for ax in axes:
            ax.set_xlabel("hours")
            ax.set_ylim(bottom=0)
        axes[1].legend(fontsize=9)
        told = ", ".join(f"{one.policy} {one.servers:.1f}" for one in outcomes)
        return svg(made, f"Servers used on average: {told}", "simulation")
