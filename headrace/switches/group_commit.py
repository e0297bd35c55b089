# SPDX-License-Identifier: Apache-2.0
"""Changes of a database that come at the same time, as one transaction.

A switch acts on a transaction as a whole, in a time that grows with what it has, so many small ones
are many times as slow as one. What comes while a transaction is under way waits for the next. If a
transaction of several is refused, nothing of it has happened, and each is tried by itself, so that
only who was wrong learns of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Operation = dict[str, Any]
AT_ONCE = 256
"""Changes in one transaction, at most."""


class GroupCommit:
    """Runs changes by `run`, which takes the operations of one transaction.

    `refused` is the exception by which `run` says that nothing of them has happened.
    """

    def __init__(
        self, run: Callable[[Sequence[Operation]], Awaitable[None]], refused: type[Exception]
    ) -> None:
        self._run, self._refused = run, refused
        self._waiting: list[tuple[Sequence[Operation], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, operations: Sequence[Operation]) -> None:
        """Runs the operations, with whatever others come now; returns when they are in force.

        Raises:
            Exception: what `run` raises of them.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((operations, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        await done

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # others may come in the same turn of the loop
            batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            together = [
                renamed(each, f"_{number}")
                for number, (operations, _) in enumerate(batch)
                for each in operations
            ]
            if not await self._try(together, [done for _, done in batch], alone=len(batch) == 1):
                for operations, done in batch:
                    await self._try(operations, [done], alone=True)

    async def _try(
        self, operations: Sequence[Operation], waiting: list[asyncio.Future[None]], alone: bool
    ) -> bool:
        """Whether whoever waits has an answer now: not if only one of several was wrong."""
        try:
            await self._run(operations)
        except Exception as error:
            if isinstance(error, self._refused) and not alone:
                return False
            for done in waiting:
                if not done.done():  # whoever waited may have been cancelled
                    done.set_exception(error)
            return True
        for done in waiting:
            if not done.done():
                done.set_result(None)
        return True


def renamed(value: Any, suffix: str) -> Any:
    """The operation with other names of its new rows, which are those of one transaction."""
    if isinstance(value, dict):
        return {
            key: f"{item}{suffix}" if key == "uuid-name" else renamed(item, suffix)
            for key, item in value.items()
        }
    if isinstance(value, list):
        if len(value) == 2 and value[0] == "named-uuid":
            return ["named-uuid", f"{value[1]}{suffix}"]
        return [renamed(item, suffix) for item in value]
    return value
