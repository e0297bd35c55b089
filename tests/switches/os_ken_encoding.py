# SPDX-License-Identifier: Apache-2.0
"""Rules as os-ken encodes them: what headrace/switches/flow_mods.py is compared with."""

from collections.abc import Iterable
from typing import Any

from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from headrace.protocols.tunnel_actions import EXPERIMENTER, Remember
from headrace.switches.fields import FIELDS, VLAN_PRESENT, Notation
from headrace.switches.flow_mods import group_of
from headrace.switches.rules import (
    CONTROLLER,
    Normal,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
    SetQueue,
)

_ADD_OR_MODIFY = 0x8000
_KEPT_IDLE_S = 300
_VLAN_ETHERTYPE = 0x8100
_DATAPATH = ofproto_protocol.ProtocolDesc(version=of.OFP_VERSION)


def _plain(name: str, value: int) -> int | str:
    field = FIELDS[name]
    return value if field.notation is Notation.NUMBER else field.text(value)


def encode_match(rule: Rule, ofports: dict[str, int]) -> Any:
    """The OFPMatch of a rule; `ofports` maps port names to numbers."""
    fields: dict[str, Any] = {"in_port": ofports[rule.in_port]}
    for name, wanted in rule.match.items():
        if wanted.mask == FIELDS[name].ones:
            fields[name] = _plain(name, wanted.value)
        else:
            fields[name] = (_plain(name, wanted.value), _plain(name, wanted.mask))
    return parser.OFPMatch(**fields)


def encode_actions(rule: Rule, ofports: dict[str, int]) -> list[Any]:
    """The OpenFlow action list of a rule.

    Output to the input port requires the reserved port IN_PORT (1.3.5, section 4.5).
    """
    return _encode(rule.actions, rule, ofports)


def encode_buckets(rule: Rule, ofports: dict[str, int], keeps_flows: bool) -> list[Any]:
    """The buckets of a rule's group.

    `keeps_flows`: the switch can be told to leave each flow at its bucket when others come and go.
    """
    buckets = []
    for bucket in rule.select.buckets if rule.select else ():
        steps = _encode(bucket.actions, rule, ofports)
        if keeps_flows:
            memory = Remember(_KEPT_IDLE_S, rule.select.pair if rule.select else 0).payload()
            steps.insert(0, parser.OFPActionExperimenterUnknown(EXPERIMENTER, data=memory))
        buckets.append(
            parser.OFPBucket(
                weight=bucket.weight,
                watch_port=of.OFPP_ANY,
                watch_group=of.OFPG_ANY,
                actions=steps,
            )
        )
    return buckets


def _encode(actions: Iterable[Any], rule: Rule, ofports: dict[str, int]) -> list[Any]:
    encoded: list[Any] = []
    for action in actions:
        match action:
            case Select():
                encoded.append(parser.OFPActionGroup(group_of(rule)))
            case Output(port=port) if port == CONTROLLER:
                # Whole packets: a graph's controller may be far, and no buffer outlives a burst.
                encoded.append(parser.OFPActionOutput(of.OFPP_CONTROLLER, of.OFPCML_NO_BUFFER))
            case SetQueue():
                encoded.append(parser.OFPActionSetQueue(action.queue))
            case Output():
                back = action.port == rule.in_port
                number = of.OFPP_IN_PORT if back else ofports[action.port]
                encoded.append(parser.OFPActionOutput(number))
            case Normal():
                encoded.append(parser.OFPActionOutput(of.OFPP_NORMAL))
            case PushVlan():
                encoded.append(parser.OFPActionPushVlan(_VLAN_ETHERTYPE))
                tag = action.vlan_id | VLAN_PRESENT
                encoded.append(parser.OFPActionSetField(vlan_vid=tag))
            case PopVlan():
                encoded.append(parser.OFPActionPopVlan())
            case SetField():
                value = _plain(action.field, action.value)
                encoded.append(parser.OFPActionSetField(**{action.field: value}))
    return encoded


def _octets(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def addition(rule: Rule, ofports: dict[str, int], xid: int) -> bytes:
    """See flow_mods.addition."""
    steps = encode_actions(rule, ofports)
    apply = [parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, steps)] if steps else []
    message = parser.OFPFlowMod(
        _DATAPATH,
        cookie=rule.cookie,
        command=of.OFPFC_ADD,
        priority=rule.priority,
        idle_timeout=rule.idle_timeout,
        hard_timeout=rule.hard_timeout,
        match=encode_match(rule, ofports),
        instructions=apply,
    )
    return _octets(message, xid)


def deletion(rule: Rule, xid: int) -> bytes:
    """See flow_mods.deletion."""
    message = parser.OFPFlowMod(
        _DATAPATH,
        cookie=rule.cookie,
        cookie_mask=0xFFFF_FFFF_FFFF_FFFF,
        table_id=of.OFPTT_ALL,
        command=of.OFPFC_DELETE,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
        match=parser.OFPMatch(),
    )
    return _octets(message, xid)


def group_addition(rule: Rule, ofports: dict[str, int], keeps_flows: bool, xid: int) -> bytes:
    """See flow_mods.group_addition."""
    buckets = encode_buckets(rule, ofports, keeps_flows)
    return _group(_ADD_OR_MODIFY, rule, buckets, xid)


def exact_deletion(rule: Rule, ofports: dict[str, int], xid: int) -> bytes:
    """See flow_mods.exact_deletion."""
    message = parser.OFPFlowMod(
        _DATAPATH,
        cookie=rule.cookie,
        cookie_mask=0xFFFF_FFFF_FFFF_FFFF,
        command=of.OFPFC_DELETE_STRICT,
        priority=rule.priority,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
        match=encode_match(rule, ofports),
    )
    return _octets(message, xid)


def group_deletion(rule: Rule, xid: int) -> bytes:
    """See flow_mods.group_deletion."""
    return _group(of.OFPGC_DELETE, rule, [], xid)


def _group(command: int, rule: Rule, buckets: list[Any], xid: int) -> bytes:
    message = parser.OFPGroupMod(
        _DATAPATH,
        command=command,
        type_=of.OFPGT_SELECT,
        group_id=group_of(rule),
        buckets=buckets,
    )
    return _octets(message, xid)
