# SPDX-License-Identifier: Apache-2.0
"""The graphs of a cluster, which of them have to do with a node, and what is to be done next.

Whoever changes a graph notes it here; nothing here decides.
"""

from headrace.cluster.core.actions import Event
from headrace.cluster.core.deployment import Deployment
from headrace.cluster.core.schedule import Schedule


class Book:
    """All graphs.

    Attributes:
        deployments: the graphs by UID.
        unplaced: graphs without a place for what they want, by UID, in the order of their coming.
        changed_graphs, changed_nodes: whose status may have changed; callers clear them.
        events: what is to be told; callers take them.
    """

    def __init__(self) -> None:
        """No graphs."""
        self.deployments: dict[str, Deployment] = {}
        self.unplaced: dict[str, None] = {}
        self.changed_graphs: set[str] = set()
        self.changed_nodes: set[str] = set()
        self.events: list[Event] = []
        self._dirty: dict[str, None] = {}
        self._at: dict[str, dict[str, None]] = {}
        self._retries = Schedule()

    def touch(self, uid: str) -> None:
        """Something of a graph has changed: it is looked at again, and its status written."""
        self._dirty[uid] = None
        self.changed_graphs.add(uid)

    def touch_all(self) -> None:
        """All graphs are looked at again."""
        self._dirty.update(dict.fromkeys(self.deployments))

    @property
    def touched(self) -> bool:
        """Whether a graph is to be looked at again."""
        return bool(self._dirty)

    def take_touched(self) -> list[Deployment]:
        """The graphs that are to be looked at again; they are taken."""
        dirty, self._dirty = self._dirty, {}
        return [self.deployments[uid] for uid in dirty if uid in self.deployments]

    def tell(self, kind: str, subject: str, level: str, reason: str, message: str) -> None:
        """Notes an event of Kubernetes; `kind` is graph or node."""
        self.events.append(Event(kind, subject, level, reason, message))  # type: ignore[arg-type]

    # Who has to do with a node.

    def index(self, found: Deployment, node: str) -> None:
        """A graph may have come to a node, or gone from it."""
        uid = found.graph.uid
        layout = found.layout is not None and not found.deleted and node in found.layout.parts
        if node in found.have or node in found.flying or layout:
            self._at.setdefault(node, {})[uid] = None
        elif node in self._at:
            self._at[node].pop(uid, None)
        self.changed_nodes.add(node)

    def at(self, node: str) -> list[str]:
        """The graphs that have or are to have a part on a node, by UID."""
        return list(self._at.get(node, ()))

    def forget_node(self, node: str) -> list[str]:
        """A node is gone; returns the graphs that had something to do with it."""
        return list(self._at.pop(node, ()))

    def forget_graph(self, found: Deployment) -> None:
        """Nothing of a graph is left anywhere."""
        uid = found.graph.uid
        for node in set(found.have) | (found.layout.nodes if found.layout else set()):
            self._at.get(node, {}).pop(uid, None)
            self.changed_nodes.add(node)
        del self.deployments[uid]
        self.unplaced.pop(uid, None)
        self.changed_graphs.discard(uid)

    # When.

    def later(self, found: Deployment, at: float) -> None:
        """A graph is tried again at a time."""
        found.retry_at = at
        self._retries.set(found.graph.uid, at)

    def due(self, now: float) -> list[Deployment]:
        """The graphs that are to be tried again; they are taken."""
        made = []
        for uid in self._retries.due(now):
            found = self.deployments.get(uid)
            if found is not None and found.retry_at is not None and found.retry_at <= now:
                found.retry_at = None
                made.append(found)
        return made

    def next_retry(self) -> float | None:
        """When a graph is to be tried again; None: none is."""
        return self._retries.next()

    def wake(self, now: float) -> None:
        """There may be more room: graphs without a place are tried again."""
        for uid in self.unplaced:
            found = self.deployments.get(uid)
            if found is not None and found.retry_at is not None:
                self.later(found, now)
