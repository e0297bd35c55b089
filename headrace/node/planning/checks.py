# SPDX-License-Identifier: Apache-2.0
"""What cannot be deployed: ids twice, rules beyond the switch, rules that conflict.

Each refusal names the place in the client's document and the remedy.
"""

from collections.abc import Mapping
from itertools import combinations

from headrace.node.errors import GraphRefused
from headrace.node.planning.lowering import PhysicalPort, place_of_rule
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.resources import Claim
from headrace.node.planning.surroundings import Surroundings
from headrace.node.planning.tunnels import underlay_rules
from headrace.switches.carrying import lacks, undecided
from headrace.switches.rules import Needs, Rule, covers, overlap


def check_ids(graph: ForwardingGraph) -> None:
    """Refuses two VNFs, ports of a VNF, end-points or rules of the same id."""
    for place, ids in (
        ("VNFs", [vnf.id for vnf in graph.vnfs]),
        ("end-points", [point.id for point in graph.end_points]),
        ("big-switch.flow-rules", [rule.id for rule in graph.big_switch.flow_rules]),
    ):
        seen: dict[str, int] = {}
        for number, name in enumerate(ids):
            if name in seen:
                text = f"{place}[{number}].id: {name!r} is also the id of {place}[{seen[name]}]"
                raise GraphRefused("nffg", text)
            seen[name] = number
    for number, vnf in enumerate(graph.vnfs):
        ports = [port.id for port in vnf.ports]
        for position, port in enumerate(ports):
            if ports.index(port) != position:
                place = f"VNFs[{number}].ports[{position}].id"
                raise GraphRefused("nffg", f"{place}: VNF {vnf.id} has two ports {port!r}")


def check_carried(graph: ForwardingGraph, rules: list[Rule], node: Surroundings) -> None:
    """Refuses rules that the switch cannot carry as they are written, with what it lacks."""

    def place(rule: Rule) -> str:
        name = rule.label.rsplit("/", 1)[-1]
        numbers = {model.id: n for n, model in enumerate(graph.big_switch.flow_rules)}
        return f"{place_of_rule(numbers[name])} ({name})" if name in numbers else rule.label

    carried: set[tuple[str, Needs]] = set()
    for rule in rules:
        if (rule.lsi, rule.needs) in carried:
            continue
        why = lacks(node.carrier(rule.lsi), rule)
        if why is None:
            carried.add((rule.lsi, rule.needs))
        else:
            raise GraphRefused("flow-rules", f"{place(rule)}: switch {node.switch} {why}")
    pair = undecided(node.capabilities, rules)
    if pair is not None:
        raise GraphRefused(
            "flow-rules",
            f"{place(pair[1])}: matches packets that {place(pair[0])} matches, too, and switch "
            f"{node.switch} has no priorities to decide by; make one of them narrower",
        )


def claims_of(graph: ForwardingGraph, end_points: Mapping[str, PhysicalPort]) -> tuple[Claim, ...]:
    """What the graph's end-points take of the physical ports."""
    found = []
    for point in graph.end_points:
        model = point.vlan or point.interface
        if model is not None and point.id in end_points:
            at = end_points[point.id]
            found.append(Claim(port=at.port, tag=at.tag, shared=model.shared))
    return tuple(found)


def check_claims(claims: tuple[Claim, ...], node: Surroundings) -> None:
    """Refuses a tunnel, a physical port, or a tag on it, that another graph has.

    Physical ports may be shared if both graphs say so.

    Rules alone cannot tell whether two graphs agree: a narrower rule of higher priority takes all
    of the other's traffic that it matches.
    """
    names = {spec.name: name for name, spec in node.ports.items()}
    for claim in claims:
        for other_id, theirs in node.others.claims(claim.port):
            if claim.excludes(theirs):
                if claim.port not in names:
                    text = f"{claim.port} is in use by graph {other_id}; use another key"
                    raise GraphRefused("end-points", text)
                tag = f" VLAN {claim.tag}" if claim.tag is not None else ""
                raise GraphRefused(
                    "end-points",
                    f"port {names.get(claim.port, claim.port)}{tag} is in use by graph "
                    f'{other_id}; use another port or VLAN, or write "shared": true at the '
                    f"end-points of both graphs",
                )


def check_conflicts(rules: list[Rule], node: Surroundings) -> list[str]:
    """Refuses rules on physical ports that conflict with those of other graphs; returns warnings.

    LSI-0's table is shared. Two graphs may divide the traffic of a port by their matches; they may
    not claim the same packets with equal priority, or one take all that the other wants.
    """
    own_ports = {spec.name for spec in node.ports.values()}
    mine = [rule for rule in rules if rule.lsi == node.lsi0 and rule.in_port in own_ports]
    named = {spec.name: name for name, spec in node.ports.items()}
    warnings = []
    underlay = underlay_rules(node.config.ports or [], node.ports, node.lsi0)
    for rule in mine if underlay else ():
        for theirs in underlay:
            if rule.priority == theirs.priority and overlap(rule, theirs):
                raise GraphRefused(
                    "flow-rules",
                    f"rule {rule.label.rsplit('/', 1)[-1]}: port {named[rule.in_port]} has "
                    f"addresses for tunnels; use a priority below {theirs.priority}",
                )
    for rule in mine:
        for theirs in node.others.rules_that_may_meet(rule):
            if not overlap(rule, theirs):
                continue
            high, low = sorted((rule, theirs), key=lambda r: -r.priority)
            if rule.priority == theirs.priority or covers(high, low):
                raise GraphRefused(
                    "flow-rules",
                    f"rule {rule.label.rsplit('/', 1)[-1]}: port {named[rule.in_port]} is in "
                    f"use: rule {theirs.label} of another graph takes the same packets; use "
                    f"another port, or divide the traffic by match and priority",
                )
            warnings.append(
                f"rule {rule.label.rsplit('/', 1)[-1]}: shares port {named[rule.in_port]} with "
                f"rule {theirs.label}; priority decides"
            )
    for earlier, rule in ambiguous(rules):
        warnings.append(
            f"rules {earlier.label} and {rule.label} have the same priority and may match "
            f"the same packets; which one wins is not defined"
        )
    return warnings


_AMBIGUOUS_SHOWN = 100
_MASKS_COMPARED = 64


def ambiguous(rules: list[Rule]) -> list[tuple[Rule, Rule]]:
    """Pairs of rules of one port and priority that some packet matches both, in order.

    Rules of the same masks overlap only if they are the same rule, which is refused before. So
    rules are looked up by the bits that two sets of masks have in common, rather than compared each
    with each; at most a hundred pairs are found, and of ports with more than 64 sets of masks none.
    """
    by_place: dict[tuple[str, str, int], dict[tuple[tuple[str, int], ...], list[int]]] = {}
    for number, rule in enumerate(rules):
        place = (rule.lsi, rule.in_port, rule.priority)
        by_place.setdefault(place, {}).setdefault(rule.needs.masks, []).append(number)
    found: list[tuple[int, int]] = []
    for by_masks in by_place.values():
        if len(by_masks) > _MASKS_COMPARED:
            continue
        for (some, ones), (others, twos) in combinations(by_masks.items(), 2):
            have = dict(others)
            common = [(name, mask & have[name]) for name, mask in some if name in have]
            table: dict[tuple[int, ...], list[int]] = {}
            for number in ones:
                table.setdefault(_bits(rules[number], common), []).append(number)
            for number in twos:
                for other in table.get(_bits(rules[number], common), ()):
                    found.append((min(number, other), max(number, other)))
                    if len(found) == _AMBIGUOUS_SHOWN:
                        return [(rules[a], rules[b]) for a, b in sorted(found)]
    return [(rules[a], rules[b]) for a, b in sorted(found)]


def _bits(rule: Rule, common: list[tuple[str, int]]) -> tuple[int, ...]:
    return tuple(rule.match[name].value & mask for name, mask in common)
