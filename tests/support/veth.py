# SPDX-License-Identifier: Apache-2.0
"""Pairs of virtual Ethernet interfaces, and raw frames into and out of them."""

from __future__ import annotations

import itertools
import os
import select
import socket
import struct
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.janitor import removed_at_the_latest

_numbers = itertools.count()
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SOL_PACKET = 263
_PACKET_AUXDATA = 8
_VLAN_VALID = 0x10
_VLAN_TPID_VALID = 0x40


class VethPair:
    """`near` is for the switch, `far` for the test; both are up, without IPv6 noise."""

    def __init__(self) -> None:
        stem = f"hr{os.getpid() % 100000}{next(_numbers):x}"
        self.near = f"{stem}n"
        self.far = f"{stem}f"
        self._notes = ExitStack()

    def __enter__(self) -> Self:
        self._notes.enter_context(removed_at_the_latest("link", self.near))
        _ip("link", "add", self.near, "type", "veth", "peer", "name", self.far)
        for interface in (self.near, self.far):
            setting = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
            if setting.exists():
                setting.write_text("1")
            _ip("link", "set", interface, "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        subprocess.run(["ip", "link", "del", self.near], check=False, capture_output=True)
        self._notes.close()


class RawPort:
    """Sends and receives whole frames (without FCS) at a kernel interface."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        # The kernel takes a VLAN tag out of the frame and tells it beside.
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.bind((interface, 0))

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """For select()."""
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        """Sends one frame."""
        self._socket.send(frame)

    def receive(self, count: int, timeout_s: float = 3.0) -> list[bytes]:
        """Up to `count` frames that came in, fewer when time runs out."""
        frames: list[bytes] = []
        end = time.monotonic() + timeout_s
        while len(frames) < count:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                break
            data, beside, _, address = self._socket.recvmsg(65535, 64)
            if address[2] != _PACKET_OUTGOING:
                frames.append(_with_tag(data, beside))
        return frames

    def silence(self, seconds: float = 0.3) -> list[bytes]:
        """What comes in during that time; a test that expects nothing compares with []."""
        return self.receive(1 << 30, seconds)


def _with_tag(frame: bytes, beside: list[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the wire (struct tpacket_auxdata, linux/if_packet.h)."""
    for level, kind, data in beside:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
            if status & _VLAN_VALID:
                kind_of_tag = tpid if status & _VLAN_TPID_VALID else 0x8100
                return frame[:12] + struct.pack("!HH", kind_of_tag, tci) + frame[12:]
    return frame


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
