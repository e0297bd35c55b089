# SPDX-License-Identifier: Apache-2.0
"""The physical ports, and tags on them, that a graph's end-points are."""

from headrace.node.errors import GraphRefused
from headrace.node.planning.lowering import PhysicalPort, outputs_of, place_of_rule
from headrace.node.planning.matching import vlan_id
from headrace.node.planning.nffg import EndPointModel, ForwardingGraph
from headrace.node.planning.surroundings import Surroundings

_UNSUPPORTED = {
    "gre-tunnel": "no switch driver of this node makes tunnels yet; use a vlan end-point",
    "internal": "graphs cannot be joined by a shared switch yet; use one graph with a VNF between",
    "host-stack": "the node does not give ports to the host's IP stack yet; use a VNF",
    "management": "management end-points do not exist here; remove it",
}


def end_points_of(
    graph: ForwardingGraph, node: Surroundings, warnings: list[str]
) -> dict[str, PhysicalPort]:
    """Where each end-point of `graph` that carries traffic is; adds what is ignored to `warnings`.

    Raises:
        GraphRefused: the node has no such port, two end-points are the same, or the type is not
            supported.
    """
    found: dict[str, PhysicalPort] = {}
    users: dict[PhysicalPort, str] = {}
    for number, point in enumerate(graph.end_points):
        place = f"end-points[{number}]"
        if point.kind in _UNSUPPORTED:
            text = f"{place}: type {point.kind} is not supported yet: {_UNSUPPORTED[point.kind]}"
            raise GraphRefused("end-points", text)
        if point.kind == "interface-out":
            warnings.append(f"{place}: type interface-out has no effect, ignored")
            continue
        physical = _physical(point, place, node)
        if physical in users:
            text = f"{place}: the same port as end-point {users[physical]!r}; use that one"
            raise GraphRefused("end-points", text)
        users[physical] = point.id
        found[point.id] = physical
    for number, rule in enumerate(graph.big_switch.flow_rules):
        for reference in (rule.match["port_in"], *(target for _, target in outputs_of(rule))):
            point_id = reference.removeprefix("endpoint:")
            if reference.startswith("endpoint:") and point_id not in found:
                text = f"{place_of_rule(number)}: end-point {point_id!r} carries no traffic"
                raise GraphRefused("flow-rules", text)
    return found


def _physical(point: EndPointModel, place: str, node: Surroundings) -> PhysicalPort:
    model = point.vlan or point.interface
    if model is None:
        raise AssertionError("kinds are checked before")
    if model.if_name not in node.ports:
        known = ", ".join(node.ports) or "none"
        raise GraphRefused(
            "end-points",
            f"{place}.{point.kind}.if-name: this node has no port {model.if_name!r}; "
            f"it has: {known} (ports in node.yaml)",
        )
    tag = vlan_id(point.vlan.vlan_id, f"{place}.vlan.vlan-id") if point.vlan else None
    return PhysicalPort(node.ports[model.if_name].name, tag)
