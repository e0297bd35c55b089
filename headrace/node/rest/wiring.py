# SPDX-License-Identifier: Apache-2.0
"""/NF-FG/{id}/wiring and /node/graphs: what a picture of a graph, and of all, is made from."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field

from headrace.node.access.permissions import demand, may
from headrace.node.node import Node
from headrace.node.planning.nffg import parse
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import Answer, refusals
from headrace.node.rest.graph_answers import Counted
from headrace.node.rest.login import UserDep
from headrace.node.rest.node_answers import PortCounters
from headrace.node.wiring import wiring_of
from headrace.switches.base import PortKind

router = APIRouter(tags=["graphs"])

NodeDep = Annotated[Node, Depends(node_of)]


class WiredEndPoint(Answer):
    """An end-point: `where` it leads in words, its port of the switch, which graphs may share."""

    id: str
    reference: str
    type: str
    where: str
    port: PortCounters | None
    received: Counted
    sent: Counted


class DirectAnswer(Answer):
    """What leaves a port past the switch: to which, or the `reason` why nothing does."""

    to: str | None
    state: str
    packets: int
    bytes: int
    reason: str | None


class WiredPort(Answer):
    """A port of a VNF: the switch's port and its counters, as the switch sees it."""

    id: str
    reference: str
    port: str
    kind: PortKind
    counters: PortCounters | None
    dropped_by_vnf: int | None
    direct: DirectAnswer | None


class WiredCycles(Answer):
    """TSC cycles, or CPU time where that is all that is known, with the `reason`."""

    busy_cycles: int | None
    idle_cycles: int | None
    packets: int | None
    cpu_ns: int | None
    reason: str | None


class WiredVnf(Answer):
    """A VNF, what it is given and what it has spent."""

    id: str
    template: str
    function: str
    engine: str
    cores: list[int]
    memory_mb: int
    running: bool
    ready: bool | None
    restarts: int
    held: str
    probes: dict[str, str]
    cycles: WiredCycles
    processes: int
    ports: list[WiredPort]


class WiredPath(Counted):
    """What all rules from one port to another have matched; `to` is null where they drop."""

    source: str = Field(alias="from")
    to: str | None
    rules: int
    balanced: bool


class Wiring(Answer):
    """A graph as it is wired, with one reading of its counters at `at_ns` of a steady clock."""

    graph: str
    name: str
    at_ns: int
    switch: str
    lsi: str
    message: str
    end_points: list[WiredEndPoint]
    vnfs: list[WiredVnf]
    paths: list[WiredPath]


class GraphInBrief(Answer):
    """A graph in a list; `running` of its `vnfs` run."""

    id: str
    name: str
    status: str
    percentage_completed: int
    message: str
    vnfs: int
    running: int
    end_points: int
    rules: int


@router.get("/NF-FG/{graph_id}/wiring", response_model=Wiring, responses=refusals(404))
async def get_wiring(graph_id: str, node: NodeDep, user: UserDep) -> dict[str, Any]:
    """How a graph is wired, and what has passed each port and path; subtract two readings."""
    record = node.graphs.record(graph_id)
    demand(node.users, user, "read", graph_id)
    return await wiring_of(node, record)


@router.get("/node/graphs", response_model=list[GraphInBrief])
async def get_graphs(node: NodeDep, user: UserDep) -> list[dict[str, Any]]:
    """The graphs that the user may read, in brief, with their states."""
    listed = []
    for record in node.graphs.records():
        if not may(node.users, user, "read", record.id):
            continue
        graph, _ = parse(record.document)
        status = node.status(record)
        listed.append(
            {
                "id": record.id,
                "name": graph.name or "",
                **{key: status[key] for key in ("status", "percentage_completed", "message")},
                "vnfs": len(graph.vnfs),
                "running": sum(vnf["running"] for vnf in status["vnfs"]),
                "end_points": len(graph.end_points),
                "rules": len(graph.big_switch.flow_rules),
            }
        )
    return listed
