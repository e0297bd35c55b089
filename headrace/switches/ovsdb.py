# SPDX-License-Identifier: Apache-2.0
"""A small asyncio OVSDB client (RFC 7047) for the Open_vSwitch database.

It writes configuration and waits until the switch has applied it: each transaction increments
`Open_vSwitch.next_cfg`, and the switch copies that into `cur_cfg` when it has applied the change,
the same handshake that ovs-vsctl uses. `cur_cfg` is monitored, not polled.
"""

import asyncio
from pathlib import Path
from typing import Any

from headrace.switches.jsonrpc import JsonRpc, RpcError

DATABASE = "Open_vSwitch"
Row = dict[str, Any]


class OvsdbError(Exception):
    """A transaction failed or the switch did not apply it."""


def as_map(values: dict[str, str]) -> list[Any]:
    """A map in OVSDB notation (RFC 7047, section 5.1)."""
    return ["map", sorted([key, value] for key, value in values.items())]


def named(name: str) -> list[str]:
    """A reference to a row that is inserted in the same transaction."""
    return ["named-uuid", name]


def from_set(value: Any) -> list[Any]:
    """The members of an OVSDB set; a set of one may be written as the bare member."""
    return value[1] if isinstance(value, list) and value and value[0] == "set" else [value]


class Ovsdb:
    """One connection to ovsdb-server."""

    def __init__(self, rpc: JsonRpc) -> None:
        self._rpc = rpc
        self._current_config = -1
        self._config_changed = asyncio.Condition()

    @classmethod
    async def connect(cls, socket: Path, patience_s: float = 5.0) -> "Ovsdb":
        """Connects and monitors `cur_cfg`.

        Raises:
            OvsdbError: no server answers on `socket`.
        """
        try:
            self = cls(await JsonRpc.connect(socket, patience_s))
            self._rpc.listen(self._updated)
            await self.ensure_root()
            columns = {"columns": ["cur_cfg"]}
            await self._note(
                await self._rpc.request("monitor", DATABASE, None, {"Open_vSwitch": columns})
            )
        except RpcError as error:
            raise OvsdbError(str(error)) from error
        return self

    @property
    def open(self) -> bool:
        """Whether the connection is open."""
        return self._rpc.open

    async def close(self) -> None:
        """Closes the connection."""
        await self._rpc.close()

    async def _updated(self, method: str, params: list[Any]) -> None:
        if method == "update":
            await self._note(params[1])

    async def _note(self, tables: dict[str, Any]) -> None:
        for change in tables.get("Open_vSwitch", {}).values():
            async with self._config_changed:
                self._current_config = change.get("new", {}).get("cur_cfg", self._current_config)
                self._config_changed.notify_all()

    async def transact(self, *operations: Row) -> list[Row]:
        """Runs operations as one transaction; returns their results.

        Raises:
            OvsdbError: the database rejected one; the text is the server's.
        """
        try:
            results: list[Row] = await self._rpc.request("transact", DATABASE, *operations)
        except RpcError as error:
            raise OvsdbError(str(error)) from error
        for result in results:
            if result and result.get("error"):
                raise OvsdbError(f"{result['error']}: {result.get('details', '')}")
        return results

    async def ensure_root(self) -> None:
        """Inserts the single row of table Open_vSwitch if the database is new."""
        if not await self.select("Open_vSwitch", ["_uuid"]):
            await self.transact({"op": "insert", "table": "Open_vSwitch", "row": {}})

    async def select(
        self, table: str, columns: list[str], where: list[list[Any]] | None = None
    ) -> list[Row]:
        """The rows of a table that fulfil all conditions."""
        query = {"op": "select", "table": table, "where": where or [], "columns": columns}
        rows: list[Row] = (await self.transact(query))[0]["rows"]
        return rows

    async def configure(self, *operations: Row, timeout_s: float = 30.0) -> None:
        """Runs a transaction and waits until the switch has applied it.

        Raises:
            OvsdbError: rejected, or not applied within `timeout_s`.
        """
        follow: list[Row] = [
            {
                "op": "mutate",
                "table": "Open_vSwitch",
                "where": [],
                "mutations": [["next_cfg", "+=", 1]],
            },
            {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg"]},
        ]
        results = await self.transact(*operations, *follow)
        wanted = results[len(operations) + 1]["rows"][0]["next_cfg"]
        try:
            async with self._config_changed:
                await asyncio.wait_for(
                    self._config_changed.wait_for(lambda: self._current_config >= wanted),
                    timeout_s,
                )
        except TimeoutError as error:
            text = f"the switch did not act on a change of its configuration in {timeout_s:.0f} s"
            raise OvsdbError(text) from error
