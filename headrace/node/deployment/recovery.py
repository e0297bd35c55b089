# SPDX-License-Identifier: Apache-2.0
"""What is done with graphs after a start of the node or of its switch.

What an earlier run left is finished or undone, and what has gone with the switch is made again.
"""

import asyncio
from dataclasses import replace

from headrace.node.deployment.lifecycle import GraphManager, log, text_of
from headrace.node.deployment.store import GraphRecord, GraphState
from headrace.node.errors import StoreFault
from headrace.node.planning.resources import EMPTY_PLAN, Plan

_AT_ONCE = 64
"""Graphs that are recovered at the same time."""

NODE_STEPS = "//node"  # the owner, in the store, of LSI-0 and its ports; no graph can have this id


class RecoveringGraphs(GraphManager):
    """All graphs of a node, which outlive it and its switch."""

    @property
    def recovering(self) -> int:
        """How many graphs wait to be recovered, or are."""
        return len(self._returning)

    def doubt(self) -> None:
        """Notes that no graph runs, because the switch does not; recover() makes them run again."""
        self._switch_ends += 1
        running = [r for r in self._store.graphs() if r.state is GraphState.RUNNING]
        self._doubted = {record.id for record in running}
        self._returning |= self._doubted
        self._store.put_late(replace(record, state=GraphState.DEPLOYING) for record in running)
        self._store.flush()

    async def prepare(self, node_plan: Plan, adopted: bool) -> None:
        """Makes LSI-0, on which all graphs are; `recover` goes on from there.

        `adopted` tells that the switch has run on and holds what the rows say; else everything is
        made again. Rules on ports that node.yaml has otherwise now go before that.

        Raises:
            SwitchError: it could not be made.
        """
        if adopted:
            ports = await self._transition.changing_ports(NODE_STEPS, node_plan)
            for record in self._store.graphs() if ports else ():
                await self._transition.detach(record.id, ports)
        await self._run(NODE_STEPS, node_plan, distrust=not adopted)
        self._store.write_notes()

    async def recover(self, adopted: bool) -> None:
        """Finishes or undoes what the last run of the node left, many graphs at once.

        A graph that fails is marked and does not stop the others. What clients ask for meanwhile
        follows, graph by graph, what is done here.
        """
        gate = asyncio.Semaphore(_AT_ONCE)
        records = self._store.graphs()
        self._returning = {record.id for record in records}

        async def one(record: GraphRecord) -> None:
            async with gate:
                self._working[record.id] += 1
                try:
                    await self._recover(record.id, adopted)
                except Exception as error:  # one graph's fault is not that of the others
                    log.error("graph %s: %s", record.id, text_of(error))
                finally:
                    self._left(record.id)
                    self._returning.discard(record.id)
                    if len(self._returning) % _AT_ONCE == 0:
                        self._flush()

        try:
            await asyncio.gather(*(one(record) for record in records))
        finally:
            self._returning.clear()
            self._doubted.clear()
            self._flush()

    def _flush(self) -> None:
        try:
            self._store.flush()
        except StoreFault as error:  # they are made again after a crash, and else written later
            log.error("%s", error)

    def unfinished(self) -> list[GraphRecord]:
        """Graphs whose work has ended without an end, as for a full disk, or left something."""
        return [
            record
            for record in self._store.graphs()
            if not self._working[record.id]
            and record.id not in self._returning
            and (
                self._store.steps(record.id)
                if record.state is GraphState.FAILED
                else record.state is not GraphState.RUNNING
            )
        ]

    async def resume(self, graph_id: str) -> None:
        """Finishes or undoes what was left of a graph, as `recover` does.

        Raises:
            SwitchError, EngineError, NodeError: it cannot be done now, either.
        """
        if self._working[graph_id]:
            return
        self._working[graph_id] += 1
        try:
            await self._recover(graph_id, adopted=True)
        finally:
            self._left(graph_id)

    async def _recover(self, graph_id: str, adopted: bool) -> None:
        record = self._store.graph(graph_id)
        if record is None:
            return
        if record.state is GraphState.DELETING:
            await self._delete(graph_id)
        elif record.state is GraphState.FAILED:
            async with self._locks[graph_id]:
                await self._run(graph_id, EMPTY_PLAN)
                self._store.write_notes()
        else:
            # What was being made when the node ended may have been begun on an empty switch; what
            # this process itself doubts is there if the switch was adopted.
            doubtful = record.state is GraphState.DEPLOYING and graph_id not in self._doubted
            held = self.held(record.plan.vnfs())  # what stays ended, over a restart of the node
            await self._deploy(graph_id, distrust=doubtful or not adopted, held=held)
