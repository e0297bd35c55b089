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

DASH = {"gather": "-", "distribute": (0, (4, 2))}
SMALL_LENGTHS = range(1, 6)


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


ROLE_COLOURS = {"switch": "#0b6e8f", "VNFs": "#d9822b"}


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
        for role, tint in ROLE_COLOURS.items():
            widths = [parts.get(role, 0.0) for _, parts in bars]
            axes.barh(places, widths, left=left, color=tint, label=role, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.set_yticks(places, [label for label, _ in bars])
        axes.set_xlabel(f"TSC cycles of a packet of {smallest} B, all servers together")
        axes.grid(visible=False, axis="y")
        made.legend(loc="outside lower center", ncols=2)
        return style.svg(made, "Cycles of a packet by role and placement", "roles")
