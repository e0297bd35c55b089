# SPDX-License-Identifier: Apache-2.0
"""Frames in which any match field can be chosen, with right lengths and checksums.

A frame is built from a mapping of the fields of `headrace.switches.fields` to values; what is not
given has a fixed value. So what a switch must make of a frame that it changes is the frame of the
changed mapping.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from headrace.switches.fields import (
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    ETH_MPLS,
    PROTO_ICMP,
    PROTO_ICMPV6,
    PROTO_SCTP,
    PROTO_TCP,
    PROTO_UDP,
    VLAN_PRESENT,
)

Fields = Mapping[str, int]

_DEFAULTS = {
    "eth_src": 0x020000000001,
    "eth_dst": 0x020000000002,
    "ip_dscp": 5,
    "ip_ecn": 1,
    "ipv4_src": 0x0A000001,
    "ipv4_dst": 0x0A000002,
    "ipv6_src": 0xFD << 120 | 1,
    "ipv6_dst": 0xFD << 120 | 2,
    "ipv6_flabel": 0x12345,
    "ipv6_nd_target": 0xFD << 120 | 3,
    "ipv6_nd_sll": 0x020000000003,
    "ipv6_nd_tll": 0x020000000004,
    "arp_op": 1,
    "arp_spa": 0x0A000001,
    "arp_tpa": 0x0A000002,
    "arp_sha": 0x020000000001,
    "arp_tha": 0,
    "mpls_label": 1000,
    "mpls_tc": 3,
    "vlan_pcp": 2,
    "icmpv4_type": 8,
    "icmpv4_code": 0,
    "icmpv6_type": 128,
    "icmpv6_code": 0,
}
_PORTS = {"src": 1000, "dst": 2000}
_LEAST, _PAYLOAD = 60, 18


def frame(fields: Fields, payload: bytes = b"headrace", outer: int | None = None) -> bytes:
    """A frame without FCS, of 60 octets at least; `outer` is the VLAN id of a tag before all."""
    value = {**_DEFAULTS, **fields}
    payload = payload.ljust(_PAYLOAD, b"\0")  # the kernel's bridge takes padding of IPv4 away
    kind = value.get("eth_type", ETH_IPV4)
    build = _BODIES.get(kind)
    body = payload if build is None else build(value, payload)
    tags = b"" if outer is None else struct.pack("!HH", 0x8100, outer)
    if value.get("vlan_vid", 0) & VLAN_PRESENT:
        tags += struct.pack("!HH", 0x8100, value["vlan_pcp"] << 13 | value["vlan_vid"] & 0xFFF)
    addresses = value["eth_dst"].to_bytes(6, "big") + value["eth_src"].to_bytes(6, "big")
    whole = addresses + tags + struct.pack("!H", kind) + body
    return whole + bytes(max(0, _LEAST + len(tags) - len(whole)))


def _ipv4(value: Fields, payload: bytes) -> bytes:
    source, target = (value[f"ipv4_{end}"].to_bytes(4, "big") for end in ("src", "dst"))
    proto = value.get("ip_proto", PROTO_UDP)

    def pseudo(length: int) -> bytes:
        return source + target + struct.pack("!BBH", 0, proto, length)

    inner = _transport(value, proto, payload, pseudo)
    tos = value["ip_dscp"] << 2 | value["ip_ecn"]
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(inner), 7, 0, 64, proto, 0)
    head += source + target
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + inner


def _ipv6(value: Fields, payload: bytes) -> bytes:
    source, target = (value[f"ipv6_{end}"].to_bytes(16, "big") for end in ("src", "dst"))
    proto = value.get("ip_proto", PROTO_UDP)

    def pseudo(length: int) -> bytes:
        return source + target + struct.pack("!II", length, proto)

    inner = _transport(value, proto, payload, pseudo)
    tos = value["ip_dscp"] << 2 | value["ip_ecn"]
    first = 6 << 28 | tos << 20 | value["ipv6_flabel"]
    # Neighbor discovery is valid with a hop limit of 255 alone (RFC 4861, section 7.1).
    return struct.pack("!IHBB", first, len(inner), proto, 255) + source + target + inner


def _transport(value: Fields, proto: int, payload: bytes, pseudo: Callable[[int], bytes]) -> bytes:
    def port(name: str, end: str) -> int:
        return value.get(f"{name}_{end}", _PORTS[end])

    if proto == PROTO_UDP:
        ports = port("udp", "src"), port("udp", "dst")
        whole = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
        return _filled(whole, 6, pseudo(len(whole)))
    if proto == PROTO_TCP:
        ports = port("tcp", "src"), port("tcp", "dst")
        whole = struct.pack("!HHIIHHHH", *ports, 1, 2, 0x5010, 1024, 0, 0) + payload
        return _filled(whole, 16, pseudo(len(whole)))
    if proto == PROTO_SCTP:
        head = struct.pack("!HHI", port("sctp", "src"), port("sctp", "dst"), 9)
        rest = payload + bytes(-len(payload) % 4)
        return head + struct.pack("<I", _crc32c(head + bytes(4) + rest)) + rest
    if proto == PROTO_ICMP:
        whole = struct.pack("!BBHI", value["icmpv4_type"], value["icmpv4_code"], 0, 1) + payload
        return _filled(whole, 2, b"")
    if proto == PROTO_ICMPV6:
        kind = value["icmpv6_type"]
        whole = struct.pack("!BBHI", kind, value["icmpv6_code"], 0, 0)
        if kind in (135, 136):
            option = ("ipv6_nd_sll", 1) if kind == 135 else ("ipv6_nd_tll", 2)
            whole += value["ipv6_nd_target"].to_bytes(16, "big") + struct.pack("!BB", option[1], 1)
            whole += value[option[0]].to_bytes(6, "big")
        else:
            whole += payload
        return _filled(whole, 2, pseudo(len(whole)))
    return payload


def _arp(value: Fields, payload: bytes) -> bytes:
    body = struct.pack("!HHBBH", 1, ETH_IPV4, 6, 4, value["arp_op"])
    for end in ("s", "t"):
        body += value[f"arp_{end}ha"].to_bytes(6, "big") + value[f"arp_{end}pa"].to_bytes(4, "big")
    return body


def _mpls(value: Fields, payload: bytes) -> bytes:
    label = struct.pack("!I", value["mpls_label"] << 12 | value["mpls_tc"] << 9 | 1 << 8 | 64)
    return label + _ipv4({**_DEFAULTS, **{k: v for k, v in value.items() if "ip" in k}}, payload)


_BODIES: dict[int, Callable[[Fields, bytes], bytes]] = {
    ETH_IPV4: _ipv4,
    ETH_IPV6: _ipv6,
    ETH_ARP: _arp,
    ETH_MPLS: _mpls,
}


def _filled(whole: bytes, at: int, pseudo: bytes) -> bytes:
    value = _checksum(pseudo + whole) or 0xFFFF
    return whole[:at] + struct.pack("!H", value) + whole[at + 2 :]


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _crc32c(data: bytes) -> int:
    """RFC 3309."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
