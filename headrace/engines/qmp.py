# SPDX-License-Identifier: Apache-2.0
"""QEMU's control socket: the QEMU Machine Protocol, one JSON object a line each way.

A connection begins with QEMU's greeting and our `qmp_capabilities`; then each command is answered
by `return` or `error`. What QEMU says unasked (`event`) is passed over.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


class QmpError(Exception):
    """QEMU does not answer, or refuses; the text says which."""


class Qmp:
    """A connection to a running QEMU; made by `connected`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_s: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout_s = timeout_s

    async def execute(self, command: str, **arguments: Any) -> Any:
        """Executes a command; what it returns.

        Raises:
            QmpError: it is refused, or the connection ends.
        """
        request = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._writer.write(json.dumps(request).encode() + b"\n")
        while True:
            answer = await self._read()
            if "error" in answer:
                raise QmpError(f"{command}: {answer['error'].get('desc', 'refused')}")
            if "return" in answer:
                return answer["return"]

    async def _read(self) -> dict[str, Any]:
        try:
            line = await asyncio.wait_for(self._reader.readline(), self._timeout_s)
            answer = json.loads(line)
        except (OSError, ValueError, TimeoutError) as error:
            raise QmpError(f"QEMU does not answer: {error or 'it takes too long'}") from error
        if not isinstance(answer, dict):
            raise QmpError("QEMU answers with something that is no object")
        return answer

    async def greet(self) -> None:
        """Takes the greeting and begins."""
        if "QMP" not in await self._read():
            raise QmpError("this is no QEMU")
        await self.execute("qmp_capabilities")


@asynccontextmanager
async def connected(path: Path, timeout_s: float = 5.0) -> AsyncIterator[Qmp]:
    """A connection to the QEMU whose control socket is `path`.

    Raises:
        QmpError: nobody is there, or nobody answers.
    """
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(path), timeout_s)
    except (OSError, TimeoutError) as error:
        raise QmpError(f"{path}: {error}") from error
    try:
        qmp = Qmp(reader, writer, timeout_s)
        await qmp.greet()
        yield qmp
    finally:
        writer.close()
