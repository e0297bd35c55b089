# SPDX-License-Identifier: Apache-2.0
"""Captures of our own making, from a published mix of sizes: traffic as a network has it.

Sizes are the mix's, in its ratio. What a mix does not say is chosen here, with one seed: nine of
ten packets are TCP and the rest UDP, and flows, which differ in addresses and ports, are as popular
as by Zipf's law (the r-th has a share of 1 / r). So a switch that remembers flows meets a few that
matter and a long tail, and headers differ in more than one address.
"""

import random
import struct
from pathlib import Path

import numpy as np

from headrace.bench.graph import SOURCE_MAC, vnf_mac
from headrace.bench.peers.frames import MINIMUM, ipv4_checksums, mac
from headrace.results.frame_sizes import FCS, MIXES

FRAMES = 4096
TCP, UDP = 6, 17
TCP_SHARE = 0.9
SEED = 7
_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
_RECORD = struct.Struct("<IIII")
_PORTS = (443, 80, 53, 22, 123, 8080)


def frames_of(mix: str, flows: int, count: int = FRAMES) -> list[bytes]:
    """Frames without FCS: sizes of the mix in its ratio, in random order."""
    draw = random.Random(f"{SEED} {mix} {flows}")  # noqa: S311
    sizes, weights = MIXES[mix]
    total = sum(weights)
    lengths = [
        size - FCS
        for size, weight in zip(sizes, weights, strict=True)
        for _ in range(round(count * weight / total))
    ]
    draw.shuffle(lengths)
    popularity = [1 / rank for rank in range(1, flows + 1)]
    chosen = draw.choices(range(flows), popularity, k=len(lengths))
    return [_frame(flow, length) for flow, length in zip(chosen, lengths, strict=True)]


def _frame(flow: int, length: int) -> bytes:
    draw = random.Random(f"{SEED} flow {flow}")  # noqa: S311
    protocol = TCP if draw.random() < TCP_SHARE else UDP
    # RFC 2544's benchmarking network: 198.18.0.0/15.
    source, destination = 0xC6120000 + draw.randrange(1 << 16), 0xC6130000 + flow % (1 << 16)
    ports = (draw.randrange(32768, 60999), draw.choice(_PORTS))
    header = struct.pack(
        "!BBHHHBBHII", 0x45, 0, length - 14, 0, 0x4000, 64, protocol, 0, source, destination
    )
    row = np.frombuffer(header, np.uint8).reshape(1, 20)
    checksum = bytes(ipv4_checksums(row)[0])
    header = header[:10] + checksum + header[12:]
    if protocol == TCP:
        upper = struct.pack("!HHIIBBHHH", *ports, flow, 0, 5 << 4, 0x10, 65535, 0, 0)
    else:
        upper = struct.pack("!HHHH", *ports, length - 34, 0)
    frame = mac(vnf_mac(0)) + mac(SOURCE_MAC) + b"\x08\x00" + header + upper
    return frame.ljust(max(MINIMUM, length), b"\0")


def write(path: Path, mix: str, flows: int) -> None:
    """Writes the capture of a mix: frames a microsecond apart."""
    out = [_HEADER]
    for at, frame in enumerate(frames_of(mix, flows)):
        out.append(_RECORD.pack(at // 1_000_000, at % 1_000_000, len(frame), len(frame)))
        out.append(frame)
    path.write_bytes(b"".join(out))
