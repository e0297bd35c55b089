# SPDX-License-Identifier: Apache-2.0
"""Rules as filters of tc(8): classifier flower (tc-flower(8)) and its actions.

OpenFlow's `eth_type` is the one behind a VLAN tag, tagged or not; flower has two protocols for
that, so a rule may become two filters. The text is that of `tc -batch`.
"""

from collections.abc import Callable, Iterator

from headrace.switches.fields import FIELDS, PROTO_ICMP, PROTO_ICMPV6, VLAN_PRESENT
from headrace.switches.rules import Output, PopVlan, PushVlan, Rule, SetField

_KEYS = {
    "eth_src": "src_mac",
    "eth_dst": "dst_mac",
    "ipv4_src": "src_ip",
    "ipv4_dst": "dst_ip",
    "ipv6_src": "src_ip",
    "ipv6_dst": "dst_ip",
    "tcp_src": "src_port",
    "tcp_dst": "dst_port",
    "udp_src": "src_port",
    "udp_dst": "dst_port",
    "sctp_src": "src_port",
    "sctp_dst": "dst_port",
    "icmpv4_type": "type",
    "icmpv4_code": "code",
    "icmpv6_type": "type",
    "icmpv6_code": "code",
    "arp_op": "arp_op",
    "arp_spa": "arp_sip",
    "arp_tpa": "arp_tip",
    "arp_sha": "arp_sha",
    "arp_tha": "arp_tha",
    "mpls_label": "mpls_label",
    "mpls_tc": "mpls_tc",
}
_TRAFFIC_CLASS = {"ip_dscp": (2, 0xFC), "ip_ecn": (0, 0x03)}
"""Shift and mask in the octet that flower calls ip_tos."""

_PROTOCOLS = {0x0800: "ip", 0x86DD: "ipv6", 0x0806: "arp", 0x8847: "mpls_uc", 0x8848: "mpls_mc"}
_NUMBERS = {PROTO_ICMP: "icmp", PROTO_ICMPV6: "icmpv6", 6: "tcp", 17: "udp", 132: "sctp"}
_SETS = {
    "eth_src": "eth src",
    "eth_dst": "eth dst",
    "ipv4_src": "ip src",
    "ipv4_dst": "ip dst",
    "ipv6_src": "ip6 src",
    "ipv6_dst": "ip6 dst",
    "tcp_src": "tcp sport",
    "tcp_dst": "tcp dport",
    "udp_src": "udp sport",
    "udp_dst": "udp dport",
}
MATCHES = ("eth_type", "vlan_vid", "vlan_pcp", "ip_proto", *_TRAFFIC_CLASS, *_KEYS)
"""The fields that are matched; flower has no flow label and nothing of neighbor discovery."""

MASKS = ("eth_src", "eth_dst", "arp_sha", "arp_tha")
"""Those of which single bits are matched: addresses of IP take prefixes only."""

SETS = tuple(_SETS)
"""The fields that are overwritten."""


def filters(rule: Rule, device_of: Callable[[str], str]) -> Iterator[str]:
    """The filters of a rule, each from `protocol` on; `device_of` gives a port's device."""
    actions = " ".join(_actions(rule, device_of))
    for protocol, keys in _matches(rule):
        words = " ".join(("flower", *keys))
        yield f"protocol {protocol} {words} {actions}"


def _matches(rule: Rule) -> Iterator[tuple[str, list[str]]]:
    match = rule.match
    keys = []
    tos_value = tos_mask = 0
    for name, wanted in match.items():
        if name in _TRAFFIC_CLASS:
            shift, mask = _TRAFFIC_CLASS[name]
            tos_value, tos_mask = tos_value | wanted.value << shift, tos_mask | mask
        elif name == "ip_proto":
            keys.append(f"ip_proto {_NUMBERS.get(wanted.value, wanted.value)}")
        elif name in _KEYS:
            field = FIELDS[name]
            text = f"{_KEYS[name]} {field.text(wanted.value)}"
            keys.append(text if wanted.mask == field.ones else f"{text}/{field.text(wanted.mask)}")
    if tos_mask:
        keys.append(f"ip_tos 0x{tos_value:x}/0x{tos_mask:x}")
    # A key of flower may depend on one before it.
    keys.sort(key=lambda key: not key.startswith("ip_proto"))
    kind = match["eth_type"].value if "eth_type" in match else None
    plain = "all" if kind is None else _PROTOCOLS.get(kind, f"0x{kind:04x}")
    vlan = match.get("vlan_vid")
    if vlan is not None and not vlan.value & VLAN_PRESENT:
        yield plain, ["num_of_vlans 0", *keys]
        return
    tag = []
    if vlan is not None:
        tag.append(f"vlan_id {vlan.value & ~VLAN_PRESENT}")
    if "vlan_pcp" in match:
        tag.append(f"vlan_prio {match['vlan_pcp'].value}")
    behind = [] if kind is None else [f"vlan_ethtype {plain}"]
    if tag or kind is not None:
        yield "802.1q", [*tag, *behind, *keys]
    if not tag:
        yield plain, keys


def _actions(rule: Rule, device_of: Callable[[str], str]) -> Iterator[str]:
    last = max((n for n, a in enumerate(rule.actions) if isinstance(a, Output)), default=-1)
    if last < 0:
        yield "action drop"
        return
    for position, action in enumerate(rule.actions[: last + 1]):
        match action:
            case Output(port=port):
                how = "redirect" if position == last else "mirror"
                step = f"action mirred egress {how} dev {device_of(port)}"
                yield step if position == last else f"{step} pipe"
            case PopVlan():
                yield "action vlan pop pipe"
            case PushVlan(vlan_id=tag):
                yield f"action vlan push id {tag} pipe"
            case SetField(field=name, value=value):
                yield f"action pedit ex munge {_SETS[name]} set {FIELDS[name].text(value)} pipe"
                if not name.startswith("eth_"):
                    protocols = "ip4h and " if name.startswith("ipv4") else ""
                    yield f"action csum {protocols}tcp and udp pipe"
