# SPDX-License-Identifier: Apache-2.0
"""Carries TCP connections from ports of the host to ports of a program in its network namespace.

Run as a script, by its path: `python -I -S forwarder.py SETTINGS`; SETTINGS is the JSON of
`Forwarding`. It listens on the host, enters the namespace, gives up root, writes an octet to
`ready_at`, and connects to the program's address for each connection that it accepts: that of its
loopback interface, or of a management NIC whose other end is in a namespace of its own. So nothing
of the host can be reached from within: there is no interface between the two. It ends when the
program does, since a namespace lives as long as anyone is in it. It imports nothing of the package.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import resource
import socket
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNET = 0x4000_0000
_CONNECTIONS = 64
_CHUNK = 1 << 16
_CONNECT_S = 10.0


@dataclass(frozen=True)
class Forwarding:
    """From `address`:`ports[n][0]` of the host to port `ports[n][1]` of the process `pid`.

    It connects from the network namespace at the path `network`, to the address `to`.
    """

    address: str
    ports: tuple[tuple[int, int], ...]
    pid: int
    user: int
    network: str
    to: str
    ready_at: int

    def command(self) -> list[str]:
        """What runs it."""
        settings = json.dumps(asdict(self))
        return [sys.executable, "-I", "-S", str(Path(__file__)), settings]


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        raise OSError(error.errno, f"host port {port} at {address}: {error.strerror}") from error
    listener.listen(_CONNECTIONS)
    return listener


def _enter(network: str, user: int) -> None:
    """Goes into the network and becomes the program's user, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(network) as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(_CHUNK):
            writer.write(part)
            await writer.drain()
        writer.write_eof()


async def _serve(listeners: dict[int, socket.socket], to: str, ended: int) -> None:
    count = 0

    async def carry(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        try:
            if count > _CONNECTIONS:
                return
            inner = asyncio.open_connection(to, port)
            far_reader, far_writer = await asyncio.wait_for(inner, _CONNECT_S)
            try:
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            finally:
                far_writer.close()
        except (OSError, TimeoutError):
            pass  # the program does not listen (yet): the client sees its connection end
        finally:
            count -= 1
            writer.close()

    done = asyncio.Event()
    asyncio.get_running_loop().add_reader(ended, done.set)
    for port, listener in listeners.items():
        await asyncio.start_server(partial(carry, port), sock=listener)
    await done.wait()


def main(text: str) -> None:
    """Does all this until the process ends."""
    values = json.loads(text)
    ended = os.pidfd_open(values["pid"])
    listeners = {inner: _listen(values["address"], outer) for outer, inner in values["ports"]}
    _enter(values["network"], values["user"])
    os.write(values["ready_at"], b"1")
    os.close(values["ready_at"])
    asyncio.run(_serve(listeners, values["to"], ended))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(error.strerror or str(error))
