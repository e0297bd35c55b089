# SPDX-License-Identifier: Apache-2.0
"""Carries out what the core decides: calls to nodes, probes, statuses and events.

One task runs the core; calls are tasks of their own and report back to it. Nothing here decides.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.cluster.controller.kube import Body, Cluster
from headrace.cluster.controller.nodes import NodesApi
from headrace.cluster.controller.statuses import conditions, recorded
from headrace.cluster.core.actions import Action, Event, Outcome, Result
from headrace.cluster.core.core import Core
from headrace.cluster.core.reports import (
    Condition,
    graph_conditions,
    graph_status,
    node_conditions,
    node_status,
)
from headrace.cluster.resources import ResourceError, graph_of, node_of
from headrace.cluster.scheduling.cost import VnfDemand, needs_of
from headrace.cluster.scheduling.service import placed_pods

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """How often and how many.

    Attributes:
        probe_s: between two probes of a node; status_s: between two writings of statuses;
            pods_s: between two countings of pods.
        calls, calls_of_node: at once, in all and to one node.
    """

    probe_s: float = 1.0
    status_s: float = 0.2
    pods_s: float = 5.0
    calls: int = 256
    calls_of_node: int = 4


class Driver:
    """The controller without its handlers."""

    def __init__(
        self,
        core: Core,
        cluster: Cluster,
        nodes: NodesApi,
        pace: Pace | None = None,
    ) -> None:
        """Nothing happens before `start`."""
        self.core, self.cluster, self.nodes = core, cluster, nodes
        self._pace = pace or Pace()
        self._bodies: dict[str, Body] = {}
        self._node_bodies: dict[str, Body] = {}
        self._written: dict[str, Body] = {}
        self._kick = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._all = asyncio.Semaphore(self._pace.calls)
        self._of_node: dict[str, asyncio.Semaphore] = {}

    @staticmethod
    def now() -> float:
        """The core's time."""
        return time.monotonic()

    async def start(self) -> None:
        """Reads what is wanted and begins; objects that come later are told by the handlers.

        Raises:
            Exception: the API server does not answer.
        """
        for body in await self.cluster.nodes():
            self.set_node(body)
        for body in await self.cluster.graphs():
            self.set_graph(body)
            if "deletionTimestamp" in body["metadata"]:
                self.core.remove_graph(str(body["metadata"]["uid"]))
        self.core.start(self.now())
        self._spawn(self._run())
        self._spawn(self._write())
        self._spawn(self._count_pods())

    async def stop(self) -> None:
        """Ends all tasks; nodes keep what they have."""
        tasks = [*self._tasks, *self._probes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.nodes.close()

    # What handlers tell.

    def set_graph(self, body: Body) -> None:
        """A ServiceGraph is there or has changed."""
        uid = str(body["metadata"]["uid"])
        self._bodies[uid] = body
        try:
            graph = graph_of(body)
        except ResourceError as error:
            self._spawn(self._refuse(body, str(error)))
            return
        known = None if uid in self.core.book.deployments else recorded(body.get("status") or {})
        self.core.set_graph(graph, self.now(), known)
        self.core.book.changed_graphs.add(uid)
        self._kick.set()

    def remove_graph(self, uid: str) -> bool:
        """A ServiceGraph is to go; returns whether nothing of it is left."""
        self.core.remove_graph(uid)
        self._kick.set()
        if self.core.graph_gone(uid):
            self._bodies.pop(uid, None)
            self._written.pop(uid, None)
            return True
        return False

    def set_node(self, body: Body) -> None:
        """A HeadraceNode is there or has changed."""
        try:
            name, spec = node_of(body)
        except ResourceError as error:
            self._spawn(self._refuse(body, str(error)))
            return
        self._node_bodies[name] = body
        self.core.set_node(name, spec, self.now())
        if "deletionTimestamp" in body["metadata"]:
            self.core.remove_node(name, self.now())
        if name not in self._probes:
            self._probes[name] = asyncio.create_task(self._probe(name))
        self._kick.set()

    async def remove_node(self, name: str) -> bool:
        """A HeadraceNode is to go; returns whether nothing has a part there any more."""
        self.core.remove_node(name, self.now())
        self._kick.set()
        if not self.core.node_gone(name):
            return False
        self._node_bodies.pop(name, None)
        self._written.pop(f"node/{name}", None)
        probe = self._probes.pop(name, None)
        if probe is not None:
            probe.cancel()
        await self.nodes.forget(name)
        return True

    # Tasks.

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the controller failed", exc_info=task.exception())

    async def _run(self) -> None:
        while True:
            self._kick.clear()
            now = self.now()
            for action in self.core.actions(now):
                self._spawn(self._carry_out(action))
            self._tell_events()
            wait = max(0.0, self.core.next_time(now) - self.now())
            try:
                async with asyncio.timeout(wait):
                    await self._kick.wait()
            except TimeoutError:
                pass

    async def _carry_out(self, action: Action) -> None:
        spec = self.core.fleet.specs.get(action.node)
        if spec is None:
            outcome = Outcome(Result.FAILED, "the node is gone")
        else:
            limit = self._of_node.setdefault(
                action.node, asyncio.Semaphore(self._pace.calls_of_node)
            )
            async with limit, self._all:
                outcome = await self.nodes.call(action, spec)
        if outcome.result is not Result.DONE:
            _log.warning("%s at %s: %s", type(action).__name__, action.node, outcome.message)
        self.core.finished(action, outcome, self.now())
        self._kick.set()

    async def _probe(self, name: str) -> None:
        while True:
            spec = self.core.fleet.specs.get(name)
            if spec is None:
                return
            began = self.now()
            ok, why = await self.nodes.ready(name, spec)
            self.core.probed(name, ok, why, self.now())
            self._kick.set()
            await asyncio.sleep(max(0.0, self._pace.probe_s - (self.now() - began)))

    def _tell_events(self) -> None:
        events, self.core.book.events = self.core.book.events, []
        for event in events:
            bodies = self._bodies if event.kind == "graph" else self._node_bodies
            body = bodies.get(event.subject)
            _log.info("%s %s: %s: %s", event.kind, event.subject, event.reason, event.message)
            if body is not None:
                self._spawn(self._post(body, event))

    async def _post(self, body: Body, event: Event) -> None:
        try:
            async with self._all:
                await self.cluster.post_event(body, event)
        except OSError as error:
            _log.warning("event: %s", error)

    async def _count_pods(self) -> None:
        """Tells the core what pods have taken of nodes, so that graphs don't get it, too."""
        while True:
            try:
                pods = await self.cluster.vnf_pods()
            except OSError as error:
                _log.warning("pods: %s", error)
            else:
                self._set_pods(list(placed_pods(pods)))
            await asyncio.sleep(self._pace.pods_s)

    def _set_pods(self, placed: list[tuple[str, VnfDemand]]) -> None:
        for name, spec in self.core.fleet.specs.items():
            here = [d for node, d in placed if node == name and d.port in spec.model.visit]
            needs = sum((needs_of(spec, d) for d in here), start=np.zeros(4, dtype=np.int64))
            self.core.set_pods(name, needs, len(here))

    # Statuses.

    async def _write(self) -> None:
        while True:
            graphs, self.core.book.changed_graphs = self.core.book.changed_graphs, set()
            nodes, self.core.book.changed_nodes = self.core.book.changed_nodes, set()
            await asyncio.gather(
                *(self._write_graph(uid) for uid in sorted(graphs)),
                *(self._write_node(name) for name in sorted(nodes)),
            )
            await asyncio.sleep(self._pace.status_s)

    async def _write_graph(self, uid: str) -> None:
        found, body = self.core.book.deployments.get(uid), self._bodies.get(uid)
        if found is None or body is None:
            return
        status = graph_status(self.core, uid)
        ok = await self._put_status(
            uid, body, status, graph_conditions(self.core, found), found.graph.generation
        )
        if not ok:
            self.core.book.changed_graphs.add(uid)

    async def _write_node(self, name: str) -> None:
        body = self._node_bodies.get(name)
        if body is None or name not in self.core.fleet.specs:
            return
        generation = int(body["metadata"].get("generation", 1))
        status = {**node_status(self.core, name), "observedGeneration": generation}
        ok = await self._put_status(
            f"node/{name}", body, status, node_conditions(self.core, name), generation
        )
        if not ok:
            self.core.book.changed_nodes.add(name)

    async def _put_status(
        self, key: str, body: Body, status: Body, found: list[Condition], generation: int
    ) -> bool:
        before = self._written.get(key) or body.get("status") or {}
        status["conditions"] = conditions(found, before.get("conditions", []), generation)
        if status == self._written.get(key):
            return True
        try:
            async with self._all:
                await self.cluster.write_status(body, status)
        except OSError as error:
            _log.warning("status of %s: %s", key, error)
            return False
        self._written[key] = status
        return True

    async def _refuse(self, body: Body, message: str) -> None:
        """An object that the schema lets pass and that can't be used all the same."""
        generation = int(body["metadata"].get("generation", 1))
        found = [Condition("Ready", False, "Invalid", message)]
        before = (body.get("status") or {}).get("conditions", [])
        status = {"conditions": conditions(found, before, generation)}
        try:
            await self.cluster.write_status(body, status)
        except OSError as error:
            _log.warning("status: %s", error)
