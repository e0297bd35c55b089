# SPDX-License-Identifier: Apache-2.0
"""/events: what happens on the node, as server-sent events or by WebSocket.

The first are those of the HTML Living Standard, 9.2, the second of RFC 6455. A browser opens six
connections to a place for requests, of which each stream of server-sent events takes one for good;
WebSockets are not counted there, so the web page takes these.

They take the place of the original node's DoubleDecker messages. /domain-information is what these
published at start: the node's description for an orchestrator.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

from headrace.node.access.permissions import may
from headrace.node.access.users import User
from headrace.node.domain import description_of
from headrace.node.errors import Busy
from headrace.node.events import Event
from headrace.node.node import Node
from headrace.node.rest.access import node_of
from headrace.node.rest.bodies import sendable
from headrace.node.rest.contract import refusals
from headrace.node.rest.domain_answers import DomainDescription
from headrace.node.rest.login import UserDep


class EventStream(StreamingResponse):
    """Server-sent events, without an end."""

    media_type = "text/event-stream"


router = APIRouter(tags=["events"])

NodeDep = Annotated[Node, Depends(node_of)]
LastEvent = Annotated[
    str | None,
    Header(alias="Last-Event-ID", pattern=r"^\d{1,18}$", description="the last event seen"),
]
After = Annotated[int | None, Query(ge=0, le=10**18)]
_PROTOCOL = "headrace.events"
_SILENCE_S = 15.0
"""A comment is sent after so long, so that proxies keep the connection."""


@router.get("/events", response_class=EventStream, responses=refusals(409))
async def get_events(node: NodeDep, user: UserDep, last_event_id: LastEvent = None) -> EventStream:
    """Events from now on, or after `Last-Event-ID`; of graphs, those that the user may read.

    `event` is the kind, `id` grows, `data` is JSON: `event`, `time`, and `graph`, `vnf`, `rule`,
    `port` or `message` as far as they are of it.
    """
    if node.events.is_full():
        raise Busy("events", "too many clients listen; close some and try again")
    after = int(last_event_id) if last_event_id else None
    return EventStream(
        _stream(node, user, after),
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _stream(node: Node, user: User, after: int | None) -> AsyncIterator[str]:
    yield ": headrace\n\n"
    events = aiter(node.events.listen(after))
    waiting = asyncio.ensure_future(anext(events))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=_SILENCE_S)
            if not done:
                yield ": nothing new\n\n"
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            if _may_see(node, user, event):
                yield _text_of(event)
            waiting = asyncio.ensure_future(anext(events))
    finally:
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
            await waiting


@router.websocket("/events")
async def websocket_events(
    socket: WebSocket, node: NodeDep, user: UserDep, after: After = None
) -> None:
    """The same events, each a message of text: the JSON of `data`, with `id` in it.

    `after` is the number of the last event seen. A token goes in X-Auth-Token, or as a subprotocol
    `headrace.token.TOKEN` beside `headrace.events`.
    """
    if node.events.is_full():
        await socket.close()
        return
    offered = socket.scope.get("subprotocols", ())
    await socket.accept(subprotocol=_PROTOCOL if _PROTOCOL in offered else None)
    sending = asyncio.create_task(_send(socket, node, user, after))
    receiving = asyncio.create_task(_receive(socket))
    await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
    for task in (sending, receiving):
        task.cancel()
    await asyncio.gather(sending, receiving, return_exceptions=True)
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the client has closed it
        await socket.close()


async def _send(socket: WebSocket, node: Node, user: User, after: int | None) -> None:
    async with contextlib.aclosing(node.events.listen(after)) as events:
        async for event in events:
            if _may_see(node, user, event):
                await socket.send_text(_json({"id": event.number, **event.content()}))


async def _receive(socket: WebSocket) -> None:
    """Throws away what the client says, until it leaves."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


def _json(data: dict[str, Any]) -> str:
    return sendable(json.dumps(data, ensure_ascii=True))


def _may_see(node: Node, user: User, event: Event) -> bool:
    """The owner of a graph stays noted when it is deleted, until another one has its id."""
    return event.graph is None or may(node.users, user, "read", event.graph)


def _text_of(event: Event) -> str:
    data = _json(event.content())
    return f"id: {event.number}\nevent: {event.kind.value}\ndata: {data}\n\n"


@router.get("/domain-information", response_model=DomainDescription)
async def get_domain_information(node: NodeDep, request: Request) -> dict[str, Any]:
    """The node as an orchestrator sees it: address, resources, ports, capabilities."""
    return description_of(node, request.url.netloc)
