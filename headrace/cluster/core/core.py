# SPDX-License-Identifier: Apache-2.0
"""The controller's decisions: what is wanted and what is known go in, actions come out.

Nothing here waits, reads a clock or talks to a node: callers pass the time (seconds, monotonic),
carry out what `actions` returns and report with `finished`. The controller and the simulation drive
the same `Core`.
"""

from headrace.cluster.core.actions import (
    Action,
    Delete,
    Look,
    Outcome,
    Put,
    Result,
    TakeStock,
)
from headrace.cluster.core.book import Book
from headrace.cluster.core.deployment import Deployment
from headrace.cluster.core.fleet import PODS, Fleet, Takings
from headrace.cluster.core.health import Health, State
from headrace.cluster.core.planning import Planner
from headrace.cluster.core.settings import Recorded, Settings
from headrace.cluster.core.vnis import Vnis
from headrace.cluster.core.watch import Watch
from headrace.cluster.resources import Graph, NodeSpec
from headrace.placement.problem import Ints


class Core:
    """All graphs and nodes of a cluster.

    Attributes:
        fleet, vnis: what is taken of the nodes, and of the range of VNIs.
        book: the graphs; callers take from it events and whose status may have changed.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """No graphs, no nodes; nothing is done before `start`."""
        self.settings = settings or Settings()
        self.fleet = Fleet()
        self.vnis = Vnis(self.settings.first_vni, self.settings.last_vni)
        self.book = Book()
        self._watch = Watch(
            self.settings.hold,
            self.settings.stock_s,
            self.settings.look_s,
            self.settings.retry_s,
        )
        self._planner = Planner(self.settings, self.fleet, self.vnis, self._watch, self.book)
        self._number = 0
        self._started = False

    # What is wanted.

    def start(self, now: float) -> None:
        """All graphs and nodes that there are have been set: what nodes have besides can go.

        New graphs wait until all nodes have been looked at, or could be lost.
        """
        self._started = True
        self._planner.start(now)
        self.book.touch_all()

    def set_node(self, name: str, spec: NodeSpec, now: float) -> None:
        """A node is there, or its specification has changed."""
        before = self.fleet.specs.get(name)
        self.fleet.set_node(name, spec)
        self._watch.add(name, now)
        self._usable(name)
        self.book.changed_nodes.add(name)
        if before is not None and before.tunnel_address != spec.tunnel_address:
            for uid in self.book.at(name):
                self._planner.plan(uid, now)
        if before != spec:
            self.book.wake(now)

    def remove_node(self, name: str, now: float) -> None:
        """A node is to go: what it has is placed elsewhere first. `node_gone` tells when."""
        node = self._watch.nodes.get(name)
        if node is None or node.leaving:
            return
        node.leaving = True
        self._usable(name)
        for uid in self.book.at(name):
            self._planner.plan(uid, now)

    def node_gone(self, name: str) -> bool:
        """Whether a node that is to go has nothing any more, or does not answer; it is forgotten.

        A graph with a part pinned there, or without a place elsewhere, holds it.
        """
        node = self._watch.nodes.get(name)
        if node is None:
            return True
        silent = node.health.state in (State.LOST, State.NEW)
        if not silent and (self.book.at(name) or node.sweeping):
            return False
        self._watch.remove(name)
        self.fleet.release(f"{PODS}{name}")
        self._planner.node_back(name)
        self.fleet.remove_node(name)
        for uid in self.book.forget_node(name):
            deployment = self.book.deployments[uid]
            deployment.abandon(name)
            deployment.have.pop(name, None)
            self.book.touch(uid)
        return True

    def set_graph(self, graph: Graph, now: float, recorded: Recorded | None = None) -> None:
        """A graph is wanted, or wanted otherwise; `recorded` is of one from before a restart."""
        found = self.book.deployments.get(graph.uid)
        if found is None:
            found = self.book.deployments[graph.uid] = Deployment(graph)
            if recorded is not None:
                found.migrations = recorded.migrations
                for link, vni in recorded.links.items():
                    if self.vnis.claim(vni):
                        found.vnis[link] = vni
        elif found.graph.generation == graph.generation or found.deleted:
            return
        found.graph, found.attempts, found.rounds = graph, 0, 0
        found.excluded.clear()
        self._planner.plan(graph.uid, now, keep=recorded.where if recorded else None)

    def remove_graph(self, uid: str) -> None:
        """A graph is not wanted any more; `graph_gone` tells when nothing of it is left."""
        found = self.book.deployments.get(uid)
        if found is not None and not found.deleted:
            found.deleted, found.retry_at = True, None
            self.book.touch(uid)

    def graph_gone(self, uid: str) -> bool:
        """Whether nothing of a graph is left on nodes that answer.

        What a lost node still has goes when it returns, before it gets anything else.
        """
        return uid not in self.book.deployments

    # What is known.

    def probed(self, name: str, ok: bool, why: str, now: float) -> None:
        """A node has answered that it is ready, or has not."""
        node = self._watch.nodes.get(name)
        if node is None:
            return
        before = node.health.state
        if not node.health.probed(ok, why, now):
            return
        state = node.health.state
        self.book.changed_nodes.add(name)
        self._usable(name)
        if state is State.LOST:
            self._planner.node_lost(name)
            self._watch.forget_parts(name)
            self.book.tell("node", name, "Warning", "Lost", why)
            for uid in self.book.at(name):
                self.book.deployments[uid].abandon(name)
                self.book.deployments[uid].attempts = 0
                self.book.touch(uid)
        elif state is State.RETURNING:
            self._planner.node_back(name)
            self.book.tell("node", name, "Normal", "Returning", node.health.why)
        elif state is State.UP and before is not State.MISSING:
            self.book.tell("node", name, "Normal", "Ready", node.health.why)
        if before in (State.NEW, State.LOST) and node.health.answers:
            self._watch.take_stock(name, now)
        if state is State.UP:
            self.book.wake(now)
        for uid in self.book.at(name):
            self.book.touch(uid)

    def health(self, name: str) -> Health:
        """What is known of a node.

        Raises:
            KeyError: there is no such node.
        """
        return self._watch.nodes[name].health

    def set_pods(self, name: str, needs: Ints, count: int) -> None:
        """What pods that are VNFs take of a node, of the resources of headrace.placement."""
        if name in self.fleet.specs:
            self.fleet.take(f"{PODS}{name}", Takings({name: needs}, {name: count}))

    def graphs_at(self, name: str) -> list[str]:
        """The graphs that have or are to have a part on a node, by UID."""
        return self.book.at(name)

    def node_names(self) -> list[str]:
        """All nodes."""
        return list(self._watch.nodes)

    def finished(self, action: Action, outcome: Outcome, now: float) -> None:
        """An action has ended."""
        self._number += 1
        if isinstance(action, TakeStock):
            self._stocked(action, outcome, now)
            return
        if isinstance(action, Look):
            self._looked(action, outcome, now)
            return
        if isinstance(action, Delete) and self._watch.swept(action, outcome, now):
            self._usable(action.node)
            self.book.wake(now)
            self.book.changed_nodes.add(action.node)
            return
        found = self.book.deployments.get(action.uid)
        if found is None or not found.finished(action, outcome, self._number):
            return
        self.book.index(found, action.node)
        self.book.touch(action.uid)
        if outcome.result is Result.DONE:
            return
        self._planner.failed(found, action, outcome, now)

    # What is to be done.

    def actions(self, now: float) -> list[Action]:
        """What can be done now; each action is returned once."""
        if not self._started:
            return []
        self._planner.replace_lost(now)
        for found in self.book.due(now):
            self._planner.retry(found, now)
        made: list[Action] = []
        for found in self.book.take_touched():
            made += self._advance(found)
        made += self._watch.actions(now, self._number)
        return made

    def next_time(self, now: float) -> float:
        """When `actions` may have something without anything being reported before."""
        if self.book.touched:
            return now
        retry = self.book.next_retry()
        times = self._watch.next() + ([] if retry is None else [retry])
        return max(now, min(times, default=now + self.settings.stock_s))

    # Inside.

    def _usable(self, name: str) -> None:
        usable = self._watch.trusted(name) and not self.fleet.specs[name].unschedulable
        if usable != self.fleet.usable(name):
            self.fleet.set_usable(name, usable)
            self.book.changed_nodes.add(name)

    def _advance(self, found: Deployment) -> list[Action]:
        if found.retry_at is not None and found.attempts:
            return []
        made = found.actions(self._watch.answers)
        for action in made:
            assert isinstance(action, Put | Delete)
            found.flying[action.node] = action
            self.book.index(found, action.node)
        if made or found.flying:
            return made
        left = found.left(self._watch.answers)
        if found.deleted and not left:
            self.fleet.release(found.graph.uid)
            self.vnis.free(found.vnis.values())
            self.book.forget_graph(found)
        elif not found.deleted and found.complete and not left:
            self._completed(found)
        return []

    def _completed(self, found: Deployment) -> None:
        """All is where it should be: what the version before had besides is free."""
        used = set() if found.layout is None else set(found.layout.links)
        old = {link: vni for link, vni in found.vnis.items() if link not in used}
        if old:
            self.vnis.free(old.values())
            found.vnis = {link: vni for link, vni in found.vnis.items() if link in used}
        found.good, found.attempts = found.layout, 0
        if not found.undoing and found.layout is not None:
            found.trouble, found.rounds, found.retry_at = None, 0, None
            self.book.unplaced.pop(found.graph.uid, None)
        news = found.layout or found.graph
        if found.told is news or (found.layout is None and not found.undoing):
            return
        found.told = news
        uid = found.graph.uid
        nodes = "nothing" if found.layout is None else ", ".join(sorted(found.layout.nodes))
        if found.undoing:
            self.book.tell("graph", uid, "Normal", "Undone", f"back to what was before: {nodes}")
        else:
            self.book.tell("graph", uid, "Normal", "Deployed", f"on {nodes}")
        self.book.changed_graphs.add(uid)

    def _looked(self, action: Look, outcome: Outcome, now: float) -> None:
        """Notes which parts do not work; if others are there than are known, stock is taken."""
        name = action.node
        faults = self._watch.looked(action, outcome, now)
        if faults is None:
            return
        for uid in sorted({*self.graphs_at(name), *faults}):
            found = self.book.deployments.get(uid)
            if found is not None and not self._is_news(found, name, action):
                continue
            if found is None or (found.have.get(name) is not None) != (uid in faults):
                self._watch.take_stock(name, now)
                continue
            fault = faults.get(uid, "")
            if found.note_fault(name, fault):
                self.book.changed_graphs.add(uid)
                if fault:
                    self.book.tell("graph", uid, "Warning", "PartFailed", f"node {name}: {fault}")

    def _stocked(self, action: TakeStock, outcome: Outcome, now: float) -> None:
        """Compares what a node has with what it is thought to have; removes what nobody wants."""
        name = action.node
        stock = self._watch.stocked(action, outcome, now)
        if stock is None:
            return
        for uid in sorted({*self.graphs_at(name), *stock}):
            found = self.book.deployments.get(uid)
            if found is None:
                self._watch.sweep(name, uid)
                continue
            digest = stock.get(uid)
            if not self._is_news(found, name, action):
                continue
            if digest is None:
                found.have.pop(name, None)
            elif found.have.get(name) == digest:
                continue
            else:
                found.have[name] = digest
            self.book.index(found, name)
            self.book.touch(uid)
        node = self._watch.nodes[name]
        if not node.stocked:
            node.stocked = True
            self.book.wake(now)
            for uid in self.graphs_at(name):
                self.book.touch(uid)
        self._usable(name)

    @staticmethod
    def _is_news(found: Deployment, node: str, action: TakeStock | Look) -> bool:
        """Whether nothing has been done there since the node was asked."""
        return node not in found.flying and found.touched.get(node, -1) <= action.number
