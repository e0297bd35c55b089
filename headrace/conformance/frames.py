# SPDX-License-Identifier: Apache-2.0
"""The frames of the functional tests: UDP over IPv4, each with a number that tells it from others.

What comes out of a node is found by its number, wherever it comes out and whatever was done to its
headers; frames of others on the same wire (neighbor discovery, spanning tree) have none.
"""

import ipaddress
import itertools
import struct
from dataclasses import dataclass

MAGIC = b"headrace-conformance"
SOURCE_MAC, TARGET_MAC = "02:48:52:c0:00:01", "02:48:52:c0:00:02"
SOURCE_IP, TARGET_IP = "198.18.0.1", "198.19.0.1"
"""Of RFC 2544's range for tests."""

_VLAN = 0x8100
_NUMBER = struct.Struct("!I")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Frame:
    """A frame without its FCS. `tags` are its VLANs, the outermost first."""

    number: int
    octets: bytes

    @property
    def tags(self) -> tuple[int, ...]:
        """The VLAN identifiers, the outermost first."""
        return tags_of(self.octets)


def frame(
    *,
    tags: tuple[int, ...] = (),
    source: str = SOURCE_IP,
    target: str = TARGET_IP,
    port: int = 9,
    size: int = 64,
    source_mac: str = SOURCE_MAC,
    target_mac: str = TARGET_MAC,
) -> Frame:
    """A frame with a number of its own; `size` counts the FCS, tags come on top."""
    number = next(_numbers)
    payload = MAGIC + _NUMBER.pack(number)
    payload += bytes(max(0, size - 4 - 14 - 20 - 8 - len(payload)))
    datagram = struct.pack("!HHHH", 49152, port, 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0)
    header += ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    ethernet = _mac(target_mac) + _mac(source_mac)
    stack = b"".join(struct.pack("!HH", _VLAN, tag) for tag in tags)
    return Frame(number, ethernet + stack + b"\x08\x00" + header + datagram)


def seen(octets: bytes) -> Frame | None:
    """The frame that came, if it is one of these tests."""
    at = octets.find(MAGIC)
    if at < 0 or len(octets) < at + len(MAGIC) + _NUMBER.size:
        return None
    return Frame(_NUMBER.unpack_from(octets, at + len(MAGIC))[0], octets)


def tags_of(octets: bytes) -> tuple[int, ...]:
    """The VLAN identifiers of a frame, the outermost first."""
    found: list[int] = []
    at = 12
    while octets[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        found.append(int.from_bytes(octets[at + 2 : at + 4], "big") & 0xFFF)
        at += 4
    return tuple(found)


def without_tags(octets: bytes) -> bytes:
    """A frame without its VLAN tags."""
    return octets[:12] + octets[12 + 4 * len(tags_of(octets)) :]


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
