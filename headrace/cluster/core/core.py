# SPDX-License-Identifier: Apache-2.0
"""The controller's decisions: what is wanted and what is known go in, actions come out.

Nothing here waits, reads a clock or talks to a node: callers pass the time (seconds, monotonic),
carry out what `actions` returns and report with `finished`. The controller and the simulation drive
the same `Core`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.cluster.core.actions import (
    Action,
    Delete,
    Event,
    Look,
    Outcome,
    Put,
    Result,
    TakeStock,
)
from headrace.cluster.core.deployment import Deployment, Trouble
from headrace.cluster.core.fleet import PODS, Fleet, Takings
from headrace.cluster.core.health import Health, HoldDown, State
from headrace.cluster.core.layout import Layout, make_layout, moved
from headrace.cluster.core.placing import NoPlace, place
from headrace.cluster.core.schedule import Schedule
from headrace.cluster.core.vnis import NoVni, Vnis
from headrace.cluster.core.watch import Watch
from headrace.cluster.cutting.cut import Link
from headrace.cluster.cutting.hops import CannotCut
from headrace.cluster.resources import Graph, NodeSpec
from headrace.placement.problem import Ints


@dataclass(frozen=True)
class Settings:
    """How the core behaves; times in seconds.

    Attributes:
        attempts: of a part at a node in a row, before the graph goes elsewhere.
        retry_s, longest_retry_s: wait after a failure, doubled with each further one.
        most_lost: share of nodes that are lost at once above which nothing is re-placed: then it is
            likelier that the controller is cut off than that they are all gone.
        stock_s: how often a node is asked which parts it has; look_s: how often whether they work.
        network_us: latency between two nodes.
    """

    hold: HoldDown = field(default_factory=HoldDown)
    attempts: int = 3
    retry_s: float = 1.0
    longest_retry_s: float = 300.0
    most_lost: float = 0.55
    stock_s: float = 300.0
    look_s: float = 10.0
    network_us: float = 20.0
    first_vni: int = 0x100000
    last_vni: int = 0xFFFFFF


@dataclass(frozen=True)
class Recorded:
    """What the status of a graph says of an earlier placement."""

    where: Mapping[str, str]
    links: Mapping[Link, int] = field(default_factory=dict)
    migrations: int = 0


class Core:
    """All graphs and nodes of a cluster.

    Attributes:
        changed_graphs, changed_nodes: whose status may have changed; callers clear them.
        events: what is to be told; callers take them.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """No graphs, no nodes; nothing is done before `start`."""
        self.settings = settings or Settings()
        self.fleet = Fleet()
        self.vnis = Vnis(self.settings.first_vni, self.settings.last_vni)
        self.deployments: dict[str, Deployment] = {}
        self.changed_graphs: set[str] = set()
        self.changed_nodes: set[str] = set()
        self.events: list[Event] = []
        self._watch = Watch(
            self.settings.hold,
            self.settings.stock_s,
            self.settings.look_s,
            self.settings.retry_s,
        )
        self._dirty: dict[str, None] = {}
        self._at: dict[str, dict[str, None]] = {}
        self._pending: dict[str, None] = {}
        self._retries = Schedule()
        self._unplaced: dict[str, None] = {}
        self._number = 0
        self._started = False
        self._settled_at = float("inf")

    # What is wanted.

    def start(self, now: float) -> None:
        """All graphs and nodes that there are have been set: what nodes have besides can go.

        New graphs wait until all nodes have been looked at, or could be lost.
        """
        self._started = True
        self._settled_at = now + self.settings.hold.down_s
        self._dirty.update(dict.fromkeys(self.deployments))

    def set_node(self, name: str, spec: NodeSpec, now: float) -> None:
        """A node is there, or its specification has changed."""
        before = self.fleet.specs.get(name)
        self.fleet.set_node(name, spec)
        self._watch.add(name, now)
        self._usable(name)
        self.changed_nodes.add(name)
        if before is not None and before.tunnel_address != spec.tunnel_address:
            for uid in list(self._at.get(name, ())):
                self._plan(uid, now)
        if before != spec:
            self._wake(now)

    def remove_node(self, name: str, now: float) -> None:
        """A node is to go: what it has is placed elsewhere first. `node_gone` tells when."""
        node = self._watch.nodes.get(name)
        if node is None or node.leaving:
            return
        node.leaving = True
        self._usable(name)
        for uid in list(self._at.get(name, ())):
            self._plan(uid, now)

    def node_gone(self, name: str) -> bool:
        """Whether a node that is to go has nothing any more, or does not answer; it is forgotten.

        A graph with a part pinned there, or without a place elsewhere, holds it.
        """
        node = self._watch.nodes.get(name)
        if node is None:
            return True
        silent = node.health.state in (State.LOST, State.NEW)
        if not silent and (self._at.get(name) or node.sweeping):
            return False
        self._watch.remove(name)
        self.fleet.release(f"{PODS}{name}")
        self._pending.pop(name, None)
        self.fleet.remove_node(name)
        for uid in list(self._at.pop(name, ())):
            deployment = self.deployments[uid]
            deployment.abandon(name)
            deployment.have.pop(name, None)
            self._touch(uid)
        return True

    def set_graph(self, graph: Graph, now: float, recorded: Recorded | None = None) -> None:
        """A graph is wanted, or wanted otherwise; `recorded` is of one from before a restart."""
        found = self.deployments.get(graph.uid)
        if found is None:
            found = self.deployments[graph.uid] = Deployment(graph)
            if recorded is not None:
                found.migrations = recorded.migrations
                for link, vni in recorded.links.items():
                    if self.vnis.claim(vni):
                        found.vnis[link] = vni
        elif found.graph.generation == graph.generation or found.deleted:
            return
        found.graph, found.attempts, found.rounds = graph, 0, 0
        found.excluded.clear()
        self._plan(graph.uid, now, keep=recorded.where if recorded else None)

    def remove_graph(self, uid: str) -> None:
        """A graph is not wanted any more; `graph_gone` tells when nothing of it is left."""
        found = self.deployments.get(uid)
        if found is not None and not found.deleted:
            found.deleted, found.retry_at = True, None
            self._touch(uid)

    def graph_gone(self, uid: str) -> bool:
        """Whether nothing of a graph is left on nodes that answer.

        What a lost node still has goes when it returns, before it gets anything else.
        """
        return uid not in self.deployments

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
        self.changed_nodes.add(name)
        self._usable(name)
        if state is State.LOST:
            self._pending[name] = None
            self._watch.forget_parts(name)
            self._tell("node", name, "Warning", "Lost", why)
            for uid in list(self._at.get(name, ())):
                self.deployments[uid].abandon(name)
                self.deployments[uid].attempts = 0
                self._touch(uid)
        elif state is State.RETURNING:
            self._pending.pop(name, None)
            self._tell("node", name, "Normal", "Returning", node.health.why)
        elif state is State.UP and before is not State.MISSING:
            self._tell("node", name, "Normal", "Ready", node.health.why)
        if before in (State.NEW, State.LOST) and node.health.answers:
            self._watch.take_stock(name, now)
        if state is State.UP:
            self._wake(now)
        for uid in self._at.get(name, ()):
            self._touch(uid)

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
        return list(self._at.get(name, ()))

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
            self._wake(now)
            self.changed_nodes.add(action.node)
            return
        found = self.deployments.get(action.uid)
        if found is None or not found.finished(action, outcome, self._number):
            return
        self._index(found, action.node)
        self._touch(action.uid)
        if outcome.result is Result.DONE:
            return
        self._failed(found, action, outcome, now)

    # What is to be done.

    def actions(self, now: float) -> list[Action]:
        """What can be done now; each action is returned once."""
        if not self._started:
            return []
        self._replace_lost(now)
        for uid in self._retries.due(now):
            found = self.deployments.get(uid)
            if found is not None and found.retry_at is not None and found.retry_at <= now:
                found.retry_at = None
                self._retry(found, now)
        made: list[Action] = []
        dirty, self._dirty = self._dirty, {}
        for uid in dirty:
            found = self.deployments.get(uid)
            if found is not None:
                made += self._advance(found, now)
        made += self._watch.actions(now, self._number)
        return made

    def next_time(self, now: float) -> float:
        """When `actions` may have something without anything being reported before."""
        if self._dirty:
            return now
        retry = self._retries.next()
        times = self._watch.next() + ([] if retry is None else [retry])
        return max(now, min(times, default=now + self.settings.stock_s))

    # Inside.

    def _usable(self, name: str) -> None:
        usable = self._watch.trusted(name) and not self.fleet.specs[name].unschedulable
        if usable != self.fleet.usable(name):
            self.fleet.set_usable(name, usable)
            self.changed_nodes.add(name)

    def _touch(self, uid: str) -> None:
        self._dirty[uid] = None
        self.changed_graphs.add(uid)

    def _tell(self, kind: str, subject: str, level: str, reason: str, message: str) -> None:
        self.events.append(Event(kind, subject, level, reason, message))  # type: ignore[arg-type]

    def _index(self, found: Deployment, node: str) -> None:
        """Keeps who has something to do with a node."""
        uid = found.graph.uid
        layout = found.layout is not None and not found.deleted and node in found.layout.parts
        if node in found.have or node in found.flying or layout:
            self._at.setdefault(node, {})[uid] = None
        elif node in self._at:
            self._at[node].pop(uid, None)
        self.changed_nodes.add(node)

    def _wake(self, now: float) -> None:
        """There may be more room: graphs without a place are tried again."""
        for uid in self._unplaced:
            found = self.deployments.get(uid)
            if found is not None and found.retry_at is not None:
                self._later(found, now)

    def _later(self, found: Deployment, at: float) -> None:
        found.retry_at = at
        self._retries.set(found.graph.uid, at)

    def _backoff(self, count: int) -> float:
        return min(self.settings.longest_retry_s, self.settings.retry_s * 2.0 ** min(count, 20))

    def _replace_lost(self, now: float) -> None:
        if not self._pending:
            return
        if self._watch.share_lost() > self.settings.most_lost:
            return
        pending, self._pending = self._pending, {}
        waiting = {uid: None for name in pending for uid in self._at.get(name, ())}
        for uid in waiting:
            layout = self.deployments[uid].layout
            if layout is not None and any(self._watch.lost(node) for node in layout.nodes):
                self._plan(uid, now)

    def _plan(self, uid: str, now: float, keep: Mapping[str, str] | None = None) -> None:
        """Gives a graph a layout for what it wants; what can stay stays."""
        found = self.deployments[uid]
        if found.deleted:
            return
        graph, before = found.graph, found.layout
        if keep is None:
            keep = {} if before is None else before.where
        if before is None and not keep and self._settling(now):
            self._unplaced[uid] = None
            self._later(found, now + self.settings.retry_s)
            return
        held = self._held(found, before)
        if held is not None:
            found.trouble = Trouble("NodeLost", held)
            self._touch(uid)
            self._later(found, now + self.settings.look_s)  # other nodes may be lost for good
            return
        staying = {
            owner: node
            for owner, node in keep.items()
            if not self._watch.lost(node) and node not in found.excluded
        }
        takings = self.fleet.release(uid)
        try:
            placed = place(self.fleet, graph, staying, found.excluded, self.settings.network_us)
            layout = make_layout(graph, placed, self.vnis, found.vnis, self.fleet.addresses())
        except (NoPlace, CannotCut, NoVni) as error:
            if takings is not None:
                self.fleet.take(uid, takings)
            self._unplannable(found, error, now)
            return
        self._unplaced.pop(uid, None)
        found.vnis.update(layout.links)
        self.fleet.take(uid, layout.takings)
        count = moved(before, layout) if found.good is not None else 0
        if count:
            found.migrations += count
            self._tell("graph", uid, "Normal", "Moving", f"{count} VNFs go to other nodes")
        self._set_layout(found, layout)
        found.trouble, found.undoing = None, False

    def _settling(self, now: float) -> bool:
        """Whether a node may come up that was there before this controller."""
        return now < self._settled_at and self._watch.unknown()

    def _set_layout(self, found: Deployment, layout: Layout | None) -> None:
        nodes = set(found.have) | (found.layout.nodes if found.layout else set())
        found.layout = layout
        found.retry_at = None
        for node in nodes | (layout.nodes if layout else set()):
            self._index(found, node)
        self._touch(found.graph.uid)

    def _held(self, found: Deployment, before: Layout | None) -> str | None:
        """Why a deployed graph waits for a lost node instead of moving; None: it does not."""
        if before is None or before.generation != found.graph.generation:
            return None
        for pin in found.graph.spec.constraints.pinned:
            if (
                pin.node in self._watch.nodes
                and self._watch.nodes[pin.node].health.state is State.LOST
            ):
                return f"{pin.owner} is pinned to node {pin.node}, which is lost"
        return None

    def _unplannable(self, found: Deployment, error: Exception, now: float) -> None:
        """There is no layout: what is there stays if it carries traffic, and it is tried again."""
        reason = {NoPlace: "NoPlace", NoVni: "NoVni"}.get(type(error), "CannotCut")
        uid = found.graph.uid
        if found.trouble is None or found.trouble.message != str(error):
            self._tell("graph", uid, "Warning", reason, str(error))
        found.trouble = Trouble(reason, str(error))
        self._unplaced[uid] = None
        found.rounds += 1
        if found.layout is not None and found.layout is not found.good:
            self._undo(found)
        self._touch(uid)
        self._later(found, now + self._backoff(found.rounds))

    def _undo(self, found: Deployment) -> None:
        """Back to the last version that was complete, or to none."""
        good = found.good
        if good is None:
            self.fleet.release(found.graph.uid)
        else:
            self.fleet.take(found.graph.uid, good.takings)
        found.undoing, found.told = True, None
        self._set_layout(found, good)

    def _failed(
        self, found: Deployment, action: Put | Delete, outcome: Outcome, now: float
    ) -> None:
        found.attempts += 1
        uid = found.graph.uid
        again = outcome.result is Result.FAILED and found.attempts < self.settings.attempts
        if isinstance(action, Delete) or found.deleted or found.undoing or again:
            # The same once more: undoing and removing never end otherwise than by being done.
            self._later(found, now + self._backoff(found.attempts - 1))
            return
        reason = "Refused" if outcome.result is Result.REFUSED else "NodeFailed"
        message = f"node {action.node}: {outcome.message}"
        self._tell("graph", uid, "Warning", reason, message)
        found.excluded.add(action.node)
        found.attempts = 0
        found.rounds += 1
        before = found.layout
        pinned = any(pin.node == action.node for pin in found.graph.spec.constraints.pinned)
        if found.rounds <= self.settings.attempts and not pinned:
            self._plan(uid, now)
        if found.layout is before or found.trouble is not None:
            if found.layout is before:
                self._undo(found)
            found.trouble = Trouble(reason, message)
            self._later(found, now + self._backoff(2 + found.rounds))

    def _retry(self, found: Deployment, now: float) -> None:
        uid = found.graph.uid
        wrong = found.layout is None or found.undoing or uid in self._unplaced
        lost = found.layout is not None and any(map(self._watch.lost, found.layout.nodes))
        if not found.deleted and (wrong or lost):
            found.excluded.clear()
            self._plan(uid, now)
        self._touch(uid)

    def _advance(self, found: Deployment, now: float) -> list[Action]:
        if found.retry_at is not None and found.attempts:
            return []
        made = found.actions(self._watch.answers)
        for action in made:
            assert isinstance(action, Put | Delete)
            found.flying[action.node] = action
            self._index(found, action.node)
        if made or found.flying:
            return made
        left = found.left(self._watch.answers)
        if found.deleted and not left:
            self._forget(found)
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
            self._unplaced.pop(found.graph.uid, None)
        news = found.layout or found.graph
        if found.told is news or (found.layout is None and not found.undoing):
            return
        found.told = news
        uid = found.graph.uid
        nodes = "nothing" if found.layout is None else ", ".join(sorted(found.layout.nodes))
        if found.undoing:
            self._tell("graph", uid, "Normal", "Undone", f"back to what was before: {nodes}")
        else:
            self._tell("graph", uid, "Normal", "Deployed", f"on {nodes}")
        self.changed_graphs.add(uid)

    def _forget(self, found: Deployment) -> None:
        uid = found.graph.uid
        self.fleet.release(uid)
        self.vnis.free(found.vnis.values())
        nodes = set(found.have) | (found.layout.nodes if found.layout else set())
        for node in nodes:
            self._at.get(node, {}).pop(uid, None)
            self.changed_nodes.add(node)
        del self.deployments[uid]
        self._unplaced.pop(uid, None)
        self.changed_graphs.discard(uid)

    def _looked(self, action: Look, outcome: Outcome, now: float) -> None:
        """Notes which parts do not work; if others are there than are known, stock is taken."""
        name = action.node
        faults = self._watch.looked(action, outcome, now)
        if faults is None:
            return
        for uid in sorted({*self.graphs_at(name), *faults}):
            found = self.deployments.get(uid)
            if found is not None and not self._is_news(found, name, action):
                continue
            if found is None or (found.have.get(name) is not None) != (uid in faults):
                self._watch.take_stock(name, now)
                continue
            fault = faults.get(uid, "")
            if found.note_fault(name, fault):
                self.changed_graphs.add(uid)
                if fault:
                    self._tell("graph", uid, "Warning", "PartFailed", f"node {name}: {fault}")

    def _stocked(self, action: TakeStock, outcome: Outcome, now: float) -> None:
        """Compares what a node has with what it is thought to have; removes what nobody wants."""
        name = action.node
        stock = self._watch.stocked(action, outcome, now)
        if stock is None:
            return
        for uid in sorted({*self.graphs_at(name), *stock}):
            found = self.deployments.get(uid)
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
            self._index(found, name)
            self._touch(uid)
        node = self._watch.nodes[name]
        if not node.stocked:
            node.stocked = True
            self._wake(now)
            for uid in self.graphs_at(name):
                self._touch(uid)
        self._usable(name)

    @staticmethod
    def _is_news(found: Deployment, node: str, action: TakeStock | Look) -> bool:
        """Whether nothing has been done there since the node was asked."""
        return node not in found.flying and found.touched.get(node, -1) <= action.number
