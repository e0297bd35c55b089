# SPDX-License-Identifier: Apache-2.0
"""A bare OpenFlow 1.3 session for benchmarks: prepared messages out, barriers and errors in.

Messages are prepared as bytes before the clock starts, so that what is timed is the switch.

Source: OpenFlow Switch Specification 1.3.5, sections 7.1, 7.3.4 and A.3; bundles: ONF EXT-230.
"""

import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

VERSION = 4
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, EXPERIMENTER = 0, 1, 2, 3, 4
FLOW_MOD, BARRIER_REQUEST, BARRIER_REPLY, METER_MOD = 14, 20, 21, 29
MULTIPART_REQUEST, MULTIPART_REPLY, PORT_STATS = 18, 19, 4
ADD, DELETE_STRICT = 0, 4
ONF_EXPERIMENTER = 0x4F4E4600
BUNDLE_CONTROL, BUNDLE_ADD = 2300, 2301
OPEN_REQUEST, COMMIT_REQUEST = 0, 4
ATOMIC_ORDERED = 3
NONE32 = 0xFFFFFFFF


class Refused(Exception):
    """The switch answered with an error."""


class Session:
    """A session on a bridge's management socket; a context manager."""

    def __init__(self, management: Path) -> None:
        """Connects and says hello."""
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(120)
        self.connection.connect(str(management))
        self.reader = self.connection.makefile("rb")
        self.xid = 0
        self.send(message(HELLO, b""))

    def __enter__(self) -> Self:
        """The session."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connection."""
        self.reader.close()
        self.connection.close()

    def send(self, prepared: bytes) -> None:
        """Sends messages as they are."""
        self.connection.sendall(prepared)

    def barrier(self) -> None:
        """Waits until all that was sent is done; Refused if any of it was."""
        self.xid += 1
        self.send(message(BARRIER_REQUEST, b"", self.xid))
        self.wait(BARRIER_REPLY)

    def transmitted(self, port: int) -> int:
        """Packets sent out of a port so far."""
        return self.port_packets(port)[1]

    def port_packets(self, port: int) -> tuple[int, int]:
        """Packets received and sent by a port so far."""
        request = struct.pack("!HH4xI4x", PORT_STATS, 0, port)
        self.send(message(MULTIPART_REQUEST, request))
        # The multipart header, then ofp_port_stats: port_no, pad, rx_packets, tx_packets.
        received, sent = struct.unpack_from("!QQ", self.wait(MULTIPART_REPLY), 8 + 8)
        return int(received), int(sent)

    def wait(self, awaited: int) -> bytes:
        """The body of the next message of this type; echoes are answered on the way."""
        while True:
            header = self.reader.read(8)
            if len(header) < 8:
                raise Refused("the switch closed the session")
            _, kind, length, xid = struct.unpack("!BBHI", header)
            body = self.reader.read(length - 8)
            if kind == ERROR:
                error, code = struct.unpack("!HH", body[:4])
                raise Refused(f"error type {error} code {code} to message {xid}")
            if kind == ECHO_REQUEST:
                self.send(message(ECHO_REPLY, body, xid))
            if kind == awaited:
                return bytes(body)


def message(kind: int, body: bytes, xid: int = 0) -> bytes:
    """One message with its header."""
    return struct.pack("!BBHI", VERSION, kind, 8 + len(body), xid) + body


def ipv4_match(address: int, prefix: int) -> bytes:
    """eth_type=0x0800 and an IPv4 destination prefix, padded to 8 octets."""
    fields = struct.pack("!HBBH", 0x8000, 5 << 1, 2, 0x0800)
    if prefix == 32:
        fields += struct.pack("!HBBI", 0x8000, 12 << 1, 4, address)
    elif prefix > 0:
        mask = NONE32 << (32 - prefix) & NONE32
        fields += struct.pack("!HBBII", 0x8000, 12 << 1 | 1, 8, address & mask, mask)
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def flow_mod(
    command: int, priority: int, match: bytes, output: int | None, xid: int = 0, table: int = 0
) -> bytes:
    """A flow-mod whose only action, if any, is an output."""
    instructions = b""
    if output is not None:
        action = struct.pack("!HHIH6x", 0, 16, output, 0)
        instructions = struct.pack("!HH4x", 4, 8 + len(action)) + action
    fixed = struct.pack(
        "!QQBBHHHIIIH2x", 0, 0, table, command, 0, 0, priority, NONE32, NONE32, NONE32, 0
    )
    return message(FLOW_MOD, fixed + match + instructions, xid)


def bundle(messages: list[bytes]) -> bytes:
    """The messages as one atomic, ordered bundle."""

    def control(kind: int) -> bytes:
        head = struct.pack("!IIIHH", ONF_EXPERIMENTER, BUNDLE_CONTROL, 1, kind, ATOMIC_ORDERED)
        return message(EXPERIMENTER, head)

    head = struct.pack("!IIIHH", ONF_EXPERIMENTER, BUNDLE_ADD, 1, 0, ATOMIC_ORDERED)
    # The inner message carries the same transaction number as the one around it: 0.
    added = [message(EXPERIMENTER, head + inner) for inner in messages]
    return b"".join([control(OPEN_REQUEST), *added, control(COMMIT_REQUEST)])


def meter_mod(meter: int, rate_kbps: int) -> bytes:
    """Adds a meter with one drop band, in kbps, with burst and statistics."""
    band = struct.pack("!HHII4x", 1, 16, rate_kbps, rate_kbps // 10)
    return message(METER_MOD, struct.pack("!HHI", 0, 1 | 4 | 8, meter) + band, meter)
