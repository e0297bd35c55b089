# SPDX-License-Identifier: Apache-2.0
"""Rules as OpenFlow 1.3 messages, packed at once: a table of ten thousand is sent in a moment.

Layouts are those of OpenFlow 1.3.5: flow-mods 7.3.4.1, group-mods 7.3.4.2, matches and fields (OXM)
7.2.3, instructions 7.2.4, actions 7.2.5. A test compares them, octet by octet, with os-ken's.
"""

import struct
from collections.abc import Iterable, Mapping

from os_ken.ofproto import ofproto_v1_3 as of

from headrace.protocols.tunnel_actions import Remember
from headrace.switches.fields import FIELDS, VLAN_PRESENT
from headrace.switches.rules import (
    CONTROLLER,
    Action,
    FieldMatch,
    Normal,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
    SetQueue,
)

_HEADER = struct.Struct("!BBHI")
_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")
_GROUP_MOD = struct.Struct("!HBxI")
_BUCKET = struct.Struct("!HHII4x")
_MATCH = struct.Struct("!HH")
_APPLY = struct.Struct("!HH4x")
_OUTPUT = struct.Struct("!HHIH6x")
_OF_NUMBER = struct.Struct("!HHI")
_PUSH = struct.Struct("!HHH2x")
_POP = struct.pack("!HH4x", of.OFPAT_POP_VLAN, 8)
_OXM_CLASS = of.OFPXMC_OPENFLOW_BASIC << 16
_IN_PORT = struct.Struct("!II")
_IN_PORT_OXM = _OXM_CLASS | of.OFPXMT_OFB_IN_PORT << 9 | 4
_VLAN_ETHERTYPE = 0x8100
_EXACT_COOKIE = 0xFFFF_FFFF_FFFF_FFFF
_GROUPS = 0xFFFF_FF00  # OFPG_MAX
_ADD_OR_MODIFY = 0x8000  # Open vSwitch's own command of group-mod, which headrace-switch has, too
_KEPT_IDLE_S = 300
_DEFAULT_PRIORITY = 0x8000
_ALL_PACKETS = struct.pack("!HH4x", of.OFPMT_OXM, 4)


def _octets(field: str) -> int:
    """The length of a field's value: 20 bits take 4 octets, as the specification says."""
    bits = FIELDS[field].bits
    return 4 if bits == 20 else (bits + 7) // 8


_OXM: dict[str, tuple[int, int, int]] = {
    name: (number, octets, FIELDS[name].ones)
    for name in FIELDS
    for number, octets in [(int(getattr(of, f"OFPXMT_OFB_{name.upper()}")), _octets(name))]
}
"""The number of each field, the octets of its value, the mask of an exact match."""


def group_of(rule: Rule) -> int:
    """The number, on its LSI, of the group of a rule with `Select`."""
    return rule.cookie % _GROUPS


def addition(rule: Rule, ofports: Mapping[str, int], xid: int) -> bytes:
    """The flow-mod that adds a rule or replaces the one of its match and priority."""
    actions = _actions(rule.actions, rule, ofports)
    instructions = (
        _APPLY.pack(of.OFPIT_APPLY_ACTIONS, _APPLY.size + len(actions)) + actions
        if actions
        else b""
    )
    return _flow_mod(
        xid,
        _match(rule, ofports),
        instructions,
        cookie=rule.cookie,
        command=of.OFPFC_ADD,
        idle_timeout=rule.idle_timeout,
        hard_timeout=rule.hard_timeout,
        priority=rule.priority,
    )


def deletion(rule: Rule, xid: int) -> bytes:
    """The flow-mod that removes a rule by its cookie, so it can be removed after its ports."""
    return _flow_mod(
        xid,
        _ALL_PACKETS,
        b"",
        cookie=rule.cookie,
        cookie_mask=_EXACT_COOKIE,
        table=of.OFPTT_ALL,
        command=of.OFPFC_DELETE,
        priority=_DEFAULT_PRIORITY,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
    )


def exact_deletion(rule: Rule, ofports: Mapping[str, int], xid: int) -> bytes:
    """The flow-mod that removes a rule by its match, which a switch need not look for."""
    return _flow_mod(
        xid,
        _match(rule, ofports),
        b"",
        cookie=rule.cookie,
        cookie_mask=_EXACT_COOKIE,
        command=of.OFPFC_DELETE_STRICT,
        priority=rule.priority,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
    )


def group_addition(rule: Rule, ofports: Mapping[str, int], keeps_flows: bool, xid: int) -> bytes:
    """The group-mod that makes, or changes, the group of a rule with `Select`.

    `keeps_flows`: the switch can be told to leave each flow at its bucket when others come and go.
    """
    select = rule.select
    memory = b""
    if keeps_flows:
        memory = Remember(_KEPT_IDLE_S, select.pair if select else 0).experimenter()
    body = b""
    for bucket in select.buckets if select else ():
        actions = memory + _actions(bucket.actions, rule, ofports)
        length = _BUCKET.size + len(actions)
        body += _BUCKET.pack(length, bucket.weight, of.OFPP_ANY, of.OFPG_ANY) + actions
    return _group_mod(xid, _ADD_OR_MODIFY, group_of(rule), body)


def group_deletion(rule: Rule, xid: int) -> bytes:
    """The group-mod that removes the group of a rule."""
    return _group_mod(xid, of.OFPGC_DELETE, group_of(rule), b"")


def _flow_mod(
    xid: int,
    match: bytes,
    instructions: bytes,
    *,
    cookie: int,
    command: int,
    priority: int,
    cookie_mask: int = 0,
    table: int = 0,
    idle_timeout: int = 0,
    hard_timeout: int = 0,
    out_port: int = 0,
    out_group: int = 0,
) -> bytes:
    length = _HEADER.size + _FLOW_MOD.size + len(match) + len(instructions)
    return b"".join(
        (
            _HEADER.pack(of.OFP_VERSION, of.OFPT_FLOW_MOD, length, xid),
            _FLOW_MOD.pack(
                cookie,
                cookie_mask,
                table,
                command,
                idle_timeout,
                hard_timeout,
                priority,
                of.OFP_NO_BUFFER,
                out_port,
                out_group,
                0,
            ),
            match,
            instructions,
        )
    )


def _group_mod(xid: int, command: int, group: int, buckets: bytes) -> bytes:
    length = _HEADER.size + _GROUP_MOD.size + len(buckets)
    head = _HEADER.pack(of.OFP_VERSION, of.OFPT_GROUP_MOD, length, xid)
    return head + _GROUP_MOD.pack(command, of.OFPGT_SELECT, group) + buckets


def _match(rule: Rule, ofports: Mapping[str, int]) -> bytes:
    """An ofp_match: fields in the order of their numbers, as prerequisites demand it."""
    parts = [(-1, _IN_PORT.pack(_IN_PORT_OXM, ofports[rule.in_port]))]
    parts += [_field(name, wanted) for name, wanted in rule.match.items()]
    parts.sort()
    fields = b"".join([part for _, part in parts])
    length = _MATCH.size + len(fields)
    return _MATCH.pack(of.OFPMT_OXM, length) + fields + bytes(-length % 8)


def _field(name: str, wanted: FieldMatch) -> tuple[int, bytes]:
    """The number of a field, and its OXM with value and, if it has one, mask."""
    number, octets, ones = _OXM[name]
    value = wanted.value.to_bytes(octets, "big")
    if wanted.mask == ones:
        head = _OXM_CLASS | number << 9 | octets
        return number, head.to_bytes(4, "big") + value
    head = _OXM_CLASS | number << 9 | 1 << 8 | 2 * octets
    return number, head.to_bytes(4, "big") + value + wanted.mask.to_bytes(octets, "big")


def _actions(actions: Iterable[Action], rule: Rule, ofports: Mapping[str, int]) -> bytes:
    return b"".join([_action(action, rule, ofports) for action in actions])


def _action(action: Action, rule: Rule, ofports: Mapping[str, int]) -> bytes:
    """An action, or two.

    Output to the input port requires the reserved port IN_PORT (1.3.5, section 4.5).
    """
    match action:
        case Output(port=port):
            if port == CONTROLLER:
                # Whole packets: a graph's controller may be far, and no buffer outlives a burst.
                return _output(of.OFPP_CONTROLLER, of.OFPCML_NO_BUFFER)
            return _output(of.OFPP_IN_PORT if port == rule.in_port else ofports[port])
        case Select():
            return _OF_NUMBER.pack(of.OFPAT_GROUP, _OF_NUMBER.size, group_of(rule))
        case SetQueue():
            return _OF_NUMBER.pack(of.OFPAT_SET_QUEUE, _OF_NUMBER.size, action.queue)
        case Normal():
            return _output(of.OFPP_NORMAL)
        case PushVlan():
            push = _PUSH.pack(of.OFPAT_PUSH_VLAN, _PUSH.size, _VLAN_ETHERTYPE)
            return push + _set_field("vlan_vid", action.vlan_id | VLAN_PRESENT)
        case PopVlan():
            return _POP
        case SetField():
            return _set_field(action.field, action.value)


def _output(port: int, most_octets: int = of.OFPCML_MAX) -> bytes:
    return _OUTPUT.pack(of.OFPAT_OUTPUT, _OUTPUT.size, port, most_octets)


def _set_field(name: str, value: int) -> bytes:
    _, field = _field(name, FieldMatch(value=value, mask=FIELDS[name].ones))
    length = _MATCH.size + len(field)
    padded = length + -length % 8
    return _MATCH.pack(of.OFPAT_SET_FIELD, padded) + field + bytes(padded - length)
