# SPDX-License-Identifier: Apache-2.0
"""How request handlers get at their node, and which requests reach them at all.

Without login whoever reaches the API may do everything, so only programs of this machine may reach
it. A web browser is such a program that acts for others: a page from anywhere can make it
send requests to 127.0.0.1. Three checks keep these out:

* Host: a page whose own name resolves to 127.0.0.1 (DNS rebinding) sends that name.
* Origin: a request that a page caused carries the page's; it must be the node's own. That is all
  that keeps pages from a WebSocket, too.
* Content-Type: forms send everything but application/json without asking the node first (CORS).
  Images are the exception, since clients of the original send them as forms; there
  Sec-Fetch-Site, which every browser sends, must not name another site, either.
"""

from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.node.errors import GraphRefused
from headrace.node.node import Node
from headrace.node.rest.bodies import MAX_BYTES, parse, sendable

_IMAGES = "/v2/nf_image/"
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_STREAMED = ("application/octet-stream", "multipart/form-data")
"""The content types of an image's octets, and the paths that take them."""

_PARSED = "headrace.json"
"""Where a request's scope has its body as JSON: a graph of many rules is not to be read twice."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def node_of(request: HTTPConnection) -> Node:
    """The node that the app of this request serves."""
    node: Node = request.app.state.node
    return node


async def json_of(request: Request) -> Any:
    """The JSON of a request's body, as `Guard` has read it.

    Raises:
        GraphRefused: it is none, or exceeds a bound; says where.
    """
    if _PARSED in request.scope:
        return request.scope[_PARSED]
    return parse(await request.body())  # that of a form, or none


class Guard:
    """Refuses requests that come from elsewhere; `names` gives those by which the node is called.

    They are asked for at each request, since a renewed certificate may have others.
    """

    def __init__(self, app: ASGIApp, names: Callable[[], Collection[str]]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on, or answers it with 403 or 415."""
        if scope["type"] == "websocket":
            scheme = {"ws": "http", "wss": "https"}[scope["scheme"]]
            if self._refusal(scheme, "GET", Headers(scope=scope), False) is not None:
                await send({"type": "websocket.close"})  # before it is accepted: 403
                return
        if scope["type"] == "http":
            is_image = scope["path"].startswith(_IMAGES)
            headers = Headers(scope=scope)
            refusal = self._refusal(scope["scheme"], scope["method"], headers, is_image)
            if refusal is not None:
                code, text = refusal
                await _answer(code, "rest", text)(scope, receive, send)
                return
            if is_image and _kind(headers) in _STREAMED:
                await self._app(scope, receive, send)  # bounded by the datastore's limits
                return
            try:
                receive = await self._bounded(scope, receive, is_json=_kind(headers) != _FORM)
            except _TooLarge:
                text = f"the body has more than {MAX_BYTES >> 20} MiB"
                await _answer(413, "rest", text)(scope, receive, send)
                return
            except ClientDisconnect:
                return  # what has not come whole is not carried out (RFC 9112, 8)
            except GraphRefused as error:
                await _answer(400, error.module, str(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _bounded(self, scope: Scope, receive: Receive, is_json: bool) -> Receive:
        """Takes the whole body in, within its bounds, and gives it out as one message.

        What it is as JSON goes with the request, for `json_of`.
        """
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > MAX_BYTES:
                raise _TooLarge
            if not message.get("more_body", False):
                break
        if body and is_json:
            scope[_PARSED] = parse(bytes(body))
        whole: Message | None = {"type": "http.request", "body": bytes(body), "more_body": False}

        async def replay() -> Message:
            nonlocal whole
            if whole is None:
                return await receive()
            message, whole = whole, None
            return message

        return replay

    def _refusal(
        self, scheme: str, method: str, headers: Headers, is_image: bool
    ) -> tuple[int, str] | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        names = {name.lower() for name in (*LOOPBACK_NAMES, *self._names())}
        if len(hosts) != 1 or _name_of(f"//{hosts[0]}") not in names:
            text = "Host: not a name of this node; add it to rest.names in node.yaml"
            return 403, text
        if any(origin.lower() != f"{scheme}://{hosts[0].lower()}" for origin in origins):
            return 403, "Origin: pages of other places may not use this node"
        if is_image and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "Sec-Fetch-Site: pages of other places may not use this node"
        length = headers.get("content-length", "0")
        if is_image and _kind(headers) in _STREAMED:
            return None
        if length.isdecimal() and int(length[:20]) > MAX_BYTES:
            return 413, f"the body has more than {MAX_BYTES >> 20} MiB"
        has_body = "transfer-encoding" in headers or length != "0"
        writes = method not in ("GET", "HEAD", "OPTIONS")
        allowed = (_JSON, _FORM) if is_image else (_JSON,)
        if writes and has_body and _kind(headers) not in allowed:
            return 415, "Content-Type: the body of a request must be application/json"
        return None


def _kind(headers: Headers) -> str:
    """The content type without its parameters; empty if there is not exactly one."""
    types = headers.getlist("content-type")
    return types[0].partition(";")[0].strip().lower() if len(types) == 1 else ""


class _TooLarge(Exception):
    """The body exceeds MAX_BYTES."""


def _answer(code: int, module: str, text: str) -> JSONResponse:
    return JSONResponse({"module": module, "message": sendable(text)}, code)


def _name_of(address: str) -> str | None:
    """The host of `//host:port`, or None if it is none."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises if it is no number
    except ValueError:
        return None
    plain = parts.netloc == address.removeprefix("//") and "@" not in address
    return parts.hostname if plain else None
