# SPDX-License-Identifier: Apache-2.0
"""A graph as it is wired: end-points, VNFs, the switch's ports between them, and what passes these.

All counters only grow, so whoever reads twice has rates: a reading costs the node the same whoever
asks and how often. Rules are summed by where they lead from and to, since a graph may have twenty
thousand of them.
"""

import time
from collections.abc import Mapping
from typing import Any

from headrace.engines.base import VnfPort, VnfSpec, engine_of
from headrace.node.deployment.store import GraphRecord
from headrace.node.node import Node
from headrace.node.planning.end_point_models import EndPointModel
from headrace.node.planning.nffg import ForwardingGraph, parse
from headrace.node.readings import VnfReading, read_vnfs
from headrace.node.statistics import Counted, graph_statistics
from headrace.switches.base import PortStatistics, SwitchError
from headrace.switches.direct_links import DirectLink, HasDirectLinks

Ports = Mapping[str, PortStatistics]


async def wiring_of(node: Node, record: GraphRecord) -> dict[str, Any]:
    """The wiring of a graph with one reading of its counters.

    While the switch does not answer its counters are null, and `message` says so.
    """
    graph, _ = parse(record.document)
    vnfs = record.plan.vnfs()
    message = ""
    lsi = next((r.lsi for r in record.plan.resources if r.kind == "lsi" and not r.group), "")
    ports: dict[str, PortStatistics] = {}
    links: dict[str, DirectLink] = {}
    counted: dict[str, Any] | None = None
    try:
        for each in (lsi, node.lsi0):
            ports |= {port.port: port for port in await node.driver.port_statistics(each)}
        counted = await graph_statistics(
            Counted(node.driver), record, node.graphs.expired(record.id)
        )
        if isinstance(node.driver, HasDirectLinks):
            links = {link.port: link for link in await node.driver.direct_links()}
    except SwitchError as error:
        message = str(error)
    at_ns = time.monotonic_ns()
    readings = await read_vnfs(node.engines, vnfs)
    names = {name: reference.split(" ", 1)[1] for reference, name in record.plan.port_names.items()}
    return {
        "graph": record.id,
        "name": graph.name or "",
        "at_ns": at_ns,
        "switch": node.driver.name,
        "lsi": lsi,
        "message": message,
        "end_points": [
            _end_point(point, node, record, counted, ports, names) for point in graph.end_points
        ],
        "vnfs": [
            _vnf(node, vnf, reading, ports, links, names)
            for vnf, reading in zip(vnfs, readings, strict=True)
        ],
        "paths": _paths(graph, counted),
    }


def _end_point(
    point: EndPointModel,
    node: Node,
    record: GraphRecord,
    counted: dict[str, Any] | None,
    ports: Ports,
    names: Mapping[str, str],
) -> dict[str, Any]:
    own = {reference: name for name, reference in names.items()}
    physical = (point.vlan or point.interface) if point.is_physical else None
    name = own.get(f"endpoint:{point.id}")
    if physical is not None and physical.if_name in node.ports:
        name = node.ports[physical.if_name].name
    nothing = {"packets": None, "bytes": None}
    shown: dict[str, Any] = {"received": nothing, "sent": nothing}
    for each in counted["end-points"] if counted else ():
        if each["id"] == point.id:
            shown = {"received": each["received"], "sent": each["sent"]}
    return {
        "id": point.id,
        "reference": f"endpoint:{point.id}",
        "type": point.kind,
        "where": _where(point),
        "port": _counters(ports.get(name or "")),
        **shown,
    }


def _where(point: EndPointModel) -> str:
    """What is at the other side, in a few words."""
    if point.interface is not None:
        return point.interface.if_name
    if point.vlan is not None:
        return f"{point.vlan.if_name}, VLAN {point.vlan.vlan_id}"
    if point.internal is not None:
        return f"group {point.internal.internal_group}"
    tunnel = point.gre_tunnel or point.vxlan or point.gtpu
    return f"to {tunnel.remote_ip}" if tunnel is not None else "the host's IP stack"


def _vnf(
    node: Node,
    vnf: VnfSpec,
    reading: VnfReading,
    ports: Ports,
    links: Mapping[str, DirectLink],
    names: Mapping[str, str],
) -> dict[str, Any]:
    engine = engine_of(node.engines, vnf)
    own = dict(reading.ports())
    return {
        "id": vnf.vnf,
        "template": vnf.template,
        "function": vnf.function,
        "engine": vnf.engine,
        "cores": list(vnf.cores),
        "memory_mb": vnf.memory_mb,
        "running": engine.running(vnf),
        **node.supervision.report(vnf),
        "cycles": {
            key: reading.cycles.get(key)
            for key in ("busy_cycles", "idle_cycles", "packets", "cpu_ns", "reason")
        },
        "processes": len(engine.processes(vnf)),
        "ports": [
            _vnf_port(vnf, port, own.get(port.id, {}), ports, links, names) for port in vnf.ports
        ],
    }


def _vnf_port(
    vnf: VnfSpec,
    port: VnfPort,
    own: Mapping[str, Any],
    ports: Ports,
    links: Mapping[str, DirectLink],
    names: Mapping[str, str],
) -> dict[str, Any]:
    link = links.get(port.switch_port.name)
    return {
        "id": port.id,
        "reference": f"vnf:{vnf.vnf}:{port.id}",
        "port": port.switch_port.name,
        "kind": port.switch_port.kind.value,
        "counters": _counters(ports.get(port.switch_port.name)),
        "dropped_by_vnf": own.get("tx_dropped"),
        "direct": None
        if link is None
        else {
            "to": names.get(link.to) if link.to else None,
            "state": link.state,
            "packets": link.packets,
            "bytes": link.bytes,
            "reason": link.reason,
        },
    }


def _counters(port: PortStatistics | None) -> dict[str, int] | None:
    return port.model_dump(exclude={"lsi", "port", "ofport"}) if port is not None else None


def _paths(graph: ForwardingGraph, counted: dict[str, Any] | None) -> list[dict[str, Any]]:
    """From where to where rules lead; `to` is null where they drop, packets null if not counted."""
    shown = {rule["id"]: rule for rule in (counted or {}).get("rules", ())}
    paths: dict[tuple[str, str | None], dict[str, Any]] = {}
    for model in graph.big_switch.flow_rules:
        targets: list[str | None] = [target for _, target in model.outputs]
        for target in targets or [None]:
            key = (model.match["port_in"], target)
            path = paths.setdefault(key, {"rules": 0, "packets": 0, "bytes": 0, "balanced": False})
            path["rules"] += 1
            path["balanced"] = path["balanced"] or model.is_balanced
            for name in ("packets", "bytes"):
                value = shown.get(model.id, {}).get(name)
                # Of rules that distribute flows over ports nothing counts what each port got.
                known = value is not None and path[name] is not None and not path["balanced"]
                path[name] = path[name] + value if known else None
    return [{"from": source, "to": target, **path} for (source, target), path in paths.items()]
