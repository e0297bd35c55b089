# SPDX-License-Identifier: Apache-2.0
"""/node/reservations: cores and memory that others than the node's VNFs have."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from headrace.node.node import Node
from headrace.node.reservations import Reservation
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import refusals

router = APIRouter(tags=["node"])

NodeDep = Annotated[Node, Depends(node_of)]
Name = Annotated[str, Path(min_length=1, max_length=256)]


@router.get("/node/reservations")
async def get_reservations(node: NodeDep) -> dict[str, Reservation]:
    """What is reserved, by name."""
    return dict(node.reservations.all())


@router.put(
    "/node/reservations/{name}",
    responses={201: {"model": Reservation}, **refusals(409)},
)
async def put_reservation(
    name: Name, body: Reservation, node: NodeDep, response: Response
) -> Reservation:
    """Takes cores and memory from what VNFs may be given, in place of what the name had."""
    polls = node.driver.capabilities.polls
    if node.reservations.put(name, body, polls, node.graphs.holdings.vnfs()):
        response.status_code = 201
    return body


@router.delete("/node/reservations/{name}", status_code=204, responses=refusals(404))
async def delete_reservation(name: Name, node: NodeDep) -> None:
    """Gives back what was reserved under a name."""
    node.reservations.drop(name)
