# SPDX-License-Identifier: Apache-2.0
"""`headrace cluster simulate` and `headrace bench cluster`: the controller on simulated nodes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headrace.commands import family

if TYPE_CHECKING:
    from headrace.bench.rows import Row
    from headrace.cluster.simulation.demand import Setting
    from headrace.cluster.simulation.outcome import Outcome


def figures(found: "Outcome") -> list[tuple[str, float | None, str, str]]:
    """What a run is judged by: name, value, unit, what it means."""
    import numpy as np

    def part(values: list[float], share: float) -> float | None:
        return float(np.percentile(values, share)) if values else None

    took = [one.took_s for one in found.outages if one.took_s is not None and one.graphs]
    lost = sum(one.vnfs for one in found.outages)
    moved = sum(one.moved or 0 for one in found.outages)
    back = sum(one.moved_at_return or 0 for one in found.outages)
    open_still = sum(one.graphs > 0 and one.took_s is None for one in found.outages)
    span = max(1e-9, found.series[-1][0] if found.series else found.virtual_s)
    busiest = max(
        (
            (b[3] - a[3]) / max(1e-9, b[0] - a[0])
            for a, b in zip(found.series, found.series[1:], strict=False)
        ),
        default=0.0,
    )
    return [
        ("place a graph, median", part([1e3 * s for s in found.place_s], 50), "ms", "CPU"),
        ("place a graph, 99 %", part([1e3 * s for s in found.place_s], 99), "ms", "CPU"),
        ("graph until deployed, median", part(found.deploy_s, 50), "s", "simulated"),
        ("graph until deployed, 95 %", part(found.deploy_s, 95), "s", "simulated"),
        ("graphs without a place at first", float(found.unplaced_at_first), "graphs", ""),
        ("graphs that left before they had one", float(found.never), "graphs", ""),
        ("calls for each graph", found.calls_total / max(1, found.graphs), "calls", "no probes"),
        ("calls per second", found.calls_total / span, "1/s", "no probes"),
        ("calls per second, busiest", busiest, "1/s", "of 200 spans"),
        ("rack fails until all is whole, median", part(took, 50), "s", "simulated"),
        ("rack fails until all is whole, most", max(took, default=None), "s", "simulated"),
        ("outages after which something was missing at the end", float(open_still), "racks", ""),
        ("VNFs moved for each VNF that was lost", moved / max(1, lost), "", f"{lost} lost"),
        ("VNFs moved when racks returned", float(back), "VNFs", ""),
        ("parts refused by nodes", float(len(found.refused)), "parts", ""),
        ("parts left at nodes when all is deleted", float(found.left_parts), "parts", ""),
        ("VNIs left when all is deleted", float(found.left_vnis), "VNIs", ""),
        ("CPU of controller and simulation", found.cpu_s, "s", ""),
    ]  # fmt: skip


GOALS = {
    "place a graph, 99 %": 50.0,
    "rack fails until all is whole, most": 60.0,
    "outages after which something was missing at the end": 0.0,
    "VNFs moved for each VNF that was lost": 1.05,
    "VNFs moved when racks returned": 0.0,
    "parts refused by nodes": 0.0,
    "parts left at nodes when all is deleted": 0.0,
    "VNIs left when all is deleted": 0.0,
}
"""At most."""


def _run(setting: "Setting", plot: Path | None) -> "Outcome":
    from headrace.cluster.simulation.run import Simulation

    found = Simulation(setting).run()
    if plot is not None:
        from headrace.report.cluster_figure import draw

        plot.write_text(draw(found.series, [one.began for one in found.outages]))
    return found


def _rows(runs: "list[Outcome]") -> "list[Row]":
    from headrace.bench.rows import row, skipped

    tables = [figures(found) for found in runs]
    rows = []
    for lines in zip(*tables, strict=True):
        name, _, unit, note = lines[0]
        values = [value for _, value, _, _ in lines if value is not None]
        goal = GOALS.get(name)
        if values:
            rows.append(row(name, values, unit, goal=goal, better="lower", note=note or None))
        else:
            rows.append(skipped(name, unit, "no outage met a graph", goal=goal))
    return rows


def register(app: typer.Typer) -> None:
    """Adds both commands."""
    family(app, "cluster").command("simulate")(simulate_command)
    family(app, "bench").command("cluster")(bench_command)


def simulate_command(
    nodes: Annotated[int, typer.Option(help="Of three types.", min=2)] = 1000,
    racks: Annotated[int, typer.Option(help="Over which they are divided.", min=1)] = 50,
    graphs: Annotated[int, typer.Option(help="That come and go.", min=1)] = 10_000,
    hours: Annotated[float, typer.Option(help="Over which they come.", min=0.05)] = 2.0,
    lifetime: Annotated[float, typer.Option(help="Mean, in seconds.", min=1)] = 1800.0,
    failures: Annotated[int, typer.Option(help="Of racks, 5 minutes each.", min=0)] = 6,
    pinned: Annotated[float, typer.Option(help="Share with pinned ends.", min=0, max=1)] = 0.3,
    seed: Annotated[int, typer.Option(help="Of all random choices.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Graphs and calls over time, SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Run the controller's core on simulated nodes: graphs come and go, racks fail."""
    from headrace.cluster.simulation.demand import Setting

    setting = Setting(
        nodes=nodes, racks=racks, graphs=graphs, hours=hours, lifetime_s=lifetime,
        failures=failures, pinned=pinned, seed=seed,
    )  # fmt: skip
    found = _run(setting, plot)
    lines = figures(found)
    outages = [
        {"rack": one.rack, "graphs": one.graphs, "vnfs": one.vnfs, "whole_after_s": one.took_s,
         "moved": one.moved, "moved_at_return": one.moved_at_return}
        for one in found.outages
    ]  # fmt: skip
    if as_json:
        told: dict[str, Any] = {
            "setting": asdict(setting),
            "figures": [{"name": n, "value": v, "unit": u, "note": w} for n, v, u, w in lines],
            "calls": found.calls,
            "outages": outages,
            "warnings": found.warnings,
        }
        print(json.dumps(told))
        return
    table = Table("figure", "value", "", title=f"{graphs} graphs on {nodes} nodes, seed {seed}")
    for name, value, unit, note in lines:
        table.add_row(name, "none" if value is None else f"{value:.4g} {unit}".rstrip(), note)
    console = Console()
    console.print(table)
    calls = Table("call", "count")
    for kind, count in sorted(found.calls.items()):
        calls.add_row(kind, str(count))
    console.print(calls)
    racks_table = Table("rack that failed", "graphs hit", "VNFs lost", "whole after", "moved")
    for each in outages:
        after = each["whole_after_s"]
        racks_table.add_row(
            str(each["rack"]), str(each["graphs"]), str(each["vnfs"]),
            "" if after is None else f"{after:.1f} s", str(each["moved"]),
        )  # fmt: skip
    console.print(racks_table)


def bench_command(
    seeds: Annotated[int, typer.Option(help="Runs, with seeds from 1.", min=1)] = 3,
    nodes: Annotated[int, typer.Option(help="Of three types.", min=2)] = 1000,
    graphs: Annotated[int, typer.Option(help="That come and go.", min=1)] = 10_000,
    plot: Annotated[Path | None, typer.Option(help="Of the first run, SVG.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of a table.")
    ] = False,
) -> None:
    """The controller on simulated nodes: time to place, calls, racks that fail, what is left."""
    from headrace.bench.manifest import machine
    from headrace.bench.rows import emit
    from headrace.cluster.simulation.demand import Setting

    racks = max(1, nodes // 20)
    settings = [
        Setting(nodes=nodes, racks=racks, graphs=graphs, seed=seed) for seed in range(1, seeds + 1)
    ]
    runs = [_run(setting, plot if setting.seed == 1 else None) for setting in settings]
    manifest = {"machine": machine(), "settings": [asdict(setting) for setting in settings]}
    emit(_rows(runs), manifest, as_json=as_json)
