# SPDX-License-Identifier: Apache-2.0
"""From a graph to its plan: template -> engine -> port kind -> cores; then LSI, ports, rules.

Planning touches nothing. It sees what the other graphs hold and refuses what cannot be, with the
place in the client's document. The plan of an update keeps the names of ports and links whose
content stays, so that rules between them stay as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.engines.base import VnfPort, VnfSpec
from headrace.node.config import NodeConfig
from headrace.node.errors import GraphRefused
from headrace.node.inventory import Inventory
from headrace.node.lowering import (
    PhysicalPort,
    Wiring,
    assign_links,
    check_references,
    lower,
    outputs_of,
    place_of_rule,
)
from headrace.node.matching import vlan_id
from headrace.node.nffg import EndPointModel, ForwardingGraph, VnfModel, VnfPortModel
from headrace.node.resources import (
    EMPTY_PLAN,
    LinkResource,
    LsiResource,
    Plan,
    PortResource,
    Resource,
    RuleResource,
    VnfResource,
)
from headrace.node.templates import Template, TemplateStore
from headrace.switches.base import Capabilities, LinkSpec, PortKind, PortSpec
from headrace.switches.rules import Rule, covers, overlap

_UNSUPPORTED = {
    "gre-tunnel": "no switch driver of this node makes tunnels yet; use a vlan end-point",
    "internal": "graphs cannot be joined by a shared switch yet; use one graph with a VNF between",
    "host-stack": "the node does not give ports to the host's IP stack yet; use a VNF",
    "management": "management end-points do not exist here; remove it",
}

_SHM_PORTS = 64
_SHM_BUFFERS = 16384
"""Ports and packet buffers (of 2240 octets) of a graph's shared memory: 36 MiB."""


@dataclass(frozen=True)
class Surroundings:
    """What planning needs to know about the node."""

    config: NodeConfig
    capabilities: Capabilities
    switch: str
    rundir: Path
    prefix: str
    templates: TemplateStore
    engine_kinds: Mapping[str, tuple[PortKind, ...]]
    ports: Mapping[str, PortSpec]
    others: Mapping[str, Plan]

    @property
    def lsi0(self) -> str:
        """The name of the LSI with the physical ports."""
        return f"{self.prefix}-0"


def make_plan(
    graph: ForwardingGraph,
    graph_id: str,
    number: int,
    node: Surroundings,
    previous: Plan = EMPTY_PLAN,
) -> Plan:
    """The plan of graph `graph_id`, the node's graph number `number` (from 1).

    Raises:
        GraphRefused: the graph cannot be deployed; names the place and the remedy.
    """
    _check_ids(graph)
    check_references(graph)
    warnings: list[str] = []
    end_points = _end_points(graph, node, warnings)
    if node.capabilities.point_to_point_only:
        _check_point_to_point(graph, node.switch)
    names = _PortNames(number, previous)
    vnfs = _place_vnfs(graph, graph_id, node, names, previous)
    links = assign_links(graph, previous.links)
    lsi = names.lsi(node.prefix)
    specs = {
        use.number: LinkSpec(
            first=node.lsi0,
            first_port=f"g{number}l{use.number}a",
            second=lsi,
            second_port=f"g{number}l{use.number}b",
        )
        for use in links
    }
    wiring = Wiring(
        lsi0=node.lsi0,
        lsi=lsi,
        end_points=end_points,
        vnf_ports=names.references,
        links=links,
        link_specs=specs,
        trusted={
            f"vnf:{vnf.id}:{port.id}": int(port.mac.replace(":", ""), 16)
            for vnf in graph.vnfs
            for port in vnf.ports
            if port.trusted and port.mac
        },
    )
    rules = lower(graph, wiring, graph_id)
    warnings += _check_conflicts(rules, node)
    resources: list[Resource] = [LsiResource(lsi=lsi)]
    resources += [LinkResource(link=specs[use.number]) for use in links]
    resources += [PortResource(lsi=lsi, port=p.switch_port) for vnf in vnfs for p in vnf.ports]
    resources += [VnfResource(vnf=vnf) for vnf in vnfs]
    resources += [RuleResource(rule=rule) for rule in rules]
    return Plan(
        resources=tuple(resources),
        port_names=names.kept,
        next_port=names.next,
        links=links,
        warnings=tuple(warnings),
    )


def _check_ids(graph: ForwardingGraph) -> None:
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


def _end_points(
    graph: ForwardingGraph, node: Surroundings, warnings: list[str]
) -> dict[str, PhysicalPort]:
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


class _PortNames:
    """Gives VNF ports the names that the switch knows them by; equal ports keep theirs."""

    def __init__(self, number: int, previous: Plan) -> None:
        self._number = number
        self._previous = previous.port_names
        self.next = previous.next_port
        self.kept: dict[str, str] = {}
        self.references: dict[str, str] = {}

    def lsi(self, prefix: str) -> str:
        """The name of the graph's LSI."""
        return f"{prefix}-{self._number}"

    def name(self, reference: str, kind: PortKind) -> str:
        """The name of the port `vnf:<id>:<label>:<n>` of this kind."""
        identity = f"{kind} {reference}"
        if identity in self._previous:
            name = self._previous[identity]
        else:
            name, self.next = f"g{self._number}p{self.next}", self.next + 1
        self.kept[identity] = name
        self.references[reference] = name
        return name


def _place_vnfs(
    graph: ForwardingGraph,
    graph_id: str,
    node: Surroundings,
    names: _PortNames,
    previous: Plan,
) -> list[VnfSpec]:
    others = [vnf for plan in node.others.values() for vnf in plan.vnfs()]
    before = {vnf.vnf: vnf for vnf in previous.vnfs()}
    chosen = [_choose(vnf, number, node) for number, vnf in enumerate(graph.vnfs)]
    # VNFs that stay keep their cores, so they are counted before new ones get theirs.
    staying = {
        vnf.id: before[vnf.id]
        for vnf, (template, _) in zip(graph.vnfs, chosen, strict=True)
        if vnf.id in before and before[vnf.id].template == template.id
    }
    inventory = Inventory(node.config, node.capabilities.polls, [*others, *staying.values()])
    placed = []
    for number, (vnf, (template, kind)) in enumerate(zip(graph.vnfs, chosen, strict=True)):
        place = f"VNFs[{number}]"
        cores: tuple[int, ...] = ()
        idle = "poll"
        if vnf.id in staying:
            cores, idle = staying[vnf.id].cores, staying[vnf.id].idle
        elif template.cores or template.memory_mb:
            grant = inventory.grant(place, template.cores, template.memory_mb)
            cores, idle = grant.cores, grant.idle
        placed.append(
            VnfSpec(
                name=f"{node.prefix}-{names_safe(graph_id)}-{names_safe(vnf.id)}",
                graph=graph_id,
                vnf=vnf.id,
                template=template.id,
                engine=template.engine,
                function=template.function,
                ports=tuple(_vnf_port(vnf, p, graph_id, kind, node, names) for p in vnf.ports),
                cores=cores,
                memory_mb=template.memory_mb,
                idle=idle,
                configuration={**template.configuration, **vnf.configuration},
            )
        )
    return _mappable_by_machines(placed)


def _mappable_by_machines(vnfs: list[VnfSpec]) -> list[VnfSpec]:
    """Where a virtual machine is in the graph's shared memory, all its ports must say so.

    The region is made by whichever port comes first.
    """

    def shared(vnf: VnfSpec) -> bool:
        return any(port.switch_port.kind is PortKind.SHM for port in vnf.ports)

    def fit(port: VnfPort) -> VnfPort:
        if port.switch_port.kind is not PortKind.SHM:
            return port
        options = {**port.switch_port.options, "ivshmem": "true"}
        spec = port.switch_port.model_copy(update={"options": options})
        return port.model_copy(update={"switch_port": spec})

    if not any(vnf.engine == "vm" and shared(vnf) for vnf in vnfs):
        return vnfs
    return [vnf.model_copy(update={"ports": tuple(map(fit, vnf.ports))}) for vnf in vnfs]


def names_safe(text: str) -> str:
    """`text` with only letters, digits, `.`, `_` and `-`, fit for a file name."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)


def _choose(vnf: VnfModel, number: int, node: Surroundings) -> tuple[Template, PortKind]:
    """The first template that the switch can serve, and the best port kind that both have."""
    place = f"VNFs[{number}]"
    candidates, asked = node.templates.candidates(vnf)
    if not candidates:
        known = ", ".join(template.id for template in node.templates.all())
        raise GraphRefused("templates", f"{place}: {asked} is unknown; there are: {known}")
    for template in candidates:
        kinds = node.engine_kinds.get(template.engine, ())
        preferred = node.config.vnf_ports
        for kind in sorted(node.capabilities.vnf_kinds, key=lambda known: known != preferred):
            if kind in kinds:
                _check_ports(vnf, number, template)
                return template, kind
    fitting = [
        template.id
        for template in node.templates.all()
        if set(node.engine_kinds.get(template.engine, ())) & set(node.capabilities.vnf_kinds)
    ]
    raise GraphRefused(
        "templates",
        f"{place}: {asked} runs on engine {candidates[0].engine}, whose ports the switch "
        f"{node.switch} does not have; templates that fit: {', '.join(fitting) or 'none'}",
    )


def _check_ports(vnf: VnfModel, number: int, template: Template) -> None:
    low, high = template.ports.min, template.ports.max
    if not low <= len(vnf.ports) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise GraphRefused(
            "templates",
            f"VNFs[{number}].ports: template {template.id} has {wanted} ports, "
            f"the graph lists {len(vnf.ports)}",
        )


def _vnf_port(
    vnf: VnfModel,
    port: VnfPortModel,
    graph_id: str,
    kind: PortKind,
    node: Surroundings,
    names: _PortNames,
) -> VnfPort:
    reference = f"vnf:{vnf.id}:{port.id}"
    name = names.name(reference, kind)
    labels = {"graph": graph_id, "port": reference}
    options = shm_group(names.lsi(node.prefix)) if kind is PortKind.SHM else {}
    spec = port_spec(name, kind, options, node.rundir, labels)
    return VnfPort(id=port.id, mac=port.mac, switch_port=spec)


def shm_group(lsi: str) -> dict[str, str]:
    """The trust group of a graph: one region of shared memory for all its VNFs."""
    return {
        "group": lsi,
        "ports": str(_SHM_PORTS),
        "buffers": str(_SHM_BUFFERS),
    }


def port_spec(
    name: str, kind: PortKind, options: Mapping[str, str], rundir: Path, labels: dict[str, str]
) -> PortSpec:
    """A port with the options that its kind needs, sockets below `rundir`/ports."""
    defaults: dict[str, str] = {}
    if kind is PortKind.MEMIF:
        defaults = {"socket": str(rundir / "ports" / f"{name}.memif"), "id": "0", "role": "server"}
    elif kind is PortKind.VHOST_USER:
        defaults = {"path": str(rundir / "ports" / f"{name}.sock")}
    elif kind is PortKind.SHM:
        group = options.get("group", name)
        defaults = {"group": group, "socket": str(rundir / "switch" / f"{group}.shm")}
    return PortSpec(name=name, kind=kind, options={**defaults, **options}, labels=labels)


def _check_point_to_point(graph: ForwardingGraph, switch: str) -> None:
    """For switches that only join ports in pairs: each rule is plain, and has its reverse."""
    target_of: dict[str, str] = {}
    for number, rule in enumerate(graph.big_switch.flow_rules):
        place = place_of_rule(number)
        matched = [key for key in rule.match if key != "port_in"]
        if matched:
            text = f"{place}.match.{matched[0]}: switch {switch} cannot match headers, only port_in"
            raise GraphRefused("flow-rules", text)
        if [next(iter(action)) for action in rule.actions] != ["output_to_port"]:
            text = f"{place}.actions: switch {switch} can only do one output_to_port"
            raise GraphRefused("flow-rules", text)
        source = rule.match["port_in"]
        if source in target_of:
            text = f"{place}.match.port_in: switch {switch} allows one rule for each port"
            raise GraphRefused("flow-rules", text)
        target_of[source] = str(rule.actions[0]["output_to_port"])
    for number, rule in enumerate(graph.big_switch.flow_rules):
        source = rule.match["port_in"]
        if target_of.get(target_of[source]) != source:
            raise GraphRefused(
                "flow-rules",
                f"{place_of_rule(number)}: switch {switch} joins ports both ways; add the rule "
                f"from {target_of[source]} to {source}",
            )
    for number, point in enumerate(graph.end_points):
        if point.kind == "vlan":
            text = f"end-points[{number}]: switch {switch} has no vlan end-points, only interface"
            raise GraphRefused("end-points", text)


def _check_conflicts(rules: list[Rule], node: Surroundings) -> list[str]:
    """Refuses rules on physical ports that fight with those of other graphs; returns warnings.

    LSI-0's table is shared. Two graphs may divide the traffic of a port by their matches; they may
    not claim the same packets with equal priority, or one take all that the other wants.
    """
    own_ports = {spec.name for spec in node.ports.values()}
    mine = [rule for rule in rules if rule.lsi == node.lsi0 and rule.in_port in own_ports]
    named = {spec.name: name for name, spec in node.ports.items()}
    warnings = []
    for other in node.others.values():
        for theirs in other.rules():
            if theirs.lsi != node.lsi0 or theirs.in_port not in own_ports:
                continue
            for rule in mine:
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
    for position, rule in enumerate(rules):
        for earlier in rules[:position] if len(rules) <= 1000 else ():
            if rule.priority == earlier.priority and overlap(rule, earlier):
                warnings.append(
                    f"rules {earlier.label} and {rule.label} have the same priority and may match "
                    f"the same packets; which one wins is not defined"
                )
    return warnings
