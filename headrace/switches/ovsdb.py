# SPDX-License-Identifier: Apache-2.0
"""A small asyncio OVSDB client (RFC 7047) for the Open_vSwitch database.

It writes configuration and waits until the switch has applied it: each transaction increments
`Open_vSwitch.next_cfg`, and the switch copies that into `cur_cfg` when it has applied the change,
the same handshake that ovs-vsctl uses. `cur_cfg` is monitored, not polled, and so is what the
driver asks of bridges, ports and interfaces: it is looked up in a copy, which the server keeps as
of the last transaction (`Copy`). A change has come into the copy before `configure` returns.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from headrace.machine.patience import patient
from headrace.switches.jsonrpc import JsonRpc, RpcError

DATABASE = "Open_vSwitch"
Row = dict[str, Any]


class OvsdbError(Exception):
    """A transaction failed or the switch did not apply it."""


class TransactionRefused(OvsdbError):
    """The database has refused a transaction, of which nothing has happened."""


def as_map(values: dict[str, str]) -> list[Any]:
    """A map in OVSDB notation (RFC 7047, section 5.1)."""
    return ["map", sorted([key, value] for key, value in values.items())]


def named(name: str) -> list[str]:
    """A reference to a row that is inserted in the same transaction."""
    return ["named-uuid", name]


def from_set(value: Any) -> list[Any]:
    """The members of an OVSDB set; a set of one may be written as the bare member."""
    return value[1] if isinstance(value, list) and value and value[0] == "set" else [value]


@dataclass(frozen=True)
class InterfaceRow:
    """An interface: its number in the flow tables (0: not in service), why not, its link."""

    name: str
    ofport: int = 0
    error: str = ""
    link: str = ""


class Copy:
    """Bridges, ports and interfaces of the database by their names."""

    COLUMNS: ClassVar[dict[str, list[str]]] = {
        "Open_vSwitch": ["cur_cfg"],
        "Bridge": ["name"],
        "Port": ["name"],
        "Interface": ["name", "ofport", "error", "link_state"],
    }

    def __init__(self) -> None:
        self.bridges: dict[str, str] = {}
        self.ports: dict[str, str] = {}
        self.interfaces: dict[str, InterfaceRow] = {}
        self._names: dict[tuple[str, str], str] = {}

    def take(self, tables: dict[str, Any]) -> None:
        """Applies the changes of a notification, by tables and rows (RFC 7047, 4.1.6)."""
        for table in ("Bridge", "Port", "Interface"):
            changes = tables.get(table, {}).items()
            # A name may go with one row and come with another in the same transaction.
            for uuid, change in changes:
                if "new" not in change:
                    self._drop(table, uuid)
            for uuid, change in changes:
                if "new" in change:
                    self._put(table, uuid, change["new"])

    def _drop(self, table: str, uuid: str) -> None:
        name = self._names.pop((table, uuid), None)
        if name is not None:
            self._of(table).pop(name, None)

    def _put(self, table: str, uuid: str, row: Row) -> None:
        name = str(row["name"])
        self._names[table, uuid] = name
        if table != "Interface":
            self._of(table)[name] = uuid
            return
        (number,) = from_set(row["ofport"]) or (0,)
        self.interfaces[name] = InterfaceRow(
            name,
            max(0, number),
            " ".join(map(str, from_set(row["error"]))),
            " ".join(map(str, from_set(row["link_state"]))),
        )

    def _of(self, table: str) -> dict[str, Any]:
        tables: dict[str, dict[str, Any]] = {
            "Bridge": self.bridges,
            "Port": self.ports,
            "Interface": self.interfaces,
        }
        return tables[table]


class Ovsdb:
    """One connection to ovsdb-server."""

    def __init__(self, rpc: JsonRpc) -> None:
        self._rpc = rpc
        self._current_config = -1
        self._changed = asyncio.Condition()
        self._waking: asyncio.Task[None] | None = None
        rpc.when_closed(self._closed)
        self.copy = Copy()

    @classmethod
    async def connect(cls, socket: Path, patience_s: float = 5.0) -> "Ovsdb":
        """Connects and monitors what `Copy` has.

        Raises:
            OvsdbError: no server answers on `socket`.
        """
        try:
            self = cls(await JsonRpc.connect(socket, patience_s))
            self._rpc.listen(self._updated)
            await self.ensure_root()
            wanted = {table: {"columns": columns} for table, columns in Copy.COLUMNS.items()}
            await self._note(await self._rpc.request("monitor", DATABASE, None, wanted))
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
        self.copy.take(tables)
        for change in tables.get("Open_vSwitch", {}).values():
            self._current_config = change.get("new", {}).get("cur_cfg", self._current_config)
        await self._wake()

    def _closed(self) -> None:
        self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[Copy], bool], timeout_s: float) -> None:
        """Returns when the copy fulfils a condition.

        Raises:
            TimeoutError: it does not within `timeout_s`.
            OvsdbError: the connection has broken: nothing more comes into the copy.
        """
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(lambda: condition(self.copy) or not self.open)
        if not condition(self.copy):
            raise OvsdbError("the database has closed the connection")

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
                raise TransactionRefused(f"{result['error']}: {result.get('details', '')}")
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
            OvsdbError: rejected, not applied within `timeout_s`, or the connection has broken.
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
        timeout_s = patient(timeout_s)
        wanted = results[len(operations) + 1]["rows"][0]["next_cfg"]
        try:
            await self.until(lambda _: self._current_config >= wanted, timeout_s)
        except TimeoutError as error:
            text = f"the switch did not act on a change of its configuration in {timeout_s:.0f} s"
            raise OvsdbError(text) from error
