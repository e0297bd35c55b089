# SPDX-License-Identifier: Apache-2.0
"""The wire of a TRex server's synchronous channel: JSON-RPC 2.0 over ZeroMQ REQ/REP.

Written from the protocol's description, without any code of TRex's GPL client. A request goes out
as `0xABE85CEA`, the length of the JSON (both big-endian 32 bits), and the JSON deflated by zlib;
an answer may come the same way or as plain JSON. After `api_sync_v2` every call carries `api_h`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
import zlib
from typing import Any

import zmq
import zmq.asyncio

MAGIC = 0xABE85CEA
API = {"name": "STL", "major": 5, "minor": 1}
TRY_AGAIN = -32001
IN_PROGRESS = -32002
_HEADER = struct.Struct(">II")


class TrexError(Exception):
    """The server rejected a call, is unreachable, or replied wrong. `code` is JSON-RPC's, or 0."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def pack(message: object) -> bytes:
    """A JSON value as a compressed frame."""
    text = json.dumps(message).encode()
    return _HEADER.pack(MAGIC, len(text)) + zlib.compress(text)


def unpack(frame: bytes) -> Any:
    """The JSON value of a frame, compressed or plain. Raises TrexError."""
    try:
        if len(frame) >= _HEADER.size:
            magic, length = _HEADER.unpack_from(frame)
            if magic == MAGIC:
                frame = zlib.decompress(frame[_HEADER.size :])
                if len(frame) != length:
                    raise TrexError(f"a frame of {length} bytes has {len(frame)}")
        return json.loads(frame)
    except (ValueError, zlib.error) as error:
        raise TrexError(f"broken frame: {error}") from error


class TrexConnection:
    """One client of a TRex server. Calls one at a time."""

    def __init__(self, host: str, port: int = 4501, timeout_s: float = 5.0) -> None:
        self._endpoint = f"tcp://{host}:{port}"
        self._timeout_s = timeout_s
        self._context = zmq.asyncio.Context()
        self._socket: zmq.asyncio.Socket | None = None
        self._api: str | None = None
        self._ids = itertools.count(1)

    async def open(self) -> None:
        """Connects and negotiates the version of the API."""
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(self._endpoint)
        answer = await self.call("api_sync_v2", **API)
        self._api = str(answer["api_h"])

    def close(self) -> None:
        """Closes the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._context.term()

    async def call(self, method: str, **params: Any) -> Any:
        """Calls `method`; retries while the server is busy. Raises TrexError."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        while True:
            answer = await self._exchange(method, params)
            if "error" not in answer:
                return answer.get("result")
            error = answer["error"]
            code = int(error.get("code", 0))
            if code not in {TRY_AGAIN, IN_PROGRESS}:
                reason = error.get("specific_err") or error.get("message", "")
                raise TrexError(f"{method}: {reason}", code)
            if asyncio.get_running_loop().time() > deadline:
                raise TrexError(f"{method}: still busy after {self._timeout_s:g} s", code)
            await asyncio.sleep(0.01)

    async def _exchange(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._socket is None:
            raise TrexError("not connected; open() first")
        if self._api is not None:
            params = {**params, "api_h": self._api}
        number = next(self._ids)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        await self._socket.send(pack(request))
        try:
            frame = await asyncio.wait_for(self._socket.recv(), self._timeout_s)
        except TimeoutError as error:
            # A REQ socket waits for its reply forever, so it can't be reused.
            self._socket.close()
            self._socket = None
            raise TrexError(
                f"{self._endpoint}: no answer to {method} in {self._timeout_s:g} s; is TRex there?"
            ) from error
        answer = unpack(frame)
        if not isinstance(answer, dict) or answer.get("id") != number:
            raise TrexError(f"{method}: the reply has another id")
        return answer
