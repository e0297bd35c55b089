# SPDX-License-Identifier: Apache-2.0
"""One graph on its way to what is wanted: from parts that nodes have to parts that they should.

New parts come first, changed ones next, and only when all of these are there, those go that are not
wanted any more: what carries traffic is not taken away before its successor is there. Undoing is
the same: the version that was complete before is wanted again, or none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.cluster.core.actions import Action, Delete, Outcome, Part, Put, Result
from headrace.cluster.core.layout import Layout
from headrace.cluster.cutting.cut import Link
from headrace.cluster.resources import Graph


@dataclass(frozen=True)
class Trouble:
    """Why a graph is not as it is wanted."""

    reason: str
    message: str


@dataclass
class Deployment:
    """What is wanted of a graph and what is known of its parts.

    Attributes:
        layout: the version that is wanted on the nodes; None: nothing.
        good: the last version that was complete.
        have: by node that may have a part, its digest, or None if that is not known.
        flying: actions that have not ended, by node.
        touched: by node, the number of the last action that ended there.
        vnis: of all links of `layout`, `good` and parts that are still to go.
        attempts: failures in a row; retry_at: when it is tried again.
        excluded: nodes on which it failed.
        faults: by node, what of its part does not work there.
        told: the version of which an event has told.
        undoing: `layout` is not what the specification asks for, but what is left of it.
    """

    graph: Graph
    layout: Layout | None = None
    good: Layout | None = None
    have: dict[str, str | None] = field(default_factory=dict)
    flying: dict[str, Action] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    vnis: dict[Link, int] = field(default_factory=dict)
    attempts: int = 0
    rounds: int = 0
    retry_at: float | None = None
    excluded: set[str] = field(default_factory=set)
    trouble: Trouble | None = None
    undoing: bool = False
    deleted: bool = False
    migrations: int = 0
    told: object = None
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def wanted(self) -> dict[str, Part]:
        """The parts that should be on nodes."""
        return {} if self.deleted or self.layout is None else self.layout.parts

    def actions(self, answers: Callable[[str], bool]) -> list[Action]:
        """What can be done now; `answers` tells whether a node can be given work."""
        if self.flying:
            return []
        wanted, uid = self.wanted, self.graph.uid
        new: list[Action] = []
        changed: list[Action] = []
        for node, part in wanted.items():
            if not answers(node) or self.has(node, part):
                continue
            known = self.have.get(node) is not None
            (changed if known else new).append(Put(node, uid, part))
        if new or changed:
            return new or changed
        if not all(self.has(node, part) for node, part in wanted.items()):
            return []
        return [Delete(node, uid) for node in self.have if node not in wanted and answers(node)]

    def has(self, node: str, part: Part) -> bool:
        """Whether a node is known to have this part."""
        return self.have.get(node) == part.digest

    @property
    def complete(self) -> bool:
        """Whether all wanted parts are where they should be."""
        return all(self.has(node, part) for node, part in self.wanted.items())

    def left(self, answers: Callable[[str], bool]) -> list[str]:
        """Nodes that answer and may have a part that is not wanted."""
        return [node for node in self.have if node not in self.wanted and answers(node)]

    def finished(self, action: Put | Delete, outcome: Outcome, number: int) -> bool:
        """Notes how an action ended; returns whether it is one that was still awaited."""
        if self.flying.get(action.node) is not action:
            return False
        del self.flying[action.node]
        self.touched[action.node] = number
        self.faults.pop(action.node, None)
        if outcome.result is Result.FAILED:
            self.have[action.node] = None
        elif outcome.result is Result.DONE:
            if isinstance(action, Put):
                self.have[action.node] = action.part.digest
            else:
                self.have.pop(action.node, None)
        return True

    def note_fault(self, node: str, fault: str) -> bool:
        """A part does not work, or does (""); returns whether that is news."""
        before = self.faults.pop(node, "")
        if fault:
            self.faults[node] = fault
        return before != fault

    def abandon(self, node: str) -> None:
        """A node is lost: what it has is not known, and its answer not awaited."""
        if self.flying.pop(node, None) is not None or node in self.have:
            self.have[node] = None
        self.faults.pop(node, None)
