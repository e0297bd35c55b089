# SPDX-License-Identifier: Apache-2.0
"""A stream in TRex's terms: a packet, and the instructions that vary it by flow."""

from __future__ import annotations

import ipaddress
import struct
from typing import Any

from headrace.traffic.models import StreamSpec, Variation

FCS = 4
IMIXES = {
    "imix-nfvbench": {64: 7, 594: 4, 1518: 1},
    "imix-csit": {64: 7, 570: 4, 1518: 1},
}
GENOME = dict(zip("abcdefghz", (64, 128, 256, 512, 1024, 1280, 1518, 2112, 9018), strict=True))


class Unsupported(ValueError):
    """This driver cannot express the stream."""


def size_weights(size: int | str) -> dict[int, int]:
    """Frame sizes (with FCS) and their weights. Raises Unsupported."""
    if isinstance(size, int):
        return {size: 1}
    if size in IMIXES:
        return dict(IMIXES[size])
    letters = size.removeprefix("imix-genome:")
    if letters == size or not letters or not set(letters) <= set(GENOME):
        raise Unsupported(f"size: no IMIX {size!r}")
    weights: dict[int, int] = {}
    for letter in letters:
        weights[GENOME[letter]] = weights.get(GENOME[letter], 0) + 1
    return dict(sorted(weights.items()))


def _mac(text: str) -> bytes:
    try:
        mac = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        mac = b""
    if len(mac) != 6:
        raise Unsupported(f"{text!r} is not a MAC address")
    return mac


def _sum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _offsets(spec: StreamSpec) -> tuple[int, dict[str, tuple[int, int]]]:
    """The offset of the IPv4 header, and (offset, bytes) of each field that may vary."""
    ip = 14 if spec.vlan is None else 18
    fields = {
        "eth_dst": (2, 4),
        "eth_src": (8, 4),
        "ipv4_src": (ip + 12, 4),
        "ipv4_dst": (ip + 16, 4),
        "udp_src": (ip + 20, 2),
        "udp_dst": (ip + 22, 2),
    }
    return ip, fields


def packet(spec: StreamSpec, size: int) -> bytes:
    """The frame of `spec` with `size` bytes (with FCS, which is not in it).

    Ethernet, VLAN if set, IPv4, UDP; raises Unsupported for anything else.
    """
    if spec.layers is not None:
        raise Unsupported("layers: only Ethernet, VLAN, IPv4 and UDP go to TRex")
    head = _mac(spec.dst_mac or "02:00:00:00:00:02") + _mac(spec.src_mac or "02:00:00:00:00:01")
    if spec.vlan is not None:
        head += struct.pack(">HH", 0x8100, spec.vlan)
    head += struct.pack(">H", 0x0800)
    length = size - FCS - len(head)
    try:
        src = ipaddress.IPv4Address(spec.src_ip or "198.18.0.1").packed
        dst = ipaddress.IPv4Address(spec.dst_ip or "198.19.0.1").packed
    except ValueError as error:
        raise Unsupported(f"only IPv4 goes to TRex: {error}") from error
    ip = struct.pack(">BBHIBBH4s4s", 0x45, 0, length, 0, 64, 17, 0, src, dst)
    ip = ip[:10] + struct.pack(">H", _sum(ip)) + ip[12:]
    ports = (
        49152 if spec.src_port is None else spec.src_port,
        9 if spec.dst_port is None else spec.dst_port,
    )
    udp = struct.pack(">HHHH", *ports, length - 20, 0)
    return (head + ip + udp).ljust(size - FCS, b"\0")


def program(spec: StreamSpec) -> list[dict[str, Any]]:
    """Instructions of TRex's stream machine that make `spec.flows` packets of one."""
    if spec.popularity not in (None, "uniform"):
        raise Unsupported("popularity: only uniform goes to TRex")
    if spec.flows == 1:
        return []
    frame = packet(spec, 1518)
    ip, fields = _offsets(spec)
    instructions: list[dict[str, Any]] = []
    for varied in spec.vary or ["ipv4_dst"]:
        variation = varied if isinstance(varied, Variation) else Variation(field=varied)
        if variation.field not in fields:
            raise Unsupported(f"vary: {variation.field} cannot vary on TRex")
        offset, size = fields[variation.field]
        base = int.from_bytes(frame[offset : offset + size], "big")
        count = min(spec.flows, variation.count or spec.flows)
        last = base + variation.step * (count - 1)
        if last >= 1 << (8 * size):
            raise Unsupported(f"vary: {variation.field} overflows at {count} values")
        name = f"v{len(instructions)}"
        instructions += [
            {
                "type": "flow_var",
                "name": name,
                "size": size,
                "op": "inc",
                "init_value": base,
                "min_value": base,
                "max_value": last,
                "step": variation.step,
            },
            {
                "type": "write_flow_var",
                "name": name,
                "pkt_offset": offset,
                "add_value": 0,
                "is_big_endian": True,
            },
        ]
    return [*instructions, {"type": "fix_checksum_ipv4", "pkt_offset": ip}]
