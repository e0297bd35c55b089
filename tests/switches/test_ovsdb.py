# SPDX-License-Identifier: Apache-2.0
"""The OVSDB client against a server whose end of the conversation is written here."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.switches.jsonrpc import MessageSplitter
from headrace.switches.ovsdb import Ovsdb, OvsdbError

ROOT = "00000000-0000-4000-8000-000000000000"


class Server:
    """Takes every transaction, and tells of what the switch has applied if `applies`."""

    def __init__(self, *, applies: bool) -> None:
        self._applies = applies
        self._next_cfg = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        self._writers.append(writer)
        splitter = MessageSplitter()
        while data := await reader.read(1 << 16):
            for message in splitter.feed(data):
                self._answer(json.loads(message), writer)

    def _answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        result: Any = {"Open_vSwitch": {ROOT: {"new": {"cur_cfg": 0}}}}
        if request["method"] == "transact":
            operations = request["params"][1:]
            self._next_cfg += sum(1 for each in operations if each["op"] == "mutate")
            rows = {"rows": [{"_uuid": ["uuid", ROOT], "next_cfg": self._next_cfg}]}
            result = [rows if each["op"] == "select" else {} for each in operations]
        self._send(writer, {"id": request["id"], "result": result, "error": None})
        if self._applies and request["method"] == "transact":
            tables = {"Open_vSwitch": {ROOT: {"new": {"cur_cfg": self._next_cfg}}}}
            self._send(writer, {"id": None, "method": "update", "params": [None, tables]})

    @staticmethod
    def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        writer.write(json.dumps(message).encode())

    def end(self) -> None:
        """Closes all connections, as the end of the process does."""
        for writer in self._writers:
            writer.close()


async def test_a_change_is_waited_for_until_the_switch_has_applied_it(tmp_path: Path) -> None:
    server = Server(applies=True)
    async with await asyncio.start_unix_server(server.serve, tmp_path / "db.sock"):
        database = await Ovsdb.connect(tmp_path / "db.sock")
        async with asyncio.timeout(20):
            await database.configure({"op": "insert", "table": "Bridge", "row": {}})
        await database.close()
        server.end()


async def test_a_change_fails_at_once_when_the_database_ends(tmp_path: Path) -> None:
    server = Server(applies=False)
    async with await asyncio.start_unix_server(server.serve, tmp_path / "db.sock"):
        database = await Ovsdb.connect(tmp_path / "db.sock")
        waiting = asyncio.create_task(database.configure(timeout_s=3600))
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done
        server.end()
        async with asyncio.timeout(20):
            with pytest.raises(OvsdbError, match="the database has closed the connection"):
                await waiting
        assert not database.open
        await database.close()
