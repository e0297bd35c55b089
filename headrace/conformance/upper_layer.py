# SPDX-License-Identifier: Apache-2.0
"""What a node tells the layer above it: descriptions pushed to an address, and its own events.

The original published its description on a message bus. A node of today sends it by POST to an
orchestrator's address; these tests listen at one, which is the capture of traffic on the resource
management interface that Tests 11 and 12 want. Where the node was not told of that address, its
stream of events (server-sent, `GET /events`) and `GET /domain-information` take its place.
"""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx

from headrace.conformance.rest import Rest

_LONGEST = 4 << 20
_HEAD_S = 10.0


@dataclass(frozen=True)
class Notice:
    """Something that the node told: when (monotonic seconds), how, and what."""

    at: float
    kind: str
    content: Any


class UpperLayer:
    """The layer above the node, as these tests play it.

    Args:
        rest: the node's interface, whose events are listened to.
        listen: (host, port) at which descriptions are taken; port 0 is any free one. None: the
            node sends them elsewhere, or nowhere.
    """

    def __init__(self, rest: Rest, listen: tuple[str, int] | None = None) -> None:
        self._rest, self._listen = rest, listen
        self.notices: list[Notice] = []
        self._server: asyncio.Server | None = None
        self._events: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def takes_descriptions(self) -> bool:
        """Whether the node was told to send its description here."""
        return self._server is not None

    async def open(self) -> None:
        """Begins to listen at the address.

        Raises:
            OSError: the address can't be had.
        """
        if self._listen is not None:
            host, port = self._listen
            self._server = await asyncio.start_server(self._serve, host, port)
            self.port = self._server.sockets[0].getsockname()[1]

    def follow(self, rest: Rest) -> None:
        """Listens to the events of the node at `rest` from now on."""
        self._rest = rest
        self._events = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Ends listening."""
        if self._events is not None:
            self._events.cancel()
            await asyncio.gather(self._events, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    async def told(self, since: float, kind: str, timeout_s: float) -> list[Notice]:
        """The notices of a kind after `since`; waits for one, at most `timeout_s`."""
        end = time.monotonic() + timeout_s
        while True:
            found = [each for each in self.notices if each.at >= since and each.kind == kind]
            if found or time.monotonic() > end:
                return found
            await asyncio.sleep(0.01)

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async with self._rest.stream("/events") as answer:
                    if answer.status_code != 200:
                        return
                    async for line in answer.aiter_lines():
                        if line.startswith("data: "):
                            self._note("event", line[6:])
            await asyncio.sleep(0.2)

    def _note(self, kind: str, text: str | bytes) -> None:
        with contextlib.suppress(ValueError):
            self.notices.append(Notice(time.monotonic(), kind, json.loads(text)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request: its body is noted, and it is answered 204."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
            length = 0
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.strip().lower() == b"content-length":
                    length = int(value)
            if not 0 <= length <= _LONGEST:
                return
            body = await asyncio.wait_for(reader.readexactly(length), _HEAD_S)
            if head.startswith(b"POST "):
                self._note("description", body)
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass
        except asyncio.LimitOverrunError:
            pass
        finally:
            writer.close()
