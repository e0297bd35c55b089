# SPDX-License-Identifier: Apache-2.0
"""Changes at the same time are one transaction, and each learns what became of its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.switches.group_commit import AT_ONCE, GroupCommit, Operation, renamed
from headrace.switches.ovsdb import OvsdbError, TransactionRefused


class Database:
    """Keeps what it was given; refuses `bad` operations; `slow` ones are not applied in time."""

    def __init__(self) -> None:
        self.transactions: list[list[Any]] = []
        self.applied: list[Any] = []
        self.commit = GroupCommit(self.run, TransactionRefused)

    async def run(self, operations: Sequence[Operation]) -> None:
        words = [operation["op"] for operation in operations]
        self.transactions.append(words)
        await asyncio.sleep(0.01)
        if "bad" in words:
            raise TransactionRefused("bad")
        self.applied += words
        if "slow" in words:
            raise OvsdbError("the switch did not act")

    async def add(self, *words: str) -> None:
        await self.commit.add([{"op": word} for word in words])


async def test_what_comes_at_the_same_time_is_one_transaction() -> None:
    database = Database()
    await asyncio.gather(*(database.add(f"a{n}", f"b{n}") for n in range(10)))
    assert database.transactions == [[f"{x}{n}" for n in range(10) for x in "ab"]]
    first = asyncio.create_task(database.add("first"))
    await asyncio.sleep(0.005)
    await asyncio.gather(*(database.add(f"c{n}") for n in range(5)), first)
    assert database.transactions[1:] == [["first"], [f"c{n}" for n in range(5)]]


async def test_only_who_is_wrong_learns_of_it() -> None:
    database = Database()
    results = await asyncio.gather(
        *(database.add(word) for word in ("a", "bad", "b")), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), TransactionRefused, type(None)]
    assert database.applied == ["a", "b"]


async def test_what_was_done_is_not_done_again() -> None:
    """A switch that is slow has the change already."""
    database = Database()
    results = await asyncio.gather(database.add("a"), database.add("slow"), return_exceptions=True)
    assert all(type(result) is OvsdbError for result in results)
    assert database.applied == ["a", "slow"] and len(database.transactions) == 1


async def test_a_cancelled_one_holds_up_nobody() -> None:
    database = Database()
    one, other = (asyncio.create_task(database.add(word)) for word in "ab")
    await asyncio.sleep(0.005)
    one.cancel()
    await other
    with pytest.raises(asyncio.CancelledError):
        await one
    await database.add("c")
    assert database.applied == ["a", "b", "c"]


async def test_a_transaction_has_its_bound() -> None:
    database = Database()
    await asyncio.gather(*(database.add(str(n)) for n in range(2 * AT_ONCE + 1)))
    assert [len(words) for words in database.transactions] == [AT_ONCE, AT_ONCE, 1]


def test_names_of_new_rows_are_told_apart() -> None:
    def insert(port: str, interface: str, queue: str) -> dict[str, Any]:
        members = ["set", [["named-uuid", queue]]]
        row = {"name": "port", "interfaces": ["named-uuid", interface], "queues": members}
        return {"op": "insert", "uuid-name": port, "row": row}

    assert renamed(insert("p", "i", "q"), "_7") == insert("p_7", "i_7", "q_7")
