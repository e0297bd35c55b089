# SPDX-License-Identifier: Apache-2.0
"""A graph as it is wanted on the nodes: where everything is, its links, and its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.cluster.core.actions import Part
from headrace.cluster.core.fleet import Takings
from headrace.cluster.core.placing import Placed
from headrace.cluster.core.vnis import Vnis
from headrace.cluster.cutting.cut import Link, cut, digest, links_of
from headrace.cluster.cutting.hops import check
from headrace.cluster.cutting.join import verify
from headrace.cluster.resources import Graph


@dataclass(frozen=True)
class Layout:
    """One version of a graph on nodes."""

    generation: int
    where: dict[str, str]
    links: dict[Link, int]
    parts: dict[str, Part]
    takings: Takings
    latency_us: float

    @property
    def nodes(self) -> set[str]:
        """The nodes that have a part."""
        return set(self.parts)


def whole_of(graph: Graph) -> dict[str, Any]:
    """The NF-FG with the demand, which nodes that have a model compare with what they can carry."""
    demand = graph.spec.demand
    return {"demand": {"pps": demand.pps, "bytes": demand.mean_bytes}, **graph.spec.graph}


def make_layout(
    graph: Graph,
    placed: Placed,
    vnis: Vnis,
    known: Mapping[Link, int],
    addresses: Mapping[str, str | None],
) -> Layout:
    """Cuts a graph; links that are `known` keep their VNI, others take one.

    Raises:
        CannotCut: it can't be; no VNI is taken then.
        NoVni: none is left; likewise.
    """
    whole = whole_of(graph)
    check(whole)
    taken: list[int] = []
    try:
        links = {}
        for link in links_of(whole, placed.where):
            vni = known.get(link)
            if vni is None:
                vni = vnis.take()
                taken.append(vni)
            links[link] = vni
        documents = cut(whole, placed.where, links, addresses)
        verify(whole, documents)
    except Exception:
        vnis.free(taken)
        raise
    parts = {node: Part(digest(document), document) for node, document in documents.items()}
    return Layout(
        graph.generation, dict(placed.where), links, parts, placed.takings, placed.latency_us
    )


def moved(before: Layout | None, after: Layout) -> int:
    """VNFs of both that are on another node after."""
    if before is None:
        return 0
    return sum(
        1
        for owner, node in after.where.items()
        if owner.startswith("vnf:") and before.where.get(owner, node) != node
    )
