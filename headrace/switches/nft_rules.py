# SPDX-License-Identifier: Apache-2.0
"""Rules as nftables' JSON (libnftables-json(5)): chains at the ingress of the kernel's devices.

A match is written as the bits of a header where they are (raw payload expressions), so every field
of `fields.FIELDS` has one. What is set is written by nftables' own names, from which it knows which
checksums follow. The kernel has taken the outermost VLAN tag out of the frame when it comes here,
and shows it in its place again; `meta protocol` is the EtherType behind it.
"""

from collections.abc import Callable
from typing import Any

from headrace.switches.fields import ETH_IPV4, FIELDS, VLAN_PRESENT
from headrace.switches.rules import FieldMatch, Output, Rule, SetField

Json = dict[str, Any]

_TPID = 0x8100
_TAG, _PCP, _VID = ("ll", 96, 16), ("ll", 112, 3), ("ll", 116, 12)
_PLACES = {
    "eth_dst": ("ll", 0, 48),
    "eth_src": ("ll", 48, 48),
    "vlan_pcp": _PCP,
    "ipv4_src": ("nh", 96, 32),
    "ipv4_dst": ("nh", 128, 32),
    "ipv6_src": ("nh", 64, 128),
    "ipv6_dst": ("nh", 192, 128),
    "ipv6_flabel": ("nh", 12, 20),
    "ipv6_nd_target": ("th", 64, 128),
    "ipv6_nd_sll": ("th", 208, 48),
    "ipv6_nd_tll": ("th", 208, 48),
    "tcp_src": ("th", 0, 16),
    "tcp_dst": ("th", 16, 16),
    "udp_src": ("th", 0, 16),
    "udp_dst": ("th", 16, 16),
    "sctp_src": ("th", 0, 16),
    "sctp_dst": ("th", 16, 16),
    "icmpv4_type": ("th", 0, 8),
    "icmpv4_code": ("th", 8, 8),
    "icmpv6_type": ("th", 0, 8),
    "icmpv6_code": ("th", 8, 8),
    "arp_op": ("nh", 48, 16),
    "arp_sha": ("nh", 64, 48),
    "arp_spa": ("nh", 112, 32),
    "arp_tha": ("nh", 144, 48),
    "arp_tpa": ("nh", 192, 32),
}
"""Base, first bit and bits of a field (RFC 791, 8200, 826, 4861).

Not of MPLS: nft 1.0.6 aborts when it reads such a rule back.
"""

_TRAFFIC_CLASS = {True: {"ip_dscp": 8, "ip_ecn": 14}, False: {"ip_dscp": 4, "ip_ecn": 10}}
"""First bit in the header of IPv4, of IPv6."""

_ND_OPTION = {"ipv6_nd_sll": 0x0101, "ipv6_nd_tll": 0x0201}
"""Type and length of the option that has the address (RFC 4861, section 4.6.1)."""

_SETS: dict[str, tuple[str, str]] = {
    "eth_src": ("ether", "saddr"),
    "eth_dst": ("ether", "daddr"),
    "ipv4_src": ("ip", "saddr"),
    "ipv4_dst": ("ip", "daddr"),
    "ipv6_src": ("ip6", "saddr"),
    "ipv6_dst": ("ip6", "daddr"),
    "tcp_src": ("tcp", "sport"),
    "tcp_dst": ("tcp", "dport"),
    "udp_src": ("udp", "sport"),
    "udp_dst": ("udp", "dport"),
}
MATCHES = tuple(name for name in FIELDS if not name.startswith("mpls_"))
"""The fields that are matched."""

SETS = tuple(_SETS)
"""The fields that nftables can set with their checksums."""


def expression(rule: Rule, device_of: Callable[[str], str]) -> list[Json]:
    """The statements of a rule, in order; `device_of` gives a port's device."""
    found = [statement for name, m in rule.match.items() for statement in _match(name, m, rule)]
    found.append({"counter": counter_of(rule)})
    last = max((n for n, a in enumerate(rule.actions) if isinstance(a, Output)), default=-1)
    for position, action in enumerate(rule.actions[: last + 1]):
        if isinstance(action, Output):
            device = device_of(action.port)
            terminal = position == last
            found.append({"fwd": {"dev": device}} if terminal else {"dup": {"addr": device}})
        elif isinstance(action, SetField):
            protocol, field = _SETS[action.field]
            key = {"payload": {"protocol": protocol, "field": field}}
            value = FIELDS[action.field].text(action.value)
            number = int(value) if value.isdigit() else value
            found.append({"mangle": {"key": key, "value": number}})
    if last < 0:
        found.append({"drop": None})
    return found


def counter_of(rule: Rule) -> str:
    """The name of the counter of a rule."""
    return f"c{rule.cookie:x}"


def cookie_of(counter: str) -> int:
    """The cookie of the rule that has this counter."""
    return int(counter[1:], 16)


def _match(name: str, wanted: FieldMatch, rule: Rule) -> list[Json]:
    if name == "eth_type":
        return [_is({"meta": {"key": "protocol"}}, wanted.value)]
    if name == "ip_proto":
        return [_is({"meta": {"key": "l4proto"}}, wanted.value)]
    if name == "vlan_vid":
        return _vlan(wanted)
    if name in _TRAFFIC_CLASS[True]:
        is_ipv4 = rule.match["eth_type"].value == ETH_IPV4
        place = ("nh", _TRAFFIC_CLASS[is_ipv4][name], FIELDS[name].bits)
    else:
        place = _PLACES[name]
    found = _bits(place, wanted.value, wanted.mask)
    if name == "vlan_pcp":
        found.insert(0, _is(_raw(_TAG), _TPID))
    if name in _ND_OPTION:
        found.insert(0, _is(_raw(("th", 192, 16)), _ND_OPTION[name]))
    return found


def _vlan(wanted: FieldMatch) -> list[Json]:
    """OFPVID_NONE, OFPVID_PRESENT alone, or an id (OpenFlow 1.3.5, table 13)."""
    if not wanted.value & VLAN_PRESENT:
        return [_is(_raw(_TAG), _TPID, "!=")]
    found = [_is(_raw(_TAG), _TPID)]
    mask = wanted.mask & 0xFFF
    return found + (_bits(_VID, wanted.value & mask, mask) if mask else [])


def _bits(place: tuple[str, int, int], value: int, mask: int) -> list[Json]:
    """Comparisons of at most 32 bits each: nft takes numbers in JSON as signed ones of 64."""
    base, first, bits = place
    found = []
    while bits:
        size = bits % 32 or 32
        part_value = value >> (bits - size) & ((1 << size) - 1)
        part_mask = mask >> (bits - size) & ((1 << size) - 1)
        left = _raw((base, first, size))
        if part_mask == (1 << size) - 1:
            found.append(_is(left, part_value))
        elif part_mask:
            found.append(_is({"&": [left, part_mask]}, part_value & part_mask))
        first, bits = first + size, bits - size
    return found


def _raw(place: tuple[str, int, int]) -> Json:
    base, first, bits = place
    return {"payload": {"base": base, "offset": first, "len": bits}}


def _is(left: Json, right: int, operator: str = "==") -> Json:
    return {"match": {"op": operator, "left": left, "right": right}}
