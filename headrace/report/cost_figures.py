# SPDX-License-Identifier: Apache-2.0
"""The figures of the cost model: busy cycles over chain length, cost curves with Luizelli's."""

from collections import defaultdict
from typing import Any

import numpy as np

from headrace.model.cost import server_cost, total_cost
from headrace.model.roles import FULL, Comparison
from headrace.report import style
from headrace.report.view import View
from headrace.results import published
from headrace.results.units import digits

DASH = {"gather": "-", "distribute": (0, (4, 2))}
SMALL_LENGTHS = range(1, 6)
MPPS = 1e6
OVERLOAD = "overload"


def cost_by_length(view: View) -> str | None:
    """Share of a core over the length of the chain at the highest and lowest load, one size each.

    Dots are trials, lines the fitted functions.
    """
    if not view.model.points:
        return None
    sizes = view.cost_sizes
    with style.figure(9.2, 3.6, columns=len(sizes), sharey=True, squeeze=False) as (made, grid):
        for axes, size in zip(grid[0], sizes, strict=True):
            _lengths_panel(axes, view, size)
            axes.set_title(f"{size} B frames")
            axes.set_xlabel("VNFs on this server")
        grid[0][0].set_ylabel("busy share of one core, %")
        handles: list[Any] = []
        for subject in dict.fromkeys(key[0] for key in view.model.points):
            (line,) = grid[0][0].plot([], [], color=style.colour(subject), label=subject)
            handles.append(line)
        for placement, dash in DASH.items():
            (line,) = grid[0][0].plot([], [], color=style.INK, ls=dash, label=placement)
            handles.append(line)
        made.legend(handles=handles, loc="outside lower center", ncols=4)
        return style.svg(made, "Busy share of a core over chain length", "length")


def _lengths_panel(axes: Any, view: View, size: int) -> None:
    lengths = sorted({p.length for points in view.model.points.values() for p in points})
    for (subject, placement, packet_bytes), points in view.model.points.items():
        if packet_bytes != size:
            continue
        loads = sorted({round(point.pps, -3) for point in points})
        shift = 0.04 if placement == "distribute" else -0.04
        chosen = [loads[0], loads[-1]] if len(loads) > 1 else loads
        for load in chosen:
            near = [point for point in points if abs(point.pps / load - 1) < 0.1]
            axes.plot(
                [point.length + shift for point in near],
                [point.cpu_percent for point in near],
                ls="none",
                ms=3.8,
                alpha=0.7,
                color=style.colour(subject),
                marker=style.marker(subject),
                fillstyle="full" if placement == "gather" else "none",
            )
            for entry in view.model.fits:
                if (entry.switch, entry.placement, entry.packet_bytes) == (
                    subject,
                    placement,
                    size,
                ):
                    axes.plot(
                        lengths,
                        [server_cost(entry, load, length) for length in lengths],
                        color=style.colour(subject),
                        ls=DASH[placement],
                        lw=1.4,
                    )
    loads = sorted({round(p.pps, -3) for points in view.model.points.values() for p in points})
    if len(loads) > 1:
        axes.annotate(
            f"lower group {loads[0] / 1e3:.0f} kpps,\nupper group {loads[-1] / 1e3:.0f} kpps",
            (0.03, 0.97), xycoords="axes fraction", va="top", fontsize=9, color=style.QUIET,
        )  # fmt: skip
    axes.set_xticks(lengths)
    axes.set_yscale("log")
    style.plain_log(axes.yaxis)


def placement_cost(view: View, chain_pps: float = 100e3) -> str | None:
    """Cost of n chains of n VNFs on n servers: gather against distribute, ours and the paper's."""
    sizes = view.cost_sizes
    if not view.model.fits:
        return None
    big = sizes[-1]
    panels: dict[str, list[Any]] = defaultdict(list)
    for entry in view.model.fits:
        if entry.packet_bytes == big:
            panels[entry.switch].append(entry)
    for row in published.cost_functions():
        if row.packet_bytes == 1500:
            panels[f"Luizelli: {row.switch}"].append(row)
    with style.figure(9.2, 3.1, columns=len(panels), squeeze=False) as (made, grid):
        for axes, (name, functions) in zip(grid[0], panels.items(), strict=True):
            for function in functions:
                costs = [total_cost(function, chain_pps, length) for length in SMALL_LENGTHS]
                ours = not name.startswith("Luizelli")
                axes.plot(
                    SMALL_LENGTHS,
                    costs,
                    color=style.colour(name) if ours else style.PAPER,
                    ls=DASH[function.placement],
                    label=function.placement,
                )
            axes.set_title(name, fontsize=10)
            axes.set_xticks(list(SMALL_LENGTHS))
            axes.set_xlabel("chains = VNFs = servers")
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=9, loc="upper left")
        grid[0][0].set_ylabel("% of a core, all servers")
        label = f"Cost of placements at {chain_pps / 1e3:.0f} kpps a chain, {big} B"
        return style.svg(made, label, "placement")


def cycles_by_load(view: View) -> str | None:
    """Cycles of the switch for a packet over the load: what batching saves."""
    per: dict[tuple[str, str, int], dict[float, list[float]]] = {}
    for case, trials in view.trials.items():
        if case.shape == "p2p":
            continue  # its loads are those of the saturation, with frames of their own
        for trial in trials:
            if trial.purpose == "cost" and trial.cycles_per_packet and not trial.approximate:
                graph = f"{case.graph}"
                load = trial.intended_pps or trial.tx_pps
                loads = per.setdefault((case.subject, graph, int(case.size)), {})
                loads.setdefault(load, []).append(trial.cycles_per_packet)
    per = {key: loads for key, loads in per.items() if len(loads) > 1}
    if not per:
        return None
    size = min(key[2] for key in per)
    subjects = list(dict.fromkeys(key[0] for key in per))
    with style.figure(9.2, 3.2, columns=len(subjects), sharey=True, squeeze=False) as (made, grid):
        for axes, subject in zip(grid[0], subjects, strict=True):
            found = [
                (graph, loads) for (s, graph, b), loads in per.items() if (s, b) == (subject, size)
            ]
            shades = np.linspace(0.35, 1.0, max(1, len(found)))
            for shade, (graph, loads) in zip(shades, found, strict=True):
                xs = sorted(loads)
                axes.plot(
                    [x / 1e3 for x in xs],
                    [float(np.median(loads[x])) for x in xs],
                    color=style.colour(subject),
                    alpha=float(shade),
                    marker="o",
                    ms=4,
                    label=graph,
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            style.plain_log(axes.xaxis)
            style.plain_log(axes.yaxis)
            axes.set_title(f"{subject}, {size} B")
            axes.set_xlabel("offered, kpps")
            axes.legend(fontsize=9, ncols=2)
        grid[0][0].set_ylabel("TSC cycles per packet, whole graph")
        return style.svg(made, "Cycles per packet over load", "cycles")


KERNEL_SWITCHES = ("linux-bridge",)
ROLE_COLOURS = {
    "switch": "#0b6e8f",
    "VNFs": "#d9822b",
    "generator": "#8c6d46",
    "kernel": "#7d8794",
}


def cycles_by_role(view: View) -> str | None:
    """Cycles of a packet on all servers together, switching and VNFs stacked, by placement.

    At full bursts where that is known of a subject and length, else at the highest common load;
    frames of the smallest size.
    """
    smallest = min((int(one.size) for one in view.placements), default=None)
    chosen: dict[tuple[str, int], Comparison] = {}
    for one in view.placements:
        key = (one.subject, one.length)
        if int(one.size) == smallest and (key not in chosen or chosen[key].load != FULL):
            chosen[key] = one
    if not chosen:
        return None
    bars = [
        (f"{one.length} VNFs, {placement}\n{one.subject}, {one.load}", parts)
        for one in chosen.values()
        for placement, parts in (("gather", one.gather), ("distribute", one.distribute))
    ]
    with style.figure(9.2, 1.0 + 0.5 * len(bars)) as (made, axes):
        places = list(range(len(bars)))[::-1]
        left = [0.0] * len(bars)
        for role in ("switch", "VNFs"):
            tint = ROLE_COLOURS[role]
            widths = [parts.get(role, 0.0) for _, parts in bars]
            axes.barh(places, widths, left=left, color=tint, label=role, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.set_yticks(places, [label for label, _ in bars])
        axes.set_xlabel(f"TSC cycles of a packet of {smallest} B, all servers together")
        axes.grid(visible=False, axis="y")
        made.legend(loc="outside lower center", ncols=2)
        return style.svg(made, "Cycles of a packet by role and placement", "roles")


def cycles_of_all_roles(view: View) -> str | None:
    """Cycles of a packet under overload by role, stacked: switch, VNFs, generator, kernel.

    The kernel's bridge has a panel of its own: it takes a hundred times what a polling switch does.
    """
    smallest = min((int(one.case.size) for one in view.roles), default=None)
    panels: dict[bool, dict[str, dict[str, float]]] = {False: {}, True: {}}
    for one in view.roles:
        if int(one.case.size) == smallest and OVERLOAD in one.at_load:
            bars = panels[one.case.switch in KERNEL_SWITCHES]
            label = f"{one.case.graph}, {one.case.subject}"
            bars.setdefault(label, {})[one.role] = one.at_load[OVERLOAD]
    shown = [bars for bars in panels.values() if bars]
    if not shown:
        return None
    lines = [len(bars) for bars in shown]
    with style.figure(
        9.2, 1.2 + 0.36 * sum(lines) + 0.5 * len(shown), rows=len(shown), squeeze=False,
        height_ratios=[lines + 0.6 for lines in lines],
    ) as (made, grid):  # fmt: skip
        for (axes,), bars in zip(grid, shown, strict=True):
            _stacked(axes, bars)
        label = f"TSC cycles of a packet of {smallest} B that came through, under overload"
        grid[-1][0].set_xlabel(label)
        known = {role for bars in shown for parts in bars.values() for role in parts}
        for role, tint in ROLE_COLOURS.items():
            if role in known:
                grid[0][0].barh([0], [0], color=tint, label=role)
        made.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return style.svg(made, "Cycles of a packet by role under overload", "allroles")


def _stacked(axes: Any, bars: dict[str, dict[str, float]]) -> None:
    places = list(range(len(bars)))[::-1]
    left = [0.0] * len(bars)
    for role, tint in ROLE_COLOURS.items():
        widths = [parts.get(role, 0.0) for parts in bars.values()]
        if any(widths):
            axes.barh(places, widths, left=left, color=tint, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
    for place, total in zip(places, left, strict=True):
        axes.annotate(
            digits(total), (total, place), (5, 0), textcoords="offset points", va="center",
            fontsize=9.5, color=style.INK,
        )  # fmt: skip
    axes.set_yticks(places, list(bars))
    axes.margins(x=0.1)
    axes.grid(visible=False, axis="y")


def predicted_and_measured(view: View) -> str | None:
    """Rates of a switch without time left: foretold from lower loads, over what was measured.

    Filled: sizes with loads in the fit. Hollow: sizes of which nothing is in the fit.
    """
    found = [one for one in view.saturations if one.of_the_switch]
    if not found:
        return None
    with style.figure(9.2, 4.2) as (made, axes):
        rates = [rate / MPPS for one in found for rate in (one.predicted, one.measured)]
        ends = np.array([min(rates) / 1.3, max(rates) * 1.3])
        axes.plot(ends, ends, color=style.QUIET, lw=1)
        axes.fill_between(
            ends, 0.9 * ends, 1.1 * ends, color=style.GRID, alpha=0.7, label="within 10 %"
        )
        for one in found:
            axes.plot(
                one.measured / MPPS,
                one.predicted / MPPS,
                ls="none",
                color=style.colour(one.case.subject),
                marker=style.marker(one.case.subject),
                fillstyle="none" if one.held_out else "full",
                label=one.case.subject,
            )
            axes.annotate(
                f"{one.case.graph} {one.case.frames} {100 * one.error:+.0f} %",
                (one.measured / MPPS, one.predicted / MPPS), (8, -4),
                textcoords="offset points", fontsize=9, color=style.INK,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*ends)
        axes.set_ylim(*ends)
        style.plain_log(axes.xaxis)
        style.plain_log(axes.yaxis)
        axes.set_xlabel("measured, Mpps")
        axes.set_ylabel("predicted, Mpps")
        handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        axes.legend(handles.values(), handles.keys(), loc="upper left")
        return style.svg(made, "Predicted and measured rate of a switch without time left", "pm")
