# SPDX-License-Identifier: Apache-2.0
"""Where VNFs run: template, engine, kind of ports and cores of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace.engines.base import DEFAULT_SLEEP_US, VnfPort, VnfSpec, by_engine
from headrace.engines.registry import queues_of, takes_whole_frames
from headrace.machine.names import distinct
from headrace.machine.numa import numa_of
from headrace.node.errors import GraphRefused
from headrace.node.planning.extras import (
    configuration_of,
    environment_of,
    forwards_of,
    left_out,
    settings_of,
)
from headrace.node.planning.inventory import Inventory
from headrace.node.planning.nffg import ForwardingGraph, VnfModel, VnfPortModel
from headrace.node.planning.policy import Candidate, Choice, CoreUse, PlacementQuestion, decide
from headrace.node.planning.ports import PortNames, patch_options, port_spec, shm_group
from headrace.node.planning.resources import Plan
from headrace.node.planning.surroundings import Surroundings
from headrace.node.planning.users import Users
from headrace.node.templates import Template
from headrace.switches.base import PortKind
from headrace.switches.veth import TAP_END, device_name


@dataclass(frozen=True)
class Placed:
    """The VNFs of a graph, what the policy says of its choice, and warnings."""

    vnfs: list[VnfSpec]
    details: dict[str, Any]
    warnings: list[str]


def place_vnfs(
    graph: ForwardingGraph,
    graph_id: str,
    number: int,
    node: Surroundings,
    names: PortNames,
    previous: Plan,
) -> Placed:
    """The VNFs of `graph` as their engines will get them; those that stay keep their cores.

    Raises:
        GraphRefused: no template, no engine with a port that the switch has, or too few cores or
            megabytes.
    """
    others = node.others.vnfs()
    before = {vnf.vnf: vnf for vnf in previous.vnfs()}
    candidates = {vnf.id: _candidates(vnf, at, node) for at, vnf in enumerate(graph.vnfs)}
    staying = {
        vnf_id: (before[vnf_id], candidate)
        for vnf_id, found in candidates.items()
        if vnf_id in before and (candidate := _as_before(before[vnf_id], found)) is not None
    }
    # VNFs that stay keep their cores, so they are counted before new ones get theirs.
    stay = [vnf for vnf, _ in staying.values()]
    inventory = Inventory(node.config, node.capabilities.polls, [*others, *stay], node.reserved)
    question = PlacementQuestion(
        graph=graph,
        switch=node.switch,
        switch_cores=_uses(node.config.cores.switch, inventory),
        cores=_uses(node.config.cores.vnf, inventory),
        free_mb=inventory.free_mb,
        candidates={vnf: found for vnf, found in candidates.items() if vnf not in staying},
        staying={vnf.vnf: vnf for vnf in stay},
    )
    decision, warnings = decide(node.policy, question)
    users = Users(node.prefix)
    group = next((vnf.group for vnf in before.values() if vnf.group), None) or users.group(number)
    used = {vnf.user for vnf in (*others, *before.values())}
    placed: list[VnfSpec] = []
    taken = {f.host_port: f"graph {o.graph}" for o in others for f in o.forwards}
    for at, vnf in enumerate(graph.vnfs):
        place = f"VNFs[{at}]"
        cores: tuple[int, ...] = ()
        idle = "poll"
        if vnf.id in staying:
            old, candidate = staying[vnf.id]
            choice = Choice(candidate)
            cores = old.cores
            idle = old.idle if node.config.idle == "auto" else node.config.idle
        else:
            choice = decision.choices[vnf.id]
            wanted = choice.candidate.template
            if wanted.cores or wanted.memory_mb:
                grant = inventory.grant(place, wanted.cores, wanted.memory_mb, choice.cores)
                cores, idle = grant.cores, grant.idle
        template, kind = choice.candidate.template, choice.candidate.kind
        idle = template.idle or idle
        whole_frames = takes_whole_frames(template.engine, template.function)
        warnings = [*warnings, *left_out(vnf, place, template)]
        # A user of the previous version's may still own files while this one starts.
        user = _user_of(before.get(vnf.id)) or users.free(used, place)
        used.add(user)
        placed.append(
            VnfSpec(
                name=vnf_name(node.prefix, graph_id, vnf.id),
                graph=graph_id,
                vnf=vnf.id,
                template=template.id,
                engine=template.engine,
                function=template.function,
                ports=tuple(
                    _vnf_port(
                        vnf,
                        p,
                        graph_id,
                        kind,
                        node,
                        names,
                        whole_frames=whole_frames,
                        queues=queues_of(template.engine, template.configuration),
                    )
                    for p in vnf.ports
                ),
                cores=cores,
                memory_mb=template.memory_mb,
                idle=idle,
                sleep_us=node.config.sleep_us if idle == "sleep" else DEFAULT_SLEEP_US,
                burst=template.burst or node.config.burst,
                configuration=configuration_of(vnf, template),
                restart=template.restart,
                readiness=template.readiness,
                liveness=template.liveness,
                environment=environment_of(vnf, place, template),
                forwards=forwards_of(vnf, place, template, node.config.forwards, taken),
                user=user,
                group=group,
                node_group=users.node_group,
            )
        )
    details = {"policy": node.policy.name, **decision.details} if question.candidates else {}
    return Placed(_mappable_by_machines(placed), details, warnings)


def _uses(cores: Iterable[int], inventory: Inventory) -> tuple[CoreUse, ...]:
    return tuple(CoreUse(core, numa_of(core), inventory.pollers(core)) for core in cores)


def _as_before(vnf: VnfSpec, candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate that a VNF of the previous version has already, if it is one still."""
    kind = vnf.ports[0].switch_port.kind if vnf.ports else None
    for candidate in candidates:
        if candidate.template.id == vnf.template and kind in (None, candidate.kind):
            return candidate
    return None


def _user_of(vnf: VnfSpec | None) -> int | None:
    return vnf.user if vnf else None


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


def vnf_name(prefix: str, graph_id: str, vnf_id: str) -> str:
    """The name of a VNF on the machine; it begins with the node's `prefix`."""
    return f"{prefix}-{distinct(graph_id, vnf_id)}"


def _candidates(vnf: VnfModel, number: int, node: Surroundings) -> tuple[Candidate, ...]:
    """The templates that the switch can serve, with each kind of ports that both have.

    In the node's order of preference: by templates, then by kinds of ports. A template that fits
    the switch but not the graph's ports and settings is an error if it is the first.
    """
    place = f"VNFs[{number}]"
    candidates, asked = node.templates.candidates(vnf)
    if not candidates:
        why = node.templates.why_not(vnf)
        if why is not None:
            raise GraphRefused("templates", f"{place}: this node cannot run {why}")
        known = ", ".join(template.id for template in node.templates.all())
        raise GraphRefused("templates", f"{place}: {asked} is unknown; there are: {known}")
    preferred = node.config.vnf_ports
    ordered = sorted(node.capabilities.vnf_kinds, key=lambda known: known != preferred)
    found: list[Candidate] = []
    for template in candidates:
        kinds = [kind for kind in ordered if kind in _kinds(template, node)]
        if not kinds:
            continue
        try:
            _check_ports(vnf, number, template)
            _check_settings(vnf, number, template)
        except GraphRefused:
            if not found:
                raise
            continue
        found += [Candidate(template, kind) for kind in kinds]
    if found:
        return tuple(found)
    fitting = [
        template.id
        for template in node.templates.all()
        if set(_kinds(template, node)) & set(node.capabilities.vnf_kinds)
    ]
    raise GraphRefused(
        "templates",
        f"{place}: {asked} runs on engine {candidates[0].engine}, whose ports the switch "
        f"{node.switch} does not have; templates that fit: {', '.join(fitting) or 'none'}",
    )


def _kinds(template: Template, node: Surroundings) -> tuple[PortKind, ...]:
    """The kinds of ports that VNFs of this template can have."""
    return by_engine(node.engine_kinds, template.engine, template.function) or ()


def _check_ports(vnf: VnfModel, number: int, template: Template) -> None:
    low, high = template.ports.min, template.ports.max
    if not low <= len(vnf.ports) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise GraphRefused(
            "templates",
            f"VNFs[{number}].ports: template {template.id} has {wanted} ports, "
            f"the graph lists {len(vnf.ports)}",
        )


def _check_settings(vnf: VnfModel, number: int, template: Template) -> None:
    for key in settings_of(vnf, template):
        if key not in template.graph_may_set:
            allowed = ", ".join(template.graph_may_set) or "nothing"
            raise GraphRefused(
                "templates",
                f"VNFs[{number}].configuration: template {template.id} does not let a graph set "
                f"{key!r}; a graph may set: {allowed}",
            )


def _vnf_port(
    vnf: VnfModel,
    port: VnfPortModel,
    graph_id: str,
    kind: PortKind,
    node: Surroundings,
    names: PortNames,
    *,
    whole_frames: bool,
    queues: int,
) -> VnfPort:
    reference = f"vnf:{vnf.id}:{port.id}"
    name = names.name(reference, kind)
    labels = {"graph": graph_id, "port": reference}
    options = shm_group(names.lsi()) if kind is PortKind.SHM else {}
    if kind is PortKind.VETH and whole_frames:
        options = {"frames": "whole"}
    if kind is PortKind.VHOST_USER and queues > 1:
        options = {"n_rxq": str(queues)}
    if kind is PortKind.PATCH:
        number = 1 + [other.id for other in vnf.ports].index(port.id)
        options = patch_options(names, vnf, name, number)
    if kind is PortKind.TAP:
        options = {"iface": device_name(node.prefix, TAP_END, name)}
    spec = port_spec(name, kind, options, node.rundir / "ports" / name, node.rundir, labels)
    return VnfPort(id=port.id, mac=port.mac, switch_port=spec)
