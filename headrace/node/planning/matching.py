# SPDX-License-Identifier: Apache-2.0
"""The meaning of a flow rule's `match` and of its header actions.

Every key of the original node's API (2.4 of its description) becomes exact OpenFlow 1.3 fields, or
is refused with its place and the remedy: a rule never matches more or changes less than it says.
What OpenFlow needs besides (an EtherType, an IP protocol) is added where only one value is possible
and asked for where several are.
"""

import ipaddress
from collections.abc import Callable

from headrace.node.errors import GraphRefused
from headrace.node.planning.flow_rule_model import FlowRuleModel
from headrace.switches.fields import (
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    ETH_MPLS,
    FIELDS,
    PROTO_ICMP,
    PROTO_ICMPV6,
    PROTO_SCTP,
    PROTO_TCP,
    PROTO_UDP,
    VLAN_PRESENT,
    Notation,
)
from headrace.switches.rules import Action, FieldMatch, PopVlan, PushVlan, SetField

Match = dict[str, FieldMatch]

# Keys whose value is simply that of one field; `{v}` is 4 or 6, from the address's own notation.
_DIRECT = {
    "ether_type": "eth_type",
    "vlan_pcp": "vlan_pcp",
    "vlan_priority": "vlan_pcp",
    "ip_dscp": "ip_dscp",
    "ip_ecn": "ip_ecn",
    "source_mac": "eth_src",
    "dest_mac": "eth_dst",
    "source_ip": "ipv{v}_src",
    "dest_ip": "ipv{v}_dst",
    "ipv4_src": "ipv4_src",
    "ipv4_dst": "ipv4_dst",
    "ipv6_src": "ipv6_src",
    "ipv6_dst": "ipv6_dst",
    "protocol": "ip_proto",
    "ip_proto": "ip_proto",
    "sctp_src": "sctp_src",
    "sctp_dst": "sctp_dst",
    "icmpv4_type": "icmpv4_type",
    "icmpv4_code": "icmpv4_code",
    "icmpv6_type": "icmpv6_type",
    "icmpv6_code": "icmpv6_code",
    "arp_opcode": "arp_op",
    "arp_spa": "arp_spa",
    "arp_tpa": "arp_tpa",
    "arp_sha": "arp_sha",
    "arp_tha": "arp_tha",
    "ipv6_flabel": "ipv6_flabel",
    "ipv6_nd_target": "ipv6_nd_target",
    "ipv6_nd_sll": "ipv6_nd_sll",
    "ipv6_nd_tll": "ipv6_nd_tll",
    "mpls_label": "mpls_label",
    "mpls_tc": "mpls_tc",
}
_MASKS = {
    "eth_src_mask": "eth_src",
    "eth_dst_mask": "eth_dst",
    "ipv4_src_mask": "ipv4_src",
    "ipv4_dst_mask": "ipv4_dst",
    "ipv6_src_mask": "ipv6_src",
    "ipv6_dst_mask": "ipv6_dst",
    "arp_spa_mask": "arp_spa",
    "arp_tpa_mask": "arp_tpa",
}
_PORT_FIELD = {PROTO_TCP: "tcp", PROTO_UDP: "udp", PROTO_SCTP: "sctp"}
# A field that has one only possible EtherType or protocol brings it along.
_IMPLIED: tuple[tuple[str, str, int], ...] = (
    ("icmpv4_", "ip_proto", PROTO_ICMP),
    ("icmpv6_", "ip_proto", PROTO_ICMPV6),
    ("sctp_", "ip_proto", PROTO_SCTP),
    ("icmpv4_", "eth_type", ETH_IPV4),
    ("icmpv6_", "eth_type", ETH_IPV6),
    ("ipv4_", "eth_type", ETH_IPV4),
    ("ipv6_", "eth_type", ETH_IPV6),
    ("arp_", "eth_type", ETH_ARP),
    ("mpls_", "eth_type", ETH_MPLS),
)
_IMPLICATIONS = tuple(
    (
        prefix,
        frozenset(name for name in FIELDS if name.startswith(prefix)),
        field,
        FieldMatch(value=value, mask=FIELDS[field].ones),
    )
    for prefix, field, value in _IMPLIED
)


def refuse(place: str, text: str) -> GraphRefused:
    """The error for a match or an action at `place`."""
    return GraphRefused("flow-rules", f"{place}: {text}")


def number(text: str, bits: int, place: str) -> int:
    """An unsigned number of at most `bits` bits in C notation (`0x800`, `2048`)."""
    try:
        value = int(text, 0) if text.lower().startswith("0x") else int(text)
    except ValueError:
        raise refuse(place, f"{text!r} is no number") from None
    if not 0 <= value < 1 << bits:
        raise refuse(place, f"{text} is out of range 0 to {(1 << bits) - 1}")
    return value


def value_of(field: str, text: str, place: str) -> int:
    """The value of a field from its notation."""
    kind = FIELDS[field].notation
    if kind is Notation.NUMBER:
        return number(text, FIELDS[field].bits, place)
    try:
        if kind is Notation.MAC:
            octets = bytes(int(part, 16) for part in text.split(":"))
            if len(octets) != 6:
                raise ValueError
            return int.from_bytes(octets, "big")
        parse: Callable[[str], ipaddress.IPv4Address | ipaddress.IPv6Address]
        parse = ipaddress.IPv4Address if kind is Notation.IPV4 else ipaddress.IPv6Address
        return int(parse(text))
    except ValueError:
        name = kind.value.replace("ip", "IP").replace("mac", "MAC")
        raise refuse(place, f"{text!r} is no {name} address") from None


def match_fields(rule: FlowRuleModel, place: str, tag: int | None) -> Match:
    """The match of a rule; `tag` is the VLAN id of the end-point where it takes its traffic.

    Raises:
        GraphRefused: a value is wrong, or the fields contradict each other.
    """
    match: Match = {}

    def add(field: str, value: int, where: str, mask: int | None = None) -> None:
        wanted = FieldMatch(value=value, mask=FIELDS[field].ones if mask is None else mask)
        if match.setdefault(field, wanted) != wanted:
            raise refuse(where, f"contradicts another value for {field} in the same match")

    if tag is not None:
        add("vlan_vid", tag | VLAN_PRESENT, place)
    for key, text in rule.match.items():
        where = f"{place}.match.{key}"
        if key in _DIRECT:
            field = _DIRECT[key].format(v=6 if ":" in text else 4)
            if "/" in text and field.startswith("ipv"):
                field_value, mask = _prefix(field, text, where)
                add(field, field_value, where, mask)
            else:
                add(field, value_of(field, text, where), where)
        elif key == "vlan_id":
            if tag is not None:
                raise refuse(
                    where, f"the end-point already stands for VLAN {tag}; leave vlan_id out"
                )
            value, mask = _vlan(text, where)
            add("vlan_vid", value, where, mask)
        elif key == "tos_bits":
            tos = number(text, 8, where)
            add("ip_dscp", tos >> 2, where)
            add("ip_ecn", tos & 3, where)
    timeouts(rule, place)  # checked with the rest of the match
    for key, field in _MASKS.items():
        if key in rule.match:
            _narrow(match, field, rule.match[key], f"{place}.match.{key}")
    _imply(match, place)
    for key in ("source_port", "dest_port"):
        if key in rule.match:
            where = f"{place}.match.{key}"
            field = f"{_transport(match, where)}_{'src' if key == 'source_port' else 'dst'}"
            add(field, value_of(field, rule.match[key], where), where)
    _imply(match, place)
    _check_prerequisites(match, place)
    # An empty mask matches any value; that it is an IP packet has been added by now.
    return {field: wanted for field, wanted in match.items() if wanted.mask}


def timeouts(rule: FlowRuleModel, place: str) -> dict[str, int]:
    """When a rule goes by itself, in seconds; 0 is never.

    Raises:
        GraphRefused: a time is no number of 16 bits.
    """
    return {
        key: number(rule.match.get(key, "0"), 16, f"{place}.match.{key}")
        for key in ("idle_timeout", "hard_timeout")
    }


def _prefix(field: str, text: str, where: str) -> tuple[int, int]:
    """Address and mask of `10.0.0.0/8` or `10.0.0.0/255.0.0.0`."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise refuse(where, str(error)) from None
    if network.version != (6 if field.startswith("ipv6") else 4):
        raise refuse(where, f"{text} is no address for {field}")
    return int(network.network_address), int(network.netmask)


def _vlan(text: str, where: str) -> tuple[int, int]:
    """Value and mask of vlan_vid (OpenFlow 1.3.5, table 13)."""
    exact = FIELDS["vlan_vid"].ones
    if text == "ANY":
        return VLAN_PRESENT, VLAN_PRESENT
    if text == "NO_VLAN":
        return 0, exact
    return vlan_id(text, where) | VLAN_PRESENT, exact


def vlan_id(text: str, where: str) -> int:
    """A VLAN id; 4095 is reserved (IEEE 802.1Q, table 9-2)."""
    value = number(text, 12, where)
    if value == 4095:
        raise refuse(where, "VLAN id 4095 is reserved; use 0 to 4094")
    return value


def _narrow(match: Match, field: str, text: str, where: str) -> None:
    """Puts a mask on a field that the match already has."""
    if field not in match:
        raise refuse(where, f"a mask without a value; also match the {field} address")
    mask = value_of(field, text, where)
    if match[field].mask != FIELDS[field].ones:
        raise refuse(where, "the address already has a prefix length; write one of the two")
    match[field] = FieldMatch(value=match[field].value & mask, mask=mask)


def _imply(match: Match, place: str) -> None:
    for prefix, names, field, exact in _IMPLICATIONS:
        if names.isdisjoint(match):
            continue
        if prefix == "mpls_" and field in match:
            continue  # unicast or multicast, as written; checked with the prerequisites
        if match.setdefault(field, exact) != exact:
            used = [name for name in match if name in names]
            key = "ether_type" if field == "eth_type" else "protocol"
            raise refuse(
                f"{place}.match",
                f"{used[0]} needs {key} {exact.value:#x}, not {match[field].value:#x}",
            )


def _transport(match: Match, where: str) -> str:
    """tcp, udp or sctp: which ports source_port, dest_port and set_l4_* mean."""
    protocol = match.get("ip_proto")
    if protocol is None or protocol.value not in _PORT_FIELD:
        raise refuse(where, 'needs "protocol": "6" (TCP), "17" (UDP) or "132" (SCTP) in the match')
    return _PORT_FIELD[protocol.value]


def _check_prerequisites(match: Match, place: str) -> None:
    for name in match:
        wanted = FIELDS[name].requires
        if wanted and not _has_one_of(match, wanted):
            field = wanted[0][0]
            key = {"eth_type": "ether_type", "ip_proto": "protocol"}.get(field, field)
            values = " or ".join(f"{value:#x}" for _, value in wanted)
            raise refuse(f"{place}.match", f"{name} needs {key} {values} in the same match")
    if "vlan_pcp" in match and not _tagged(match):
        raise refuse(f"{place}.match", "vlan_pcp needs vlan_id (a number or ANY) in the same match")


def _has_one_of(match: Match, wanted: tuple[tuple[str, int], ...]) -> bool:
    return any(
        field in match and match[field].value == value and match[field].mask == FIELDS[field].ones
        for field, value in wanted
    )


def _tagged(match: Match) -> bool:
    return "vlan_vid" in match and bool(match["vlan_vid"].value & VLAN_PRESENT)


_SET = {
    "set_ethernet_src_address": "eth_src",
    "set_ethernet_dst_address": "eth_dst",
    "set_ip_src_address": "ipv{v}_src",
    "set_ip_dst_address": "ipv{v}_dst",
    "set_l4_src_port": "{l4}_src",
    "set_l4_dst_port": "{l4}_dst",
}


def header_actions(rule: FlowRuleModel, place: str, match: Match, tag: int | None) -> list[Action]:
    """The actions of a rule that change headers, in order; they come before all outputs.

    Raises:
        GraphRefused: an action cannot have its meaning on the packets that the rule matches.
    """
    steps: list[Action] = []
    tags = 0 if tag is not None else int(_tagged(match))  # an end-point's own tag is popped
    for position, action in enumerate(rule.actions):
        (key, raw), where = next(iter(action.items())), f"{place}.actions[{position}]"
        text, where = str(raw), f"{where}.{key}"
        if key == "push_vlan":
            steps.append(PushVlan(vlan_id=vlan_id(text, where)))
            tags += 1
        elif key == "pop_vlan":
            if raw not in (True, "true"):
                raise refuse(where, "write true, or leave the action out")
            if tags == 0:
                raise refuse(where, "the rule must also match vlan_id, so that there is a tag")
            steps.append(PopVlan())
            tags -= 1
        elif key in ("set_vlan_id", "set_vlan_priority"):
            if tags == 0:
                raise refuse(where, "match vlan_id or push_vlan first, so that there is a tag")
            if key == "set_vlan_id":
                value = vlan_id(text, where) | VLAN_PRESENT
                steps.append(SetField(field="vlan_vid", value=value))
            else:
                steps.append(SetField(field="vlan_pcp", value=number(text, 3, where)))
        elif key == "set_ip_tos":
            _needs_ip(match, ("ip_dscp",), where)
            tos = number(text, 8, where)
            steps.append(SetField(field="ip_dscp", value=tos >> 2))
            steps.append(SetField(field="ip_ecn", value=tos & 3))
        elif key in _SET:
            transport = _transport(match, where) if key.startswith("set_l4") else ""
            field = _SET[key].format(v=6 if ":" in text else 4, l4=transport)
            _needs_ip(match, (field,), where)
            steps.append(SetField(field=field, value=value_of(field, text, where)))
    return steps


def _needs_ip(match: Match, fields: tuple[str, ...], where: str) -> None:
    for field in fields:
        wanted = FIELDS[field].requires
        if wanted and not _has_one_of(match, wanted):
            key = {"eth_type": "ether_type", "ip_proto": "protocol"}[wanted[0][0]]
            values = " or ".join(f"{value:#x}" for _, value in wanted)
            raise refuse(
                where, f"the rule must match {key} {values}, so that there is such a field"
            )
