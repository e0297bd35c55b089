# SPDX-License-Identifier: Apache-2.0
"""Where VNFs run: template, engine, kind of ports and cores of each."""

from headrace.engines.base import DEFAULT_SLEEP_US, VnfPort, VnfSpec, by_engine
from headrace.engines.registry import takes_whole_frames
from headrace.machine.names import distinct
from headrace.node.errors import GraphRefused
from headrace.node.planning.extras import environment_of, forwards_of
from headrace.node.planning.inventory import Inventory
from headrace.node.planning.nffg import ForwardingGraph, VnfModel, VnfPortModel
from headrace.node.planning.ports import PortNames, port_spec, shm_group
from headrace.node.planning.resources import Plan
from headrace.node.planning.surroundings import Surroundings
from headrace.node.planning.users import Users
from headrace.node.templates import Template
from headrace.switches.base import PortKind


def place_vnfs(
    graph: ForwardingGraph,
    graph_id: str,
    number: int,
    node: Surroundings,
    names: PortNames,
    previous: Plan,
) -> list[VnfSpec]:
    """The VNFs of `graph` as their engines will get them; those that stay keep their cores.

    Raises:
        GraphRefused: no template, no engine with a port that the switch has, or too few cores or
            megabytes.
    """
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
    users = Users(node.prefix)
    group = users.group(number)
    placed: list[VnfSpec] = []
    taken = {f.host_port: f"graph {o.graph}" for o in others for f in o.forwards}
    for number, (vnf, (template, kind)) in enumerate(zip(graph.vnfs, chosen, strict=True)):
        place = f"VNFs[{number}]"
        cores: tuple[int, ...] = ()
        idle = "poll"
        if vnf.id in staying:
            cores = staying[vnf.id].cores
            idle = staying[vnf.id].idle if node.config.idle == "auto" else node.config.idle
        elif template.cores or template.memory_mb:
            grant = inventory.grant(place, template.cores, template.memory_mb)
            cores, idle = grant.cores, grant.idle
        idle = template.idle or idle
        whole_frames = takes_whole_frames(template.engine, template.function)
        placed.append(
            VnfSpec(
                name=vnf_name(node.prefix, graph_id, vnf.id),
                graph=graph_id,
                vnf=vnf.id,
                template=template.id,
                engine=template.engine,
                function=template.function,
                ports=tuple(
                    _vnf_port(vnf, p, graph_id, kind, node, names, whole_frames=whole_frames)
                    for p in vnf.ports
                ),
                cores=cores,
                memory_mb=template.memory_mb,
                idle=idle,
                sleep_us=node.config.sleep_us if idle == "sleep" else DEFAULT_SLEEP_US,
                burst=template.burst or node.config.burst,
                configuration={**template.configuration, **vnf.configuration},
                restart=template.restart,
                readiness=template.readiness,
                liveness=template.liveness,
                environment=environment_of(vnf, place, template),
                forwards=forwards_of(vnf, place, template, node.config.forwards, taken),
                # A user of the previous version's may still own files while this one starts.
                user=_user_of(before.get(vnf.id))
                or users.free([*others, *before.values(), *placed], place),
                group=group,
                node_group=users.node_group,
            )
        )
    return _mappable_by_machines(placed)


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


def _choose(vnf: VnfModel, number: int, node: Surroundings) -> tuple[Template, PortKind]:
    """The first template that the switch can serve, and the best port kind that both have."""
    place = f"VNFs[{number}]"
    candidates, asked = node.templates.candidates(vnf)
    if not candidates:
        why = node.templates.why_not(vnf)
        if why is not None:
            raise GraphRefused("templates", f"{place}: this node cannot run {why}")
        known = ", ".join(template.id for template in node.templates.all())
        raise GraphRefused("templates", f"{place}: {asked} is unknown; there are: {known}")
    for template in candidates:
        kinds = _kinds(template, node)
        preferred = node.config.vnf_ports
        for kind in sorted(node.capabilities.vnf_kinds, key=lambda known: known != preferred):
            if kind in kinds:
                _check_ports(vnf, number, template)
                _check_settings(vnf, number, template)
                return template, kind
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
    for key in vnf.configuration:
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
) -> VnfPort:
    reference = f"vnf:{vnf.id}:{port.id}"
    name = names.name(reference, kind)
    labels = {"graph": graph_id, "port": reference}
    options = shm_group(names.lsi()) if kind is PortKind.SHM else {}
    if kind is PortKind.VETH and whole_frames:
        options = {"frames": "whole"}
    spec = port_spec(name, kind, options, node.rundir / "ports" / name, node.rundir, labels)
    return VnfPort(id=port.id, mac=port.mac, switch_port=spec)
