# SPDX-License-Identifier: Apache-2.0
"""Plans of graphs, made on what all other graphs hold; nothing happens to the graphs here.

What is noted of a graph is what it holds or may still hold: while it is updated, that of both of
its versions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.node.deployment.store import GraphRecord, Store
from headrace.node.planning.holdings import Holdings, Others
from headrace.node.planning.known_rules import KnownRules
from headrace.node.planning.memory import Memory
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.plan import make_plan
from headrace.node.planning.replicas import Replicas
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from headrace.node.planning.surroundings import Surroundings


def _held_by(record: GraphRecord) -> Plan:
    """What a graph holds or may still hold: while it is updated, that of both versions."""
    before = record.previous_plan
    if before is None:
        return record.plan
    resources = {r.key: r for r in (*before.resources, *record.plan.resources)}
    claims = tuple(dict.fromkeys((*before.claims, *record.plan.claims)))
    return Plan(resources=tuple(resources.values()), claims=claims)


@dataclass(frozen=True)
class _Draft:
    """A plan, and all that it was made from but the machine's free memory."""

    graph_id: str
    number: int
    document: dict[str, Any]
    previous: Plan
    replicas: Mapping[str, Replicas] | None
    node: Surroundings
    holdings: int
    plan: Plan = EMPTY_PLAN

    def holds_for(self, other: "_Draft") -> bool:
        """Whether the other one's plan would be the same."""
        return (
            (self.graph_id, self.number, self.holdings)
            == (other.graph_id, other.number, other.holdings)
            and self.document is other.document
            and self.previous is other.previous
            and self.replicas == other.replicas
            and self.node.same_but_for_graphs(other.node)
        )


class Drafts:
    """Makes the plans of a node's graphs; `surroundings` gives the node's state without them."""

    def __init__(
        self, store: Store, surroundings: Callable[[Others], Surroundings], memory: Memory
    ) -> None:
        self._surroundings = surroundings
        self._memory = memory
        self._known = KnownRules()
        self._last: _Draft | None = None
        self.holdings = Holdings.of({r.id: _held_by(r) for r in store.graphs()})
        """What each graph holds or may still hold."""
        self.predicted: Callable[[dict[str, Any], Plan], Plan] = lambda document, plan: plan
        """Gives a plan with what the model predicts of the graph."""

    def note(self, record: GraphRecord) -> None:
        """Notes what a graph holds from now on."""
        self._last = None
        self._known.forget_document()
        self.holdings.put(record.id, _held_by(record))

    def forget(self, graph_id: str) -> None:
        """Forgets a graph that holds nothing any more."""
        self.holdings.drop(graph_id)

    def read(self, document: dict[str, Any]) -> ForwardingGraph:
        """The graph of a document.

        Raises:
            GraphRefused: it is none; names the place.
        """
        return self._known.read(document)[0]

    def plan(
        self,
        graph_id: str,
        number: int,
        document: dict[str, Any],
        previous: Plan,
        replicas: Mapping[str, Replicas] | None = None,
    ) -> Plan:
        """The plan of a graph that holds `previous`.

        Raises:
            GraphRefused: the document is wrong or the node cannot carry it.
        """
        node = self._surroundings(self.holdings.without(graph_id))
        changes = self.holdings.changes
        draft = _Draft(graph_id, number, document, previous, replicas, node, changes)
        # A request is checked before the VNFs' configurations are, and again when it is acted on:
        # most often nothing has happened in between.
        if self._last is not None and self._last.holds_for(draft):
            return self._last.plan
        graph, warnings = self._known.read(document)
        plan = make_plan(graph, graph_id, number, node, previous, replicas, self._known)
        warnings += self._memory.check(plan.vnfs(), previous.vnfs())
        plan = plan.model_copy(update={"warnings": (*warnings, *plan.warnings)})
        plan = self.predicted(document, plan)
        self._last = replace(draft, plan=plan)
        return plan
