# SPDX-License-Identifier: Apache-2.0
"""Builds small frames, byte by byte, for tests that check what comes out."""

from __future__ import annotations

import ipaddress
import struct


def mac(text: str) -> bytes:
    """Six octets of `xx:xx:xx:xx:xx:xx`."""
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(
    *,
    eth_dst: str = "02:00:00:00:00:02",
    eth_src: str = "02:00:00:00:00:01",
    ip_src: str = "10.0.0.1",
    ip_dst: str = "10.0.0.2",
    udp_src: int = 1000,
    udp_dst: int = 2000,
    ttl: int = 64,
    vlan: int | None = None,
    payload: bytes = b"headrace",
    size: int = 60,
) -> bytes:
    """An Ethernet frame with IPv4 and UDP, padded to `size` octets (without FCS)."""
    source, destination = ipaddress.IPv4Address(ip_src), ipaddress.IPv4Address(ip_dst)
    pad = max(0, size - 14 - 20 - 8 - len(payload) - (4 if vlan is not None else 0))
    payload += bytes(pad)
    udp_length = 8 + len(payload)
    udp = struct.pack("!HHHH", udp_src, udp_dst, udp_length, 0) + payload
    pseudo = source.packed + destination.packed + struct.pack("!BBH", 0, 17, udp_length)
    udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + udp_length, 0, 0, ttl, 17, 0)
    ip += source.packed + destination.packed
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    tag = b"" if vlan is None else struct.pack("!HH", 0x8100, vlan)
    return mac(eth_dst) + mac(eth_src) + tag + b"\x08\x00" + ip + udp
