# SPDX-License-Identifier: Apache-2.0
"""The match fields that rules may use: name, width, how a value is written, what it requires.

Names and prerequisites are those of OpenFlow 1.3.5, section 7.2.3.7 (table 12). A prerequisite is a
set of alternatives of other fields' exact values: `ipv4_src` has a meaning only if `eth_type` is
0x0800. An OpenFlow switch rejects a match that lacks one, so the node checks it first.
"""

import ipaddress
from dataclasses import dataclass
from enum import Enum

ETH_IPV4, ETH_IPV6, ETH_ARP = 0x0800, 0x86DD, 0x0806
ETH_MPLS, ETH_MPLS_MULTICAST = 0x8847, 0x8848
PROTO_ICMP, PROTO_TCP, PROTO_UDP, PROTO_ICMPV6, PROTO_SCTP = 1, 6, 17, 58, 132
VLAN_PRESENT = 0x1000  # OFPVID_PRESENT: set in vlan_vid whenever there is a tag

Requirement = tuple[tuple[str, int], ...]


class Notation(Enum):
    """The text format of a field's value."""

    NUMBER = "number"
    MAC = "mac"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


@dataclass(frozen=True)
class Field:
    """A match field: `requires` lists alternatives, of which one must be matched exactly."""

    name: str
    bits: int
    notation: Notation = Notation.NUMBER
    requires: Requirement = ()

    @property
    def ones(self) -> int:
        """The mask of an exact match."""
        return (1 << self.bits) - 1

    def text(self, value: int) -> str:
        """`value` as people write it: a MAC or IP address, or a decimal number."""
        if self.notation is Notation.MAC:
            return ":".join(f"{octet:02x}" for octet in value.to_bytes(6, "big"))
        if self.notation is Notation.IPV4:
            return str(ipaddress.IPv4Address(value))
        if self.notation is Notation.IPV6:
            return str(ipaddress.IPv6Address(value))
        return str(value)


_IP: Requirement = (("eth_type", ETH_IPV4), ("eth_type", ETH_IPV6))
_ARP: Requirement = (("eth_type", ETH_ARP),)
_MPLS: Requirement = (("eth_type", ETH_MPLS), ("eth_type", ETH_MPLS_MULTICAST))
_ICMPV6: Requirement = (("ip_proto", PROTO_ICMPV6),)
_NUMBER, _MAC, _IPV4, _IPV6 = Notation.NUMBER, Notation.MAC, Notation.IPV4, Notation.IPV6

FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("eth_type", 16),
        Field("eth_src", 48, _MAC),
        Field("eth_dst", 48, _MAC),
        Field("vlan_vid", 13),
        Field("vlan_pcp", 3),
        Field("ip_proto", 8, _NUMBER, _IP),
        Field("ip_dscp", 6, _NUMBER, _IP),
        Field("ip_ecn", 2, _NUMBER, _IP),
        Field("ipv4_src", 32, _IPV4, (("eth_type", ETH_IPV4),)),
        Field("ipv4_dst", 32, _IPV4, (("eth_type", ETH_IPV4),)),
        Field("ipv6_src", 128, _IPV6, (("eth_type", ETH_IPV6),)),
        Field("ipv6_dst", 128, _IPV6, (("eth_type", ETH_IPV6),)),
        Field("ipv6_flabel", 20, _NUMBER, (("eth_type", ETH_IPV6),)),
        Field("ipv6_nd_target", 128, _IPV6, (("icmpv6_type", 135), ("icmpv6_type", 136))),
        Field("ipv6_nd_sll", 48, _MAC, (("icmpv6_type", 135),)),
        Field("ipv6_nd_tll", 48, _MAC, (("icmpv6_type", 136),)),
        Field("tcp_src", 16, _NUMBER, (("ip_proto", PROTO_TCP),)),
        Field("tcp_dst", 16, _NUMBER, (("ip_proto", PROTO_TCP),)),
        Field("udp_src", 16, _NUMBER, (("ip_proto", PROTO_UDP),)),
        Field("udp_dst", 16, _NUMBER, (("ip_proto", PROTO_UDP),)),
        Field("sctp_src", 16, _NUMBER, (("ip_proto", PROTO_SCTP),)),
        Field("sctp_dst", 16, _NUMBER, (("ip_proto", PROTO_SCTP),)),
        Field("icmpv4_type", 8, _NUMBER, (("ip_proto", PROTO_ICMP),)),
        Field("icmpv4_code", 8, _NUMBER, (("ip_proto", PROTO_ICMP),)),
        Field("icmpv6_type", 8, _NUMBER, _ICMPV6),
        Field("icmpv6_code", 8, _NUMBER, _ICMPV6),
        Field("arp_op", 16, _NUMBER, _ARP),
        Field("arp_spa", 32, _IPV4, _ARP),
        Field("arp_tpa", 32, _IPV4, _ARP),
        Field("arp_sha", 48, _MAC, _ARP),
        Field("arp_tha", 48, _MAC, _ARP),
        Field("mpls_label", 20, _NUMBER, _MPLS),
        Field("mpls_tc", 3, _NUMBER, _MPLS),
    )
}
