# SPDX-License-Identifier: Apache-2.0
"""The clock of a simulation: arrivals, departures, probes, calls and outages, in order of time."""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.cluster.core.actions import Action, Delete, Look, Outcome, Put, Result, TakeStock
from headrace.cluster.core.core import Core
from headrace.cluster.core.settings import Settings
from headrace.cluster.simulation.demand import Outage, Setting, Visit, nodes, outages, visits
from headrace.cluster.simulation.nodes import Durations, ModelNode
from headrace.cluster.simulation.outcome import Convergence
from headrace.cluster.simulation.outcome import Outcome as Found

Event = Callable[[], None]
LOOK_S = 60.0
"""How often nodes are asked whether parts work: not as often as by default, to save time."""
_KINDS: dict[type, str] = {
    Put: "PUT /NF-FG",
    Delete: "DELETE /NF-FG",
    TakeStock: "GET /NF-FG",
    Look: "GET /node/graphs",
}


class Simulation:
    """One run. A node works on one call after another; others wait in its queue."""

    def __init__(
        self, setting: Setting, settings: Settings | None = None, durations: Durations | None = None
    ) -> None:
        """Everything by the setting's seed."""
        self.setting, self.durations = setting, durations or Durations()
        self.core = Core(settings or Settings(look_s=LOOK_S))
        self.now = 0.0
        self.specs = nodes(setting)
        self.nodes = {name: ModelNode(name) for name in self.specs}
        self.found = Found()
        self._heap: list[tuple[float, int, Event]] = []
        self._order = itertools.count()
        self._queues: dict[str, deque[Action]] = {name: deque() for name in self.nodes}
        self._busy: set[str] = set()
        self._waiting: deque[str] = deque()
        self._tick_at = float("inf")
        self._wanted: dict[str, float] = {}
        self._converging: list[Convergence] = []
        self._done = False

    def at(self, when: float, event: Event) -> None:
        """Something happens at a time."""
        heapq.heappush(self._heap, (when, next(self._order), event))

    def run(self) -> Found:
        """From the first arrival until everything is gone."""
        began = time.process_time()
        setting = self.setting
        for number, (name, spec) in enumerate(self.specs.items()):
            self.core.set_node(name, spec, 0.0)
            self._probe_later(name, setting.probe_s * number / len(self.specs))
        self.core.start(0.0)
        settle = 2 * setting.probe_s
        for visit in visits(setting):
            self.at(settle + visit.comes, lambda visit=visit: self._come(visit))  # type: ignore[misc]
        for outage in outages(setting):
            self.at(settle + outage.begins, lambda outage=outage: self._fail(outage))  # type: ignore[misc]
        end = settle + 3600 * setting.hours
        for number in range(200):
            self.at(settle + 3600 * setting.hours * number / 200, self._sample)
        self.at(end, self._end)
        while self._heap and not self._finished():
            self.now, _, event = heapq.heappop(self._heap)
            event()
        self.found.virtual_s = self.now
        self.found.cpu_s = time.process_time() - began
        self.found.left_parts = sum(len(node.parts) for node in self.nodes.values())
        self.found.left_vnis = len(self.core.vnis)
        return self.found

    # Events.

    def _come(self, visit: Visit) -> None:
        graph = visit.graph
        self._wanted[graph.uid] = self.now
        self.found.graphs += 1
        began = time.process_time()
        self.core.set_graph(graph, self.now)
        self.found.place_s.append(time.process_time() - began)
        if self.core.book.deployments[graph.uid].layout is None:
            self.found.unplaced_at_first += 1
        self.at(self.now + visit.goes - visit.comes, lambda: self._go(graph.uid))
        self._act()

    def _go(self, uid: str) -> None:
        if uid in self.core.book.deployments:
            if uid in self._wanted:
                self.found.never += 1
                del self._wanted[uid]
            self.core.remove_graph(uid)
            self._act()

    def _fail(self, outage: Outage) -> None:
        names = [name for name, spec in self.specs.items() if spec.rack == outage.rack]
        hit: set[str] = set()
        lost = 0
        for name in names:
            self.nodes[name].alive = False
            for uid in self.core.graphs_at(name):
                found = self.core.book.deployments[uid]
                if found.layout is None or found.deleted or not found.complete:
                    continue
                pins = {pin.node for pin in found.graph.spec.constraints.pinned}
                if pins.isdisjoint(names):
                    hit.add(uid)
                    lost += sum(
                        n == name and o.startswith("vnf:") for o, n in found.layout.where.items()
                    )
        before = self._migrations()
        one = Convergence(outage.rack, self.now, len(hit), lost, before)
        one.waiting = hit
        self.found.outages.append(one)
        self._converging.append(one)
        self.at(self.now + self.setting.outage_s, lambda: self._repair(names, one))

    def _repair(self, names: list[str], one: Convergence) -> None:
        one.moved = self._migrations() - one.migrations_before
        after = self._migrations()
        for name in names:
            self.nodes[name].alive = True
        settled = self.now + 4 * self.core.settings.hold.up_s
        self.at(settled, lambda: setattr(one, "moved_at_return", self._migrations() - after))

    def _migrations(self) -> int:
        return self.found.migrations

    def _end(self) -> None:
        """Everything that is still there goes."""
        self._done = True
        for node in self.nodes.values():
            node.alive = True
        for uid in list(self.core.book.deployments):
            self._go(uid)

    def _finished(self) -> bool:
        if not self._done or self.core.book.deployments:
            return False
        lost = any(not self.core.health(name).answers for name in self.nodes)
        return not lost and not self._busy and all(not node.parts for node in self.nodes.values())

    def _sample(self) -> None:
        wanted = sum(1 for one in self.core.book.deployments.values() if not one.deleted)
        whole = sum(
            1
            for one in self.core.book.deployments.values()
            if not one.deleted and one.layout is not None and one.complete
        )
        self.found.series.append((self.now, wanted, whole, self.found.calls_total))

    # The controller's part.

    def _probe_later(self, name: str, at: float) -> None:
        self.at(at, lambda: self._probe(name))

    def _probe(self, name: str) -> None:
        self.found.count("GET /ready")
        alive = self.nodes[name].alive
        before = self.core.health(name).state
        self.core.probed(name, alive, "it is ready" if alive else "no answer", self.now)
        if self.core.health(name).state is not before:
            self._act()
        self._probe_later(name, self.now + self.setting.probe_s)

    def _act(self) -> None:
        for action in self.core.actions(self.now):
            queue = self._queues[action.node]
            queue.append(action)
            self._waiting.append(action.node)
        self._events()
        self._begin()
        due = self.core.next_time(self.now)
        if due < self._tick_at:
            self._tick_at = due
            self.at(due, lambda: self._tick(due))

    def _tick(self, at: float) -> None:
        if at == self._tick_at:  # else an earlier one has come since
            self._tick_at = float("inf")
            self._act()

    def _begin(self) -> None:
        kept: deque[str] = deque()
        while self._waiting and len(self._busy) < self.setting.calls:
            name = self._waiting.popleft()
            if name in self._busy:
                kept.append(name)
                continue
            queue = self._queues[name]
            if not queue:
                continue
            action = queue.popleft()
            self._busy.add(name)
            node = self.nodes[name]
            takes = node.takes(action, self.durations) if node.alive else self.durations.timeout_s
            self.at(self.now + takes, lambda action=action: self._ended(action))  # type: ignore[misc]
        kept.extend(self._waiting)
        self._waiting = kept

    def _ended(self, action: Action) -> None:
        self._busy.discard(action.node)
        self.found.count(_KINDS[type(action)])
        outcome: Outcome = self.nodes[action.node].call(action)
        if outcome.result is Result.REFUSED:
            self.found.refused.append(outcome.message)
        self.core.finished(action, outcome, self.now)
        self._act()

    def _events(self) -> None:
        for event in self.core.book.events:
            if event.kind == "graph" and event.reason == "Deployed":
                self._deployed(event.subject)
            elif event.reason == "Moving":
                self.found.migrations += int(event.message.split()[0])
            if event.level == "Warning":
                self.found.warnings[event.reason] = self.found.warnings.get(event.reason, 0) + 1
        self.core.book.events.clear()
        for one in list(self._converging):
            one.waiting = {uid for uid in one.waiting if self._interrupted(uid)}
            if not one.waiting and self.now > one.began:
                one.took_s = self.now - one.began
                self._converging.remove(one)
        self.core.book.changed_graphs.clear()
        self.core.book.changed_nodes.clear()

    def _interrupted(self, uid: str) -> bool:
        """Whether a graph is wanted and has a part on a node that is away, or none."""
        found: Any = self.core.book.deployments.get(uid)
        if found is None or found.deleted:
            return False
        if found.layout is None or not found.complete:
            return True
        return any(not self.nodes[node].alive for node in found.layout.nodes)

    def _deployed(self, uid: str) -> None:
        came = self._wanted.pop(uid, None)
        if came is not None:
            self.found.deploy_s.append(self.now - came)
