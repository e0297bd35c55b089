# SPDX-License-Identifier: Apache-2.0
"""Sends and receives whole frames on kernel interfaces, in any network namespace."""

import asyncio
import ctypes
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 8, 23
_TP_STATUS_VLAN_VALID = 1 << 4
_CLONE_NEWNET = 0x40000000

T = TypeVar("T")


def in_namespace(path: str, work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own that has entered the namespace file `path`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        namespace = os.open(path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {path}")
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            os.close(namespace)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


class Wire:
    """A raw socket on one interface; use as a context manager."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind((interface, _ETH_P_ALL))
        self._socket.setblocking(False)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        """Sends one frame (without FCS)."""
        self._socket.send(frame)

    async def receive(self, count: int, patience_s: float = 3.0) -> list[bytes]:
        """The next `count` frames, fewer if they do not come in time."""
        frames: list[bytes] = []
        deadline = time.monotonic() + patience_s
        while len(frames) < count and time.monotonic() < deadline:
            try:
                frames.append(self._next())
            except BlockingIOError:
                await asyncio.sleep(0.005)
        return frames

    def drain(self) -> None:
        """Drops what has come and was not received."""
        with suppress(BlockingIOError):
            while True:
                self._next()

    def _next(self) -> bytes:
        data, ancillary, _, _ = self._socket.recvmsg(2048, socket.CMSG_SPACE(20))
        for level, kind, auxiliary in ancillary:
            if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
                # struct tpacket_auxdata: the kernel has taken the outer tag out of the frame.
                status, _, _, _, _, tci, protocol = struct.unpack("=IIIHHHH", auxiliary[:20])
                if status & _TP_STATUS_VLAN_VALID:
                    return data[:12] + struct.pack("!HH", protocol or 0x8100, tci) + data[12:]
        return data


def udp(
    payload: bytes = b"x" * 18,
    *,
    source_mac: str = "02:00:00:00:00:01",
    dest_mac: str = "02:00:00:00:00:02",
    source: str = "10.0.0.1",
    dest: str = "10.0.0.2",
    source_port: int = 1000,
    dest_port: int = 2000,
    tags: tuple[int, ...] = (),
) -> bytes:
    """An Ethernet frame with IPv4 and UDP (no UDP checksum), with 802.1Q tags outermost first."""
    datagram = struct.pack("!HHHH", source_port, dest_port, 8 + len(payload), 0) + payload
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        20 + len(datagram),
        0,
        0,
        64,
        17,
        0,
        socket.inet_aton(source),
        socket.inet_aton(dest),
    )
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]
    ethernet = bytes.fromhex(dest_mac.replace(":", "") + source_mac.replace(":", ""))
    stack = b"".join(struct.pack("!HH", 0x8100, tag) for tag in tags)
    return ethernet + stack + b"\x08\x00" + header + datagram
