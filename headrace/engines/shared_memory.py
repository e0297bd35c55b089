# SPDX-License-Identifier: Apache-2.0
"""Attaches to a Headrace port on behalf of a virtual machine (dataplane/shm/attach.h).

A process attaches itself: it asks at the trust group's socket, gets the region as a file
descriptor, and keeps the connection open, whose end tells the switch to take back what it held. A
VM cannot ask, so whoever starts QEMU does, and lets QEMU inherit both descriptors: the region
becomes an ivshmem device, and the connection ends when QEMU does, however it dies.
"""

import array
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MAGIC = 0x3154524F50415248
_VERSION = (3, 0)
_REQUEST = struct.Struct("<QHHI40s")
_REPLY = struct.Struct("<iI")
_TIMEOUT_S = 5.0


class AttachError(Exception):
    """The switch refuses, or nobody is there; the text names the port and why.

    `is_busy`: the port has a user, or the switch still takes back what its last one held.
    """

    def __init__(self, message: str, *, is_busy: bool = False) -> None:
        super().__init__(message)
        self.is_busy = is_busy


@dataclass(frozen=True)
class Attachment:
    """A region and the ports attached in it: descriptors to be inherited, and the file's octets."""

    region: int
    connections: tuple[int, ...]
    size: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that the user of the ports has to keep open."""
        return (self.region, *self.connections)


@contextmanager
def attached(socket_path: Path, *ports: str) -> Iterator[Attachment]:
    """Attaches to `ports` of one region; our own descriptors are closed at the end.

    Raises:
        AttachError: a port is not there or in use, or the region's size does not fit a PCI BAR.
    """
    with contextlib.ExitStack() as stack:
        regions: list[int] = []
        connections: list[int] = []
        for port in ports:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            region = _ask(connection, socket_path, port)
            stack.callback(os.close, region)
            regions.append(region)
            connections.append(connection.fileno())
        size = os.fstat(regions[0]).st_size
        if size & (size - 1):
            raise AttachError(
                f"{socket_path}: the region has {size} octets, which fit no PCI BAR; set "
                f"options:ivshmem=true on its ports"
            )
        yield Attachment(regions[0], tuple(connections), size)


def _ask(connection: socket.socket, path: Path, port: str) -> int:
    """Asks for a port; the region's descriptor."""
    connection.settimeout(_TIMEOUT_S)
    try:
        connection.connect(str(path))
        connection.sendall(_REQUEST.pack(_MAGIC, *_VERSION, os.getpid(), port.encode()))
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        answer, passed, _, _ = connection.recvmsg(_REPLY.size, room, socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        raise AttachError(f"port {port} at {path}: {error}") from error
    if len(answer) != _REPLY.size:
        raise AttachError(f"port {port} at {path}: the switch hung up")
    status, _ = _REPLY.unpack(answer)
    if status != 0:
        text = f"port {port} at {path}: {os.strerror(-status)}"
        raise AttachError(text, is_busy=-status == errno.EBUSY)
    for level, kind, data in passed:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            return int(array.array("i", data[: array.array("i").itemsize])[0])
    raise AttachError(f"port {port} at {path}: no region came with the answer")
