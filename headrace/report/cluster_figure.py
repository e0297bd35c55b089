# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster over time: graphs that are wanted and whole, and calls to the nodes."""

import itertools
from collections.abc import Sequence

from headrace.report.style import figure, svg

Sample = tuple[float, int, int, int]
"""Seconds, graphs wanted, graphs whole, calls so far."""


def draw(series: Sequence[Sample], outages: Sequence[float]) -> str:
    """The figure as SVG; `outages` are the seconds at which racks failed."""
    hours = [at / 3600 for at, _, _, _ in series]
    with figure(10.0, 3.4, columns=2) as (made, axes):
        axes[0].plot(hours, [n for _, n, _, _ in series], color="#7d8794", lw=1.3, label="wanted")
        axes[0].plot(hours, [n for _, _, n, _ in series], color="#0b6e8f", lw=1.3, label="whole")
        axes[0].set_ylabel("graphs")
        axes[0].legend(fontsize=9)
        rates = [
            (after[3] - before[3]) / max(1e-9, after[0] - before[0])
            for before, after in itertools.pairwise(series)
        ]
        axes[1].plot(hours[1:], rates, color="#d9822b", lw=1.1)
        axes[1].set_ylabel("calls per second to nodes, without probes")
        for ax in axes:
            ax.set_xlabel("hours")
            ax.set_ylim(bottom=0)
            for at in outages:
                ax.axvline(at / 3600, color="#b0413e", lw=0.7, ls=":")
        told = f"Dotted: a rack fails ({len(outages)} times)"
        return svg(made, told, "cluster")
