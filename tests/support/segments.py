# SPDX-License-Identifier: Apache-2.0
"""TCP over IPv4 and IPv6, as senders leave it to others: partial checksums and large segments."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from tests.support.frames import checksum, mac

ETHERNET, TCP_HEADER = 14, 20
TCP, CHECKSUM_AT = 6, 16
FIN, PSH, ACK = 0x01, 0x08, 0x10


def _fold(data: bytes) -> int:
    """A sum that is not complemented, as a partial checksum is."""
    return checksum(data) ^ 0xFFFF


@dataclass(frozen=True)
class Segment:
    """A TCP packet with `payload`, whose flags end a stream; `ipv6` says by what it goes."""

    payload: bytes
    ipv6: bool = False
    sequence: int = 0xFFFF_FF00
    identification: int = 0xFFFE
    flags: int = FIN | PSH | ACK

    @property
    def network_header(self) -> int:
        """Octets of the IP header."""
        return 40 if self.ipv6 else 20

    @property
    def l4(self) -> int:
        """Where TCP begins in the frame."""
        return ETHERNET + self.network_header

    @property
    def headers(self) -> int:
        """Octets in front of the payload."""
        return self.l4 + TCP_HEADER

    def _addresses(self) -> bytes:
        prefix = "fd00:8::" if self.ipv6 else "10.0.0."
        return b"".join(ipaddress.ip_address(f"{prefix}{end}").packed for end in (1, 2))

    def _pseudo_header(self) -> bytes:
        octets = TCP_HEADER + len(self.payload)
        form = "!IHBB" if self.ipv6 else "!BBH"
        rest = (octets, 0, 0, TCP) if self.ipv6 else (0, TCP, octets)
        return self._addresses() + struct.pack(form, *rest)

    def _ip(self) -> bytes:
        octets = TCP_HEADER + len(self.payload)
        if self.ipv6:
            return struct.pack("!IHBB", 6 << 28, octets, TCP, 64) + self._addresses()
        head = struct.pack(
            "!BBHHHBBH", 0x45, 0, 20 + octets, self.identification, 0x4000, 64, TCP, 0
        )
        head += self._addresses()
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:]

    def frame(self, *, partial: bool) -> bytes:
        """The frame; `partial`: its checksum is the pseudo-header's sum."""
        tcp = struct.pack("!HHIIBBHHH", 1000, 2000, self.sequence, 1, 5 << 4, self.flags, 512, 0, 0)
        value = _fold(self._pseudo_header())
        if not partial:
            value = checksum(self._pseudo_header() + tcp + self.payload)
        tcp = tcp[:CHECKSUM_AT] + struct.pack("!H", value) + tcp[CHECKSUM_AT + 2 :]
        macs = mac("02:00:00:00:00:02") + mac("02:00:00:00:00:01")
        kind = b"\x86\xdd" if self.ipv6 else b"\x08\x00"
        return macs + kind + self._ip() + tcp + self.payload

    def cut(self, size: int) -> list[bytes]:
        """The frames that are to be on a wire, with `size` octets of payload each."""
        starts = range(0, len(self.payload), size)
        return [
            Segment(
                self.payload[at : at + size],
                self.ipv6,
                (self.sequence + at) & 0xFFFF_FFFF,
                (self.identification + number) & 0xFFFF,
                self.flags if at == starts[-1] else self.flags & ~(FIN | PSH),
            ).frame(partial=False)
            for number, at in enumerate(starts)
        ]
