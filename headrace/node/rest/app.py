# SPDX-License-Identifier: Apache-2.0
"""The REST API: the original node's paths and codes (NF-FG, templates), and the node's own.

Its own description is at /docs and /openapi.json. The client's document is answered as it was sent.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.engines.base import EngineError
from headrace.machine.places import log_directory
from headrace.node.access.audit import Audit
from headrace.node.errors import (
    AccessError,
    Busy,
    GraphRefused,
    NodeError,
    NotFound,
    StoreFault,
    SwitchDown,
)
from headrace.node.node import Node
from headrace.node.rest import api_page as api_page_routes
from headrace.node.rest import datastore as datastore_routes
from headrace.node.rest import events as event_routes
from headrace.node.rest import execution as execution_routes
from headrace.node.rest import graphs as graph_routes
from headrace.node.rest import health as health_routes
from headrace.node.rest import name_resolver as resolver_routes
from headrace.node.rest import node as node_routes
from headrace.node.rest import pci as pci_routes
from headrace.node.rest import ports as port_routes
from headrace.node.rest import prediction as prediction_routes
from headrace.node.rest import reservations as reservation_routes
from headrace.node.rest import users as user_routes
from headrace.node.rest import web as web_routes
from headrace.node.rest import wiring as wiring_routes
from headrace.node.rest.access import Guard
from headrace.node.rest.bodies import sendable
from headrace.node.rest.contract import EVERYWHERE, describe_api
from headrace.node.rest.login import Login
from headrace.node.tls import Tls
from headrace.switches.base import SwitchError

_RETRY_S = "1"
"""After how many seconds a switch that has ended is likely to be there again."""


class TidyPath:
    """Makes trailing and doubled slashes insignificant, as clients of the original node expect."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on with a tidy path."""
        if scope["type"] in ("http", "websocket"):
            path = re.sub(r"/{2,}", "/", scope["path"])
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def make_app(
    node: Node, on_ready: Callable[[], Awaitable[None]] | None = None, tls: Tls | None = None
) -> FastAPI:
    """The API of a node that has been started; it is closed when the server stops."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        if on_ready is not None:
            await on_ready()
        yield
        await node.close()

    app = FastAPI(
        title="Headrace node",
        version=version("headrace"),
        description="Service graphs (NF-FG) on one machine, and what they cost.",
        lifespan=life,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.node = node
    for router in (
        graph_routes.router,
        prediction_routes.router,
        datastore_routes.router,
        datastore_routes.conf_router,
        resolver_routes.router,
        node_routes.router,
        port_routes.router,
        reservation_routes.router,
        pci_routes.router,
        event_routes.router,
        user_routes.router,
        execution_routes.router,
        wiring_routes.router,
        health_routes.router,
        web_routes.router,
        api_page_routes.router,
    ):
        app.include_router(router, responses=EVERYWHERE)
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not document:
            document.update(describe_api(app))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    audit = app.state.audit = Audit(log_directory(node.rundir))
    demanded = node.config.rest.login
    app.add_middleware(Login, users=node.users, audit=audit, demanded=demanded)
    configured = (node.config.rest.host, *node.config.rest.names)
    app.add_middleware(Guard, names=lambda: (*configured, *(tls.names if tls else ())))
    app.add_middleware(TidyPath)

    def answer(code: int, error: NodeError) -> JSONResponse:
        return JSONResponse({"module": error.module, "message": sendable(str(error))}, code)

    @app.exception_handler(NodeError)
    async def node_error(_: Request, error: NodeError) -> JSONResponse:
        if isinstance(error, AccessError):
            refusal = answer(error.code, error)
            if error.retry_s:
                refusal.headers["Retry-After"] = str(error.retry_s)
            return refusal
        codes: dict[type[NodeError], int] = {
            GraphRefused: 400,
            NotFound: 404,
            Busy: 409,
            StoreFault: 503,
            SwitchDown: 503,
        }
        refusal = answer(codes.get(type(error), 500), error)
        if isinstance(error, SwitchDown):
            refusal.headers["Retry-After"] = _RETRY_S
        return refusal

    @app.exception_handler(RequestValidationError)
    async def wrong_request(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return answer(400, NodeError("rest", f"{place}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def no_such_path(request: Request, error: HTTPException) -> JSONResponse:
        text = f"{request.method} {request.url.path}: {error.detail}; the paths are at /docs"
        return answer(error.status_code, NodeError("rest", text))

    @app.exception_handler(SwitchError)
    async def switch_error(_: Request, error: SwitchError) -> JSONResponse:
        refusal = answer(503, NodeError("switch", str(error)))
        refusal.headers["Retry-After"] = _RETRY_S
        return refusal

    @app.exception_handler(EngineError)
    async def engine_error(_: Request, error: EngineError) -> JSONResponse:
        return answer(503, NodeError("engine", str(error)))

    @app.exception_handler(ClientDisconnect)
    async def cut_off(_: Request, __: ClientDisconnect) -> JSONResponse:
        return answer(400, NodeError("rest", "the connection ended within the body"))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return answer(500, NodeError("node", f"{type(error).__name__}: {error}"))

    return app
