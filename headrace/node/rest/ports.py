# SPDX-License-Identifier: Apache-2.0
"""/node/ports: the ports of LSI-0, and those among them that clients attach while the node runs."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.node.config import PortConfig
from headrace.node.errors import GraphRefused, describe
from headrace.node.node import Node
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import refusals
from headrace.node.rest.node_answers import NodePort

router = APIRouter(tags=["node"])

NodeDep = Annotated[Node, Depends(node_of)]

_OWNER = Field(min_length=1, max_length=256)


class NewPort(BaseModel):
    """Body of PUT /node/ports/{name}: kind and options as in node.yaml, and whose it is."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    options: dict[str, str] = {}
    owner: Annotated[str, _OWNER]


@router.get("/node/ports", response_model=list[NodePort], response_model_exclude_unset=True)
async def get_ports(node: NodeDep) -> list[dict[str, Any]]:
    """The physical ports (LSI-0): how to attach to each, and its counters.

    `attach.devargs` is the vdev string of a DPDK program that becomes the port's peer, with `{n}`
    for an index that it has not used yet; `attach.iface` a kernel interface. `owner` is who has
    attached it while the node ran; null for ports of node.yaml.
    """
    return await node.port_list()


@router.put(
    "/node/ports/{name}",
    response_model=NodePort,
    response_model_exclude_unset=True,
    responses={201: {"model": NodePort}, **refusals(409)},
)
async def put_port(name: str, body: NewPort, node: NodeDep, response: Response) -> dict[str, Any]:
    """Attaches a port to LSI-0 while the node runs: 201 if it is new.

    Graphs use it as any physical port. It is there again when the node is started again, unless it
    is an interface that has gone.
    """
    fields = {"name": name, "kind": body.kind, "options": body.options}
    try:
        port = PortConfig.model_validate(fields)
    except ValidationError as error:
        raise GraphRefused("ports", describe(error, "the port")) from error
    if await node.outer.attach(port, body.owner):
        response.status_code = 201
    return next(row for row in await node.port_list() if row["name"] == name)


@router.delete("/node/ports/{name}", status_code=204, responses=refusals(404, 409))
async def delete_port(
    name: str,
    node: NodeDep,
    owner: Annotated[str | None, Query(description="refuse if it is another owner's")] = None,
    force: Annotated[bool, Query(description="even if graphs use it: they then lack it")] = False,
) -> None:
    """Detaches a port that was attached while the node ran."""
    await node.outer.detach(name, owner, force)
