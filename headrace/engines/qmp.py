# SPDX-License-Identifier: Apache-2.0
"""QEMU's control socket: the QEMU Machine Protocol, by the library qemu.qmp."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from qemu.qmp import ExecuteError, QMPClient
from qemu.qmp.error import QMPError


class QmpError(Exception):
    """QEMU does not answer, or refuses; the text says which."""


class Qmp:
    """A connection to a running QEMU; made by `connected`."""

    def __init__(self, client: QMPClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def execute(self, command: str, **arguments: Any) -> Any:
        """Executes a command; what it returns.

        Raises:
            QmpError: it is refused, or the connection ends.
        """
        try:
            return await asyncio.wait_for(
                self._client.execute(command, arguments or None), self._timeout_s
            )
        except ExecuteError as error:
            raise QmpError(f"{command}: {error}") from error
        except (OSError, QMPError, TimeoutError) as error:
            raise QmpError(f"QEMU does not answer: {_said(error)}") from error


@asynccontextmanager
async def connected(path: Path, timeout_s: float = 5.0) -> AsyncIterator[Qmp]:
    """A connection to the QEMU whose control socket is `path`.

    Raises:
        QmpError: nobody is there, or nobody answers.
    """
    client = QMPClient()
    client.logger.disabled = True  # what fails is told by the exception
    try:
        await asyncio.wait_for(client.connect(str(path)), timeout_s)
    except (OSError, QMPError, TimeoutError) as error:
        await _close(client)
        raise QmpError(f"{path}: {_said(error)}") from error
    try:
        yield Qmp(client, timeout_s)
    finally:
        await _close(client)


def _said(error: Exception) -> str:
    return str(error) or "it takes too long"


async def _close(client: QMPClient) -> None:
    """Ends a connection, however it stands."""
    try:
        await client.disconnect()
    except (OSError, QMPError, EOFError, TimeoutError):
        return  # it had ended by itself
