# SPDX-License-Identifier: Apache-2.0
"""Mean sizes of frames, with FCS, of whatever a scenario calls a size.

A size is a number of bytes, a mix by name, or `pcap:` with a mix or the path of a capture. The
lengths of a capture are read from it (pcap of either byte order, and pcapng).
"""

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

MIXES: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "imix-csit": ((64, 570, 1518), (28, 16, 4)),
    "imix-nfvbench": ((64, 594, 1518), (7, 4, 1)),
}
"""Sizes with FCS and how often each comes."""
CAPTURE = "pcap:"
FCS = 4
LEAST = 64
_CLASSIC = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">",
            b"\xa1\xb2\x3c\x4d": ">"}  # fmt: skip
_NEXT_GENERATION = b"\x0a\x0d\x0d\x0a"
_ENHANCED, _SIMPLE = 6, 3


def mean_of_mix(name: str) -> float:
    """The mean of a mix."""
    sizes, weights = MIXES[name]
    pairs = zip(sizes, weights, strict=True)
    return sum(size * weight for size, weight in pairs) / sum(weights)


def mean_bytes(size: str) -> float:
    """Mean frame size in bytes with FCS; not a number if a capture can't be read (any more)."""
    name = size.removeprefix(CAPTURE)
    if name in MIXES:
        return mean_of_mix(name)
    if size.startswith(CAPTURE):
        try:
            lengths = list(lengths_of(Path(name)))
        except (OSError, ValueError):
            return math.nan
        return sum(lengths) / len(lengths) if lengths else math.nan
    return float(size)


def lengths_of(path: Path) -> Iterator[int]:
    """The lengths of a capture's frames, with an FCS and at least 64.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no capture.
    """
    data = path.read_bytes()
    magic = data[:4]
    if magic == _NEXT_GENERATION:
        found = _of_next_generation(data)
    elif magic in _CLASSIC:
        found = _of_classic(data, _CLASSIC[magic])
    else:
        raise ValueError(f"{path} is no pcap or pcapng file")
    for length in found:
        yield max(LEAST, length + FCS)


def _of_classic(data: bytes, order: str) -> Iterator[int]:
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack_from(order + "II", data, at + 8)
        yield length
        at += 16 + captured


def _of_next_generation(data: bytes) -> Iterator[int]:
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    at = 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        if size < 12:
            return
        if kind == _ENHANCED and size >= 32:
            yield struct.unpack_from(order + "I", data, at + 24)[0]
        elif kind == _SIMPLE:
            yield struct.unpack_from(order + "I", data, at + 8)[0]
        at += size
