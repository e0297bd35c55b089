# SPDX-License-Identifier: Apache-2.0
"""A bare OpenFlow 1.3 session for benchmarks: prepared messages out, barriers and errors in.

Messages are encoded before the clock starts, so that only the switch is timed.

Source: OpenFlow Switch Specification 1.3.5, sections 7.1, 7.3.4 and A.3; bundles: ONF EXT-230.
"""

import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

VERSION = 4
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, EXPERIMENTER = 0, 1, 2, 3, 4
PACKET_OUT = 13
FLOW_MOD, BARRIER_REQUEST, BARRIER_REPLY, METER_MOD = 14, 20, 21, 29
MULTIPART_REQUEST, MULTIPART_REPLY, PORT_STATS = 18, 19, 4
ADD, DELETE_STRICT = 0, 4
ONF_EXPERIMENTER = 0x4F4E4600
BUNDLE_CONTROL, BUNDLE_ADD = 2300, 2301
OPEN_REQUEST, COMMIT_REQUEST = 0, 4
ATOMIC_ORDERED = 3
NONE32 = 0xFFFFFFFF
NORMAL = 0xFFFFFFFA  # the port


class Refused(Exception):
    """The switch answered with an error."""


class Session:
    """A session on a bridge's management socket; a context manager."""

    def __init__(self, management: Path) -> None:
        """Connects and exchanges hello messages."""
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
        """Sends encoded messages."""
        self.connection.sendall(prepared)

    def barrier(self) -> None:
        """Waits until all sent messages are processed; Refused if any was rejected."""
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

    def dropped(self, port: int) -> int:
        """Packets that a port did not take so far."""
        self.send(message(MULTIPART_REQUEST, struct.pack("!HH4xI4x", PORT_STATS, 0, port)))
        # ofp_port_stats has rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped.
        return int(struct.unpack_from("!Q", self.wait(MULTIPART_REPLY), 8 + 8 + 40)[0])

    def wait(self, awaited: int) -> bytes:
        """The body of the next message of this type; echo requests are answered meanwhile."""
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
    fields = _oxm(5, 2, 0x0800, 0xFFFF)
    mask = NONE32 << (32 - prefix) & NONE32
    fields += _oxm(12, 4, address & mask, mask)
    return _match(fields)


def five_tuple_match(value: Sequence[int], mask: Sequence[int]) -> bytes:
    """An entry of an IPv4 rule set (rulesets.py): its three words, and their masks."""
    protocol, protocol_mask = value[2] >> 32, mask[2] >> 32
    fields = _oxm(5, 2, 0x0800, 0xFFFF)
    if protocol_mask:
        fields += _oxm(10, 1, protocol, 0xFF)
    fields += _oxm(11, 4, value[0], mask[0]) + _oxm(12, 4, value[1], mask[1])
    first = {6: 13, 17: 15}.get(protocol, 0)  # tcp_src, udp_src; the destination's is the next
    for field, shift in ((first, 16), (first + 1, 0)):
        fields += _oxm(field, 2, value[2] >> shift & 0xFFFF, mask[2] >> shift & 0xFFFF)
    return _match(fields)


def _oxm(field: int, size: int, value: int, mask: int) -> bytes:
    """One field of a match; none where the mask is 0."""
    if mask == 0:
        return b""
    exact = mask == (1 << 8 * size) - 1
    octets = value.to_bytes(size, "big") + (b"" if exact else mask.to_bytes(size, "big"))
    return struct.pack("!HBB", 0x8000, field << 1 | (not exact), len(octets)) + octets


def _match(fields: bytes) -> bytes:
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def flow_mod(
    command: int, priority: int, match: bytes, output: int | None, xid: int = 0, table: int = 0
) -> bytes:
    """A flow-mod whose only action, if any, is an output."""
    instructions = b""
    if output is not None:
        action = _output(output)
        instructions = struct.pack("!HH4x", 4, 8 + len(action)) + action
    fixed = struct.pack(
        "!QQBBHHHIIIH2x", 0, 0, table, command, 0, 0, priority, NONE32, NONE32, NONE32, 0
    )
    return message(FLOW_MOD, fixed + match + instructions, xid)


def _output(port: int) -> bytes:
    return struct.pack("!HHIH6x", 0, 16, port, 0)


def packet_out(in_port: int, output: int, frame: bytes) -> bytes:
    """A packet-out of a frame as if received on `in_port`."""
    action = _output(output)
    head = struct.pack("!IIH6x", NONE32, in_port, len(action))
    return message(PACKET_OUT, head + action + frame)


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
