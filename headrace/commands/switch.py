# SPDX-License-Identifier: Apache-2.0
"""`headrace switch ...`: what headrace-switch holds, drops and spends, by its control socket."""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, fail
from headrace.protocols.control import ControlError, call

Rundir = Annotated[Path, typer.Option(help="The node's directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Interval = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")]

switch = typer.Typer(no_args_is_help=True, help="The switch from inside.")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(switch, name="switch")


def _ask(rundir: Path, method: str) -> Any:
    """The answer of the switch's control socket."""
    socket = rundir / "switch" / "headrace-switch.ctl"
    if not socket.exists():
        NodeClient.of(rundir)  # says so if there is no node at all
        fail(f"the node of {rundir} does not run headrace-switch; use the tools of its own switch")
    try:
        return asyncio.run(call(socket, method))
    except ControlError as error:
        fail(str(error))


def _print(answer: Any, as_json: bool, tables: list[Table]) -> None:
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
        return
    for table in tables:
        Console().print(table)


def table_of(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Table:
    """A table of the given keys of each row; what a row does not have is left empty."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        numeric = any(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_text(row.get(column)) for column in columns))
    return table


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)


@switch.command()
def show(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show LSIs, their ports with counters, and which worker polls what."""
    answer = _ask(rundir, "show")
    tables = []
    for lsi in answer["lsis"]:
        rows = [{**port, **port["counters"]} for port in lsi["ports"]]
        columns = ("ofport", "name", "type", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
        tables.append(table_of(f"LSI {lsi['name']}", rows, columns))
    rows = [
        {"worker": worker["number"], "cpu": worker["cpu"], **queue}
        for worker in answer["workers"]
        for queue in worker["queues"] or [{}]
    ]
    columns = ("worker", "cpu", "port", "queue", "packets", "bursts", "full_bursts")
    tables.append(table_of(f"workers ({answer['simd']} instructions)", rows, columns))
    _print(answer, as_json, tables)


@switch.command("tables")
def show_tables(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show each flow table: its rules, what it is compiled to and why, its look-ups."""
    answer = _ask(rundir, "tables")
    rows = [{"lsi": lsi["name"], **table} for lsi in answer["lsis"] for table in lsi["tables"]]
    columns = ("lsi", "table_id", "rules", "structure", "reason", "lookups", "matched")
    _print(answer, as_json, [table_of("flow tables", rows, columns)])


@switch.command()
def drops(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show what was dropped, by reason and by port."""
    answer = _ask(rundir, "drops")
    rows = [
        {"lsi": lsi["name"], "where": where, "reason": reason, "packets": packets}
        for lsi in answer["lsis"]
        for where, reasons in (("pipeline", lsi["drops"]), *lsi["ports"].items())
        for reason, packets in reasons.items()
    ]
    table = table_of("drops", rows, ("lsi", "where", "reason", "packets"))
    _print(answer, as_json, [table])


@switch.command()
def cycles(
    rundir: Rundir = DEFAULT_RUNDIR, interval: Interval = 1.0, as_json: AsJson = False
) -> None:
    """Show what each worker spends, measured over an interval."""
    before = _ask(rundir, "cycles")
    begin = time.monotonic()
    time.sleep(interval)
    after = _ask(rundir, "cycles")
    rows = spent(before, after, time.monotonic() - begin)
    _print(rows, as_json, [_cycles_table(rows)])


@switch.command()
def top(rundir: Rundir = DEFAULT_RUNDIR, interval: Interval = 1.0) -> None:
    """Show the workers' load again and again, until Ctrl-C."""
    before, begin = _ask(rundir, "cycles"), time.monotonic()
    with Live(console=Console(), refresh_per_second=4) as live:
        try:
            while True:
                time.sleep(interval)
                after, end = _ask(rundir, "cycles"), time.monotonic()
                live.update(_cycles_table(spent(before, after, end - begin)))
                before, begin = after, end
        except KeyboardInterrupt:
            return


def _cycles_table(rows: list[dict[str, Any]]) -> Table:
    columns = ("worker", "cpu", "busy_percent", "packets_per_s", "cycles_per_packet", "polls_per_s")
    return table_of("workers", rows, columns)


def spent(before: Any, after: Any, seconds: float) -> list[dict[str, Any]]:
    """What each worker did between two answers of `cycles`, `seconds` apart.

    A worker that is not in both (its core was added meanwhile) is left out. `cycles_per_packet` are
    busy TSC cycles by packets received; None if there was no packet.
    """
    old = {worker["number"]: worker for worker in before["workers"]}
    rows = []
    for worker in after["workers"]:
        if worker["number"] not in old:
            continue
        grown = {
            key: worker[key] - old[worker["number"]][key]
            for key in ("busy_cycles", "idle_cycles", "packets", "polls")
        }
        total = grown["busy_cycles"] + grown["idle_cycles"]
        packets = grown["packets"]
        rows.append(
            {
                "worker": worker["number"],
                "cpu": worker["cpu"],
                "busy_percent": 100.0 * grown["busy_cycles"] / total if total else 0.0,
                "packets_per_s": round(packets / seconds),
                "cycles_per_packet": grown["busy_cycles"] / packets if packets else None,
                "polls_per_s": round(grown["polls"] / seconds),
            }
        )
    return rows
