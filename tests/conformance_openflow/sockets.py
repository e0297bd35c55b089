# SPDX-License-Identifier: Apache-2.0
"""The packet sockets by which Open vSwitch receives from kernel devices: their queues and losses.

ovs-vswitchd leaves a socket the kernel's default queue (`net.core.rmem_default`, usually 208 KiB):
97 frames of 1500 octets, 5 ms of a throughput test. A tester that is off its core for longer loses
frames of which its port counters know nothing. The sockets are reached with pidfd_getfd(2), so
nothing that other programs see is changed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
from contextlib import suppress
from pathlib import Path

QUEUE_BYTES = 16 << 20
"""What a socket's queue holds; the kernel counts some 2300 octets for a frame of 1500."""

# From the kernel's headers; none of them is in Python's socket or os.
_PIDFD_GETFD = 438
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")
_MEMINFO_DROPS = 8


def _descriptor_of(process: int, number: int) -> int:
    """A descriptor of ours for what `number` is in the process of the pidfd `process`."""
    libc = ctypes.CDLL(None, use_errno=True)
    ours = int(libc.syscall(_PIDFD_GETFD, process, number, 0))
    if ours < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"pidfd_getfd: {os.strerror(error)} (kernel {platform.release()})")
    return ours


class PacketSockets:
    """All AF_PACKET sockets that process `pid` has now, with longer queues from now on."""

    def __init__(self, pid: int) -> None:
        self._sockets: list[socket.socket] = []
        # Listed before we open descriptors: the process may be our own.
        links = list(Path(f"/proc/{pid}/fd").iterdir())
        process = os.pidfd_open(pid)
        try:
            for link in links:
                # A descriptor may be closed between listing and looking.
                with suppress(FileNotFoundError):
                    if link.readlink().name.startswith("socket:"):
                        self._take(socket.socket(fileno=_descriptor_of(process, int(link.name))))
        finally:
            os.close(process)

    def _take(self, one: socket.socket) -> None:
        if one.family != socket.AF_PACKET:
            one.close()
            return
        one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, QUEUE_BYTES)
        self._sockets.append(one)

    def __len__(self) -> int:
        return len(self._sockets)

    def lost(self) -> int:
        """Frames that found no room in one of the queues, since the sockets were made."""
        return sum(
            _MEMINFO.unpack(one.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[
                _MEMINFO_DROPS
            ]
            for one in self._sockets
        )

    def close(self) -> None:
        """Lets go of the sockets; the process keeps them."""
        for one in self._sockets:
            one.close()
