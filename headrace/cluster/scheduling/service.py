# SPDX-License-Identifier: Apache-2.0
"""The nodes with what graphs and pods have taken of them, as the API server tells."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.cluster.resources import ResourceError, node_of
from headrace.cluster.scheduling.bindings import NotBound, Reservation, Reservations
from headrace.cluster.scheduling.cost import NodeState, Score, VnfDemand, needs_of, score
from headrace.cluster.scheduling.pods import WrongPod, demand_of
from headrace.placement.problem import CORES, LINK, MEMORY, SWITCH

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Where nodes and pods come from."""

    async def nodes(self) -> list[dict[str, Any]]:
        """All HeadraceNodes."""
        ...

    async def vnf_pods(self) -> list[dict[str, Any]]:
        """All pods with the label of VNFs, as they are at the time of asking or later."""
        ...

    async def pod(self, namespace: str, name: str) -> dict[str, Any]:
        """A pod; OSError: it can't be read."""
        ...

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Gives a pod its node; OSError: that is refused, or the outcome is not known."""
        ...


def states(
    bodies: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]
) -> dict[str, NodeState]:
    """The nodes by name; what pods take is added to what graphs do."""
    found: dict[str, NodeState] = {}
    for body in bodies:
        try:
            name, spec = node_of(body)
        except ResourceError as error:
            _log.warning("HeadraceNode %s: %s", body["metadata"]["name"], error)
            continue
        status = body.get("status") or {}
        ready = [c for c in status.get("conditions", []) if c["type"] == "Ready"]
        ok = bool(ready) and ready[0]["status"] == "True"
        reason = ready[0]["message"] if ready else "the controller has not looked at it yet"
        used = dict(status.get("used") or {})
        found[name] = NodeState(spec, used, int(status.get("vnfs", 0)), ok, reason)
    for name, demand in placed_pods(pods):
        node = found.get(name)
        if node is not None and demand.port in node.spec.model.visit:
            found[name] = with_vnf(node, demand)
    return found


def placed_pods(pods: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, VnfDemand]]:
    """The nodes and demands of pods that are VNFs, have a node, and have not ended."""
    for pod in pods:
        name = str(pod.get("spec", {}).get("nodeName") or "")
        if not name or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        try:
            demand = demand_of(pod)
        except WrongPod:
            continue  # the extender has told
        if demand is not None:
            yield name, demand


def with_vnf(node: NodeState, demand: VnfDemand) -> NodeState:
    """A node with one VNF more."""
    needs, used = needs_of(node.spec, demand), node.used
    more = {
        "cores": used.get("cores", 0.0) + needs[CORES] / 1000,
        "memoryMb": used.get("memoryMb", 0.0) + needs[MEMORY] / 1000,
        "switchCores": used.get("switchCores", 0.0)
        + needs[SWITCH] / (1e6 * node.spec.resources.ghz),
        "linkGbps": used.get("linkGbps", 0.0) + needs[LINK] / 1e9,
    }
    return NodeState(node.spec, more, node.vnfs + 1, node.ready, node.reason)


class Scores:
    """The nodes, read again every few seconds; what was bound meanwhile counts at once."""

    def __init__(self, source: Source, every_s: float = 2.0) -> None:
        """Nothing is known before `refresh`."""
        self._source, self._every_s = source, every_s
        self._read: dict[str, NodeState] = {}
        self._reservations = Reservations()
        self.nodes: dict[str, NodeState] = {}
        self.fresh = False

    async def refresh(self) -> None:
        """Reads nodes and pods."""
        settled = self._reservations.answered()
        bodies, pods = await self._source.nodes(), await self._source.vnf_pods()
        self._read = states(bodies, pods)
        self._reservations.listed(settled, pods)
        self.nodes = self._reserved()
        self.fresh = True

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Binds a pod to a node; one that is a VNF only if the node has what it takes.

        Raises:
            NotBound: the node has not, or the API server refuses.
        """
        try:
            pod = await self._source.pod(namespace, name)
            if str(pod["metadata"]["uid"]) != uid:
                raise NotBound(f"{namespace}/{name}: another pod has this name now")
            demand = demand_of(pod)
            if demand is None:
                await self._source.bind(namespace, name, uid, node)
                return
            made = self._reserve(uid, node, demand)
            try:
                await self._source.bind(namespace, name, uid, node)
            finally:
                made.answered = True
        except (OSError, WrongPod) as error:
            raise NotBound(str(error)) from error

    def _reserve(self, uid: str, node: str, demand: VnfDemand) -> Reservation:
        if not self.fresh:
            raise NotBound("the nodes are not known yet")
        others = self._reserved(besides=uid)
        if node not in others:
            raise NotBound(f"there is no HeadraceNode {node}")
        found = score(others[node], demand)
        if found.cost is None:
            raise NotBound(f"node {node}: {found.reason}")
        made = self._reservations.make(uid, node, demand)
        self.nodes = self._reserved()
        return made

    def _reserved(self, besides: str = "") -> dict[str, NodeState]:
        """The nodes as they were read, with what was bound since, but for one pod."""
        nodes = dict(self._read)
        for name, demand in self._reservations.counting(besides):
            node = nodes.get(name)
            if node is not None and demand.port in node.spec.model.visit:
                nodes[name] = with_vnf(node, demand)
        return nodes

    async def run(self) -> None:
        """Refreshes for ever; if that fails, what is known stays and it is told."""
        while True:
            try:
                await self.refresh()
            except Exception as error:
                _log.warning("the API server does not answer: %s", error)
            await asyncio.sleep(self._every_s)

    def of(self, demand: VnfDemand, names: Sequence[str] | None = None) -> dict[str, Score]:
        """Scores by node; of those that are named, or of all."""
        missing = Score(None, "there is no HeadraceNode of this name")
        return {
            name: score(self.nodes[name], demand) if name in self.nodes else missing
            for name in (self.nodes if names is None else names)
        }
