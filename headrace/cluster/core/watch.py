# SPDX-License-Identifier: Apache-2.0
"""What is known of each node, when it is asked again, and what of nobody's is removed there."""

from dataclasses import dataclass, field

from headrace.cluster.core.actions import Action, Delete, Look, Outcome, Result, TakeStock
from headrace.cluster.core.health import Health, HoldDown, State
from headrace.cluster.core.schedule import Schedule


@dataclass
class WatchedNode:
    """A node.

    Attributes:
        leaving: it is to go.
        stocked: its parts are known since it last came up.
        asking, looking: actions that have not ended.
        sweeping: parts of nobody's that are being removed, by UID.
    """

    health: Health
    leaving: bool = False
    stocked: bool = False
    asking: TakeStock | None = None
    looking: Look | None = None
    sweeping: dict[str, Delete] = field(default_factory=dict)


class Watch:
    """All nodes; times as in core.Settings."""

    def __init__(self, hold: HoldDown, stock_s: float, look_s: float, retry_s: float) -> None:
        """No nodes."""
        self.nodes: dict[str, WatchedNode] = {}
        self._hold = hold
        self._stock_s, self._look_s, self._retry_s = stock_s, look_s, retry_s
        self._stocks, self._looks = Schedule(), Schedule()
        self._sweeps: list[Delete] = []

    def add(self, name: str, now: float) -> None:
        """A node is new, or known already."""
        if name not in self.nodes:
            self.nodes[name] = WatchedNode(Health(self._hold, since=now))

    def remove(self, name: str) -> None:
        """A node is forgotten."""
        del self.nodes[name]
        self._stocks.drop(name)
        self._looks.drop(name)

    def answers(self, name: str) -> bool:
        """Whether a node can be given work for what it has already."""
        node = self.nodes.get(name)
        return node is not None and node.stocked and node.health.answers

    def lost(self, name: str) -> bool:
        """Whether what a node has should go elsewhere."""
        node = self.nodes.get(name)
        return node is None or node.leaving or node.health.state is State.LOST

    def trusted(self, name: str) -> bool:
        """Whether a node may get new work."""
        node = self.nodes[name]
        up = node.health.state is State.UP and node.stocked
        return up and not node.leaving and not node.sweeping

    def unknown(self) -> bool:
        """Whether it is not known of some node what it has, or whether it answers."""
        return any(
            node.health.state is State.NEW or (node.health.answers and not node.stocked)
            for node in self.nodes.values()
        )

    def share_lost(self) -> float:
        """The share of nodes that are lost; 0 if there is one alone."""
        lost = sum(node.health.state is State.LOST for node in self.nodes.values())
        return lost / len(self.nodes) if len(self.nodes) > 1 else 0.0

    def forget_parts(self, name: str) -> None:
        """A node is lost: what it has is to be asked when it is back."""
        node = self.nodes[name]
        node.stocked, node.asking, node.looking = False, None, None
        node.sweeping.clear()

    def take_stock(self, name: str, at: float) -> None:
        """A node is to be asked which parts it has."""
        self._stocks.set(name, at)

    def actions(self, now: float, number: int) -> list[Action]:
        """What nodes are asked now, and what of nobody's is removed; `number` is the time."""
        made: list[Action] = list(self._sweeps)
        self._sweeps.clear()
        for name in self._stocks.due(now):
            node = self.nodes[name]
            if node.asking is None and node.health.answers:
                node.asking = TakeStock(name, number)
                made.append(node.asking)
        for name in self._looks.due(now):
            node = self.nodes[name]
            if node.looking is None and node.health.answers and node.asking is None:
                node.looking = Look(name, number)
                made.append(node.looking)
            elif node.health.answers:
                self._looks.set(name, now + self._look_s)
        return made

    def next(self) -> list[float]:
        """When something is to be asked."""
        return [at for at in (self._stocks.next(), self._looks.next()) if at is not None]

    def stocked(self, action: TakeStock, outcome: Outcome, now: float) -> dict[str, str] | None:
        """The parts of a node, if the answer is still awaited and there is one."""
        node = self.nodes.get(action.node)
        if node is None or node.asking is not action:
            return None
        node.asking = None
        if outcome.stock is None:
            self._stocks.set(action.node, now + self._retry_s)
            return None
        self._stocks.set(action.node, now + self._stock_s)
        self._looks.set(action.node, now + self._look_s)
        return outcome.stock

    def looked(self, action: Look, outcome: Outcome, now: float) -> dict[str, str] | None:
        """What does not work of the parts of a node, likewise."""
        node = self.nodes.get(action.node)
        if node is None or node.looking is not action:
            return None
        node.looking = None
        self._looks.set(action.node, now + self._look_s)
        return outcome.faults

    def sweep(self, name: str, uid: str) -> None:
        """A part at a node is nobody's."""
        node = self.nodes[name]
        if uid not in node.sweeping:
            node.sweeping[uid] = Delete(name, uid)
            self._sweeps.append(node.sweeping[uid])

    def swept(self, action: Delete, outcome: Outcome, now: float) -> bool:
        """Whether an action that has ended was of a part of nobody's."""
        node = self.nodes.get(action.node)
        if node is None or node.sweeping.get(action.uid) is not action:
            return False
        del node.sweeping[action.uid]
        if outcome.result is not Result.DONE:
            self._stocks.set(action.node, now + self._retry_s)
        return True
