# SPDX-License-Identifier: Apache-2.0
"""What a graph's end-points are: physical ports, tags on them, and ports of the graph's own LSI."""

from dataclasses import dataclass, field

from headrace.node.errors import GraphRefused
from headrace.node.planning.end_point_models import EndPointModel
from headrace.node.planning.host_interfaces import check_networks, host_interface
from headrace.node.planning.lowering import PhysicalPort, place_of_rule
from headrace.node.planning.matching import vlan_id
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.ports import PortNames
from headrace.node.planning.resources import (
    Claim,
    HostInterfaceResource,
    LinkResource,
    LsiResource,
    Plan,
    PortResource,
    Resource,
    RuleResource,
)
from headrace.node.planning.surroundings import Surroundings
from headrace.node.planning.tunnels import claim_of, tunnel_port
from headrace.switches.base import TUNNELS, LinkSpec, PortKind, PortSpec
from headrace.switches.rules import Normal, Rule

_GROUP_PRIORITY = 1


@dataclass
class EndPoints:
    """The end-points of a graph that carry traffic.

    `physical` are those on LSI-0, by id; the names of the others' ports are with the PortNames.
    `resources` are made for them besides, ahead of the graph's VNFs and rules; `claims` are what
    the tunnels take. `hosts` get their addresses when the rules are there.
    """

    physical: dict[str, PhysicalPort] = field(default_factory=dict)
    resources: list[Resource] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    hosts: list[HostInterfaceResource] = field(default_factory=list)


def end_points_of(
    graph: ForwardingGraph,
    graph_id: str,
    node: Surroundings,
    names: PortNames,
    previous: Plan,
    warnings: list[str],
) -> EndPoints:
    """The end-points of `graph`, which replaces `previous`; adds what is ignored to `warnings`.

    Raises:
        GraphRefused: the node has no such port, two end-points are the same, or the switch does not
            carry the type.
    """
    found = EndPoints()
    users: dict[PhysicalPort, str] = {}
    for number, point in enumerate(graph.end_points):
        place = f"end-points[{number}]"
        if point.kind == "interface-out":
            warnings.append(f"{place}: type interface-out has no effect, ignored")
            continue
        if point.kind not in node.capabilities.end_points:
            known = ", ".join(node.capabilities.end_points)
            text = f"{place}: switch {node.switch} has no {point.kind} end-points, only {known}"
            raise GraphRefused("end-points", text)
        tunnel = point.gre_tunnel or point.vxlan or point.gtpu
        if tunnel is not None:
            reference = f"endpoint:{point.id}"
            labels = {"graph": graph_id, "port": reference}
            name = names.name(reference, TUNNELS[point.kind])
            where = f"{place}.{point.kind}"
            port = tunnel_port(point.kind, tunnel, where, node, name, labels)
            claim = claim_of(port)
            if claim in found.claims:
                text = f"{place}: another end-point of the graph has {claim.port}; use that one"
                raise GraphRefused("end-points", text)
            found.claims.append(claim)
            found.resources.append(PortResource(lsi=names.lsi(), port=port))
            continue
        host = point.host_stack or point.management
        if host is not None:
            reference = f"endpoint:{point.id}"
            labels = {"graph": graph_id, "port": reference}
            port = PortSpec(
                name=names.name(reference, PortKind.VETH), kind=PortKind.VETH, labels=labels
            )
            found.resources.append(PortResource(lsi=names.lsi(), port=port))
            where = f"{place}.{point.kind}"
            found.hosts.append(host_interface(host, point.id, where, port, node))
            continue
        if point.internal is not None:
            _join_group(point, graph_id, names, _lsi_of_group(point, node, previous, found), found)
            continue
        physical = _physical(point, place, node)
        if physical in users:
            text = f"{place}: the same port as end-point {users[physical]!r}; use that one"
            raise GraphRefused("end-points", text)
        users[physical] = point.id
        found.physical[point.id] = physical
    check_networks(found.hosts, node)
    _check_carried(graph, found, names)
    return found


def _check_carried(graph: ForwardingGraph, found: EndPoints, names: PortNames) -> None:
    silent = {
        f"endpoint:{point.id}"
        for point in graph.end_points
        if point.id not in found.physical and f"endpoint:{point.id}" not in names.references
    }
    for number, rule in enumerate(graph.big_switch.flow_rules if silent else ()):
        for reference in (rule.match["port_in"], *(target for _, target in rule.outputs)):
            if reference in silent:
                point_id = reference.removeprefix("endpoint:")
                text = f"{place_of_rule(number)}: end-point {point_id!r} carries no traffic"
                raise GraphRefused("flow-rules", text)


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


def _join_group(
    point: EndPointModel, graph_id: str, names: PortNames, lsi: LsiResource, found: EndPoints
) -> None:
    """Joins the graph's LSI to that of an internal group, a learning switch of all its graphs."""
    if lsi not in found.resources:
        found.resources.append(lsi)
    name = names.name(f"endpoint:{point.id}", "patch")
    link = LinkSpec(first=lsi.lsi, first_port=f"{name}i", second=names.lsi(), second_port=name)
    found.resources.append(LinkResource(link=link))
    rule = Rule(
        lsi=lsi.lsi,
        label=f"{graph_id}/end-point {point.id} in its group",
        priority=_GROUP_PRIORITY,
        in_port=link.first_port,
        actions=(Normal(),),
    )
    found.resources.append(RuleResource(rule=rule))


def _lsi_of_group(
    point: EndPointModel, node: Surroundings, previous: Plan, found: EndPoints
) -> LsiResource:
    """The LSI of a group: that which some graph has for it already, or the first free one."""
    if point.internal is None:
        raise AssertionError("kinds are checked before")
    group = point.internal.internal_group
    own = {r.group: r.lsi for r in found.resources if isinstance(r, LsiResource) and r.group}
    taken = {**previous.groups(), **own, **node.others.groups()}
    if group not in taken:
        lsis = set(taken.values())
        candidates = (f"{node.prefix}-i{number}" for number in range(1, len(lsis) + 2))
        taken[group] = next(lsi for lsi in candidates if lsi not in lsis)
    return LsiResource(lsi=taken[group], group=group)
