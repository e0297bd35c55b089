# SPDX-License-Identifier: Apache-2.0
"""Which layout each graph is to have: new ones, lost nodes, failures, and what is undone."""

from collections.abc import Mapping

from headrace.cluster.core.actions import Delete, Outcome, Put, Result
from headrace.cluster.core.book import Book
from headrace.cluster.core.deployment import Deployment, Trouble
from headrace.cluster.core.fleet import Fleet
from headrace.cluster.core.health import State
from headrace.cluster.core.layout import Layout, make_layout, moved
from headrace.cluster.core.placing import NoPlace, place
from headrace.cluster.core.settings import Settings
from headrace.cluster.core.vnis import NoVni, Vnis
from headrace.cluster.core.watch import Watch
from headrace.cluster.cutting.hops import CannotCut


class Planner:
    """Gives graphs layouts, of nodes that are there."""

    def __init__(
        self, settings: Settings, fleet: Fleet, vnis: Vnis, watch: Watch, book: Book
    ) -> None:
        """Nothing is planned."""
        self._settings, self._fleet, self._vnis = settings, fleet, vnis
        self._watch, self._book = watch, book
        self._pending: dict[str, None] = {}
        self._settled_at = float("inf")

    def start(self, now: float) -> None:
        """New graphs wait until all nodes have been looked at, or could be lost."""
        self._settled_at = now + self._settings.hold.down_s

    def node_lost(self, name: str) -> None:
        """What a node has is to go elsewhere."""
        self._pending[name] = None

    def node_back(self, name: str) -> None:
        """A node is not lost any more, or not there."""
        self._pending.pop(name, None)

    def replace_lost(self, now: float) -> None:
        """Plans graphs anew that have parts on lost nodes, unless too many are lost at once."""
        if not self._pending or self._watch.share_lost() > self._settings.most_lost:
            return
        pending, self._pending = self._pending, {}
        waiting = {uid: None for name in pending for uid in self._book.at(name)}
        for uid in waiting:
            layout = self._book.deployments[uid].layout
            if layout is not None and any(self._watch.lost(node) for node in layout.nodes):
                self.plan(uid, now)

    def plan(self, uid: str, now: float, keep: Mapping[str, str] | None = None) -> None:
        """Gives a graph a layout for what it wants; what can stay stays."""
        found = self._book.deployments[uid]
        if found.deleted:
            return
        graph, before = found.graph, found.layout
        if keep is None:
            keep = {} if before is None else before.where
        if before is None and not keep and self._settling(now):
            self._book.unplaced[uid] = None
            self._book.later(found, now + self._settings.retry_s)
            return
        held = self._held(found, before)
        if held is not None:
            found.trouble = Trouble("NodeLost", held)
            self._book.touch(uid)
            self._book.later(found, now + self._settings.look_s)  # other nodes may be lost for good
            return
        staying = {
            owner: node
            for owner, node in keep.items()
            if not self._watch.lost(node) and node not in found.excluded
        }
        takings = self._fleet.release(uid)
        try:
            placed = place(self._fleet, graph, staying, found.excluded, self._settings.network_us)
            layout = make_layout(graph, placed, self._vnis, found.vnis, self._fleet.addresses())
        except (NoPlace, CannotCut, NoVni) as error:
            if takings is not None:
                self._fleet.take(uid, takings)
            self._unplannable(found, error, now)
            return
        self._book.unplaced.pop(uid, None)
        found.vnis.update(layout.links)
        self._fleet.take(uid, layout.takings)
        count = moved(before, layout) if found.good is not None else 0
        if count:
            found.migrations += count
            self._book.tell("graph", uid, "Normal", "Moving", f"{count} VNFs go to other nodes")
        self._set_layout(found, layout)
        found.trouble, found.undoing = None, False

    def retry(self, found: Deployment, now: float) -> None:
        """The time of a graph has come: it is planned anew unless what it has is right."""
        uid = found.graph.uid
        wrong = found.layout is None or found.undoing or uid in self._book.unplaced
        lost = found.layout is not None and any(map(self._watch.lost, found.layout.nodes))
        if not found.deleted and (wrong or lost):
            found.excluded.clear()
            self.plan(uid, now)
        self._book.touch(uid)

    def failed(self, found: Deployment, action: Put | Delete, outcome: Outcome, now: float) -> None:
        """An action at a node has failed: once more, on other nodes, or back to what was before."""
        found.attempts += 1
        uid = found.graph.uid
        again = outcome.result is Result.FAILED and found.attempts < self._settings.attempts
        if isinstance(action, Delete) or found.deleted or found.undoing or again:
            # The same once more: undoing and removing never end otherwise than by being done.
            self._book.later(found, now + self._backoff(found.attempts - 1))
            return
        reason = "Refused" if outcome.result is Result.REFUSED else "NodeFailed"
        message = f"node {action.node}: {outcome.message}"
        self._book.tell("graph", uid, "Warning", reason, message)
        found.excluded.add(action.node)
        found.attempts = 0
        found.rounds += 1
        before = found.layout
        pinned = any(pin.node == action.node for pin in found.graph.spec.constraints.pinned)
        if found.rounds <= self._settings.attempts and not pinned:
            self.plan(uid, now)
        if found.layout is before or found.trouble is not None:
            if found.layout is before:
                self._undo(found)
            found.trouble = Trouble(reason, message)
            self._book.later(found, now + self._backoff(2 + found.rounds))

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

    def _settling(self, now: float) -> bool:
        """Whether a node may come up that was there before this controller."""
        return now < self._settled_at and self._watch.unknown()

    def _unplannable(self, found: Deployment, error: Exception, now: float) -> None:
        """There is no layout: what is there stays if it carries traffic, and it is tried again."""
        reason = {NoPlace: "NoPlace", NoVni: "NoVni"}.get(type(error), "CannotCut")
        uid = found.graph.uid
        if found.trouble is None or found.trouble.message != str(error):
            self._book.tell("graph", uid, "Warning", reason, str(error))
        found.trouble = Trouble(reason, str(error))
        self._book.unplaced[uid] = None
        found.rounds += 1
        if found.layout is not None and found.layout is not found.good:
            self._undo(found)
        self._book.touch(uid)
        self._book.later(found, now + self._backoff(found.rounds))

    def _undo(self, found: Deployment) -> None:
        """Back to the last version that was complete, or to none."""
        good = found.good
        if good is None:
            self._fleet.release(found.graph.uid)
        else:
            self._fleet.take(found.graph.uid, good.takings)
        found.undoing, found.told = True, None
        self._set_layout(found, good)

    def _set_layout(self, found: Deployment, layout: Layout | None) -> None:
        nodes = set(found.have) | (found.layout.nodes if found.layout else set())
        found.layout = layout
        found.retry_at = None
        for node in nodes | (layout.nodes if layout else set()):
            self._book.index(found, node)
        self._book.touch(found.graph.uid)

    def _backoff(self, count: int) -> float:
        return min(self._settings.longest_retry_s, self._settings.retry_s * 2.0 ** min(count, 20))
