# SPDX-License-Identifier: Apache-2.0
"""Luizelli's Figures 7 to 10 drawn anew from the published cost functions of their Table I."""

import numpy as np

from headrace.model.luizelli.claims import FIGURE_LENGTH, LENGTHS
from headrace.model.luizelli.functions import PLACEMENTS, normalised, pair, total_throughput
from headrace.report import style

COLOUR = {"gather": "#0b6e8f", "distribute": "#d9822b"}
NAMES = {"ovs-kernel": "kernel OVS", "ovs-dpdk": "OVS-DPDK"}
RATES = {"ovs-kernel": (10e3, 50e3, 100e3, 1.5e6), "ovs-dpdk": (10e3, 50e3, 1e6, 6e6)}
BIG = 1500


def many_servers() -> str:
    """Figure 7: throughput of n chains on n servers."""
    lengths = list(LENGTHS)
    with style.figure(8.4, 3.0, columns=2, sharey=True) as (made, axes):
        for ax, (switch, name) in zip(axes, NAMES.items(), strict=True):
            for placement in PLACEMENTS:
                function = pair(switch, BIG).of(placement)
                rates = [8 * BIG * total_throughput(function, n) / 1e9 for n in lengths]
                ax.plot(lengths, rates, color=COLOUR[placement], label=placement)
            ax.set_title(name)
            ax.set_xlabel("chains = VNFs = servers")
            ax.set_yscale("log")
            style.plain_log(ax.yaxis)
            ax.legend()
        axes[0].set_ylabel("Gbit/s, all chains")
        return style.svg(made, "Throughput on many servers (Fig. 7)", "luizelli-7")


def by_length(switch: str, number: int) -> str:
    """Figures 8 and 9: cost over the length at each rate of the text."""
    lengths = list(LENGTHS)
    functions = pair(switch, BIG)
    with style.figure(10.4, 2.9, columns=4) as (made, axes):
        for ax, pps in zip(axes, RATES[switch], strict=True):
            for placement in PLACEMENTS:
                costs = [normalised(functions.of(placement), pps, n) for n in lengths]
                ax.plot(lengths, costs, color=COLOUR[placement], label=placement)
            ax.set_title(f"{pps / 1e3:g} kpps a chain", fontsize=10)
            ax.set_xlabel("n")
            ax.set_ylim(bottom=0)
        axes[0].set_ylabel("% of all cores")
        axes[0].legend()
        return style.svg(made, f"{NAMES[switch]}: cost by length", f"luizelli-{number}")


def by_rate() -> str:
    """Figure 10: cost over the rate; at 100 % no packet more can be processed."""
    rates = np.geomspace(10e3, 20e6, 60)
    with style.figure(8.4, 3.0, columns=2, sharey=True) as (made, axes):
        for ax, (switch, name) in zip(axes, NAMES.items(), strict=True):
            for placement in PLACEMENTS:
                function = pair(switch, BIG).of(placement)
                costs = [normalised(function, float(pps), FIGURE_LENGTH) for pps in rates]
                ax.plot(rates, costs, color=COLOUR[placement], label=placement)
            ax.axhline(100, color=style.QUIET, lw=1, ls=":")
            ax.set_title(f"{name}, n = {FIGURE_LENGTH}")
            ax.set_xlabel("packets per second of a chain")
            ax.set_xscale("log")
            ax.set_yscale("log")
            style.plain_log(ax.xaxis)
            style.plain_log(ax.yaxis)
            ax.legend()
        axes[0].set_ylabel("% of all cores")
        return style.svg(made, "Cost over the rate (Fig. 10)", "luizelli-10")


def figures() -> dict[str, str]:
    """All figures as SVG by file name."""
    return {
        "luizelli-7.svg": many_servers(),
        "luizelli-8.svg": by_length("ovs-kernel", 8),
        "luizelli-9.svg": by_length("ovs-dpdk", 9),
        "luizelli-10.svg": by_rate(),
    }
