# SPDX-License-Identifier: Apache-2.0
"""VPP's binary API by its own Python binding (vpp_papi), which blocks: one thread calls it.

The definitions of the messages come from the VPP that answers (`get_api_json`, VPP 22.10 and
later), so they are those of its version; what it does not have is an error that names the message.
"""

import asyncio
import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from vpp_papi import VPPApiClient

from headrace.switches.base import SwitchError

_PATIENCE_S = 10
_QUIET = logging.getLogger("headrace.vpp")
_QUIET.setLevel(logging.CRITICAL)  # it is an error of the caller's, raised


class VppApi:
    """A connection to VPP's API socket, made when it is first needed."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._client: VPPApiClient | None = None
        self._thread = ThreadPoolExecutor(1, "vpp")

    async def call(self, message: str, **fields: Any) -> Any:
        """Sends a message and returns its reply.

        Raises:
            SwitchError: VPP does not answer, does not know the message, or refuses it.
        """
        reply = await self._in_thread(message, fields)
        value = getattr(reply, "retval", 0)
        if value < 0:
            raise SwitchError(f"vpp: {message}: VPP refuses it with {value}{_shown(fields)}")
        return reply

    async def dump(self, message: str, **fields: Any) -> list[Any]:
        """Sends a `..._dump` message and returns all details.

        Raises:
            SwitchError: as `call`.
        """
        found: list[Any] = await self._in_thread(message, fields)
        return found

    async def close(self) -> None:
        """Closes the connection."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)

    async def has(self, message: str) -> bool:
        """Whether this VPP knows a message."""
        return bool(
            await asyncio.get_running_loop().run_in_executor(self._thread, self._has, message)
        )

    async def _in_thread(self, message: str, fields: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._call, message, fields)

    def _connected(self) -> VPPApiClient:
        if self._client is not None:
            return self._client
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the binding's own
            client = VPPApiClient(
                server_address=str(self._socket),
                bootstrapapi=True,
                read_timeout=_PATIENCE_S,
                async_thread=False,
                logger=_QUIET,
            )
            self._connect(client)
        self._client = client
        return client

    def _connect(self, client: VPPApiClient) -> None:
        try:
            client.connect("headrace")
        except Exception as error:  # the binding raises what it happens to meet
            raise SwitchError(
                f"vpp: no VPP answers on {self._socket}: {error}; start it with "
                f"`socksvr {{ socket-name {self._socket} }}` in its configuration"
            ) from error

    def _has(self, message: str) -> bool:
        return hasattr(self._connected().api, message)

    def _call(self, message: str, fields: dict[str, Any]) -> Any:
        client = self._connected()
        function = getattr(client.api, message, None)
        if function is None:
            raise SwitchError(f"vpp: this VPP has no message {message}; is its plugin loaded?")
        try:
            return function(**fields)
        except Exception as error:  # as above
            self._drop()
            raise SwitchError(f"vpp: {message}: {type(error).__name__}: {error}") from error

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()


def _shown(fields: dict[str, Any]) -> str:
    named = ", ".join(f"{name}={value}" for name, value in fields.items())
    return f" ({named})" if named else ""
