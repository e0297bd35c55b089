# SPDX-License-Identifier: Apache-2.0
"""/node: what the node is, has and spends; /metrics for Prometheus."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from headrace.machine import hardware
from headrace.machine.places import state_of
from headrace.node.access.permissions import demand, may
from headrace.node.access.users import User
from headrace.node.logs import tail
from headrace.node.node import Node
from headrace.node.rest import pci
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import Responses, content, refusals
from headrace.node.rest.login import UserDep
from headrace.node.rest.metrics import exposition
from headrace.node.rest.node_answers import (
    NodeInformation,
    Resources,
    VnfCounters,
    VnfCycles,
)
from headrace.switches.base import PortStatistics, SwitchCycles

router = APIRouter(tags=["node"])

NodeDep = Annotated[Node, Depends(node_of)]


class Paused(BaseModel):
    """Body of PUT /node/paused."""

    paused: bool


@router.get("/node", response_model=NodeInformation)
async def get_node(node: NodeDep) -> dict[str, Any]:
    """Name, versions, switch and its capabilities, engines, templates."""
    return node.information()


@router.get("/node/resources", response_model=Resources)
async def get_resources(node: NodeDep) -> dict[str, Any]:
    """Cores, memory, ports and PCI network functions: what there is and what is taken.

    `machine` is what the machine has, and what of it is available now.
    """
    ports = [{"name": name, "used_by": node.users_of(name)} for name in node.ports]
    machine = await asyncio.to_thread(hardware.report, [state_of(node.rundir)])
    inventory = node.inventory().report()
    return {
        **inventory,
        "hugepages_mb": node.memory.hugepages_report(inventory["memory_mb"]),
        "ports": ports,
        "pci": pci.report(node),
        "machine": machine,
    }


@router.get("/node/switch/cycles")
async def get_switch_cycles(node: NodeDep) -> SwitchCycles:
    """Busy and idle cycles of the switch's workers since they started; subtract two readings."""
    return await node.driver.cycles()


@router.get("/node/switch/ports")
async def get_switch_ports(node: NodeDep) -> list[PortStatistics]:
    """Counters of every port of every LSI since it was made; `tx_dropped` is what it refused."""
    return await node.driver.port_statistics()


def _demand_readable(node: Node, user: User, graph_id: str) -> None:
    """Comes before any look at the graph: what is in it is told to its readers alone."""
    node.graphs.record(graph_id)
    demand(node.users, user, "read", graph_id)


@router.get(
    "/node/vnfs/{graph_id}/{vnf_id}/cycles",
    response_model=VnfCycles,
    response_model_exclude_unset=True,
    responses=refusals(404),
)
async def get_vnf_cycles(
    graph_id: str, vnf_id: str, node: NodeDep, user: UserDep
) -> dict[str, Any]:
    """Busy and idle cycles of a VNF since it started."""
    _demand_readable(node, user, graph_id)
    vnf, engine = node.vnf(graph_id, vnf_id)
    return await engine.cycles(vnf)


@router.get(
    "/node/vnfs/{graph_id}/{vnf_id}/counters",
    response_model=VnfCounters,
    response_model_exclude_unset=True,
    responses=refusals(404),
)
async def get_vnf_counters(
    graph_id: str, vnf_id: str, node: NodeDep, user: UserDep
) -> dict[str, Any]:
    """Packets and drops of a VNF by port."""
    _demand_readable(node, user, graph_id)
    vnf, engine = node.vnf(graph_id, vnf_id)
    return await engine.counters(vnf)


Lines = Annotated[int, Query(ge=0, le=10_000, description="how many of the last lines")]
Offset = Annotated[
    int | None, Query(ge=0, le=1 << 62, description="X-Log-Offset of an earlier answer")
]

_TEXT: Responses = {
    200: {
        "headers": {
            "X-Log-Offset": {
                "description": "where the text ends: `offset` of the next request",
                "schema": {"type": "string", "pattern": "^[0-9]+$"},
            }
        }
    },
    **refusals(404),
}


@router.get(
    "/node/vnfs/{graph_id}/{vnf_id}/log",
    response_class=PlainTextResponse,
    responses=_TEXT,
)
async def get_vnf_log(
    graph_id: str,
    vnf_id: str,
    node: NodeDep,
    user: UserDep,
    lines: Lines = 100,
    offset: Offset = None,
) -> Response:
    """What the process of a VNF has written."""
    _demand_readable(node, user, graph_id)
    file = node.log_of(graph_id, vnf_id)
    return await _tail(file, lines, offset)


@router.get(
    "/node/vnfs/{graph_id}/{vnf_id}/console",
    response_class=PlainTextResponse,
    responses=_TEXT,
)
async def get_vnf_console(
    graph_id: str,
    vnf_id: str,
    node: NodeDep,
    user: UserDep,
    lines: Lines = 100,
    offset: Offset = None,
) -> Response:
    """What a virtual machine has written on its first serial port."""
    _demand_readable(node, user, graph_id)
    file = node.console_of(graph_id, vnf_id)
    return await _tail(file, lines, offset)


async def _tail(file: Path, lines: int, offset: int | None) -> Response:
    text, end = await asyncio.to_thread(tail, file, lines, offset)
    headers = {"X-Log-Offset": str(end), "Cache-Control": "no-cache"}
    return PlainTextResponse(text, headers=headers)


@router.put("/node/paused")
async def put_paused(body: Paused, node: NodeDep) -> Paused:
    """Stops or continues the switch and all VNFs, so that two nodes can take turns on one core."""
    await node.pause(body.paused)
    return Paused(paused=node.paused)


@router.get(
    "/metrics", response_class=Response, responses={200: content("text/plain", {"type": "string"})}
)
async def get_metrics(node: NodeDep, user: UserDep) -> Response:
    """Counters in Prometheus' text format: node, workers, ports, graphs, VNFs, rules."""
    text, content_type = await exposition(node, lambda g: may(node.users, user, "read", g))
    return Response(text, media_type=content_type)
