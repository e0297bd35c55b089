# SPDX-License-Identifier: Apache-2.0
"""Commands in a virtual machine by QEMU's guest agent (qemu-ga), which runs in the guest.

The agent answers on a virtio serial port, whose other end is a socket of QEMU's: JSON, one message
a line, without an identity that would join question and answer. So a connection begins with
`guest-sync-delimited`: what came before its answer is of an earlier one. What a guest says is not
trusted: answers are bounded, and anything wrong is an error of that machine.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.engines.base import EngineError
from headrace.engines.execution import MAX_OUTPUT, Executed

PORT = "org.qemu.guest_agent.0"
"""The name of the virtio serial port at which agents look."""

_ANSWER_S = 5.0
_POLL_S = (0.01, 0.5)
_MAX_ANSWER = 64 << 20
"""Octets of an answer: the agent itself keeps at most 16 MiB of each stream, in base64."""

_DELIMITER = b"\xff"


class GuestAgent:
    """A connection to the agent of one machine; use as an asynchronous context manager."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def __aenter__(self) -> "GuestAgent":
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(
                str(self._socket), limit=_MAX_ANSWER
            )
        except OSError as error:
            raise EngineError(f"its guest agent cannot be reached: {error.strerror}") from error
        try:
            await self._synchronize()
        except BaseException:
            self._writer.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def _synchronize(self) -> None:
        number = secrets.randbits(31)
        await self._send("guest-sync-delimited", {"id": number}, before=_DELIMITER)
        try:
            async with asyncio.timeout(_ANSWER_S):
                while True:
                    await self._reader.readuntil(_DELIMITER)
                    line = await self._reader.readline()
                    if _content(line).get("return") == number:
                        return
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise EngineError(
                "its guest agent does not answer: does qemu-ga run in the machine?"
            ) from error

    async def _send(
        self, command: str, arguments: dict[str, Any] | None, before: bytes = b""
    ) -> None:
        message: dict[str, Any] = {"execute": command}
        if arguments:
            message["arguments"] = arguments
        try:
            self._writer.write(before + json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except OSError as error:
            raise EngineError(f"its guest agent cannot be reached: {error}") from error

    async def call(self, command: str, **arguments: Any) -> Any:
        """What a command of the agent returns.

        Raises:
            EngineError: the agent refuses it, or does not answer.
        """
        await self._send(command, arguments)
        try:
            async with asyncio.timeout(_ANSWER_S):
                content = _content(await self._reader.readline())
        except (TimeoutError, ValueError, OSError) as error:
            raise EngineError(f"its guest agent does not answer {command}") from error
        if "return" not in content:
            said = content.get("error")
            text = said.get("desc") if isinstance(said, dict) else None
            raise EngineError(f"its guest agent refuses {command}: {text or content}")
        return content["return"]

    async def execute(self, command: Sequence[str], stdin: bytes, timeout_s: float) -> Executed:
        """Runs a command in the guest to its end; after `timeout_s` seconds it is killed.

        Raises:
            EngineError: it cannot be started.
        """
        started = await self.call(
            "guest-exec",
            path=command[0],
            arg=list(command[1:]),
            **{"input-data": base64.b64encode(stdin).decode(), "capture-output": True},
        )
        pid = _integer(started, "pid")
        deadline = asyncio.get_running_loop().time() + timeout_s
        wait_s, longest_s = _POLL_S
        while True:
            status = await self.call("guest-exec-status", pid=pid)
            if not isinstance(status, dict):
                raise EngineError(f"its guest agent says {str(status)[:100]!r}")
            if status.get("exited") is True:
                return _executed(status)
            if asyncio.get_running_loop().time() > deadline:
                await self.call("guest-exec", path="kill", arg=["-KILL", str(pid)])
                return Executed(None, b"", b"", truncated=False)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, longest_s)


def _content(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise EngineError(f"its guest agent says {line[:100]!r}") from error
    return found if isinstance(found, dict) else {}


def _integer(found: object, name: str) -> int:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, int):
        raise EngineError(f"its guest agent names no {name}: {str(found)[:100]}")
    return value


def _executed(status: dict[str, Any]) -> Executed:
    """What the agent tells of a command that has ended; a signal is a negative code."""
    code = status.get("exitcode")
    if not isinstance(code, int):
        number = status.get("signal")
        code = -number if isinstance(number, int) else -1
    kept = []
    truncated = bool(status.get("out-truncated") or status.get("err-truncated"))
    for name in ("out-data", "err-data"):
        try:
            octets = base64.b64decode(status.get(name) or b"")
        except (ValueError, TypeError) as error:
            raise EngineError(f"its guest agent's {name} is no base64") from error
        truncated = truncated or len(octets) > MAX_OUTPUT
        kept.append(octets[:MAX_OUTPUT])
    return Executed(code, kept[0], kept[1], truncated)
