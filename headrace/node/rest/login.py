# SPDX-License-Identifier: Apache-2.0
"""Login: who makes a request, by the token in X-Auth-Token, and what only administrators may.

Without `rest.login` everybody may do everything, and /login answers 501, which clients of the
original node understand. With it every path needs a token but /login, /health, /ready and the
files of the web pages (`rest/web.py`, `rest/api_page.py`); requests through the node's Unix socket
need none, since only the node's own user can make them. What a user may do with a graph is decided
where the graph is at hand (`rest/graphs.py`, `rest/node.py`).
"""

import re
from typing import Annotated

from fastapi import Depends
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.node.access.audit import Audit
from headrace.node.access.users import LOCAL, User, Users
from headrace.node.rest.bodies import sendable
from headrace.node.rest.contract import OPEN_PATHS

_USER = "headrace.user"
_READING = ("GET", "HEAD", "OPTIONS")
_FOR_ADMINS = ("users", "groups")
_OFFERED = "headrace.token."
_EXEC = re.compile(r"/node/vnfs/[^/]+/[^/]+/exec")


def user_of(request: HTTPConnection) -> User:
    """Who makes the request."""
    user: User = request.scope[_USER]
    return user


UserDep = Annotated[User, Depends(user_of)]


class Login:
    """Finds out who makes a request, refuses what that user may not, and keeps the audit log."""

    def __init__(self, app: ASGIApp, users: Users, audit: Audit, demanded: bool) -> None:
        self._app = app
        self._users = users
        self._audit = audit
        self._demanded = demanded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on with its user, or answers it with 401 or 403."""
        if scope["type"] == "websocket":
            user = self._user(scope)
            if user is not None:
                await self._app({**scope, _USER: user}, receive, send)
                return
            self._audit.note("-", source_of(scope), "GET", scope["path"], 403)
            await send({"type": "websocket.close"})  # before it is accepted: 403
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        user = self._user(scope)
        method, path = scope["method"], scope["path"]
        noted = False

        async def noting(message: Message) -> None:
            nonlocal noted
            if message["type"] == "http.response.start" and not noted:
                noted = True
                status = int(message["status"])
                if method not in _READING or status in (401, 403, 429):
                    name = user.name if user else "-"
                    self._audit.note(name, source_of(scope), method, path, status)
            await send(message)

        if user is None and not _is_open(method, path):
            answer = _refusal(401, "log in (POST /login) and send the token as X-Auth-Token")
            await answer(scope, receive, noting)
        elif user is not None and not user.is_admin and _is_for_admins(method, path):
            await _refusal(403, f"user {user.name} is no administrator")(scope, receive, noting)
        else:
            await self._app({**scope, _USER: user or LOCAL}, receive, noting)

    def _user(self, scope: Scope) -> User | None:
        if not self._demanded or _is_local(scope):
            return LOCAL
        tokens = Headers(scope=scope).getlist("x-auth-token") + _offered(scope)
        return self._users.of_token(tokens[0]) if len(tokens) == 1 else None


def _offered(scope: Scope) -> list[str]:
    """Tokens among the subprotocols of a WebSocket: pages can send no header of their own there."""
    offered = scope.get("subprotocols", ()) if scope["type"] == "websocket" else ()
    return [each.removeprefix(_OFFERED) for each in offered if each.startswith(_OFFERED)]


def _is_open(method: str, path: str) -> bool:
    """Whether a request needs no token: to log in, for health, or the files of the web pages."""
    if path == "/login":
        return True
    is_page = path in ("/", "/docs") or path.startswith(("/ui/", "/docs/"))
    return method in _READING and (is_page or path in OPEN_PATHS)


def _is_local(scope: Scope) -> bool:
    """Whether the request came through the Unix socket.

    Only there the server's address has no port (ASGI: a path and None) and the client none at all.
    """
    server = scope.get("server")
    return scope.get("client") is None and (server is None or server[1] is None)


def source_of(scope: Scope) -> str:
    """The address that a request comes from."""
    return str(scope["client"][0]) if scope.get("client") else "unix"


def _is_for_admins(method: str, path: str) -> bool:
    first = path.split("/")[1]
    if first in _FOR_ADMINS:
        return True
    if _EXEC.fullmatch(path):
        return False  # whose it is, the graph's permissions say
    return method not in _READING and first not in ("NF-FG", "login", "v2")


def _refusal(code: int, text: str) -> JSONResponse:
    return JSONResponse({"module": "access", "message": sendable(text)}, code)
