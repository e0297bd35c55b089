# SPDX-License-Identifier: Apache-2.0
"""The core with nodes on a model and a clock that the test moves."""

from typing import Any

from headrace.cluster.core.actions import PART_PREFIX, Action, Event, Put
from headrace.cluster.core.core import Core
from headrace.cluster.core.health import HoldDown
from headrace.cluster.core.settings import Settings
from headrace.cluster.resources import graph_of, node_of
from headrace.cluster.simulation.nodes import ModelNode
from tests.cluster.graphs import behaviour, behaviour_of_parts
from tests.cluster.objects import headrace_node

HOLD = HoldDown(down_s=3, failures=2, up_s=10, longest_s=40, forget_s=1000)


class Bed:
    """Nodes n1, n2, ...; every call and event is remembered."""

    def __init__(self, nodes: int = 3, settings: Settings | None = None, **spec: Any) -> None:
        self.core = Core(settings or Settings(hold=HOLD))
        self.nodes: dict[str, ModelNode] = {}
        self.now = 0.0
        self.calls: list[Action] = []
        self.events: list[Event] = []
        for number in range(1, nodes + 1):
            self.add(number, **spec)
        self.core.start(self.now)
        self.probe()
        self.settle()

    def add(self, number: int, **spec: Any) -> None:
        name, parsed = node_of(headrace_node(f"n{number}", number, **spec))
        self.nodes[name] = ModelNode(name)
        self.core.set_node(name, parsed, self.now)

    def probe(self) -> None:
        for name, node in self.nodes.items():
            self.core.probed(name, node.alive, "up" if node.alive else "down", self.now)

    def settle(self) -> None:
        """Carries out what there is to do now."""
        for _ in range(1000):
            actions = self.core.actions(self.now)
            if not actions:
                break
            for action in actions:
                self.calls.append(action)
                self.core.finished(action, self.nodes[action.node].call(action), self.now)
        else:
            raise AssertionError("the core never comes to rest")
        self.events += self.core.book.events
        self.core.book.events.clear()

    def run(self, seconds: float) -> None:
        """Time passes: a probe each second."""
        until = self.now + seconds
        while self.now < until:
            self.now += 1.0
            self.probe()
            self.settle()

    def want(self, body: dict[str, Any]) -> str:
        graph = graph_of(body)
        self.core.set_graph(graph, self.now)
        self.settle()
        return graph.uid

    def drop(self, uid: str) -> None:
        self.core.remove_graph(uid)
        self.settle()

    def parts(self, uid: str) -> dict[str, dict[str, Any]]:
        """The parts of a graph on nodes that are alive."""
        name = f"{PART_PREFIX}{uid}"
        return {
            node.name: node.parts[name]
            for node in self.nodes.values()
            if node.alive and name in node.parts
        }

    def where(self, uid: str) -> dict[str, str]:
        """The node of each VNF, as the nodes have them."""
        return {
            vnf["id"]: node
            for node, part in self.parts(uid).items()
            for vnf in part["forwarding-graph"]["VNFs"]
        }

    def whole(self, uid: str, body: dict[str, Any]) -> bool:
        """Whether the nodes' parts do what the graph says."""
        rules = body["spec"]["forwarding-graph"]["big-switch"]["flow-rules"]
        return behaviour_of_parts(self.parts(uid)) == behaviour(rules)

    def puts(self) -> list[Put]:
        return [call for call in self.calls if isinstance(call, Put)]

    def empty(self) -> bool:
        return not any(node.parts for node in self.nodes.values()) and not len(self.core.vnis)

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]
