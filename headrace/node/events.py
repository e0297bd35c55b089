# SPDX-License-Identifier: Apache-2.0
"""What happens on the node, told to whoever listens.

The last events are kept, so that a client that was away for a while gets what it has missed. A
listener that does not read loses its place rather than holding the node up: its stream ends, and it
comes back with the number of the last event that it has.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_KEPT = 1000
_WAITING = 256
_LISTENERS = 64


class EventKind(StrEnum):
    """What can happen."""

    GRAPH_DEPLOYED = "graph-deployed"
    GRAPH_UPDATED = "graph-updated"
    GRAPH_FAILED = "graph-failed"
    GRAPH_DELETED = "graph-deleted"
    VNF_RESTARTED = "vnf-restarted"
    VNF_SCALED = "vnf-scaled"
    VNF_SCALING_REFUSED = "vnf-scaling-refused"
    RULE_EXPIRED = "rule-expired"
    LINK_DOWN = "link-down"
    LINK_UP = "link-up"
    SWITCH_RESTARTED = "switch-restarted"
    RESOURCES_CHANGED = "resources-changed"


@dataclass(frozen=True)
class Event:
    """`number` grows from event to event, over restarts of the node too; `at` is Unix time in s."""

    number: int
    at: float
    kind: EventKind
    graph: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """As clients get it."""
        graph = {} if self.graph is None else {"graph": self.graph}
        return {"event": self.kind.value, "time": round(self.at, 3), **graph, **self.details}


class TooManyListeners(Exception):
    """As many streams are open as the node serves."""


class Events:
    """The events of one node; all methods belong to one event loop."""

    def __init__(self) -> None:
        self._next = int(time.time() * 1000)
        self._kept: deque[Event] = deque(maxlen=_KEPT)
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._calls: list[Callable[[Event], None]] = []
        self._closed = False

    def publish(self, kind: EventKind, graph: str | None = None, **details: Any) -> None:
        """Tells all listeners."""
        event = Event(self._next, time.time(), kind, graph, details)
        self._next += 1
        self._kept.append(event)
        for call in self._calls:
            call(event)
        for queue in list(self._listeners):
            if queue.qsize() < _WAITING:
                queue.put_nowait(event)
            else:
                self._listeners.discard(queue)
                queue.put_nowait(None)

    def call(self, work: Callable[[Event], None]) -> None:
        """Calls `work` at each event from now on."""
        self._calls.append(work)

    async def listen(self, after: int | None = None) -> AsyncGenerator[Event, None]:
        """All events from now on, or those after number `after` as far as they are kept.

        Raises:
            TooManyListeners: at the first event.
        """
        if len(self._listeners) >= _LISTENERS:
            raise TooManyListeners
        if self._closed:
            return
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        for event in self._kept if after is not None else ():
            if event.number > (after or 0):
                queue.put_nowait(event)
        self._listeners.add(queue)
        try:
            while (event_or_end := await queue.get()) is not None:
                yield event_or_end
        finally:
            self._listeners.discard(queue)

    def is_full(self) -> bool:
        """Whether no further listener is served."""
        return len(self._listeners) >= _LISTENERS

    def close(self) -> None:
        """Ends all streams; there are no more."""
        self._closed = True
        for queue in self._listeners:
            queue.put_nowait(None)
        self._listeners.clear()
