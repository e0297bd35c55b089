# SPDX-License-Identifier: Apache-2.0
"""`headrace up | down | status`: the node itself."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir, console, fail
from headrace.machine.places import STATEDIR_VARIABLE
from headrace.node import daemon
from headrace.node.config import RestConfig, from_dict, load
from headrace.node.errors import NodeError
from headrace.switches.base import SwitchError
from headrace.switches.registry import DRIVERS

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(up)
    app.command()(down)
    app.command()(status)


def _known_switch(name: str | None) -> str | None:
    if name is not None and name not in DRIVERS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(DRIVERS)}")
    return name


def up(
    config: Annotated[Path | None, typer.Option(help="node.yaml; see docs/node.md.")] = None,
    switch: Annotated[
        str | None,
        typer.Option(
            callback=_known_switch,
            metavar="|".join(DRIVERS),
            help="Which switch to run; default: node.yaml's, else headrace.",
        ),
    ] = None,
    rundir: Rundir = DEFAULT_RUNDIR,
    statedir: Annotated[
        Path | None,
        typer.Option(
            envvar=STATEDIR_VARIABLE,
            help="Database and logs; default: /var/lib/headrace, beside another --rundir there.",
        ),
    ] = None,
    rest: Annotated[str | None, typer.Option(help="HOST:PORT of the REST API.")] = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Let several VNFs poll on one core; reported.")
    ] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground and log to this terminal.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start a node; adopts the processes that a previous one left running."""
    try:
        settings = load(config)
        if switch is not None:
            settings.switch = switch
        if rest is not None:
            settings.rest = _rest(rest, settings.rest)
        if oversubscribe:
            settings.oversubscribe = True
        if foreground:
            # The server and the drivers take a while to load; no other command needs them.
            from headrace.node.serving import serve

            daemon.prepare(rundir, statedir)
            serve(settings, rundir)
            return
        url = daemon.up(settings, rundir, statedir)
    except (NodeError, SwitchError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}; run as root, or choose another --rundir")
    note = NodeClient.local(rundir).get("/node")["hugepages_note"]
    if as_json:
        said = {"name": settings.name, "switch": settings.switch, "url": url, "note": note}
        typer.echo(json.dumps({**said, "rundir": str(rundir)}, indent=2))
        return
    if note:
        typer.echo(f"note: running without hugepages: {note}", err=True)
    typer.echo(f"node {settings.name} ({settings.switch}) is up at {url}, directory {rundir}")


def _rest(text: str, before: RestConfig) -> RestConfig:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        fail(f"--rest {text}: write HOST:PORT, such as 127.0.0.1:8080")
    wanted = {**before.model_dump(), "host": host.strip("[]"), "port": int(port)}
    return from_dict({"rest": wanted}).rest


def down(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Stop the node, its switch and all VNFs, and remove everything they created."""
    try:
        ended = daemon.down(rundir)
    except NodeError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}; run as root, as the node was started")
    if as_json:
        typer.echo(json.dumps({"ended": ended}))
        return
    typer.echo(f"ended: {', '.join(ended)}" if ended else f"no node in {rundir}")


def status(
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Show the node: switch, ports, cores, graphs."""
    client = NodeClient.of(rundir)
    node, resources = client.get("/node"), client.get("/node/resources")
    ports, graphs = client.get("/node/ports"), client.get("/NF-FG")["NF-FG"]
    if as_json:
        everything = {"node": node, "resources": resources, "ports": ports, "graphs": graphs}
        typer.echo(json.dumps(everything, indent=2))
        return
    terminal = console()
    terminal.print(f"node [bold]{node['name']}[/bold] at {client.url}, {node['switch']['version']}")
    memory = resources["memory_mb"]
    terminal.print(f"memory: {memory['used']} of {memory['total']} MB taken")
    cores = Table("core", "roles", "pollers", "", title="cores", title_justify="left")
    for core in resources["cores"]:
        note = "oversubscribed" if core["oversubscribed"] else ""
        cores.add_row(str(core["core"]), ", ".join(core["roles"]), str(core["polling"]), note)
    terminal.print(cores)
    table = Table("port", "kind", "rx packets", "tx packets", "graphs", title="ports")
    for port in ports:
        counters = port["statistics"]
        table.add_row(
            port["name"],
            port["kind"],
            str(counters.get("rx_packets", "-")),
            str(counters.get("tx_packets", "-")),
            ", ".join(port["users"]),
        )
    terminal.print(table)
    terminal.print(f"{len(graphs)} graph{'' if len(graphs) == 1 else 's'}")
