# SPDX-License-Identifier: Apache-2.0
"""Single frames on kernel interfaces that are cabled to a node's ports, and pairs made for that.

node's port p0  ==  near end - far end  <- raw socket: sends, captures
"""

import asyncio
import contextlib
import itertools
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.conformance.frames import Frame, seen

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 8, 23
_VLAN_VALID, _TPID_VALID = 0x10, 0x40
_BUFFER = 8 << 20
_numbers = itertools.count()
_AT_ONCE = 64
"""Frames after which the sender lets the receiver run, so that no queue overflows."""


Noted = Callable[[str, str | Path], AbstractContextManager[None]]
"""Within it a thing (its kind: `node`, `link`; its name) is there: for whoever must know."""


def unnoted(_: str, __: str | Path) -> AbstractContextManager[None]:
    """Nobody has to know."""
    return nullcontext()


class KernelPort:
    """A raw socket on an interface."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        # The kernel takes a VLAN tag out of the frame and tells it beside.
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.bind((interface, _ETH_P_ALL))
        self._socket.setblocking(False)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def send(self, octets: bytes) -> None:
        """Sends one frame."""
        self._socket.send(octets)

    def received(self) -> Iterator[Frame]:
        """The frames of these tests that have come, and are not yet taken."""
        with contextlib.suppress(BlockingIOError):
            while True:
                found = seen(self._next())
                if found is not None:
                    yield found

    def _next(self) -> bytes:
        data, beside, _, _ = self._socket.recvmsg(65535, socket.CMSG_SPACE(20))
        for level, kind, auxiliary in beside:
            if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", auxiliary[:20])
                if status & _VLAN_VALID:
                    protocol = tpid if status & _TPID_VALID else 0x8100
                    return data[:12] + struct.pack("!HH", protocol, tci) + data[12:]
        return data


class KernelFrames:
    """Frames at the interfaces that are cabled to the node's ports.

    Args:
        interfaces: by the node's names of its ports.
        patience_s: how long a frame may take from port to port.
    """

    def __init__(self, interfaces: Mapping[str, str], patience_s: float = 1.0) -> None:
        self.ports = tuple(interfaces)
        self._patience_s = patience_s
        self._open = {port: KernelPort(name) for port, name in interfaces.items()}

    def close(self) -> None:
        """Closes the sockets."""
        for port in self._open.values():
            port.close()

    async def exchange(
        self, sent: Sequence[tuple[str, Frame]], expected: int | None = None
    ) -> Mapping[str, list[Frame]]:
        """See packets.Frames; what is still under way from before does not count."""
        for port in self._open.values():
            list(port.received())
        wanted = {frame.number for _, frame in sent}
        came: dict[str, list[Frame]] = {name: [] for name in self.ports}

        def take() -> int:
            for name, port in self._open.items():
                came[name] += [frame for frame in port.received() if frame.number in wanted]
            return sum(map(len, came.values()))

        for number, (name, frame) in enumerate(sent, 1):
            self._open[name].send(frame.octets)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0.002)
                take()
        end = time.monotonic() + self._patience_s
        while time.monotonic() < end:
            if take() == expected:
                # What comes beside what was expected comes at the same time.
                end = min(end, time.monotonic() + 0.05)
            await asyncio.sleep(0.002)
        return came


@asynccontextmanager
async def pairs(
    names: Sequence[str], noted: Noted = unnoted
) -> AsyncIterator[dict[str, tuple[str, str]]]:
    """Within it there is a veth pair for each name: the near end and the far end, both up.

    Without IPv6, so that nothing is on the wires but what the tests and the node send.
    """
    made: dict[str, tuple[str, str]] = {}
    with ExitStack() as notes:
        try:
            for number, name in enumerate(names):
                stem = f"hc{os.getpid()}{next(_numbers):x}{number}"
                made[name] = f"{stem}n", f"{stem}f"
                notes.enter_context(noted("link", made[name][0]))
                await asyncio.to_thread(_make, *made[name])
            yield made
        finally:
            for near, _ in made.values():
                await asyncio.to_thread(_remove, near)


def _make(near: str, far: str) -> None:
    with IPRoute() as kernel:
        kernel.link("add", ifname=near, kind="veth", peer={"ifname": far})
        for name in (near, far):
            setting = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
            if setting.exists():
                setting.write_text("1")
            kernel.link("set", ifname=name, state="up")


def _remove(interface: str) -> None:
    with IPRoute() as kernel, contextlib.suppress(NetlinkError):
        for index in kernel.link_lookup(ifname=interface):
            kernel.link("del", index=index)
