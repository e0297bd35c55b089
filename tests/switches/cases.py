# SPDX-License-Identifier: Apache-2.0
"""For each field: a match with its prerequisites, a frame that has it and one that has not.

And for each field that can be set: the frame before and after.
"""

from __future__ import annotations

from dataclasses import dataclass

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
)
from headrace.switches.rules import FieldMatch
from tests.switches.packets import frame


@dataclass(frozen=True)
class Case:
    """`base` are the prerequisites, `value` is matched, `other` is what must not match."""

    field: str
    base: dict[str, int]
    value: int
    other: int

    @property
    def fields(self) -> dict[str, int]:
        """What the matching frame has."""
        return {**self.base, self.field: self.value}

    @property
    def match(self) -> dict[str, FieldMatch]:
        """The rule's match."""
        return exact(self.fields)

    @property
    def hit(self) -> bytes:
        """A frame that matches."""
        return frame(self.fields)

    @property
    def miss(self) -> bytes:
        """The same frame with another value of the field."""
        return frame({**self.base, self.field: self.other})

    def masked(self) -> tuple[dict[str, FieldMatch], bytes, bytes]:
        """A match of the field without its lowest bit; a frame that matches and one that does not.

        The matching one differs from the value in the bit that is left out.
        """
        ones = FIELDS[self.field].ones
        low = self.value & ~1
        wanted = FieldMatch(value=low, mask=ones & ~1)
        hit = frame({**self.base, self.field: self.value ^ 1})
        miss = frame({**self.base, self.field: self.value ^ 2})
        return {**exact(self.base), self.field: wanted}, hit, miss


def exact(fields: dict[str, int]) -> dict[str, FieldMatch]:
    """Exact matches of these values."""
    return {name: FieldMatch(value=v, mask=FIELDS[name].ones) for name, v in fields.items()}


_IP4, _IP6 = {"eth_type": ETH_IPV4}, {"eth_type": ETH_IPV6}
_ARP, _MPLS = {"eth_type": ETH_ARP}, {"eth_type": ETH_MPLS}
_TAGGED = {"vlan_vid": VLAN_PRESENT | 7}
_ND = {**_IP6, "ip_proto": PROTO_ICMPV6}


def _proto(number: int) -> dict[str, int]:
    return {**_IP4, "ip_proto": number}


CASES = {
    case.field: case
    for case in (
        Case("eth_type", {}, ETH_IPV6, ETH_IPV4),
        Case("eth_src", {}, 0x0200000000A1, 0x0200000000B1),
        Case("eth_dst", {}, 0x0200000000A1, 0x0200000000B1),
        Case("vlan_vid", {}, VLAN_PRESENT | 5, VLAN_PRESENT | 6),
        Case("vlan_pcp", _TAGGED, 4, 5),
        Case("ip_proto", _IP4, PROTO_TCP, PROTO_UDP),
        Case("ip_dscp", _IP4, 46, 0),
        Case("ip_ecn", _IP4, 2, 0),
        Case("ipv4_src", _IP4, 0x0A000009, 0x0A000005),
        Case("ipv4_dst", _IP4, 0x0A000009, 0x0A000005),
        Case("ipv6_src", _IP6, 0xFD << 120 | 9, 0xFD << 120 | 5),
        Case("ipv6_dst", _IP6, 0xFD << 120 | 9, 0xFD << 120 | 5),
        Case("ipv6_flabel", _IP6, 0x54321, 0x54325),
        Case("ipv6_nd_target", {**_ND, "icmpv6_type": 135}, 0xFD << 120 | 9, 0xFD << 120 | 5),
        Case("ipv6_nd_sll", {**_ND, "icmpv6_type": 135}, 0x0200000000A1, 0x0200000000B1),
        Case("ipv6_nd_tll", {**_ND, "icmpv6_type": 136}, 0x0200000000A1, 0x0200000000B1),
        Case("tcp_src", _proto(PROTO_TCP), 80, 81),
        Case("tcp_dst", _proto(PROTO_TCP), 80, 81),
        Case("udp_src", _proto(PROTO_UDP), 53, 54),
        Case("udp_dst", _proto(PROTO_UDP), 53, 54),
        Case("sctp_src", _proto(PROTO_SCTP), 36412, 36413),
        Case("sctp_dst", _proto(PROTO_SCTP), 36412, 36413),
        Case("icmpv4_type", _proto(PROTO_ICMP), 8, 0),
        Case("icmpv4_code", {**_proto(PROTO_ICMP), "icmpv4_type": 3}, 1, 2),
        Case("icmpv6_type", _ND, 128, 129),
        Case("icmpv6_code", {**_ND, "icmpv6_type": 1}, 1, 2),
        Case("arp_op", _ARP, 2, 1),
        Case("arp_spa", _ARP, 0x0A000009, 0x0A000005),
        Case("arp_tpa", _ARP, 0x0A000009, 0x0A000005),
        Case("arp_sha", _ARP, 0x0200000000A1, 0x0200000000B1),
        Case("arp_tha", _ARP, 0x0200000000A1, 0x0200000000B1),
        Case("mpls_label", _MPLS, 77, 78),
        Case("mpls_tc", _MPLS, 5, 6),
    )
}

SETS = {
    "eth_src": (_IP4, 0x0200000000C1),
    "eth_dst": (_IP4, 0x0200000000C1),
    "vlan_vid": (_TAGGED, VLAN_PRESENT | 9),
    "vlan_pcp": (_TAGGED, 6),
    "ip_dscp": (_IP4, 10),
    "ip_ecn": (_IP4, 3),
    "ipv4_src": (_proto(PROTO_UDP), 0xC0000201),
    "ipv4_dst": (_proto(PROTO_TCP), 0xC0000202),
    "ipv6_src": ({**_IP6, "ip_proto": PROTO_UDP}, 0xFD << 120 | 0xC1),
    "ipv6_dst": ({**_IP6, "ip_proto": PROTO_TCP}, 0xFD << 120 | 0xC2),
    "tcp_src": (_proto(PROTO_TCP), 8080),
    "tcp_dst": ({**_IP6, "ip_proto": PROTO_TCP}, 8080),
    "udp_src": (_proto(PROTO_UDP), 5353),
    "udp_dst": ({**_IP6, "ip_proto": PROTO_UDP}, 5353),
    "sctp_src": (_proto(PROTO_SCTP), 5000),
    "sctp_dst": (_proto(PROTO_SCTP), 5000),
}
"""By field: what the rule matches besides, and the new value."""
