# SPDX-License-Identifier: Apache-2.0
"""`headrace graph ...`: deploys, lists, shows, updates and deletes graphs through the REST API."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, fail

Rundir = Annotated[Path, typer.Option(help="The node's directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
GraphId = Annotated[str, typer.Argument(help="The id of the graph.")]
File = Annotated[Path, typer.Argument(help="The NF-FG as JSON.")]

graph = typer.Typer(no_args_is_help=True, help="Service graphs (NF-FG).")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(graph, name="graph")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}")


def _warn(client: NodeClient, graph_id: str) -> None:
    for warning in client.get(f"/NF-FG/status/{graph_id}")["warnings"]:
        typer.echo(f"warning: {warning}", err=True)


@graph.command()
def deploy(
    file: File,
    graph_id: Annotated[
        str | None, typer.Option("--id", help="The graph's id; else the node chooses one.")
    ] = None,
    rundir: Rundir = DEFAULT_RUNDIR,
) -> None:
    """Deploy a graph; prints its id when it runs."""
    client = NodeClient.of(rundir)
    if graph_id is None:
        graph_id = client.request("POST", "/NF-FG", _read(file)).json()["nffg-uuid"]
    else:
        client.request("PUT", f"/NF-FG/{graph_id}", _read(file))
    _warn(client, graph_id)
    typer.echo(graph_id)


@graph.command()
def update(graph_id: GraphId, file: File, rundir: Rundir = DEFAULT_RUNDIR) -> None:
    """Update a graph to a new version; unchanged parts are not touched."""
    client = NodeClient.of(rundir)
    client.get(f"/NF-FG/{graph_id}")  # an unknown id is an error here, not a new graph
    client.request("PUT", f"/NF-FG/{graph_id}", _read(file))
    _warn(client, graph_id)


@graph.command("list")
def list_graphs(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """List the graphs."""
    client = NodeClient.of(rundir)
    graphs = client.get("/NF-FG")["NF-FG"]
    if as_json:
        typer.echo(json.dumps(graphs, indent=2))
        return
    table = Table()
    table.add_column("id", no_wrap=True, min_width=36)  # to be copied: never shortened
    for column in ("name", "status", "VNFs", "end-points", "rules"):
        table.add_column(column)
    for entry in graphs:
        content = entry["forwarding-graph"]
        table.add_row(
            entry["nffg-uuid"],
            str(content.get("name", "")),
            client.get(f"/NF-FG/status/{entry['nffg-uuid']}")["status"],
            ", ".join(str(vnf["id"]) for vnf in content.get("VNFs", [])),
            ", ".join(str(point["id"]) for point in content.get("end-points", [])),
            str(len(content.get("big-switch", {}).get("flow-rules", []))),
        )
    Console().print(table)


@graph.command()
def show(graph_id: GraphId, rundir: Rundir = DEFAULT_RUNDIR) -> None:
    """Print a graph as it was deployed."""
    typer.echo(json.dumps(NodeClient.of(rundir).get(f"/NF-FG/{graph_id}"), indent=2))


@graph.command()
def status(graph_id: GraphId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show a graph's state: complete, in_progress or error."""
    state = NodeClient.of(rundir).get(f"/NF-FG/status/{graph_id}")
    if as_json:
        typer.echo(json.dumps(state, indent=2))
        return
    message = f": {state['message']}" if state["message"] else ""
    typer.echo(f"{state['status']} ({state['percentage_completed']} %){message}")
    for warning in state["warnings"]:
        typer.echo(f"warning: {warning}")
    table = Table("VNF", "template", "engine", "cores", "ports", "running")
    for vnf in state["vnfs"]:
        table.add_row(
            vnf["id"],
            vnf["template"],
            vnf["engine"] or "-",
            ", ".join(map(str, vnf["cores"])) or "-",
            ", ".join(f"{port} ({kind})" for port, kind in vnf["ports"].items()),
            "yes" if vnf["running"] else "no",
        )
    if state["vnfs"]:
        Console().print(table)


@graph.command()
def delete(graph_id: GraphId, rundir: Rundir = DEFAULT_RUNDIR) -> None:
    """Remove a graph and everything that was made for it."""
    NodeClient.of(rundir).request("DELETE", f"/NF-FG/{graph_id}")
