# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC 1.0 over a Unix stream socket, for ovsdb-server (RFC 7047, section 4) and unixctl.

The messages follow each other without any delimiter, so the reader finds the end of each by
counting braces outside strings. One task reads; requests wait for the answer with their id.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Notification = Callable[[str, list[Any]], Awaitable[None]]

_INTERESTING = re.compile(rb'["\\{}]')


class RpcError(Exception):
    """The peer answered with an error, or the connection is closed."""


class MessageSplitter:
    """Splits a byte stream into top-level JSON objects."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_string = False

    def feed(self, data: bytes) -> list[bytes]:
        """Adds received bytes; returns the objects that are now complete."""
        self._buffer += data
        messages = []
        while (found := _INTERESTING.search(self._buffer, self._scanned)) is not None:
            byte, self._scanned = self._buffer[found.start()], found.end()
            if byte == 0x5C:  # backslash: the next byte is escaped
                if found.end() == len(self._buffer):
                    self._scanned = found.start()
                    break
                self._scanned += 1
            elif byte == 0x22:  # quote
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if byte == 0x7B else -1
                if self._depth == 0:
                    messages.append(bytes(self._buffer[: self._scanned]))
                    del self._buffer[: self._scanned]
                    self._scanned = 0
        else:
            self._scanned = len(self._buffer)
        return messages


class JsonRpc:
    """One connection; made by `connect`, ended by `close`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listener: Notification | None = None
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, socket: Path, patience_s: float = 5.0) -> "JsonRpc":
        """Connects to `socket`, for up to `patience_s` while the peer is still starting.

        Raises:
            RpcError: no process listens on `socket`.
        """
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            try:
                return cls(*await asyncio.open_unix_connection(str(socket)))
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise RpcError(f"{socket}: {error.strerror or error}") from error
                await asyncio.sleep(0.02)

    @property
    def open(self) -> bool:
        """Whether requests can still be made."""
        return not self._task.done()

    def when_closed(self, call: Callable[[], None]) -> None:
        """Calls `call` when the connection has broken or was closed; `open` is False then."""
        self._task.add_done_callback(lambda _: call())

    def listen(self, listener: Notification) -> None:
        """Calls `listener` with every notification (method, params)."""
        self._listener = listener

    async def request(self, method: str, *params: Any, timeout_s: float = 30.0) -> Any:
        """Calls `method`; returns its result.

        Raises:
            RpcError: the peer's error, no answer in `timeout_s`, or the connection broke.
        """
        if not self.open:
            raise RpcError(f"{method}: the connection is closed")
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send({"method": method, "params": list(params), "id": number})
        try:
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError as error:
            raise RpcError(f"{method}: no answer in {timeout_s:.0f} s") from error
        finally:
            del self._waiting[number]

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode())

    async def _read(self) -> None:
        splitter = MessageSplitter()
        try:
            while data := await self._reader.read(1 << 16):
                for message in splitter.feed(data):
                    await self._take(json.loads(message))
        except OSError:
            pass
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(RpcError("the peer closed the connection"))

    async def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "echo":  # keep-alive of RFC 7047, section 4.1.11
            self._send({"result": message["params"], "error": None, "id": message["id"]})
        elif "method" in message:
            if self._listener is not None:
                await self._listener(message["method"], message["params"])
        else:
            answer = self._waiting.get(message.get("id", 0))
            if answer is not None and not answer.done():
                if message.get("error") is not None:
                    answer.set_exception(RpcError(_error_text(message["error"])))
                else:
                    answer.set_result(message.get("result"))

    async def close(self) -> None:
        """Closes the connection; pending requests fail."""
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)


def _error_text(error: Any) -> str:
    if isinstance(error, dict):
        return ": ".join(str(error[key]) for key in ("error", "details") if error.get(key))
    return str(error).strip()
