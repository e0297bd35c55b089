# SPDX-License-Identifier: Apache-2.0
"""Bounds of the REST API's connections: how many are open, and how long one waits for its client.

Without them whoever reaches the port can hold connections open until the node has no descriptors
left, without a token and almost without traffic. A connection counts from `accept` on, so one that
never finishes its TLS handshake does, too. The Unix socket is not counted: only the node's own user
reaches it, and it must still answer when the port is full.
"""

import asyncio
import errno
import json
import logging
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.node.access.peers import peer_of

log = logging.getLogger("headrace.node")

HANDSHAKE_S = 10.0
_TLS_CLOSE_S = 5.0
"""How long a client's TLS handshake may take, and its part in the end of TLS."""

_BACKLOG = 128
_REFUSALS = 32
_REFUSAL_S = 1.0
"""Connections over the bounds that are being answered at a time, and for how long each."""

_LOGGED_EVERY_S = 10.0
_RETRY_S = 1.0


class TooMany(Exception):
    """A connection over the bounds; the text says over which."""


class Slot:
    """The place of one open connection."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        """Gives the place back; a second time nothing happens."""
        release, self._release = self._release, None
        if release is not None:
            release()


class Connections:
    """Counts open connections, in all and by peer."""

    def __init__(self, per_peer: int, total: int) -> None:
        self._per_peer, self._total = per_peer, total
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many there are."""
        return self._open.total()

    def admit(self, address: str) -> Slot:
        """Takes a place for a connection from an address.

        Raises:
            TooMany: there is none.
        """
        peer = peer_of(address)
        if self._open[peer] >= self._per_peer:
            text = f"{peer} has {self._per_peer} connections open (rest.connections_per_peer)"
            raise TooMany(text)
        if self.open >= self._total:
            raise TooMany(f"the node has {self._total} connections open (rest.connections)")
        self._open[peer] += 1
        return Slot(lambda: self._leave(peer))

    def _leave(self, peer: str) -> None:
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]


class _Wait(Enum):
    """What a connection waits for."""

    HEADERS = auto()
    BODY = auto()
    READER = auto()  # the client has to take its answer
    NODE = auto()  # nothing of the client's


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a client that has to go on: uvicorn itself waits for it without an end.

    A request's headers have to be complete `headers_s` after the connection was made or the answer
    before was sent, whatever comes meanwhile. Within a body, and while an answer is taken, there is
    no pause of more than `pause_s`, and in each `pause_s` at least `least_rate` octets pass for
    each second of it: an octet now and then does not keep a connection. Then 408, or the end if the
    answer has begun. (Not on average since the beginning: what the kernel takes at once for a
    client, megabytes, would count for hours.)

    A connection that becomes a WebSocket's takes its place along, and its times are then those of
    `event_socket.EventSocket`.
    """

    headers_s = 15.0
    pause_s = 30.0
    least_rate = 500.0

    def __init__(self, *args: Any, slot: Slot | None = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self._slot = slot
        self._wait = _Wait.NODE
        self._begun = self._moved = 0.0  # when this time began, and when octets last passed in it
        self._received = self._written = 0
        self._passed_before = self._passed_last = 0  # octets, when it began and when last looked at
        self._timer: asyncio.TimerHandle | None = None
        self._upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The connection can be used: over TLS, after the handshake."""
        super().connection_made(_Counting(transport, self._count_written))  # type: ignore[arg-type]
        self._note()

    def _count_written(self, octets: int) -> None:
        self._written += octets

    def data_received(self, data: bytes) -> None:
        """Takes what the client has sent."""
        self._received += len(data)
        super().data_received(data)
        self._note()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The connection is a WebSocket's from now on."""
        self._upgraded = True
        if self._timer is not None:
            self._timer.cancel()
        slot, self._slot = self._slot, None
        make: Any = self.ws_protocol_class
        self.ws_protocol_class = partial(make, slot=slot)  # type: ignore[assignment]
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """An answer has been handed to the transport."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """The client takes its answer more slowly than it is made."""
        super().pause_writing()
        self._note()

    def shutdown(self) -> None:
        """The server stops: a request that has not come whole is given up, others are answered."""
        if self._waits() is _Wait.BODY:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
        if self._slot is not None:
            self._slot.release()
        super().connection_lost(exc)

    def _waits(self) -> _Wait:
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            return _Wait.READER
        if self.conn.their_state is h11.IDLE:
            return _Wait.HEADERS
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return _Wait.BODY
        return _Wait.NODE

    def _passed(self) -> int:
        """How many octets have passed in the direction that is waited for."""
        if self._wait is _Wait.BODY:
            return self._received
        return self._written - self.transport.get_write_buffer_size()

    def _note(self) -> None:
        """Starts the time anew if something else is waited for now."""
        if self._upgraded:
            return
        if self._waits() is not self._wait or self._timer is None:
            self._begin(self._waits())
            self._look()

    def _begin(self, wait: _Wait) -> None:
        self._wait = wait
        self._begun = self._moved = self.loop.time()
        self._passed_before = self._passed_last = self._passed()

    def _look(self) -> None:
        """Ends the connection if its client is overdue; otherwise looks again when it can be."""
        if self._timer is not None:
            self._timer.cancel()
        now, wait = self.loop.time(), self._waits()
        if wait is not self._wait or wait is _Wait.NODE:
            self._begin(wait)
        passed = self._passed()
        if passed != self._passed_last:
            self._moved, self._passed_last = now, passed
        due = self._begun + (self.headers_s if wait is _Wait.HEADERS else self.pause_s)
        if wait is not _Wait.HEADERS:
            if now >= due and passed - self._passed_before >= self.least_rate * self.pause_s:
                self._begun, self._passed_before = now, passed
                due = now + self.pause_s
            due = min(due, self._moved + self.pause_s)
        left = due - now
        if left <= 0:
            self._end()
            left = self.pause_s
        self._timer = self.loop.call_later(left, self._look)

    def _end(self) -> None:
        begun = self.cycle is not None and self.cycle.response_started
        if self._wait is _Wait.READER or (self._wait is _Wait.BODY and begun):
            # Else the kernel would go on with the megabytes that it holds for this client.
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()
            return
        text = f"the headers of a request took more than {self.headers_s:g} s"
        if self._wait is _Wait.BODY:
            text = (
                f"the request's body paused for {self.pause_s:g} s, or came with less than "
                f"{self.least_rate:g} octets/s"
            )
        self.transport.write(_answer("408 Request Timeout", text))
        self.transport.close()


class _Counting:
    """A transport that tells how many octets are written to it."""

    def __init__(self, transport: asyncio.Transport, count: Callable[[int], None]) -> None:
        self._transport, self._count = transport, count

    def write(self, data: bytes) -> None:
        """Writes to the transport."""
        self._count(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Listener:
    """Accepts connections within their bounds; closed as a server of asyncio's is."""

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        protocol: Callable[[Slot], asyncio.Protocol],
        context: ssl.SSLContext | None,
    ) -> None:
        """`protocol` makes that of a connection, which gives back its slot; `context` is TLS."""
        self._socket = listener
        self._connections = connections
        self._protocol, self._context = protocol, context
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing = 0
        self._logged = -_LOGGED_EVERY_S

    def start(self) -> None:
        """Listens."""
        self._socket.setblocking(False)
        self._socket.listen(_BACKLOG)
        self._run(self._accept())

    def close(self) -> None:
        """Listens no more; connections that stand go on."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Returns when the socket is closed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with self._socket:
            while True:
                try:
                    connection, address = await loop.sock_accept(self._socket)
                except OSError as error:
                    if error.errno != errno.ECONNABORTED:  # else only that client has gone
                        self._log(f"cannot accept connections: {error.strerror}")
                        await asyncio.sleep(_RETRY_S)
                    continue
                # Where a connection waits already, sock_accept does not let others run.
                await asyncio.sleep(0)
                try:
                    slot = self._connections.admit(address[0])
                except TooMany as error:
                    self._log(f"refused a connection: {error}")
                    self._refuse(connection, str(error))
                    continue
                self._run(self._connect(connection, slot))

    async def _connect(self, connection: socket.socket, slot: Slot) -> None:
        tls = self._context is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._protocol(slot),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S if tls else None,
                ssl_shutdown_timeout=_TLS_CLOSE_S if tls else None,
            )
        except BaseException as error:
            slot.release()
            if not isinstance(error, OSError):  # a client whose handshake fails is no fault here
                raise

    def _refuse(self, connection: socket.socket, text: str) -> None:
        """Answers 503, if that is cheap: a TLS handshake would cost what the bound is to save."""
        if self._context is not None or self._refusing >= _REFUSALS:
            connection.close()
            return
        self._refusing += 1
        self._run(self._answer_refused(connection, _answer("503 Service Unavailable", text)))

    async def _answer_refused(self, connection: socket.socket, answer: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            with connection, suppress(OSError, TimeoutError):
                async with asyncio.timeout(_REFUSAL_S):
                    await loop.sock_sendall(connection, answer)
                    connection.shutdown(socket.SHUT_WR)
                    # Unread octets would make the kernel send a reset, which can overtake the
                    # answer.
                    while await loop.sock_recv(connection, 4096):
                        pass
        finally:
            self._refusing -= 1

    def _log(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged >= _LOGGED_EVERY_S:
            self._logged = now
            log.warning("rest: %s", text)


def _answer(status: str, text: str) -> bytes:
    """A whole HTTP answer, in the form of the API's errors, after which the connection ends."""
    body = json.dumps({"module": "rest", "message": text}).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
