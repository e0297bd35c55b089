# SPDX-License-Identifier: Apache-2.0
"""`headrace switch ...`: the state, drops and cycles of headrace-switch, by its control socket."""

import asyncio
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir, console, fail
from headrace.protocols.control import ControlError, call

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Interval = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")]

# The minimum width of text columns.
_WORDS_WIDTH = 9
# From this width on, less important columns are shown.
_WIDE = 120
# The control socket in the directory of a switch, which is a node's `switch` or another.
_SOCKET = "headrace-switch.ctl"
# OpenFlow's number of an LSI's own port.
_LOCAL = 0xFFFFFFFE

switch = typer.Typer(no_args_is_help=True, help="Inspect the switch.")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(switch, name="switch")


def _ask(rundir: Path, method: str, **params: Any) -> Any:
    """The answer of the switch's control socket."""
    sockets = [rundir / "switch" / _SOCKET, rundir / _SOCKET]
    socket = next((path for path in sockets if path.exists()), None)
    if socket is None:
        NodeClient.of(rundir)  # fails if there is no node
        fail(f"the node of {rundir} does not run headrace-switch; use the tools of its own switch")
    try:
        return asyncio.run(call(socket, method, params))
    except ControlError as error:
        fail(str(error))


def _print(answer: Any, as_json: bool, tables: list[Table]) -> None:
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
        return
    terminal = console()
    for table in tables:
        terminal.print(table)
        terminal.print()


def table_of(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Table:
    """A table of the given keys of each row; a missing key is left empty."""
    # Without a frame there is more space for the contents.
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    for column in columns:
        if any(isinstance(row.get(column), int | float) for row in rows):
            # Numbers are never wrapped; text may be.
            table.add_column(column.replace("_", "\n"), justify="right", no_wrap=True)
        else:
            table.add_column(column.replace("_", " "), overflow="fold", min_width=_WORDS_WIDTH)
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
    """Show LSIs, their ports with counters, and which worker polls each queue."""
    answer = _ask(rundir, "show")
    tables = []
    for lsi in answer["lsis"]:
        rows = [
            {**port, **port["counters"], "link": _link(port)}
            | ({"ofport": "LOCAL"} if port["ofport"] == _LOCAL else {})
            for port in lsi["ports"]
        ]
        counts = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
        tables.append(
            table_of(f"LSI {lsi['name']}", rows, ("ofport", "name", "type", "link", *counts))
        )
        if lsi["controllers"]:
            rows = [{**each, **each["status"]} for each in lsi["controllers"]]
            title = f"controllers of {lsi['name']}"
            tables.append(table_of(title, rows, ("target", "role", "state", "last_error")))
        if lsi["mirrors"]:
            title = f"mirrors of {lsi['name']}"
            tables.append(table_of(title, lsi["mirrors"], ("name", "packets", "bytes")))
    rows = [
        {"worker": worker["number"], "cpu": worker["cpu"], **queue}
        for worker in answer["workers"]
        for queue in worker["queues"] or [{}]
    ]
    columns = ("worker", "cpu", "port", "queue", "packets", "bursts", "full_bursts")
    tables.append(table_of(f"workers ({answer['simd']} instructions)", rows, columns))
    _print(answer, as_json, tables)


def _link(port: dict[str, Any]) -> str:
    """A port's link state as one word."""
    if not port["admin_up"]:
        return "off"
    return "up" if port["link_up"] else "down"


@switch.command("tables")
def show_tables(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show each flow table: rules, the structure that it is compiled to and why, look-ups."""
    answer = _ask(rundir, "tables")
    rows = [
        {
            "lsi": lsi["name"],
            **table,
            "KiB": round(table["memory_bytes"] / 1024),
            "missed": table["lookups"] - table["matched"],
        }
        for lsi in answer["lsis"]
        for table in lsi["tables"]
    ]
    seldom = ("masks", "KiB", "rebuilds") if console().width >= _WIDE else ()
    columns = ("lsi", "table_id", "rules", "structure", *seldom, "lookups", "missed", "reason")
    table = table_of("flow tables", rows, columns)
    _print(answer, as_json, [table])


@switch.command()
def drops(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show what was dropped since the start, by reason, worker and port."""
    answer = _ask(rundir, "drops")
    table = table_of("drops", drop_rows(answer), ("lsi", "where", "reason", "packets"))
    _print(answer, as_json, [table])


def drop_rows(answer: Any) -> list[dict[str, Any]]:
    """One row for each LSI, worker or port, and reason."""
    return [
        {"lsi": lsi["name"], "where": where, "reason": reason, "packets": packets}
        for lsi in answer["lsis"]
        for where, reasons in (
            *((f"worker {number}", reasons) for number, reasons in lsi["workers"].items()),
            ("control", lsi.get("control", {})),
            *((f"port {name}", reasons) for name, reasons in lsi["ports"].items()),
        )
        for reason, packets in reasons.items()
    ]


@switch.command()
def links(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Show which shared-memory ports have direct links, and why the others have none."""
    answer = _ask(rundir, "links")
    columns = ("lsi", "port", "group", "to", "state", "packets", "octets", "reason")
    _print(answer, as_json, [table_of("direct links", answer["links"], columns)])


@switch.command()
def cycles(
    rundir: Rundir = DEFAULT_RUNDIR,
    interval: Interval = 1.0,
    stages: Annotated[
        bool, typer.Option(help="Time stages and tables meanwhile; costs some cycles per burst.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Show the cycles of each worker, in total and per stage and table, over an interval."""
    timed_before = _ask(rundir, "cycles")["stage_timing"]
    before = _ask(rundir, "cycles", stages=stages)
    begin = time.monotonic()
    try:
        time.sleep(interval)
        after = _ask(rundir, "cycles")
    finally:
        _ask(rundir, "cycles", stages=timed_before)
    workers = spent(before, after, time.monotonic() - begin)
    by_table = spent_in_tables(before, after)
    printed = [_cycles_table(workers)]
    if stages:
        columns = ("lsi", "table", "worker", "packets", "lookup", "actions")
        printed.append(table_of("tables: cycles per packet", by_table, columns))
    _print({"workers": workers, "tables": by_table}, as_json, printed)


@switch.command()
def top(
    rundir: Rundir = DEFAULT_RUNDIR,
    interval: Interval = 1.0,
    count: Annotated[int, typer.Option(min=0, help="End after so many readings; 0: never.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each reading.")
    ] = False,
) -> None:
    """Show the load of workers, the rates of ports, and drops, repeatedly until Ctrl-C."""
    before, begin = _everything(rundir), time.monotonic()
    terminal = Console()
    taken = 0
    with Live(console=terminal, refresh_per_second=4) if not as_json else nullcontext() as live:
        try:
            while count == 0 or taken < count:
                time.sleep(interval)
                after, end = _everything(rundir), time.monotonic()
                reading = rates(before, after, end - begin)
                if live is None:
                    print(json.dumps(reading), flush=True)
                else:
                    live.update(Group(*_top_tables(reading)))
                before, begin, taken = after, end, taken + 1
        except KeyboardInterrupt:
            return


def _everything(rundir: Path) -> dict[str, Any]:
    return {method: _ask(rundir, method) for method in ("cycles", "show", "drops")}


def _top_tables(reading: dict[str, list[dict[str, Any]]]) -> list[Table]:
    ports = ("lsi", "port", "rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
    return [
        _cycles_table(reading["workers"]),
        table_of("ports: per second", reading["ports"], ports),
        table_of("drops: per second", reading["drops"], ("lsi", "where", "reason", "packets")),
    ]


def rates(before: Any, after: Any, seconds: float) -> dict[str, list[dict[str, Any]]]:
    """The workers' load and the rates of ports and drops between two readings.

    Ports and drops are per second; drops that did not increase are left out. A port or LSI that
    is not in both is left out.
    """
    ports = []
    old_ports = {
        (lsi["name"], port["name"]): port["counters"]
        for lsi in before["show"]["lsis"]
        for port in lsi["ports"]
    }
    for lsi in after["show"]["lsis"]:
        for port in lsi["ports"]:
            old = old_ports.get((lsi["name"], port["name"]))
            if old is None:
                continue
            grown = {
                key: round((port["counters"].get(key, 0) - old.get(key, 0)) / seconds)
                for key in ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
            }
            ports.append({"lsi": lsi["name"], "port": port["name"], **grown})
    key = ("lsi", "where", "reason")
    old_drops = {
        tuple(row[part] for part in key): row["packets"] for row in drop_rows(before["drops"])
    }
    dropped = [
        {**row, "packets": round((row["packets"] - was) / seconds)}
        for row in drop_rows(after["drops"])
        if row["packets"] > (was := old_drops.get(tuple(row[part] for part in key), 0))
    ]
    workers = spent(before["cycles"], after["cycles"], seconds)
    return {"workers": workers, "ports": ports, "drops": dropped}


def _cycles_table(rows: list[dict[str, Any]]) -> Table:
    columns = ("worker", "cpu", "busy_percent", "packets_per_s", "cycles_per_packet", "polls_per_s")
    timed = any("receive" in row for row in rows)
    stages = ("receive", "pipeline", "transmit") if timed else ()
    return table_of("workers", rows, (*columns, *stages))


def spent(before: Any, after: Any, seconds: float) -> list[dict[str, Any]]:
    """Each worker's cycles and packets between two answers of `cycles`, `seconds` apart.

    A worker that is not in both (its core was added meanwhile) is left out. `cycles_per_packet` are
    busy TSC cycles by packets received; None if there was no packet. `receive`, `pipeline` and
    `transmit` are those of the stages, where they were timed.
    """
    old = {worker["number"]: worker for worker in before["workers"]}
    rows = []
    for worker in after["workers"]:
        if worker["number"] not in old:
            continue
        was = old[worker["number"]]
        grown = {
            key: worker[key] - was[key]
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
                **_stages(was.get("stages", {}), worker.get("stages", {})),
            }
        )
    return rows


def _stages(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    packets = after.get("packets", 0) - before.get("packets", 0)
    if packets == 0:
        return {}
    return {
        stage: (after[stage] - before.get(stage, 0)) / packets
        for stage in ("receive", "pipeline", "transmit")
    }


def spent_in_tables(before: Any, after: Any) -> list[dict[str, Any]]:
    """Cycles per packet of each LSI, table and worker between two answers of `cycles`.

    `lookup` is the classifier's share, `actions` that of the rules' actions, with sending. Tables
    without packets while timing was on are left out.
    """
    parts = ("packets", "lookup_cycles", "action_cycles")
    old = {
        (lsi["name"], table["table_id"], table["worker"]): table
        for lsi in before["lsis"]
        for table in lsi["tables"]
    }
    rows = []
    for lsi in after["lsis"]:
        for table in lsi["tables"]:
            was = old.get((lsi["name"], table["table_id"], table["worker"]), {})
            packets, lookup, actions = (table[part] - was.get(part, 0) for part in parts)
            if packets <= 0:
                continue
            rows.append(
                {
                    "lsi": lsi["name"],
                    "table": table["table_id"],
                    "worker": table["worker"],
                    "packets": packets,
                    "lookup": lookup / packets,
                    "actions": actions / packets,
                }
            )
    return sorted(rows, key=lambda row: (row["lsi"], row["worker"], row["table"]))
