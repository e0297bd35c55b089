# SPDX-License-Identifier: Apache-2.0
"""From the rules of a graph to the rules of its LSIs.

LSI-0 holds the physical ports, the graph's own LSI its VNF ports and the ports of end-points that
are not physical (links to the LSIs of internal groups); virtual links join the two. "End-point"
below means a physical one; any other is like a VNF port. No
tag and no tunnel id is used between them: there is one link per destination, so the link says where
to go. Upwards (LSI-0 to graph) a link stands for a VNF port, downwards for an end-point; one link
serves both directions, since they do not meet.

    in comes at      and goes to      LSI-0                          the graph's LSI
    end-point        end-point        match, headers, output         -
    end-point        VNF port         match, headers, up link        link -> VNF port
    VNF port         VNF port         -                              match, headers, output
    VNF port         end-point        link -> physical port          match, headers, down link

A VLAN end-point is a tag on a physical port: matched and popped where traffic enters, pushed on the
way out by LSI-0. All functions are pure.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.node.errors import GraphRefused
from headrace.node.planning.flow_rule_model import (
    TO_CONTROLLER,
    FlowRuleModel,
    WeightedPort,
    base_of,
    queue_of,
)
from headrace.node.planning.known_rules import KnownRules
from headrace.node.planning.matching import header_actions, match_fields, timeouts
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.resources import LinkUse, RuleResource
from headrace.switches.base import LinkSpec
from headrace.switches.rules import (
    CONTROLLER,
    Action,
    Bucket,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
    SetQueue,
)

_REFERENCE = re.compile(r"(?:endpoint:(?P<endpoint>[^:]+)|vnf:(?P<vnf>[^:]+):(?P<port>[^:]+:\d+))")
_LINK_PRIORITY = 1


@dataclass(frozen=True)
class PhysicalPort:
    """Where an end-point on LSI-0 is: the port and, for a VLAN end-point, the tag."""

    port: str
    tag: int | None = None


@dataclass(frozen=True)
class Wiring:
    """The ports that a graph's rules connect.

    `end_points` are those on LSI-0, by id; `own_ports` maps `vnf:<id>:<label>:<n>` and the
    `endpoint:<id>` of all others to port names on `lsi`. `trusted` gives the address that a VNF's
    port is held to, `queues` the number in the switch of each queue of the graph.
    """

    lsi0: str
    lsi: str
    end_points: Mapping[str, PhysicalPort]
    own_ports: Mapping[str, str]
    links: tuple[LinkUse, ...]
    link_specs: Mapping[int, LinkSpec]
    trusted: Mapping[str, int]
    queues: Mapping[str, int]

    def is_outer(self, reference: str) -> bool:
        """Whether a checked reference names an end-point on LSI-0."""
        return reference.startswith("endpoint:") and (
            base_of(reference).removeprefix("endpoint:") in self.end_points
        )

    def physical(self, target: str) -> PhysicalPort:
        """The port of LSI-0 that a target is."""
        return self.end_points[base_of(target).removeprefix("endpoint:")]

    def own(self, target: str) -> str:
        """The port of the graph's LSI that a target is."""
        return CONTROLLER if target == TO_CONTROLLER else self.own_ports[base_of(target)]

    def queue(self, target: str) -> list[SetQueue]:
        """The choice of the target's queue, if it has one."""
        queue = queue_of(target)
        return [] if queue is None else [SetQueue(queue=self.queues[queue])]

    def up(self, reference: str) -> LinkSpec:
        """The link that leads from LSI-0 to a port of the graph's LSI."""
        return next(self.link_specs[use.number] for use in self.links if use.up == reference)

    def down(self, reference: str) -> LinkSpec:
        """The link that leads from the graph's LSI to an end-point."""
        return next(self.link_specs[use.number] for use in self.links if use.down == reference)


def on_lsi0(graph: ForwardingGraph) -> frozenset[str]:
    """The references to end-points that are ports of LSI-0; all others are the graph's LSI's."""
    return frozenset(f"endpoint:{point.id}" for point in graph.end_points if point.is_physical)


def place_of_rule(number: int) -> str:
    """The place of a rule in the client's document."""
    return f"big-switch.flow-rules[{number}]"


def check_references(graph: ForwardingGraph) -> None:
    """Checks that every port that a rule names exists in the graph, and that each rule says where.

    Raises:
        GraphRefused: names the place, and what there is to choose from.
    """
    end_points = {point.id for point in graph.end_points}
    ports = {vnf.id: {port.id for port in vnf.ports} for vnf in graph.vnfs}
    there: set[str] = set()

    def check(reference: str, place: str) -> None:
        found = _REFERENCE.fullmatch(reference)
        if found is None:
            raise GraphRefused(
                "flow-rules",
                f"{place}: {reference!r} is neither endpoint:<id> nor vnf:<id>:<label>:<n>",
            )
        if found["endpoint"] is not None:
            if found["endpoint"] not in end_points:
                known = ", ".join(sorted(end_points)) or "none"
                text = f"{place}: there is no end-point {found['endpoint']!r}; there are: {known}"
                raise GraphRefused("flow-rules", text)
        elif found["vnf"] not in ports:
            known = ", ".join(sorted(ports)) or "none"
            text = f"{place}: there is no VNF {found['vnf']!r}; there are: {known}"
            raise GraphRefused("flow-rules", text)
        elif found["port"] not in ports[found["vnf"]]:
            known = ", ".join(sorted(ports[found["vnf"]])) or "none"
            text = f"{place}: VNF {found['vnf']} has no port {found['port']!r}; it has: {known}"
            raise GraphRefused("flow-rules", text)
        there.add(reference)

    for number, rule in enumerate(graph.big_switch.flow_rules):
        if rule.match["port_in"] not in there:
            check(rule.match["port_in"], f"{place_of_rule(number)}.match.port_in")
        for position, reference in rule.outputs:
            if reference not in there:
                key = next(iter(rule.actions[position]))
                check(reference, f"{place_of_rule(number)}.actions[{position}].{key}")
        if rule.flaw is not None:
            raise GraphRefused("flow-rules", f"{place_of_rule(number)}: {rule.flaw}")


def assign_links(graph: ForwardingGraph, previous: tuple[LinkUse, ...]) -> tuple[LinkUse, ...]:
    """The virtual links that a graph needs; those of its previous version keep their use."""
    up, down = [], []
    outer = on_lsi0(graph)
    ways = dict.fromkeys((r.match["port_in"], r.targets) for r in graph.big_switch.flow_rules)
    for source, targets in ways:
        for target in targets:
            inside = base_of(target) not in outer
            if source in outer and inside:
                up.append(target)
            elif source not in outer and not inside:
                down.append(target)
    up, down = list(dict.fromkeys(up)), list(dict.fromkeys(down))
    kept = {use.number: use for use in previous}
    ups = {use.up: use.number for use in previous if use.up in up}
    downs = {use.down: use.number for use in previous if use.down in down}
    for wanted, taken in ((up, ups), (down, downs)):
        for reference in wanted:
            if reference not in taken:
                free = (
                    n for n in range(len(kept) + len(up) + len(down)) if n not in taken.values()
                )
                # A link that exists for the other direction first, then a new one.
                existing = set(ups.values()) | set(downs.values())
                candidates = list(free)
                reusable = [n for n in candidates if n in existing]
                taken[reference] = (reusable or candidates)[0]
    numbers = sorted(set(ups.values()) | set(downs.values()))
    up_of = {number: reference for reference, number in ups.items()}
    down_of = {number: reference for reference, number in downs.items()}
    return tuple(LinkUse(number=n, up=up_of.get(n), down=down_of.get(n)) for n in numbers)


def lower(
    graph: ForwardingGraph, wiring: Wiring, name: str, known: KnownRules | None = None
) -> list[RuleResource]:
    """All rules of a graph on its own LSI and on LSI-0, the graph's LSI first.

    On each LSI those of the links are first and those that distribute flows last: a port that joins
    is served before it is used.

    `name` begins the label of each rule. References must have been checked. What is `known` has
    been lowered before; the result is the same without.

    Raises:
        GraphRefused: a match or an action is wrong, or two rules have the same match and priority.
    """
    rules = [RuleResource(rule=rule) for rule in _link_rules(wiring, name)]
    seen: dict[str, int] = {}
    ways: dict[tuple[str, tuple[str, ...]], str] = {}
    for number, model in enumerate(graph.big_switch.flow_rules):
        ends = model.match["port_in"], model.targets
        way = ways.get(ends)
        if way is None:
            way = ways[ends] = _way(*ends, wiring)
        label = f"{name}/{model.id}"
        resource = None if known is None else known.lowered(model, label, way)
        if resource is None:
            rule = _entry_rule(model, place_of_rule(number), wiring, label)
            resource = RuleResource(rule=rule)
            if known is not None:
                known.note_lowered(model, label, way, resource)
        identity = resource.rule.identity
        if identity in seen:
            raise GraphRefused(
                "flow-rules",
                f"{place_of_rule(number)}: same match and priority as "
                f"{place_of_rule(seen[identity])}; merge the two into one rule with several "
                f"actions, or give one another priority",
            )
        seen[identity] = number
        rules.append(resource)
    lsi0 = wiring.lsi0
    return sorted(rules, key=lambda r: (r.rule.lsi == lsi0, r.rule.select is not None))


def _way(source: str, targets: tuple[str, ...], wiring: Wiring) -> str:
    """All of the wiring that rules from a port to these targets depend on, as text."""
    outputs = [_outputs(source, (target,), wiring) for target in targets]
    return repr((wiring.lsi0, wiring.lsi, _entrance(source, wiring), outputs))


def _entrance(source: str, wiring: Wiring) -> tuple[str, str, int | None, int | None]:
    """Where the packets of a source come in: LSI, port, tag, and the address that it is held to."""
    if wiring.is_outer(source):
        physical = wiring.end_points[source.removeprefix("endpoint:")]
        return wiring.lsi0, physical.port, physical.tag, None
    return wiring.lsi, wiring.own_ports[source], None, wiring.trusted.get(source)


def _entry_rule(model: FlowRuleModel, place: str, wiring: Wiring, label: str) -> Rule:
    source = model.match["port_in"]
    lsi, in_port, tag, trusted = _entrance(source, wiring)
    headers: list[Action] = []
    if tag is not None:
        headers.append(PopVlan())
    if trusted is not None:
        headers.append(SetField(field="eth_src", value=trusted))
    match = match_fields(model, place, tag)
    headers += header_actions(model, place, match, tag)
    targets = model.targets
    if len(set(targets)) != len(targets):
        raise GraphRefused("flow-rules", f"{place}: two outputs to the same port")
    actions: list[Action] = [*_outputs(source, targets, wiring)]
    if model.is_balanced:
        buckets = [
            Bucket(
                weight=member.weight,
                actions=tuple(
                    step
                    for step in _outputs(source, (member.port,), wiring)
                    if not isinstance(step, SetQueue)
                ),
            )
            for member in model.members
        ]
        actions = [Select(buckets=tuple(buckets), pair=_pair(model.members, wiring))]
    return Rule(
        lsi=lsi,
        label=label,
        priority=model.priority,
        in_port=in_port,
        match=match,
        actions=(*headers, *actions) if targets else (),
        **timeouts(model, place),
    )


def _pair(members: Sequence[WeightedPort], wiring: Wiring) -> int:
    """The number by which a VNF's replicas get a flow and its answers; 0: no replicas of one."""
    pools = {member.pool for member in members}
    if len(pools) != 1 or pools == {""}:
        return 0
    text = f"{wiring.lsi}/{pools.pop()}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") or 1


_Step = Output | PushVlan | PopVlan | SetQueue


def _outputs(source: str, targets: Sequence[str], wiring: Wiring) -> list[_Step]:
    """The outputs of a rule. Untagged ones come first: the tag of another must not reach them."""
    plain: list[_Step] = []
    tagged: list[_Step] = []
    for target in targets:
        if wiring.is_outer(source) == wiring.is_outer(target):
            if not (plain or tagged):  # a rule asks for one queue
                plain += wiring.queue(target)
            if wiring.is_outer(target):
                physical = wiring.physical(target)
                if physical.tag is None:
                    plain.append(Output(port=physical.port))
                else:
                    push = PushVlan(vlan_id=physical.tag)
                    tagged += [push, Output(port=physical.port), PopVlan()]
            else:
                plain.append(Output(port=wiring.own(target)))
        elif wiring.is_outer(source):
            plain.append(Output(port=wiring.up(target).first_port))
        else:
            plain.append(Output(port=wiring.down(target).second_port))
    return plain + tagged[:-1]  # after the last output nothing is left to pop for


def _link_rules(wiring: Wiring, name: str) -> list[Rule]:
    rules = []
    for use in wiring.links:
        link = wiring.link_specs[use.number]
        if use.up is not None:
            rules.append(
                Rule(
                    lsi=wiring.lsi,
                    label=f"{name}/link {use.number} up",
                    priority=_LINK_PRIORITY,
                    in_port=link.second_port,
                    actions=(*wiring.queue(use.up), Output(port=wiring.own(use.up))),
                )
            )
        if use.down is not None:
            physical = wiring.physical(use.down)
            push = () if physical.tag is None else (PushVlan(vlan_id=physical.tag),)
            rules.append(
                Rule(
                    lsi=wiring.lsi0,
                    label=f"{name}/link {use.number} down",
                    priority=_LINK_PRIORITY,
                    in_port=link.first_port,
                    actions=(*wiring.queue(use.down), *push, Output(port=physical.port)),
                )
            )
    return rules
