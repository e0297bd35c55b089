# SPDX-License-Identifier: Apache-2.0
"""From a graph to its plan: template -> engine -> port kind -> cores; then LSI, ports, rules.

Planning has no side effects. It refuses what conflicts with other graphs or cannot be done, with
the place in the client's document. The plan of an update keeps the names of ports and links whose
content stays, so that rules between them stay as they are.
"""

from collections.abc import Mapping

from headrace.node.planning.checks import (
    check_carried,
    check_claims,
    check_conflicts,
    check_ids,
    claims_of,
)
from headrace.node.planning.end_points import end_points_of
from headrace.node.planning.known_rules import KnownRules
from headrace.node.planning.lowering import Wiring, assign_links, check_references, lower
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.placement import place_vnfs
from headrace.node.planning.ports import PortNames
from headrace.node.planning.queues import controller_of, queue_numbers, queues_of
from headrace.node.planning.replicas import Replicas
from headrace.node.planning.resources import (
    EMPTY_PLAN,
    LinkResource,
    LsiResource,
    Plan,
    PortResource,
    Resource,
    VnfResource,
)
from headrace.node.planning.scaling import expand, scaled_vnfs, within
from headrace.node.planning.surroundings import Surroundings
from headrace.switches.base import LinkSpec


def make_plan(
    graph: ForwardingGraph,
    graph_id: str,
    number: int,
    node: Surroundings,
    previous: Plan = EMPTY_PLAN,
    replicas: Mapping[str, Replicas] | None = None,
    known: KnownRules | None = None,
) -> Plan:
    """The plan of graph `graph_id`, the node's graph number `number` (from 1).

    `replicas` are those that its VNFs which scale are to have, by default those of `previous`.
    `known` are rules that were lowered before (known_rules.py): they save time and change nothing.

    Raises:
        GraphRefused: the graph cannot be deployed; names the place and the remedy.
    """
    node = node.on(graph.switch)
    check_ids(graph)
    check_references(graph)
    wanted = previous.replicas if replicas is None else replicas
    pools = {vnf: within(scaling, wanted.get(vnf)) for vnf, scaling in scaled_vnfs(graph).items()}
    graph = expand(graph, pools, node.switch, node.capabilities)
    check_ids(graph)
    warnings: list[str] = []
    names = PortNames(node.prefix, number, previous, node.letter)
    end_points = end_points_of(graph, graph_id, node, names, previous, warnings)
    claims = (*claims_of(graph, end_points.physical), *end_points.claims)
    check_claims(claims, node)
    placed = place_vnfs(graph, graph_id, number, node, names, previous)
    vnfs, warnings = placed.vnfs, [*warnings, *placed.warnings]
    links = assign_links(graph, previous.links)
    lsi = names.lsi()
    # Between switches a link is a veth pair, whose names are the whole machine's.
    marked = f"{node.prefix if node.letter else ''}g{number}"
    specs = {
        use.number: LinkSpec(
            first=node.lsi0,
            first_port=f"{marked}l{use.number}a",
            second=lsi,
            second_port=f"{marked}l{use.number}b",
        )
        for use in links
    }
    wiring = Wiring(
        lsi0=node.lsi0,
        lsi=lsi,
        end_points=end_points.physical,
        own_ports=names.references,
        links=links,
        link_specs=specs,
        queues=queue_numbers(graph, number),
        trusted={
            f"vnf:{vnf.id}:{port.id}": int(port.mac.replace(":", ""), 16)
            for vnf in graph.vnfs
            for port in vnf.ports
            if port.trusted and port.mac
        },
    )
    lowered = lower(graph, wiring, graph_id, known)
    rules = [resource.rule for resource in lowered]
    check_carried(graph, rules, node)
    warnings += check_conflicts(rules, node)
    resources: list[Resource] = [LsiResource(lsi=lsi)]
    resources += [LinkResource(link=specs[use.number]) for use in links]
    resources += end_points.resources
    resources += [PortResource(lsi=lsi, port=p.switch_port) for vnf in vnfs for p in vnf.ports]
    resources += queues_of(graph, wiring)
    resources += controller_of(graph, lsi, node)
    resources += [VnfResource(vnf=vnf) for vnf in vnfs]
    resources += lowered
    resources += end_points.hosts
    return Plan(
        resources=tuple(resources),
        port_names=names.kept,
        next_port=names.next,
        links=links,
        claims=claims,
        warnings=tuple(warnings),
        replicas=pools,
        placement=placed.details or previous.placement,
    )
