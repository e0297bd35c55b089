# SPDX-License-Identifier: Apache-2.0
"""`headrace graph prediction ID`: what the model predicted of a graph, beside what it does now."""

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir
from headrace.commands.graph import AsJson, GraphId, graph


def shown(told: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows: what, predicted, measured now."""
    predicted, now = told["predicted"] or {}, told["measured"] or {}
    rows = []
    top = predicted.get("saturation_pps")
    if top:
        text = f"{top['value']:.0f} [{top['low']:.0f} .. {top['high']:.0f}]"
        rows.append(("packets per second at most", text, ""))
    demand = predicted.get("demand_pps")
    pps = now.get("pps")
    rows.append(
        (
            "packets per second",
            "" if demand is None else f"{demand:.0f} (the demand)",
            "" if pps is None else f"{pps:.0f}",
        )
    )
    used = predicted.get("capacity_used")
    if used:
        rows.append(("capacity used at the demand", f"{used['value']:.1%}", ""))
    busy, seen = predicted.get("busy") or {}, now.get("busy") or {}
    for role in dict.fromkeys([*busy, *seen]):
        shares = [one.get(role) for one in (busy, seen)]
        texts = ["" if share is None else f"{share:.1%}" for share in shares]
        rows.append((f"busy: {role}", texts[0], texts[1]))
    return rows


def register(_: typer.Typer) -> None:
    """Adds the command to those of graphs."""

    @graph.command("prediction")
    def prediction_command(
        graph_id: GraphId,
        seconds: Annotated[float, typer.Option(help="Time to measure.", min=0, max=2)] = 0.5,
        rundir: Rundir = DEFAULT_RUNDIR,
        as_json: AsJson = False,
    ) -> None:
        """What the node's model predicted of a graph, beside what the graph does now."""
        client = NodeClient.of(rundir)
        path = f"/NF-FG/{quote(graph_id, safe='')}/prediction?seconds={seconds:g}"
        told = client.get(path)
        if as_json:
            typer.echo(json.dumps(told))
            return
        console = Console()
        table = Table("", "predicted", "measured now")
        for row in shown(told):
            table.add_row(*row)
        console.print(table)
        if told["reason"]:
            console.print(f"not predicted: {told['reason']}", markup=False, soft_wrap=True)
        for note in (told["predicted"] or {}).get("notes", []):
            console.print(f"note: {note}", markup=False, soft_wrap=True)
        for text in told["warnings"]:
            console.print(f"by the terms as they are now: {text}", markup=False, soft_wrap=True)
        for role, known in told["learned"].items():
            console.print(f"learned: {role}: {known['windows']}", markup=False, soft_wrap=True)
