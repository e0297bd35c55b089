# SPDX-License-Identifier: Apache-2.0
"""WebSocket connections of the REST API (RFC 6455), within the same bounds as all others.

What a client sends is bounded and thrown away: events go one way. One that does not answer pings is
cut off, whatever waits to be sent to it, and one that does not read is not read from either, since
each of its pings would leave an answer waiting here.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headrace.node.connections import Slot

MAX_MESSAGE = 4096
"""Octets of a message that a client may send."""

PING_S = 20.0
"""How often a client is asked whether it is there, and how long it may take to answer."""

_LAST_WORDS_S = 2.0


class EventSocket(WebSocketsSansIOProtocol):
    """A WebSocket connection that gives back its place when it ends."""

    def __init__(self, *args: Any, slot: Slot | None = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self._slot = slot
        self._end: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        if self._end is not None:
            self._end.cancel()
        if self._slot is not None:
            self._slot.release()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    def keepalive_timeout(self) -> None:
        """The client has not answered a ping."""
        super().keepalive_timeout()
        self._end = self.loop.call_later(_LAST_WORDS_S, self.transport.abort)
