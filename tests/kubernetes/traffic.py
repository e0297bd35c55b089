# SPDX-License-Identifier: Apache-2.0
"""Packets between two hosts: a stream of numbered ones, and octets by TCP."""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Self

from tests.node.wire import in_namespace
from tests.support.namespaces import Namespace

_PORT = 7777


def _udp(netns: Namespace, address: str, port: int) -> socket.socket:
    def make() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, port))
        made.settimeout(0.2)
        return made

    return in_namespace(f"/run/netns/{netns.name}", make)


class Stream:
    """Sends a packet every 1/`rate` s from one host to another until it is left.

    `sent` and `received` are times (seconds, monotonic) by the packets' numbers.
    """

    def __init__(
        self, source: tuple[Namespace, str], target: tuple[Namespace, str], rate: float = 500.0
    ) -> None:
        self._target, self._rate = target[1], rate
        self._out = _udp(*source, 0)
        self._in = _udp(*target, _PORT)
        self._ending = threading.Event()
        self.sent: dict[int, float] = {}
        self.received: dict[int, float] = {}
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._out.close()
        self._in.close()

    def _send(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            number = len(self.sent)
            self.sent[number] = time.monotonic()
            self._out.sendto(struct.pack("!Q", number) + bytes(56), (self._target, _PORT))
            due += 1 / self._rate
            time.sleep(max(0.0, due - time.monotonic()))

    def _receive(self) -> None:
        quiet_since = None
        while quiet_since is None or time.monotonic() - quiet_since < 1.0:
            try:
                data = self._in.recv(2048)
            except TimeoutError:
                if self._ending.is_set() and quiet_since is None:
                    quiet_since = time.monotonic()
                continue
            (number,) = struct.unpack("!Q", data[:8])
            self.received.setdefault(number, time.monotonic())
            if quiet_since is not None:
                quiet_since = time.monotonic()

    def flows(self, within_s: float = 0.5) -> bool:
        """Whether a packet that was just sent has come."""
        newest = max(self.received, default=None)
        return newest is not None and time.monotonic() - self.sent[newest] < within_s

    def lost(self) -> int:
        """Packets that did not come; known when the stream has been left."""
        return len(self.sent) - len(self.received)

    def longest_gap(self) -> float:
        """The longest time, in seconds, between two packets that came one after the other."""
        times = sorted(self.received.values())
        return max((b - a for a, b in pairwise(times)), default=0.0)


def transfer(source: tuple[Namespace, str], target: tuple[Namespace, str], size: int) -> float:
    """Sends `size` octets by TCP from one host to another; all have to come, and as they were sent.

    Gives the time in seconds from the connection to the last octet's arrival.
    """

    def listening() -> socket.socket:
        return socket.create_server((target[1], _PORT))

    def connected() -> socket.socket:
        return socket.create_connection((target[1], _PORT), 30.0, (source[1], 0))

    block = bytes(range(256)) * 256
    sent, came = hashlib.sha256(), hashlib.sha256()
    with in_namespace(f"/run/netns/{target[0].name}", listening) as server:
        server.settimeout(60.0)
        with in_namespace(f"/run/netns/{source[0].name}", connected) as client:
            began = time.monotonic()

            def send() -> None:
                left = size
                while left:
                    part = block[: min(left, len(block))]
                    client.sendall(part)
                    sent.update(part)
                    left -= len(part)
                client.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            taken, _ = server.accept()
            received = 0
            with taken:
                taken.settimeout(60.0)
                while data := taken.recv(1 << 16):
                    came.update(data)
                    received += len(data)
            took = time.monotonic() - began
            sender.join()
    assert received == size, f"{received} of {size} octets came"
    assert came.digest() == sent.digest(), "other octets came than were sent"
    return took
