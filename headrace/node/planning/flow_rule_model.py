# SPDX-License-Identifier: Apache-2.0
"""The flow rules of an NF-FG: matches and actions, kept as they are written."""

from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)

from headrace.node.planning.values import NUMBER_OR_TEXT, Identifier, Text

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
        "properties": dict.fromkeys(["port_in", *MATCH_KEYS], NUMBER_OR_TEXT),
        "required": ["port_in"],
        "additionalProperties": False,
    }


def _action_schema() -> dict[str, Any]:
    value = {"anyOf": [*NUMBER_OR_TEXT["anyOf"], {"type": "boolean"}]}
    weighted = {
        "type": "object",
        "properties": {
            "port": NUMBER_OR_TEXT,
            "weight": {"type": "integer", "minimum": 1, "maximum": 65535},
        },
        "required": ["port"],
        "additionalProperties": False,
    }
    port = {"anyOf": [*NUMBER_OR_TEXT["anyOf"], weighted]}
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
