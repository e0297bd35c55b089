# SPDX-License-Identifier: Apache-2.0
"""The node under test, in its own dialect: what every test needs of its interfaces.

A test judges what it is about. What it needs only as preparation is judged by its effect: `bring`
is content with a graph that is there, whatever code announced it, since the answer to a deployment
is the matter of Test 3, that to a modification of Test 4, and that to a deletion of Test 5.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from headrace.conformance.dialects import Dialect
from headrace.conformance.findings import NotApplicable, Stopped
from headrace.conformance.graphs import Graph
from headrace.conformance.rest import Answer, NoAnswer, Rest

_numbers = itertools.count(1)
_POLL_S = 0.05


class Node:
    """A node, by its address and dialect.

    Args:
        rest: its interface.
        dialect: the generation that it is of.
        repository: its datastore, if that is at an address of its own.
        patience_s: how long a graph may take to be complete.
    """

    def __init__(
        self,
        rest: Rest,
        dialect: Dialect,
        repository: Rest | None = None,
        patience_s: float = 60.0,
    ) -> None:
        self.rest, self.dialect = rest, dialect
        self.repository = repository or (rest if dialect.repository else None)
        self._patience_s = patience_s
        self._up: list[str] = []

    async def close(self) -> None:
        """Closes the connections."""
        if self.repository is not None and self.repository is not self.rest:
            await self.repository.close()
        await self.rest.close()

    def name(self) -> str:
        """An id that no graph of these tests has had."""
        return f"conformance{next(_numbers)}"

    async def deploy(self, name: str, graph: Graph) -> tuple[Answer, str]:
        """The answer to a deployment, and the id that the graph has."""
        answer, given = await self.dialect.deploy(self.rest, name, graph)
        if answer.good and given:
            self._up.append(given)
        return answer, given

    async def bring(self, graph: Graph, name: str | None = None) -> str:
        """Deploys a graph and waits until it is complete; returns its id.

        Raises:
            Stopped: the node does not get there; with its answer.
        """
        wanted = name or self.name()
        answer, given = await self.deploy(wanted, graph)
        if not given or not await self._settled(given):
            raise Stopped(f"a graph could not be deployed: {answer}")
        if given not in self._up:
            self._up.append(given)
        return given

    async def change(self, name: str, graph: Graph) -> None:
        """Gives a graph its new version and waits until it is complete.

        Raises:
            Stopped: the node does not get there; with its answer.
        """
        answer = await self.dialect.modify(self.rest, name, graph)
        if answer.status in (400, 404, 405, 409) or not await self._settled(name):
            raise Stopped(f"a graph could not be modified: {answer}")

    async def remove(self, name: str) -> Answer:
        """Tears a graph down; its answer."""
        answer = await self.dialect.delete(self.rest, name)
        with suppress(ValueError):
            self._up.remove(name)
        return answer

    async def clear(self) -> None:
        """Tears down what the test has left."""
        for name in list(self._up):
            with suppress(NoAnswer):
                await self.remove(name)

    @asynccontextmanager
    async def with_graph(self, graph: Graph) -> AsyncIterator[str]:
        """Within it a graph is deployed; its id."""
        name = await self.bring(graph)
        try:
            yield name
        finally:
            await self.remove(name)

    async def status(self, name: str) -> Answer:
        """The answer to GET of a graph's status."""
        return await self.rest.get(f"{self.dialect.root}/status/{name}")

    async def data(self, name: str) -> Answer:
        """The answer to GET of a graph."""
        return await self.rest.get(self.dialect.place(name))

    async def _settled(self, name: str) -> bool:
        """Whether a graph gets complete; one whose status can't be read is there if it is told."""
        if not self.dialect.status:
            return (await self.data(name)).good
        end = asyncio.get_running_loop().time() + self._patience_s
        while asyncio.get_running_loop().time() < end:
            answer = await self.status(name)
            if not answer.good or answer.member("status") == "error":
                return False
            if answer.member("status") == "complete":
                return True
            await asyncio.sleep(_POLL_S)
        return False

    def need_own(self, what: str) -> None:
        """Ends a test of what only the Headrace dialect has.

        Raises:
            NotApplicable: it is another generation.
        """
        if not self.dialect.own:
            raise NotApplicable(
                f"the API of generation {self.dialect.name} has no primitive for {what}"
            )

    async def member(self, path: str, *where: str | int) -> Any:
        """What is at a place of the answer to GET `path`; None if nothing is."""
        return (await self.rest.get(path)).member(*where)

    async def templates(self) -> list[tuple[str, Graph]]:
        """The templates of the repository, with their ids.

        Raises:
            NotApplicable: none can be reached.
        """
        entries = (await self.need_repository().get("/v2/nf_template")).member("list")
        return [
            (str(entry.get("id")), entry.get("template") or {})
            for entry in entries or []
            if isinstance(entry, dict)
        ]

    def need_repository(self) -> Rest:
        """The repository of templates and images.

        Raises:
            NotApplicable: none was given.
        """
        if self.repository is None:
            raise NotApplicable("the node's datastore is elsewhere: give its address (--datastore)")
        return self.repository
