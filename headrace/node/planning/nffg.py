# SPDX-License-Identifier: Apache-2.0
"""The NF-FG as clients write it: the union of the dialects that the original node has spoken.

The models read the generations from June 2016 on (root key `forwarding-graph`). They check shapes
only; what refers to what is checked by `validate`. The client's document itself is kept and given
back; the models are the node's reading of it.

A key that no dialect knows is ignored with a warning, because clients of other generations send
such keys, but never inside a match or an action: there it would change where packets go.
"""

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from headrace.node.errors import GraphRefused, describe
from headrace.node.planning.replicas import Scaling


def _text(value: Any) -> Any:
    """Dialects write numbers as strings or bare; both become text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_IDENTIFIER = r"^[^:/\s\x00-\x1f\x7f]+$"
_NUMBER_OR_TEXT: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "integer"}]}

Text = Annotated[str, BeforeValidator(_text), WithJsonSchema(_NUMBER_OR_TEXT)]
Identifier = Annotated[
    str,
    BeforeValidator(_text),
    Field(min_length=1, max_length=64, pattern=_IDENTIFIER),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 64, "pattern": _IDENTIFIER},
                {"type": "integer"},
            ]
        }
    ),
]
MAX_VNFS, MAX_PORTS, MAX_END_POINTS, MAX_RULES = 128, 64, 1024, 20_000
MAX_FORWARDS = 16
MAX_QUEUES = 15
"""What one graph may have."""


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)


class VnfPortModel(_Open):
    """A port of a VNF: `id` is `<label>:<n>`."""

    id: Annotated[str, Field(pattern=r"^[^:/\s]+:\d+$", max_length=64)]
    name: Text | None = None
    mac: Annotated[str, Field(pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")] | None = None
    unify_ip: Text | None = Field(None, alias="unify-ip")
    trusted: bool = False
    gui_position: Any = Field(None, alias="gui-position")

    @model_validator(mode="after")
    def _trust_needs_mac(self) -> "VnfPortModel":
        if self.trusted and self.mac is None:
            raise ValueError("trusted needs a mac: it is the address that the port is held to")
        return self


Port = Annotated[int, Field(ge=1, le=65535)]


class ControlModel(_Open):
    """TCP connections to a port of the host that go to one of the VNF's."""

    host_tcp_port: Port = Field(alias="host-tcp-port")
    vnf_tcp_port: Port = Field(alias="vnf-tcp-port")


class VariableModel(_Open):
    """An environment variable, as `NAME=value`."""

    variable: Annotated[Text, Field(pattern=r"^[^=]+=")]


class VnfModel(_Open):
    """A network function of a graph."""

    id: Identifier
    name: Text | None = None
    functional_capability: Text | None = Field(
        None, validation_alias=AliasChoices("functional-capability", "functional_capability")
    )
    vnf_template: Text | None = None
    ports: Annotated[list[VnfPortModel], Field(max_length=MAX_PORTS)] = []
    groups: list[Text] = []
    domain: Text | None = None
    description: Text | None = None
    unify_control: Annotated[list[ControlModel], Field(max_length=MAX_FORWARDS)] = Field(
        [], alias="unify-control"
    )
    unify_env_variables: list[VariableModel] = Field([], alias="unify-env-variables")
    user_data: Text | None = None
    gui_position: Any = Field(None, alias="gui-position")
    # Ours: settings for the template's function, such as a router's routes; replicas.
    configuration: dict[str, Any] = {}
    scaling: Scaling | None = None


class InterfaceModel(_Open):
    """A physical port of the node."""

    # Ours: other graphs that say so, too, may use the port, or the tag.
    shared: bool = False
    if_name: Text = Field(validation_alias=AliasChoices("if-name", "interface"))
    node_id: Text | None = Field(None, alias="node-id")


class VlanModel(InterfaceModel):
    """The traffic of one tag on a physical port."""

    vlan_id: Text = Field(alias="vlan-id")


class InternalModel(_Open):
    """A switch that all end-points of the same group share."""

    internal_group: Annotated[Text, Field(min_length=1, max_length=64)] = Field(
        alias="internal-group"
    )
    node_id: Text | None = Field(None, alias="node-id")


class _Tunnel(_Open):
    """A tunnel from an address of this node to another machine."""

    local_ip: Text = Field(alias="local-ip")
    remote_ip: Text = Field(alias="remote-ip")
    ttl: Text | None = None


class GreTunnelModel(_Tunnel):
    """Ethernet in GRE (RFC 2784) with a key (RFC 2890)."""

    gre_key: Text = Field(alias="gre-key")
    secure: bool = False


class VxlanModel(_Tunnel):
    """Ethernet in VXLAN (RFC 7348). Ours."""

    vni: Text


class GtpuModel(_Tunnel):
    """IP in GTP-U (3GPP TS 29.281); `teid` is that of both directions. Ours."""

    in_teid: Text = Field(validation_alias=AliasChoices("in-teid", "teid"))
    out_teid: Text = Field(validation_alias=AliasChoices("out-teid", "teid"))


class HostStackModel(_Open):
    """An interface in the host's IP stack; `IPv6` is ours."""

    configuration: Text | None = None
    ipv4: Text | None = Field(None, validation_alias=AliasChoices("IPv4", "ipv4"))
    ipv6: Text | None = Field(None, validation_alias=AliasChoices("IPv6", "ipv6"))
    mac: Annotated[str, Field(pattern=r"^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$")] | None = (
        None
    )


EndPointType = Literal[
    "interface",
    "vlan",
    "gre-tunnel",
    "vxlan",
    "gtpu",
    "internal",
    "host-stack",
    "interface-out",
    "management",
]


class EndPointModel(_Open):
    """Where traffic enters or leaves a graph. The kind is the sub-object that is present."""

    id: Identifier
    name: Text | None = None
    type: Text | None = None
    interface: InterfaceModel | None = None
    vlan: VlanModel | None = None
    internal: InternalModel | None = None
    gre_tunnel: GreTunnelModel | None = Field(None, alias="gre-tunnel")
    vxlan: VxlanModel | None = None
    gtpu: GtpuModel | None = None
    host_stack: HostStackModel | None = Field(None, alias="host-stack")
    interface_out: dict[str, Any] | None = Field(None, alias="interface-out")
    management: HostStackModel | None = None
    domain: Text | None = None
    gui_position: Any = Field(None, alias="gui-position")

    @property
    def kind(self) -> EndPointType:
        """The type, by the sub-object that is present."""
        for kind in EndPointType.__args__:  # type: ignore[attr-defined]
            if getattr(self, kind.replace("-", "_")) is not None:
                return kind  # type: ignore[no-any-return]
        raise AssertionError("checked when read")

    @property
    def is_physical(self) -> bool:
        """Whether it is a physical port, or a tag on one."""
        return self.kind in ("interface", "vlan")

    @model_validator(mode="after")
    def _one_kind(self) -> "EndPointModel":
        kinds: list[str] = [
            kind
            for kind in EndPointType.__args__  # type: ignore[attr-defined]
            if getattr(self, kind.replace("-", "_")) is not None
        ]
        if len(kinds) != 1:
            written = ", ".join(kinds) or "none"
            raise ValueError(
                f"an end-point has exactly one object named as its type (found: {written}), "
                f'such as "interface": {{"if-name": "p0"}}'
            )
        return self


MATCH_KEYS = [
    "hard_timeout",
    "idle_timeout",
    "ether_type",
    "vlan_id",
    "vlan_pcp",
    "vlan_priority",
    "ip_dscp",
    "ip_ecn",
    "tos_bits",
    "source_mac",
    "dest_mac",
    "eth_src_mask",
    "eth_dst_mask",
    "source_ip",
    "dest_ip",
    "ipv4_src",
    "ipv4_dst",
    "ipv6_src",
    "ipv6_dst",
    "ipv4_src_mask",
    "ipv4_dst_mask",
    "ipv6_src_mask",
    "ipv6_dst_mask",
    "protocol",
    "ip_proto",
    "source_port",
    "dest_port",
    "sctp_src",
    "sctp_dst",
    "icmpv4_type",
    "icmpv4_code",
    "icmpv6_type",
    "icmpv6_code",
    "arp_opcode",
    "arp_spa",
    "arp_spa_mask",
    "arp_tpa",
    "arp_tpa_mask",
    "arp_sha",
    "arp_tha",
    "ipv6_flabel",
    "ipv6_nd_target",
    "ipv6_nd_sll",
    "ipv6_nd_tll",
    "mpls_label",
    "mpls_tc",
]

ACTION_KEYS = [
    "output_to_port",
    "output_to_one_of",
    "push_vlan",
    "pop_vlan",
    "drop",
    "output_to_controller",
    "output_to_queue",
    "set_vlan_id",
    "set_vlan_priority",
    "set_ethernet_src_address",
    "set_ethernet_dst_address",
    "set_ip_src_address",
    "set_ip_dst_address",
    "set_ip_tos",
    "set_l4_src_port",
    "set_l4_dst_port",
]


def _match_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict.fromkeys(["port_in", *MATCH_KEYS], _NUMBER_OR_TEXT),
        "required": ["port_in"],
        "additionalProperties": False,
    }


def _action_schema() -> dict[str, Any]:
    value = {"anyOf": [*_NUMBER_OR_TEXT["anyOf"], {"type": "boolean"}]}
    weighted = {
        "type": "object",
        "properties": {
            "port": _NUMBER_OR_TEXT,
            "weight": {"type": "integer", "minimum": 1, "maximum": 65535},
        },
        "required": ["port"],
        "additionalProperties": False,
    }
    port = {"anyOf": [*_NUMBER_OR_TEXT["anyOf"], weighted]}
    several = {"type": "array", "items": port, "minItems": 1}
    return {
        "type": "object",
        "properties": {**dict.fromkeys(ACTION_KEYS, value), "output_to_one_of": several},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }


class WeightedPort(BaseModel):
    """One of the ports of output_to_one_of, and its share of the flows. Ours."""

    model_config = ConfigDict(extra="forbid")

    port: Text
    weight: Annotated[int, Field(ge=1, le=65535)] = 1
    _pool: str = PrivateAttr("")

    @property
    def pool(self) -> str:
        """The VNF of which this is a replica's port; no client says so (`scaling.py`)."""
        return self._pool

    def of_pool(self, vnf: str) -> "WeightedPort":
        """The same, as a replica's of a VNF."""
        self._pool = vnf
        return self


def _weighted(value: Any) -> Any:
    return {"port": value} if isinstance(value, (str, int)) else value


# The tags are no part of a place in the document (errors.py).
ActionValue = Annotated[
    Annotated[Text | bool, Tag("[plain]")]
    | Annotated[list[Annotated[WeightedPort, BeforeValidator(_weighted)]], Tag("[list]")],
    Discriminator(lambda value: "[list]" if isinstance(value, list) else "[plain]"),
]


Action = Annotated[dict[str, ActionValue], WithJsonSchema(_action_schema())]

TO_CONTROLLER = "controller"
"""The graph's controller as a target of rules: it is the graph's LSI that is connected to it."""

_QUEUE = " queue "
_TRUE = (True, "true")


def base_of(target: str) -> str:
    """The reference of a target, without its queue."""
    return target.partition(_QUEUE)[0]


def queue_of(target: str) -> str | None:
    """The queue of a target."""
    return target.partition(_QUEUE)[2] or None


class FlowRuleModel(BaseModel):
    """A rule: `match` and each action are kept as written; `lowering` gives them their meaning.

    What is worked out of it is kept with it, so it must not be changed; a copy has none of that.
    """

    model_config = ConfigDict(extra="allow")

    id: Identifier
    priority: Annotated[int, Field(ge=0, le=65535)] = 0
    description: Text | None = None
    match: Annotated[dict[str, Text], WithJsonSchema(_match_schema())]
    actions: Annotated[list[Action], Field(min_length=1)]

    @model_validator(mode="after")
    def _known_keys(self) -> "FlowRuleModel":
        if "outputs" in self.__dict__:  # it was checked when it was read (known_rules.py)
            return self
        if "port_in" not in self.match:
            raise ValueError('match has no port_in; write "port_in": "endpoint:<id>" or "vnf:..."')
        for key in self.match:
            if key != "port_in" and key not in MATCH_KEYS:
                raise ValueError(f"match: unknown field {key}; known are {', '.join(MATCH_KEYS)}")
        for number, action in enumerate(self.actions):
            if len(action) != 1:
                raise ValueError(f"actions[{number}]: write one action per object")
            ((key, value),) = action.items()
            if (key == "output_to_one_of") != isinstance(value, list):
                wanted = "a list of ports" if key == "output_to_one_of" else "no list"
                raise ValueError(f"actions[{number}]: {key} takes {wanted}")
            if key not in ACTION_KEYS:
                known = ", ".join(ACTION_KEYS)
                raise ValueError(
                    f"actions[{number}]: unknown action {next(iter(action))}; known are {known}"
                )
        return self

    def __copy__(self) -> "FlowRuleModel":
        """A copy, which is to be changed."""
        copied = super().__copy__()
        for name in ("members", "outputs", "targets", "flaw"):
            copied.__dict__.pop(name, None)
        return copied

    @property
    def is_balanced(self) -> bool:
        """Whether the rule distributes its flows over several ports."""
        return any("output_to_one_of" in action for action in self.actions)

    @cached_property
    def members(self) -> tuple[WeightedPort, ...]:
        """The ports that it distributes its flows over."""
        values = (action.get("output_to_one_of") for action in self.actions)
        return tuple(port for value in values if isinstance(value, list) for port in value)

    @cached_property
    def outputs(self) -> tuple[tuple[int, str], ...]:
        """Where the actions lead: position and reference, those of one_of included."""
        found: list[tuple[int, str]] = []
        for position, action in enumerate(self.actions):
            ((key, value),) = action.items()
            if key == "output_to_port":
                found.append((position, str(value)))
            elif isinstance(value, list):
                found += [(position, member.port) for member in value]
        return tuple(found)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Where it leads: references, with the queue that it asks for, and the controller.

        Each is a destination of its own, for which there is a link between the LSIs if need be.
        """
        queues = (
            action["output_to_queue"] for action in self.actions if "output_to_queue" in action
        )
        queue = next((str(name) for name in queues), None)
        found = [
            target if queue is None else f"{target}{_QUEUE}{queue}" for _, target in self.outputs
        ]
        if any(action.get("output_to_controller") in _TRUE for action in self.actions):
            found.append(TO_CONTROLLER)
        return tuple(found)

    @cached_property
    def flaw(self) -> str | None:
        """What is wrong with its actions together, whatever the graph is."""
        if self.is_balanced and len({position for position, _ in self.outputs}) > 1:
            return "output_to_one_of is the only output of a rule; write one"
        drops = any(action["drop"] in _TRUE for action in self.actions if "drop" in action)
        if drops and self.outputs:
            return "drop and output_to_port exclude each other"
        if drops and TO_CONTROLLER in self.targets:
            return "drop and output_to_controller exclude each other"
        if self.is_balanced and (
            TO_CONTROLLER in self.targets or any(queue_of(target) for target in self.targets)
        ):
            return "output_to_one_of goes with no controller and no queue"
        if not self.targets and not drops:
            return 'the rule goes nowhere; add output_to_port, or "drop": true'
        return None


class QueueModel(BaseModel):
    """A queue of the ports to which rules send by `output_to_queue`; rates in bit/s. Ours."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    id: Identifier
    min_rate: Annotated[int, Field(ge=0, le=1 << 40)] = Field(0, alias="min-rate")
    max_rate: Annotated[int, Field(ge=0, le=1 << 40)] = Field(0, alias="max-rate")


class BigSwitchModel(_Open):
    """The rules between the ports of a graph."""

    flow_rules: list[FlowRuleModel] = Field(alias="flow-rules", max_length=MAX_RULES)
    # Ours: queues that rules may name, and who gets what rules send to the controller.
    queues: Annotated[list[QueueModel], Field(max_length=MAX_QUEUES)] = []
    controller: Annotated[Text, Field(pattern=r"^tcp:[0-9A-Fa-f.:\[\]]+:\d{1,5}$")] | None = None


class DemandModel(_Open):
    """What a graph is to carry: packets per second through it, bytes of a frame with FCS. Ours."""

    pps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    bytes: Annotated[float, Field(ge=64, le=65_535)] = 64.0


class ForwardingGraph(_Open):
    """An NF-FG."""

    id: Text | None = None
    name: Text | None = None
    description: Text | None = None
    domain: Text | None = None
    # Ours: which of the node's switches has the graph's LSI; by default the first.
    switch: Text | None = None
    vnfs: list[VnfModel] = Field([], alias="VNFs", max_length=MAX_VNFS)
    end_points: list[EndPointModel] = Field([], alias="end-points", max_length=MAX_END_POINTS)
    big_switch: BigSwitchModel = Field(
        default_factory=lambda: BigSwitchModel.model_validate({"flow-rules": []}),
        alias="big-switch",
    )
    node_config: list[Any] = Field([], alias="node-config")
    unify_monitoring: Text | None = Field(None, alias="unify-monitoring")
    demand: DemandModel | None = None


def parse(document: Any) -> tuple[ForwardingGraph, list[str]]:
    """Reads a client's document; returns the graph and warnings about what is ignored.

    Raises:
        GraphRefused: the first thing that is wrong, with its place.
    """
    if not isinstance(document, dict) or "forwarding-graph" not in document:
        hint = ""
        if isinstance(document, dict) and "flow-graph" in document:
            hint = " (flow-graph is the dialect of before 2016, which is not supported)"
        raise GraphRefused("nffg", f"the document has no object forwarding-graph{hint}")
    try:
        graph = ForwardingGraph.model_validate(document["forwarding-graph"])
    except ValidationError as error:
        raise GraphRefused("nffg", describe(error, "forwarding-graph")) from None
    warnings = [f"{key}: unknown key ignored" for key in document if key != "forwarding-graph"]
    warnings += [f"{place}: unknown key ignored" for place in _unknown(graph, "")]
    warnings += list(_unused(graph))
    return graph, warnings


def _unknown(model: BaseModel, place: str) -> Iterator[str]:
    for key in model.model_extra or {}:
        yield f"{place}{key}"
    for name, key in _fields_of(type(model)):
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _unknown(value, f"{place}{key}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, FlowRuleModel):  # many, and no models below
                    for extra in item.model_extra or ():
                        yield f"{place}{key}[{number}].{extra}"
                elif isinstance(item, BaseModel):
                    yield from _unknown(item, f"{place}{key}[{number}].")


@lru_cache
def _fields_of(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """The fields of a model, with their names in documents."""
    return tuple((name, field.alias or name) for name, field in model.model_fields.items())


def _unused(graph: ForwardingGraph) -> Iterator[str]:
    """Keys that dialects know and that have no effect here."""
    if graph.unify_monitoring:
        yield "unify-monitoring: not supported, ignored"
    if graph.node_config:
        yield "node-config: not supported, ignored"
