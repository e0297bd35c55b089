# SPDX-License-Identifier: Apache-2.0
"""How an OpenFlow switch is reached: the node connects to it, or listens and waits for it.

Addresses are written as Open vSwitch writes them, from our side: `tcp:HOST:PORT` and
`tls:HOST:PORT` connect, `ptcp:PORT[:ADDRESS]` and `ptls:PORT[:ADDRESS]` listen (at 127.0.0.1 unless
told otherwise). A switch ends connections on which its echo requests get no answer, so each
connection is tended until it is closed.
"""

import asyncio
import contextlib
import ssl

from headrace.switches.base import SwitchError
from headrace.switches.openflow import OpenFlowSession

_PATIENCE_S = 10.0
_PROBE_S = 1.0


class OpenFlowTarget:
    """One switch."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        """`tls` goes with the addresses `tls:` and `ptls:`.

        Raises:
            SwitchError: the address is wrong.
        """
        self._address, self._tls = address, tls
        kind, _, rest = address.partition(":")
        if kind in ("tcp", "tls"):
            host, _, port = rest.rpartition(":")
        elif kind in ("ptcp", "ptls"):
            port, _, host = rest.partition(":")
            host = host or "127.0.0.1"
        else:
            host, port = "", ""
        if not host or not port.isdigit() or int(port) > 65535:
            text = "is none of tcp:HOST:PORT, tls:HOST:PORT, ptcp:PORT[:ADDRESS], ptls:..."
            raise SwitchError(f"switch_options.address: {address!r} {text}")
        self._listens = kind.startswith("p")
        self._host, self._port = host.strip("[]"), int(port)
        self._server: asyncio.Server | None = None
        self._arrived: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._arrived = asyncio.Queue()
        self._tending: set[asyncio.Task[None]] = set()

    async def connect(self) -> OpenFlowSession:
        """A new connection.

        Raises:
            SwitchError: the switch is not there, or does not speak OpenFlow 1.3.
        """
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        session = await (self._wait(deadline) if self._listens else self._reach(deadline))
        task = asyncio.create_task(_tend(session))
        self._tending.add(task)
        task.add_done_callback(self._tending.discard)
        return session

    async def _reach(self, deadline: float) -> OpenFlowSession:
        while True:
            try:
                streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
                return await OpenFlowSession.over(*streams, self._address)
            except ssl.SSLError as error:
                raise SwitchError(f"{self._address}: TLS: {error}") from error
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise SwitchError(f"no switch at {self._address}: {error}") from error
            await asyncio.sleep(0.05)

    async def _wait(self, deadline: float) -> OpenFlowSession:
        if self._server is None:
            try:
                self._server = await asyncio.start_server(
                    lambda reader, writer: self._arrived.put_nowait((reader, writer)),
                    self._host,
                    self._port,
                    ssl=self._tls,
                )
            except OSError as error:
                raise SwitchError(f"cannot listen at {self._address}: {error}") from error
        left = deadline - asyncio.get_running_loop().time()
        while True:
            try:
                reader, writer = await asyncio.wait_for(self._arrived.get(), max(left, 0.01))
            except TimeoutError as error:
                text = f"no switch has connected to {self._address} in {_PATIENCE_S:g} s"
                raise SwitchError(text) from error
            if not reader.at_eof():  # one that has been there and gone is not waited for
                return await OpenFlowSession.over(reader, writer, self._address)

    async def close(self) -> None:
        """Listens no more; connections are closed by who has them."""
        for task in list(self._tending):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._server is not None:
            self._server.close()
            self._server = None


async def _tend(session: OpenFlowSession) -> None:
    """Answers the switch's echo requests as long as the connection stands."""
    while not session.closed:
        await asyncio.sleep(_PROBE_S)
        try:
            await session.probe()
        except (SwitchError, OSError):
            await session.close()
