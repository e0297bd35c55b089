# SPDX-License-Identifier: Apache-2.0
"""`headrace graph ...`: deploys, lists, shows, updates and deletes graphs through the REST API."""

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir, console, fail
from headrace.machine.places import RUNDIR_VARIABLE

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _known_graphs(context: typer.Context, incomplete: str) -> list[str]:
    """The ids of the graphs, for the shell's completion; none if the node does not say them."""
    rundir = context.params.get("rundir") or os.environ.get(RUNDIR_VARIABLE) or DEFAULT_RUNDIR
    with suppress(SystemExit), redirect_stderr(io.StringIO()):
        listed = NodeClient.of(Path(rundir)).get("/node/graphs")
        return [entry["id"] for entry in listed if entry["id"].startswith(incomplete)]
    return []


def _known_files(incomplete: str) -> list[str]:
    """The examples, for the shell's completion, and the JSON files here."""
    names = [f"{_EXAMPLE}{path.stem}" for path in sorted(EXAMPLES.glob("*.json"))]
    files = [str(path) for path in sorted(Path().glob("*.json"))]
    return [name for name in (*names, *files) if name.startswith(incomplete)]


GraphId = Annotated[str, typer.Argument(help="The id of the graph.", autocompletion=_known_graphs)]
File = Annotated[
    str,
    typer.Argument(help="The NF-FG as JSON, or example:NAME.", autocompletion=_known_files),
]
OldId = Annotated[str | None, typer.Option("--id", hidden=True)]

EXAMPLES = Path(__file__).resolve().parent.parent / "node" / "examples"

graph = typer.Typer(no_args_is_help=True, help="Service graphs (NF-FG).")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(graph, name="graph")


_EXAMPLE = "example:"
_PROGRESS_S = 0.2


def _read(file: str) -> bytes:
    if file.startswith(_EXAMPLE):
        return _example(file.removeprefix(_EXAMPLE)).read_bytes()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}")


def _example(name: str) -> Path:
    known = {path.stem: path for path in EXAMPLES.glob("*.json")}
    if name not in known:
        fail(f"there is no example {name!r}, only {', '.join(sorted(known))}")
    return known[name]


def _in_order(command: str, graph_id: str, file: str | None, old_id: str | None) -> str:
    """The file of `graph deploy|update ID FILE`; other orders are mistakes."""
    form = f"write `headrace graph {command} ID FILE`"
    if old_id is not None:
        fail(f"--id is no option any more: {form}")
    if file is None:
        fail(f"{graph_id}: the id of the graph or its file is missing: {form}")
    if Path(graph_id).is_file() and not Path(file).exists() and not file.startswith(_EXAMPLE):
        fail(f"{graph_id} is a file: {form}")
    return file


def _path(graph_id: str, below: str = "") -> str:
    """The resource of a graph."""
    return f"/NF-FG/{below}{quote(graph_id, safe='')}"


def _warn(client: NodeClient, graph_id: str) -> None:
    for warning in client.get(_path(graph_id, "status/"))["warnings"]:
        typer.echo(f"warning: {warning}", err=True)


def _print_status(client: NodeClient, graph_id: str) -> None:
    state = client.get(_path(graph_id, "status/"))
    typer.echo(json.dumps({"id": graph_id, **state}, indent=2))


def _put(client: NodeClient, graph_id: str, content: bytes) -> None:
    """Deploys or updates a graph; on a terminal with its progress, which the node is asked for."""
    if not sys.stderr.isatty():
        client.request("PUT", _path(graph_id), content)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with (
        ThreadPoolExecutor(1) as pool,
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
    ):
        work = pool.submit(client.request, "PUT", _path(graph_id), content)
        bar = progress.add_task(graph_id, total=100)
        while not wait([work], timeout=_PROGRESS_S).done:
            listed = {graph["id"]: graph for graph in client.get("/node/graphs")}
            if graph_id in listed:
                progress.update(bar, completed=listed[graph_id]["percentage_completed"])
        work.result()


@graph.command()
def deploy(
    graph_id: GraphId,
    file: Annotated[
        str | None,
        typer.Argument(
            help="The NF-FG as JSON, or example:NAME.",
            show_default=False,
            autocompletion=_known_files,
        ),
    ] = None,
    old_id: OldId = None,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Deploy a graph under an id, or update the one that has it; prints the id when it runs.

    `headrace graph deploy example:NAME` deploys an example under its own name.
    """
    if file is None and graph_id.startswith(_EXAMPLE):
        graph_id, file = graph_id.removeprefix(_EXAMPLE), graph_id
    content = _read(_in_order("deploy", graph_id, file, old_id))
    client = NodeClient.of(rundir)
    _put(client, graph_id, content)
    if as_json:
        _print_status(client, graph_id)
        return
    _warn(client, graph_id)
    typer.echo(graph_id)


@graph.command()
def update(
    graph_id: GraphId,
    file: File,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Update a graph to a new version; unchanged parts are not touched."""
    content = _read(_in_order("update", graph_id, file, None))
    client = NodeClient.of(rundir)
    client.get(_path(graph_id))  # an unknown id is an error, not a new graph
    _put(client, graph_id, content)
    if as_json:
        _print_status(client, graph_id)
        return
    _warn(client, graph_id)


@graph.command()
def examples(as_json: AsJson = False) -> None:
    """List the graphs that come with headrace, for a node with ports p0 and p1."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(EXAMPLES.glob("*.json"))}
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("example", "what", "VNFs")
    for name, document in found.items():
        content = document["forwarding-graph"]
        vnfs = ", ".join(vnf["vnf_template"] for vnf in content["VNFs"])
        table.add_row(name, content["name"], vnfs or "-")
    console().print(table)


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
    states = {graph["id"]: graph["status"] for graph in client.get("/node/graphs")}
    for entry in graphs:
        content = entry["forwarding-graph"]
        table.add_row(
            entry["nffg-uuid"],
            str(content.get("name", "")),
            states.get(entry["nffg-uuid"], "gone"),
            ", ".join(str(vnf["id"]) for vnf in content.get("VNFs", [])),
            ", ".join(str(point["id"]) for point in content.get("end-points", [])),
            str(len(content.get("big-switch", {}).get("flow-rules", []))),
        )
    console().print(table)


@graph.command()
def show(graph_id: GraphId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Print a graph as it was deployed: JSON in any case."""
    typer.echo(json.dumps(NodeClient.of(rundir).get(_path(graph_id)), indent=2))


@graph.command()
def status(graph_id: GraphId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show a graph's state: complete, in_progress or error."""
    state = NodeClient.of(rundir).get(_path(graph_id, "status/"))
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
        console().print(table)


@graph.command()
def delete(graph_id: GraphId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Remove a graph and everything that was made for it."""
    NodeClient.of(rundir).request("DELETE", _path(graph_id))
    if as_json:
        typer.echo(json.dumps({"deleted": graph_id}))
