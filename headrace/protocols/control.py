# SPDX-License-Identifier: Apache-2.0
"""Client of the programs' control sockets: newline-delimited JSON over a Unix stream socket.

Request `{"id": 1, "method": ..., "params": {...}}`, answer `{"id": 1, "result": ...}` or
`{"id": 1, "error": {"code", "message"}}`. One connection per call: nothing to keep alive when a
program or the node restarts.
"""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any


class ControlError(Exception):
    """A program rejected a call or could not be reached; `code` is the program's own error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def call(
    path: Path, method: str, params: dict[str, Any] | None = None, timeout_s: float = 10.0
) -> Any:
    """Calls `method` of the program that listens on `path` and returns its result.

    Raises:
        ControlError: the program's own error, or code `unreachable`, `timeout`, `bad_answer`.
    """
    try:
        return await asyncio.wait_for(_call(path, method, params or {}), timeout_s)
    except TimeoutError as error:
        raise ControlError("timeout", f"{path}: no answer to {method} in {timeout_s} s") from error
    except OSError as error:
        raise ControlError("unreachable", f"{path}: {error.strerror or error}") from error


def call_blocking(
    path: Path, method: str, params: dict[str, Any] | None = None, timeout_s: float = 10.0
) -> Any:
    """The same for code that runs in no event loop, or may block it.

    Raises:
        ControlError: as call().
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(_request(method, params or {}))
            with connection.makefile("rb") as answers:
                return _result(path, method, answers.readline())
    except TimeoutError as error:
        raise ControlError("timeout", f"{path}: no answer to {method} in {timeout_s} s") from error
    except OSError as error:
        raise ControlError("unreachable", f"{path}: {error.strerror or error}") from error


async def _call(path: Path, method: str, params: dict[str, Any]) -> Any:
    reader, writer = await asyncio.open_unix_connection(str(path), limit=64 << 20)
    try:
        writer.write(_request(method, params))
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    return _result(path, method, line)


def _request(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n"


def _result(path: Path, method: str, line: bytes) -> Any:
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise ControlError("bad_answer", f"{path}: no JSON in answer to {method}") from error
    if "error" in answer:
        raise ControlError(str(answer["error"]["code"]), str(answer["error"]["message"]))
    return answer["result"]
