# SPDX-License-Identifier: Apache-2.0
"""A node's REST API on a model: what PUT, DELETE and GET /NF-FG answer, and how long they take.

The model checks what a node checks of a part: that rules name ports of it, that no tunnel is
there twice, and that cores and memory suffice. It forwards nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.cluster.core.actions import PART_PREFIX, Action, Delete, Look, Outcome, Put, Result
from headrace.cluster.cutting.cut import Document, digest
from headrace.cluster.cutting.hops import CannotCut, check, rules_of


@dataclass(frozen=True)
class Durations:
    """Seconds: of a call, of starting a VNF, of stopping one, and until a call is given up.

    The first three are of the order of what `headrace bench lifecycle` demands of a node.
    """

    call_s: float = 0.02
    start_s: float = 0.25
    stop_s: float = 0.05
    timeout_s: float = 10.0


@dataclass
class ModelNode:
    """A node. `alive` is whether it answers; a node that returns has what it had.

    Attributes:
        vnfs: it can run at most.
        refuse: calls that it refuses from now on (to test undoing); fail: that it breaks.
        faults: of its parts, by UID, what does not work.
    """

    name: str
    vnfs: int = 1000
    alive: bool = True
    parts: dict[str, Document] = field(default_factory=dict)
    refuse: int = 0
    fail: int = 0
    faults: dict[str, str] = field(default_factory=dict)

    def call(self, action: Action) -> Outcome:
        """The answer to an action."""
        if not self.alive:
            return Outcome(Result.FAILED, "no answer")
        if isinstance(action, Put):
            return self._put(f"{PART_PREFIX}{action.uid}", action.part.document)
        if isinstance(action, Delete):
            self.parts.pop(f"{PART_PREFIX}{action.uid}", None)
            return Outcome(Result.DONE)
        if isinstance(action, Look):
            names = [name for name in self.parts if name.startswith(PART_PREFIX)]
            uids = [name.removeprefix(PART_PREFIX) for name in names]
            return Outcome(Result.DONE, faults={uid: self.faults.get(uid, "") for uid in uids})
        stock = {
            name.removeprefix(PART_PREFIX): digest(part)
            for name, part in self.parts.items()
            if name.startswith(PART_PREFIX)
        }
        return Outcome(Result.DONE, stock=stock)

    def takes(self, action: Action, durations: Durations) -> float:
        """Seconds of an action at a node that is alive."""
        if not isinstance(action, Put | Delete):
            return durations.call_s
        before = self._vnf_ids(self.parts.get(f"{PART_PREFIX}{action.uid}"))
        after = self._vnf_ids(action.part.document if isinstance(action, Put) else None)
        started, stopped = len(after - before), len(before - after)
        return durations.call_s + durations.start_s * started + durations.stop_s * stopped

    @staticmethod
    def _vnf_ids(part: Document | None) -> set[str]:
        return set() if part is None else {v["id"] for v in part["forwarding-graph"]["VNFs"]}

    def _put(self, name: str, document: Document) -> Outcome:
        if self.refuse:
            self.refuse -= 1
            return Outcome(Result.REFUSED, "refused, as asked")
        if self.fail:
            self.fail -= 1
            return Outcome(Result.FAILED, "failed, as asked")
        graph = document["forwarding-graph"]
        reason = self._wrong(name, graph)
        if reason:
            return Outcome(Result.REFUSED, reason)
        self.parts[name] = document
        return Outcome(Result.DONE)

    def _wrong(self, name: str, graph: Mapping[str, Any]) -> str:
        try:
            renamed = [
                {**end, "id": f"x{end['id']}"} if "vxlan" in end else end
                for end in graph["end-points"]
            ]
            check({**graph, "end-points": renamed, "big-switch": {"flow-rules": []}})
        except CannotCut as error:
            return str(error)
        named = {f"endpoint:{end['id']}" for end in graph["end-points"]}
        named |= {f"vnf:{v['id']}:{p['id']}" for v in graph["VNFs"] for p in v["ports"]}
        for rule in rules_of(graph):
            ports = [rule["match"]["port_in"]]
            ports += [a["output_to_port"] for a in rule["actions"] if "output_to_port" in a]
            for port in ports:
                if port not in named:
                    return f"flow-rules: {rule['id']}: there is no port {port}"
        others = [part for key, part in self.parts.items() if key != name]
        tunnels = {key for part in others for key in _tunnels(part["forwarding-graph"])}
        twice = tunnels.intersection(_tunnels(graph))
        if twice:
            return f"the vxlan tunnel of key {sorted(twice)[0][2]} is in use"
        running = sum(len(part["forwarding-graph"]["VNFs"]) for part in others)
        if running + len(graph["VNFs"]) > self.vnfs:
            return "no core is left"
        return ""


def _tunnels(graph: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found = []
    for end in graph["end-points"]:
        if "vxlan" in end:
            about = end["vxlan"]
            found.append((about["local-ip"], about["remote-ip"], about["vni"]))
    return found
