# SPDX-License-Identifier: Apache-2.0
"""`headrace graph watch`: what passes a graph, is dropped in it, and what its VNFs cost, live."""

import json
import time
from contextlib import nullcontext
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir, console
from headrace.commands.graph import GraphId, graph
from headrace.commands.switch import table_of


def register(_: typer.Typer) -> None:
    """Adds the command to those of graphs."""
    graph.command()(watch)


def watch(
    graph_id: GraphId,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="End after so many readings; 0: never.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each reading.")
    ] = False,
    rundir: Rundir = DEFAULT_RUNDIR,
) -> None:
    """Show the rates of a graph's ports and paths and the costs of its VNFs, until Ctrl-C."""
    client = NodeClient.of(rundir)
    path = f"/NF-FG/{quote(graph_id, safe='')}/wiring"
    before, taken = client.get(path), 0
    terminal = console()
    is_live = terminal.is_terminal and not as_json
    with Live(console=terminal, refresh_per_second=4) if is_live else nullcontext() as live:
        try:
            while count == 0 or taken < count:
                time.sleep(interval)
                after = client.get(path)
                reading = rates(before, after)
                if live is not None:
                    live.update(Group(*_tables(reading)))
                elif as_json:
                    typer.echo(json.dumps(reading))
                else:
                    terminal.print(Group(*_tables(reading)))
                before, taken = after, taken + 1
        except KeyboardInterrupt:
            return


def rates(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What has passed between two wirings of a graph, per second; null where nothing counts.

    Ports are seen from the switch: `rx` is what came from the VNF or end-point. `dropped` is at the
    port, both ways. `cycles_per_packet` and `busy_percent` are of VNFs that poll, `cpu` (in cores)
    of those of which only the CPU time is known. What is not in both is left out.
    """
    seconds = (after["at_ns"] - before["at_ns"]) / 1e9
    ports = []
    old_points = {point["reference"]: point for point in before["end_points"]}
    for point in after["end_points"]:
        if point["reference"] in old_points:
            was = old_points[point["reference"]]
            ports.append(
                {
                    "port": point["reference"],
                    "where": f"{point['type']} {point['where']}",
                    "rx": _rate(was["received"], point["received"], "packets", seconds),
                    "tx": _rate(was["sent"], point["sent"], "packets", seconds),
                    "dropped": _dropped(was["port"], point["port"], seconds),
                }
            )
    vnfs = []
    old_vnfs = {vnf["id"]: vnf for vnf in before["vnfs"]}
    for vnf in after["vnfs"]:
        earlier = old_vnfs.get(vnf["id"])
        if earlier is None:
            continue
        vnfs.append(_vnf(earlier, vnf, seconds))
        old_ports = {port["reference"]: port for port in earlier["ports"]}
        for port in vnf["ports"]:
            if port["reference"] not in old_ports:
                continue
            then, now = old_ports[port["reference"]]["counters"], port["counters"]
            direct = port["direct"]["to"] if port["direct"] else None
            ports.append(
                {
                    "port": port["reference"],
                    "where": f"direct to {direct}" if direct else f"{port['kind']} {port['port']}",
                    "rx": _rate(then, now, "rx_packets", seconds),
                    "tx": _rate(then, now, "tx_packets", seconds),
                    "dropped": _dropped(then, now, seconds),
                }
            )
    old_paths = {(path["from"], path["to"]): path for path in before["paths"]}
    paths = [
        {
            "from": path["from"],
            "to": path["to"] or "dropped",
            "rules": path["rules"],
            "packets": _rate(old_paths[path["from"], path["to"]], path, "packets", seconds),
        }
        for path in after["paths"]
        if (path["from"], path["to"]) in old_paths
    ]
    shown = {"graph": after["graph"], "seconds": round(seconds, 3), "message": after["message"]}
    return {**shown, "vnfs": vnfs, "ports": ports, "paths": paths}


def _vnf(before: dict[str, Any], after: dict[str, Any], seconds: float) -> dict[str, Any]:
    def grown(key: str) -> int | None:
        then, now = before["cycles"][key], after["cycles"][key]
        return now - then if then is not None and now is not None and now >= then else None

    busy, idle, packets, cpu = map(grown, ("busy_cycles", "idle_cycles", "packets", "cpu_ns"))
    total = None if busy is None or idle is None else busy + idle
    return {
        "vnf": after["id"],
        "template": after["template"],
        "engine": after["engine"],
        "cores": after["cores"],
        "running": after["running"],
        "restarts": after["restarts"],
        "cycles_per_packet": busy / packets if busy is not None and packets else None,
        "busy_percent": 100 * busy / total if busy is not None and total else None,
        "cpu": cpu / 1e9 / seconds if cpu is not None and seconds > 0 else None,
    }


def _rate(before: Any, after: Any, key: str, seconds: float) -> int | None:
    then, now = (before or {}).get(key), (after or {}).get(key)
    if then is None or now is None or now < then or seconds <= 0:
        return None
    return round((int(now) - int(then)) / seconds)


def _dropped(before: Any, after: Any, seconds: float) -> int | None:
    lost = [_rate(before, after, key, seconds) for key in ("rx_dropped", "tx_dropped")]
    known = [each for each in lost if each is not None]
    return sum(known) if known else None


def _tables(reading: dict[str, Any]) -> list[Table]:
    vnfs = [
        {
            **vnf,
            "cores": ", ".join(map(str, vnf["cores"])),
            "running": "yes" if vnf["running"] else "no",
        }
        for vnf in reading["vnfs"]
    ]
    columns = ("vnf", "template", "engine", "cores", "running", "restarts")
    costs = ("cycles_per_packet", "busy_percent", "cpu")
    return [
        table_of(f"graph {reading['graph']}: VNFs", vnfs, (*columns, *costs)),
        table_of("ports: packets/s", reading["ports"], ("port", "where", "rx", "tx", "dropped")),
        table_of("paths: packets/s", reading["paths"], ("from", "to", "rules", "packets")),
    ]
