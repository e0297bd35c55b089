# SPDX-License-Identifier: Apache-2.0
"""Makes again what has gone by itself: processes of the switch and of VNFs, ports, namespaces.

The end of a process is told by its descriptor, and is acted on at once; all else is looked at once
a second. What fails again within seconds of its start is tried less and less often, down to once a
minute, so that a VNF that cannot run does not take the machine's CPU time.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterator

from headrace.engines.base import EngineError, VnfSpec, engine_of
from headrace.node.deployment.store import GraphRecord, GraphState
from headrace.node.deployment.transition import ports_of
from headrace.node.errors import NodeError
from headrace.node.events import EventKind
from headrace.node.node import Node
from headrace.node.planning.resources import PortResource
from headrace.switches.base import SwitchError

log = logging.getLogger("headrace.node")

_LOOK_EVERY_S = 1.0
_LONGEST_WAIT_S = 60.0
_STEADY_AFTER_S = 10.0
"""A switch that has run for so long has cost little to start: to wait would cost traffic more."""
_ENDING_S = 0.5
_POLL_S = 0.01


class Backoff:
    """When something may be tried again: 1 s after a failure, then twice that, up to a minute."""

    def __init__(self) -> None:
        self._wait_s: dict[str, float] = {}
        self._tried: dict[str, float] = {}
        self._asked: dict[str, float] = {}

    def may_try(self, name: str, now: float) -> bool:
        """Whether `name` may be tried at `now` (seconds); if so, the try is counted.

        It is asked for each second as long as `name` is down, so it has run while nobody asked.
        """
        asked, self._asked[name] = self._asked.get(name), now
        if asked is not None:
            if now - asked >= _STEADY_AFTER_S:
                self._wait_s[name] = 0.0  # a new failure
            elif now - self._tried[name] < self._wait_s[name]:
                return False
        self._tried[name] = now
        self._wait_s[name] = min(max(1.0, 2 * self._wait_s.get(name, 0.0)), _LONGEST_WAIT_S)
        return True


class Restarter:
    """Watches one node; `run` until cancelled."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._backoff = Backoff()
        self._links: dict[str, bool] = {}
        self._ended: set[str] = set()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked_at: set[str] = set()

    async def run(self) -> None:
        """Looks once a second, and at what has ended as soon as it has."""
        self._node.supervisor.watch(self._note)
        due = time.monotonic() + _LOOK_EVERY_S
        looking: asyncio.Task[None] | None = None
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), max(0.0, due - time.monotonic()))
                self._wake.clear()
                ended, self._ended = self._ended, set()
                if ended:
                    self._spawn(self.look_at(ended))
                if time.monotonic() >= due:
                    # What is slow to come again holds up no look at what else has ended.
                    if looking is None or looking.done():
                        looking = self._spawn(self.look())
                    due = time.monotonic() + _LOOK_EVERY_S
        finally:
            for task in self._tasks:
                task.cancel()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _note(self, name: str) -> None:
        self._ended.add(name)
        self._wake.set()

    async def look_at(self, ended: set[str]) -> None:
        """Makes again what these processes were of."""
        if ended & set(self._node.driver.watched()):
            await self._try("the switch", self._look_at_switch())
        graphs = {
            vnf.graph
            for vnf in self._node.graphs.holdings.vnfs()
            if not ended.isdisjoint(engine_of(self._node.engines, vnf).processes(vnf))
        }
        records = [r for r in self._node.graphs.records() if r.id in graphs]
        running = [record for record in records if record.state is GraphState.RUNNING]
        await asyncio.gather(
            *(self._try(f"graph {r.id}", self._look_at_graph(r, set())) for r in running)
        )

    async def look(self) -> None:
        """Makes again whatever has gone. No fault of one thing keeps the others from being seen."""
        await self._try("the switch", self._look_at_switch())
        if "the switch" in self._looked_at:
            return  # it is being started again, and the graphs with it
        records: list[GraphRecord] = []
        try:
            records = self._node.graphs.records()
        except Exception:  # such as a full disk: it may be free again
            log.exception("cannot read the graphs")
        running = [record for record in records if record.state is GraphState.RUNNING]
        names = {name for record in running for name in ports_of(record.plan)}
        lost: set[str] = set()
        try:
            lost = await self._node.driver.missing(names)
        except Exception as error:  # the switch is down, and looked after above
            log.error("the switch: %s", error)
        await self._try("the links", self._look_at_links(running))
        for record in self._node.graphs.unfinished():
            if self._may_try(f"work on graph {record.id}"):
                await self._try(f"graph {record.id}", self._node.graphs.resume(record.id))
        for record in running:
            await self._try(f"graph {record.id}", self._look_at_graph(record, lost))
            if any(rule.is_timed for rule in record.plan.rules()):
                await self._try(f"rules of graph {record.id}", self._look_at_timed(record))

    async def _try(self, what: str, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except (SwitchError, EngineError, NodeError) as error:
            log.error("%s: %s", what, error)
        except Exception:
            log.exception("%s", what)

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[bool]:
        """Whether nobody else looks at `what` just now, and for as long as this lasts."""
        if what in self._looked_at:
            yield False
            return
        self._looked_at.add(what)
        try:
            yield True
        finally:
            self._looked_at.discard(what)

    async def _look_at_switch(self) -> None:
        with self._alone("the switch") as alone:
            if alone:
                await self._mend_switch()

    async def _mend_switch(self) -> None:
        node = self._node
        gone = [name for name in node.driver.watched() if node.supervisor.find(name) is None]
        if gone:
            if self._may_try(gone[0]):
                log.error("%s has ended; starting it again", ", ".join(gone))
                await node.fill_switch()
                node.events.publish(EventKind.SWITCH_RESTARTED, message=f"{gone[0]} had ended")
        elif await node.outer.missing() and self._may_try("ports"):
            log.error("ports of LSI-0 have gone; making them again")
            await node.fill_switch()

    async def _look_at_graph(self, record: GraphRecord, lost: set[str]) -> None:
        with self._alone(f"graph {record.id}") as alone:
            if alone:
                await self._mend_graph(record, lost)

    async def _mend_graph(self, record: GraphRecord, lost: set[str]) -> None:
        graphs, supervision = self._node.graphs, self._node.supervision
        await self._probe(record)
        wrong, now = graphs.not_running(record), time.monotonic()
        engines = self._node.engines
        ended = [vnf for vnf in wrong if engine_of(engines, vnf).observed(vnf) is None]
        codes = {vnf.vnf: await self._exit_code(vnf) for vnf in ended}
        held = {vnf.vnf for vnf in ended if not supervision.may_restart(vnf, codes[vnf.vnf], now)}
        for vnf in ended:
            if vnf.vnf not in held:
                log.error("graph %s: VNF %s has ended; starting it again", record.id, vnf.vnf)
        if len(held) < len(ended):
            await graphs.repair(record.id, frozenset(held))
            return
        # Ports, or what is beside a VNF that runs, such as its forwarder.
        settled = held | {vnf.vnf for vnf in record.plan.vnfs() if vnf not in wrong}
        is_whole = graphs.is_whole(record, lost, frozenset(settled))
        if not is_whole and self._may_try(f"graph {record.id}"):
            log.error("graph %s: something of it has gone; making it again", record.id)
            await graphs.repair(record.id, frozenset(held))

    async def _exit_code(self, vnf: VnfSpec) -> int | None:
        """With what a VNF has ended.

        A process has left its namespaces, and is no VNF any more, shortly before it has ended.
        """
        names = engine_of(self._node.engines, vnf).processes(vnf)
        if not names:
            return None
        deadline = time.monotonic() + _ENDING_S
        while True:
            code = self._node.supervisor.exit_code(names[0])
            if code is not None or time.monotonic() > deadline:
                return code
            if not self._node.supervisor.has_process(names[0]):
                return self._node.supervisor.exit_code(names[0])
            await asyncio.sleep(_POLL_S)

    async def _probe(self, record: GraphRecord) -> None:
        """Puts the questions that are due, and ends the VNFs that fail their liveness probe."""
        node = self._node
        for vnf in record.plan.vnfs():
            if (vnf.readiness is None and vnf.liveness is None) or node.paused:
                continue
            engine = engine_of(node.engines, vnf)
            names = engine.processes(vnf)
            process = node.supervisor.find(names[0]) if names else None
            state = node.supervision.state(vnf)
            if process is None:
                state.readiness.passes = False
            elif state.process == process and state.liveness.passes is False:
                state.failed = f"it failed its liveness probe: {state.liveness.said}"
                log.error("graph %s: VNF %s: %s", record.id, vnf.vnf, state.failed)
                await node.graphs.stop_vnf(vnf)
            else:
                node.supervision.put_questions(vnf, engine, process)

    async def _look_at_timed(self, record: GraphRecord) -> None:
        for label in await self._node.graphs.look_at_timed(record.id):
            log.info("rule %s has reached its timeout", label)
            rule = label.removeprefix(f"{record.id}/")
            self._node.events.publish(EventKind.RULE_EXPIRED, record.id, rule=rule)

    async def _look_at_links(self, records: list[GraphRecord]) -> None:
        """Tells whose link has gone down, or has come up, since the last look."""
        links = await self._node.driver.links()
        owners = {
            resource.port.name: (record.id, resource.port.labels.get("port", resource.port.name))
            for record in records
            for resource in record.plan.resources
            if isinstance(resource, PortResource)
        }
        for name, spec in self._node.ports.items():
            owners[spec.name] = ("", name)
        for port in links.keys() & owners.keys() & self._links.keys():
            if links[port] != self._links[port]:
                graph, name = owners[port]
                kind = EventKind.LINK_UP if links[port] else EventKind.LINK_DOWN
                self._node.events.publish(kind, graph or None, port=name)
        self._links = links

    def _may_try(self, name: str) -> bool:
        return self._backoff.may_try(name, time.monotonic())
