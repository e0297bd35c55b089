# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of graphs: create, update, delete; what a crash left is for `recovery.py`.

Planning and noting the plan happen without a pause in between, so two requests never plan on the
same free core or port. The work itself runs in one task per graph; requests on different graphs
overlap, those on the same graph follow each other.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.engines.base import EngineError, VnfSpec
from headrace.node.deployment.drafts import Drafts
from headrace.node.deployment.store import GraphRecord, GraphState, Store
from headrace.node.deployment.transition import Transition
from headrace.node.errors import Busy, DeployFailed, NodeError, NotFound, SwitchDown
from headrace.node.events import EventKind, Events
from headrace.node.planning.holdings import Holdings, Others
from headrace.node.planning.memory import Memory
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.replicas import Replicas
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from headrace.node.planning.surroundings import Surroundings
from headrace.switches.base import RuleStatistics, SwitchError

log = logging.getLogger("headrace.node")


def text_of(error: BaseException) -> str:
    """What a failure says; its kind, too, if it is none of those that are written for people."""
    if isinstance(error, (SwitchError, EngineError, NodeError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


@dataclass
class _Progress:
    done: int = 0
    total: int = 0

    def percentage(self) -> int:
        """How much of the current work is done, 0 to 99 while it runs."""
        return min(99, 100 * self.done // self.total) if self.total else 0


class GraphManager:
    """All graphs of a node. `surroundings` gives the node's state without the graphs."""

    def __init__(
        self,
        store: Store,
        transition: Transition,
        surroundings: Callable[[Others], Surroundings],
        memory: Memory,
        events: Events,
    ) -> None:
        self._store = store
        self._transition = transition
        self.drafts = Drafts(store, surroundings, memory)
        self._events = events
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._progress: dict[str, _Progress] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._working: Counter[str] = Counter()
        self.changed: Callable[[str], None] = lambda graph_id: None
        """Called with the id of a graph that a client creates, updates or deletes."""
        self.held: Callable[[Iterable[VnfSpec]], frozenset[str]] = lambda vnfs: frozenset()
        """The ids of those VNFs that stay ended."""
        self.switch_down: Callable[[], str | None] = lambda: None
        """Why the switch cannot be changed now, if it has ended and is not there again."""
        self._switch_ends = 0
        """How often the switch has been found ended."""
        self._last_counts: dict[tuple[str, str], RuleStatistics] = {}
        self._returning: set[str] = set()
        self._doubted: set[str] = set()

    # Reading.

    @property
    def holdings(self) -> Holdings:
        """What the graphs hold or may still hold."""
        return self.drafts.holdings

    def records(self) -> list[GraphRecord]:
        """All graphs."""
        return self._store.graphs()

    def record(self, graph_id: str) -> GraphRecord:
        """One graph.

        Raises:
            NotFound: there is none with this id.
        """
        record = self._store.graph(graph_id)
        if record is None:
            raise NotFound("graphs", f"there is no graph {graph_id!r}")
        return record

    def percentage(self, record: GraphRecord) -> int:
        """How far the work on a graph is."""
        if record.state is GraphState.RUNNING:
            return 100
        return self._progress.get(record.id, _Progress()).percentage()

    def _put(self, record: GraphRecord) -> None:
        self._store.put_graph(record)
        self.drafts.note(record)

    def _forget(self, graph_id: str) -> None:
        self._store.delete_graph(graph_id)
        self.drafts.forget(graph_id)

    def read(self, document: dict[str, Any]) -> ForwardingGraph:
        """The graph of a document.

        Raises:
            GraphRefused: it is none; names the place.
        """
        return self.drafts.read(document)

    # Changing.

    def draft(self, graph_id: str, document: dict[str, Any]) -> Plan:
        """The plan that `create` or `update` would follow; nothing happens.

        Raises:
            GraphRefused, Busy: as they do.
        """
        old = self._store.graph(graph_id)
        if old is None:
            return self.drafts.plan(graph_id, self._store.free_number(), document, EMPTY_PLAN)
        return self.drafts.plan(graph_id, old.number, document, self._held(old))

    def _held(self, record: GraphRecord) -> Plan:
        """What an update of a graph begins with.

        Raises:
            Busy: another change of this graph is under way.
        """
        if record.state is GraphState.RUNNING:
            return record.plan
        if self._working[record.id] or record.id in self._returning:
            text = f"graph {record.id} is {record.state}; try again when it is done"
            raise Busy("graphs", text)
        return EMPTY_PLAN  # it failed, or its work ended without an end: begin anew from the rows

    def create(
        self, graph_id: str, document: dict[str, Any], plan: Plan | None = None
    ) -> asyncio.Task[None]:
        """Begins to deploy a new graph; the task ends when it runs, or raises.

        `plan` is what `draft` has just given for it, without a pause since.

        Raises:
            GraphRefused: the document is wrong or the node cannot carry it; nothing has happened.
            SwitchDown: the switch is being started again; nothing has happened.
        """
        self._demand_switch()
        number = self._store.free_number()
        if plan is None:
            plan = self.drafts.plan(graph_id, number, document, EMPTY_PLAN)
        self._put(GraphRecord(graph_id, number, GraphState.DEPLOYING, document, plan))
        return self._spawn(graph_id, self._deploy(graph_id))

    def update(
        self, graph_id: str, document: dict[str, Any], plan: Plan | None = None
    ) -> asyncio.Task[None]:
        """Begins to bring a graph to a new version; see `create`.

        Raises:
            GraphRefused: as `create`.
            Busy: another change of this graph is under way.
            NotFound: there is no such graph.
            SwitchDown: as `create`.
        """
        self._demand_switch()
        old = self.record(graph_id)
        old = replace(old, plan=self._held(old))
        if plan is None:
            plan = self.drafts.plan(graph_id, old.number, document, old.plan)
        self._put(
            GraphRecord(
                graph_id,
                old.number,
                GraphState.UPDATING,
                document,
                plan,
                previous_document=old.document,
                previous_plan=old.plan,
            )
        )
        return self._spawn(graph_id, self._deploy(graph_id))

    def rescale(self, graph_id: str, replicas: Mapping[str, Replicas]) -> asyncio.Task[None]:
        """Begins to give the VNFs of a running graph other numbers of replicas; see `create`.

        Raises:
            GraphRefused: as `create`.
            Busy: a change of this graph is under way, or it does not run.
            NotFound: there is no such graph.
            SwitchDown: as `create`.
        """
        self._demand_switch()
        old = self.record(graph_id)
        if old.state is not GraphState.RUNNING or self._working[graph_id]:
            raise Busy("graphs", f"graph {graph_id} is {old.state}; it is scaled when that is done")
        plan = self.drafts.plan(graph_id, old.number, old.document, old.plan, replicas)
        self._put(
            replace(
                old,
                state=GraphState.UPDATING,
                plan=plan,
                previous_document=old.document,
                previous_plan=old.plan,
            )
        )
        return self._spawn(graph_id, self._deploy(graph_id), by_client=False)

    def delete(self, graph_id: str) -> asyncio.Task[None]:
        """Begins to remove a graph.

        Raises:
            NotFound: there is no such graph.
            SwitchDown: as `create`.
        """
        record = self.record(graph_id)
        self._demand_switch()
        self._put(replace(record, state=GraphState.DELETING))
        return self._spawn(graph_id, self._delete(graph_id))

    def _demand_switch(self) -> None:
        why = self.switch_down()
        if why is not None:
            raise SwitchDown("switch", f"{why}; nothing was changed")

    def forget_failed(self, graph_id: str) -> None:
        """Forgets a graph whose deployment failed, if nothing of it is left to be removed."""
        record = self.record(graph_id)
        if record.state is GraphState.FAILED and not self._store.steps(graph_id):
            self._forget(graph_id)

    def is_worked_on(self, graph_id: str) -> bool:
        """Whether a change of the graph is under way."""
        return self._working[graph_id] > 0

    def _spawn(self, graph_id: str, work: Any, by_client: bool = True) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        self._working[graph_id] += 1
        if by_client:
            self.changed(graph_id)
        task.add_done_callback(lambda done: self._finished(graph_id, done))
        return task

    def _finished(self, graph_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._left(graph_id)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s", task.exception())

    def _left(self, graph_id: str) -> None:
        """Notes that one work on a graph has ended; nothing is kept of one that has gone."""
        self._working[graph_id] -= 1
        if not self._working[graph_id]:
            del self._working[graph_id]
            if self._store.graph(graph_id) is None and not self._locks[graph_id].locked():
                del self._locks[graph_id]

    async def settle(self) -> None:
        """Waits for all work that is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(
        self,
        graph_id: str,
        target: Plan,
        distrust: bool = False,
        held: frozenset[str] = frozenset(),
    ) -> None:
        def note(done: int, total: int) -> None:
            self._progress[graph_id] = _Progress(done, total)

        try:
            await self._transition.run(
                graph_id, target, distrust=distrust, held=held, progress=note
            )
        finally:
            self._progress.pop(graph_id, None)

    async def _deploy(
        self, graph_id: str, distrust: bool = False, held: frozenset[str] = frozenset()
    ) -> None:
        """Brings a graph to its plan; if that fails, back to what it was before."""
        async with self._locks[graph_id]:
            record = self._store.graph(graph_id)
            if record is None or record.state is GraphState.DELETING:
                return
            ends = self._switch_ends
            try:
                await self._run(graph_id, record.plan, distrust, held)
            except Exception as error:  # whatever it is, the graph must not stay `deploying`
                self._leave_to_recovery(record, ends, error)
                await self._undo(record, text_of(error), distrust)
                raise DeployFailed("lifecycle", text_of(error)) from error
            self._settle_record(record, GraphState.RUNNING, "")
            if record.state is GraphState.UPDATING:
                self._events.publish(EventKind.GRAPH_UPDATED, graph_id)
            elif record.state is GraphState.DEPLOYING:
                self._events.publish(EventKind.GRAPH_DEPLOYED, graph_id)

    def _leave_to_recovery(self, record: GraphRecord, ends: int, error: Exception) -> None:
        """Leaves a change on record if the switch has ended under it, after `ends` ends before.

        Nothing can be undone then, and nothing has to be: `recover` finishes it when the switch is
        there again, or undoes it.

        Raises:
            SwitchDown: it is so.
        """
        if self._switch_ends == ends and self.switch_down() is None:
            return
        text = f"the switch has ended; this is finished when it is there again ({text_of(error)})"
        current = self._store.graph(record.id)
        if current is not None:
            self._put(replace(current, message=text))
        raise SwitchDown("lifecycle", f"graph {record.id}: {text}") from error

    async def _undo(self, record: GraphRecord, message: str, distrust: bool) -> None:
        log.error("graph %s: %s; undoing", record.id, message)
        self._events.publish(EventKind.GRAPH_FAILED, record.id, message=message)
        before = record.previous_plan or EMPTY_PLAN
        try:
            await self._run(record.id, before, distrust and bool(before.resources))
        except Exception as error:  # as above
            # Rows of what could not be removed stay, and are tried again at the next start.
            self._settle_record(
                record, GraphState.FAILED, f"{message}; undoing it failed: {text_of(error)}"
            )
            return
        if record.previous_plan and record.previous_document is not None and before.resources:
            restored = replace(record, document=record.previous_document, plan=before)
            self._settle_record(restored, GraphState.RUNNING, f"the last update failed: {message}")
        else:
            self._settle_record(replace(record, plan=EMPTY_PLAN), GraphState.FAILED, message)

    def _settle_record(self, record: GraphRecord, state: GraphState, message: str) -> None:
        current = self.record(record.id)
        if current.state is GraphState.DELETING:
            return  # a deletion has been asked for meanwhile; it goes next
        settled = replace(
            record, state=state, message=message, previous_document=None, previous_plan=None
        )
        if settled == current:
            self._store.write_notes()
            return
        if record.id in self._returning and state is GraphState.RUNNING:
            # A crash would have it made again, so many are written at once.
            self._store.put_late([settled])
            self.drafts.note(settled)
            return
        self._put(settled)

    async def _delete(self, graph_id: str) -> None:
        async with self._locks[graph_id]:
            if self._store.graph(graph_id) is None:
                return
            ends = self._switch_ends
            try:
                await self._run(graph_id, EMPTY_PLAN)
            except Exception as error:  # as above
                self._leave_to_recovery(self.record(graph_id), ends, error)
                record, text = self.record(graph_id), text_of(error)
                self._put(replace(record, message=f"deletion failed: {text}"))
                message = f"deletion failed: {text}"
                self._events.publish(EventKind.GRAPH_FAILED, graph_id, message=message)
                raise DeployFailed("lifecycle", f"graph {graph_id}: {text}") from error
            self._forget(graph_id)
            self._events.publish(EventKind.GRAPH_DELETED, graph_id)
            for key in [key for key in self._last_counts if key[0] == graph_id]:
                del self._last_counts[key]

    def is_whole(
        self, record: GraphRecord, lost: set[str], held: frozenset[str] = frozenset()
    ) -> bool:
        """Whether all of a running graph is there but VNFs `held`; ports `lost` are not."""
        return self._transition.is_whole(record.plan, lost, held)

    def not_running(self, record: GraphRecord) -> list[VnfSpec]:
        """The VNFs of a running graph that do not run as specified."""
        return self._transition.not_running(record.plan)

    async def stop_vnf(self, vnf: VnfSpec) -> None:
        """Ends a VNF of a running graph, which `repair` starts again.

        Raises:
            EngineError: it does not end.
        """
        async with self._locks[vnf.graph]:
            record = self._store.graph(vnf.graph)
            if record is not None and record.state is GraphState.RUNNING:
                await self._transition.stop(vnf)

    async def repair(self, graph_id: str, held: frozenset[str] = frozenset()) -> None:
        """Makes again what has gone of a running graph, such as a VNF that has ended.

        VNFs that are `held` (their ids) stay ended.

        Raises:
            SwitchError, EngineError: it cannot be made; the rest of the graph stays as it is.
        """
        async with self._locks[graph_id]:
            record = self._store.graph(graph_id)
            if record is not None and record.state is GraphState.RUNNING:
                wrong = self._transition.not_running(record.plan)
                ended = [vnf for vnf in wrong if vnf.vnf not in held]
                # Most often a VNF has ended and nothing else; then nothing else is looked at.
                if not ended or not await self._transition.restart(graph_id, ended):
                    await self._run(graph_id, record.plan, held=held)
                    self._store.write_notes()
                for vnf in ended:
                    self._events.publish(EventKind.VNF_RESTARTED, graph_id, vnf=vnf.vnf)

    async def look_at_timed(self, graph_id: str) -> list[str]:
        """Notes rules that have gone by their timeouts; gives the labels of those found anew.

        Raises:
            SwitchError: the switch does not answer.
        """
        if self._locks[graph_id].locked():
            return []  # it is being changed, and looked at later
        async with self._locks[graph_id]:
            before = {rule.identity for rule in self._transition.expired(graph_id)}
            for rule, count in await self._transition.note_expired(graph_id):
                self._last_counts[graph_id, rule.identity] = count
            expired = self._transition.expired(graph_id)
            return [rule.label for rule in expired if rule.identity not in before]

    def expired(self, graph_id: str) -> dict[str, RuleStatistics | None]:
        """The rules, by label, that have gone by their timeouts, with the last known counters."""
        return {
            rule.label: self._last_counts.get((graph_id, rule.identity))
            for rule in self._transition.expired(graph_id)
        }
