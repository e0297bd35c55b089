# SPDX-License-Identifier: Apache-2.0
"""A tiny headrace-traffic: speaks the control protocol, sends nothing."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


class Refusal(Exception):
    """Makes the fake answer with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class FakeGenerator:
    """Serves `handlers` on a Unix socket; `calls` keeps what was asked."""

    def __init__(self, path: Path, handlers: dict[str, Handler]) -> None:
        self.path = path
        self.handlers = handlers
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "FakeGenerator":
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()
        for task in self._tasks:
            task.cancel()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while line := await reader.readline():
            task = asyncio.create_task(self._answer(json.loads(line), writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        method, params = request["method"], request["params"]
        self.calls.append((method, params))
        try:
            reply: dict[str, Any] = {"result": await self.handlers[method](params)}
        except Refusal as error:
            reply = {"error": {"code": error.code, "message": str(error)}}
        writer.write(json.dumps({"id": request["id"], **reply}).encode() + b"\n")
