# SPDX-License-Identifier: Apache-2.0
"""/NF-FG: graphs, with the union of paths and codes that clients know.

POST creates under a new id: 201 with `nffg-uuid` and `Location`. PUT updates (202; 201 with
`rest.legacy`) or creates under the client's id (201). All three answer when the work is done, or at
once with `?wait=false`; then /NF-FG/status tells.
"""

import json
import uuid
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from headrace.node.access.permissions import demand, demand_groups, demand_quota, may
from headrace.node.access.users import User
from headrace.node.deployment.store import GraphRecord
from headrace.node.errors import DeployFailed, GraphRefused, NotFound
from headrace.node.node import Node
from headrace.node.planning.resources import Plan
from headrace.node.rest.access import json_of, node_of
from headrace.node.rest.contract import LOCATION, json_body, refusals
from headrace.node.rest.graph_answers import (
    GraphDocument,
    GraphList,
    GraphStatistics,
    GraphStatus,
    NewGraph,
    examples,
)
from headrace.node.rest.login import UserDep
from headrace.node.statistics import Counted, graph_statistics

router = APIRouter(tags=["graphs"])

NodeDep = Annotated[Node, Depends(node_of)]
Wait = Annotated[bool, Query(description="answer only when the graph is in its new state")]
_RESERVED = ("status",)
_BODY = json_body(GraphDocument, examples())


async def document_of(request: Request) -> dict[str, Any]:
    """The JSON body.

    Raises:
        GraphRefused: it is no JSON object, or more than a graph may be.
    """
    document = await json_of(request)
    if not isinstance(document, dict):
        raise GraphRefused("json", "the body is no JSON object")
    return document


Document = Annotated[dict[str, Any], Depends(document_of)]


def _entry(record: GraphRecord) -> dict[str, Any]:
    return {"forwarding-graph": record.document["forwarding-graph"]}


def _demand_share(node: Node, user: User, graph_id: str, plan: Plan) -> None:
    """Of the node's resources, and of the internal groups of others."""
    demand_quota(node.users, user, graph_id, plan, node.graphs.holdings.plans())
    demand_groups(node.users, user, plan, node.graphs.holdings.without(graph_id))


async def _create(
    node: Node, user: User, graph_id: str, document: dict[str, Any], wait: bool
) -> None:
    plan = node.graphs.draft(graph_id, document)
    _demand_share(node, user, graph_id, plan)
    task = node.graphs.create(graph_id, document, plan)
    node.users.set_owner(graph_id, user)
    if wait:
        try:
            await task
        except DeployFailed:
            node.graphs.forget_failed(graph_id)
            raise


@router.post(
    "/NF-FG",
    status_code=201,
    response_model=NewGraph,
    responses={201: LOCATION},
    openapi_extra=_BODY,
)
async def post_graph(
    node: NodeDep,
    user: UserDep,
    document: Document,
    response: Response,
    request: Request,
    wait: Wait = True,
) -> dict[str, str]:
    """Deploys a graph under a new id."""
    graph_id = str(uuid.uuid4())
    await node.datastore.provide(node.graphs.read(document).vnfs, user)
    await node.check(graph_id, document)
    await _create(node, user, graph_id, document, wait)
    response.headers["Location"] = f"{request.base_url}NF-FG/{quote(graph_id)}"
    return {"nffg-uuid": graph_id}


@router.put(
    "/NF-FG/{graph_id}",
    status_code=202,
    response_class=Response,
    responses={
        201: {"description": "Deployed; with rest.legacy also updated", **LOCATION},
        202: {"description": "Updated", **LOCATION},
        **refusals(409),
    },
    openapi_extra=_BODY,
)
async def put_graph(
    graph_id: str,
    node: NodeDep,
    user: UserDep,
    document: Document,
    request: Request,
    wait: Wait = True,
) -> Response:
    """Updates a graph to a new version, or deploys one under this id."""
    if graph_id in _RESERVED or not 0 < len(graph_id) <= 64 or not graph_id.isprintable():
        raise GraphRefused(
            "graphs", f"{graph_id[:80]!a} cannot be the id of a graph; choose another"
        )
    headers = {"Location": f"{request.base_url}NF-FG/{quote(graph_id)}"}
    with suppress(NotFound):
        node.graphs.record(graph_id)
        demand(node.users, user, "update", graph_id)  # before anything is fetched or checked for it
    await node.datastore.provide(node.graphs.read(document).vnfs, user)
    await node.check(graph_id, document)
    try:
        node.graphs.record(graph_id)
    except NotFound:
        await _create(node, user, graph_id, document, wait)
        return Response(status_code=201, headers=headers)
    demand(node.users, user, "update", graph_id)  # again: it may be another's by now
    plan = node.graphs.draft(graph_id, document)
    _demand_share(node, user, graph_id, plan)
    task = node.graphs.update(graph_id, document, plan)
    if wait:
        await task
    return Response(status_code=201 if node.config.rest.legacy else 202, headers=headers)


@router.get("/NF-FG", response_model=GraphList)
async def list_graphs(node: NodeDep, user: UserDep) -> Response:
    """All graphs that the user may read, as their clients wrote them."""
    graphs = [
        {**_entry(record), "nffg-uuid": record.id}
        for record in node.graphs.records()
        if may(node.users, user, "read", record.id)
    ]
    return JSONResponse({"NF-FG": graphs})


@router.get("/NF-FG/{graph_id}", response_model=GraphDocument, responses=refusals(404))
async def get_graph(graph_id: str, node: NodeDep, user: UserDep) -> Response:
    """A graph as its client wrote it."""
    record = node.graphs.record(graph_id)
    demand(node.users, user, "read", graph_id)
    return JSONResponse(_entry(record))


@router.get("/NF-FG/status/{graph_id}", response_model=GraphStatus, responses=refusals(404))
async def get_status(graph_id: str, node: NodeDep, user: UserDep) -> dict[str, Any]:
    """The state of a graph: complete, in_progress or error, with what is known."""
    record = node.graphs.record(graph_id)
    demand(node.users, user, "read", graph_id)
    return node.status(record)


@router.get(
    "/NF-FG/{graph_id}/statistics",
    response_model=GraphStatistics,
    response_model_exclude_unset=True,
    responses=refusals(404),
)
async def get_statistics(graph_id: str, node: NodeDep, user: UserDep) -> dict[str, Any]:
    """Packets and bytes of each flow rule, and of each end-point; null where nothing counts."""
    record = node.graphs.record(graph_id)
    demand(node.users, user, "read", graph_id)
    await node.graphs.look_at_timed(graph_id)
    return await graph_statistics(Counted(node.driver), record, node.graphs.expired(graph_id))


@router.delete("/NF-FG/{graph_id}", status_code=204, responses=refusals(404, 409))
async def delete_graph(graph_id: str, node: NodeDep, user: UserDep, wait: Wait = True) -> Response:
    """Removes a graph and everything that was made for it."""
    node.graphs.record(graph_id)
    demand(node.users, user, "delete", graph_id)
    task = node.graphs.delete(graph_id)
    if wait:
        await task
    return Response(status_code=204)


@router.delete("/NF-FG/{graph_id}/{rule_id}", status_code=204, responses=refusals(404, 409))
async def delete_rule(graph_id: str, rule_id: str, node: NodeDep, user: UserDep) -> Response:
    """Removes one flow rule of a graph (as clients of 2016 do)."""
    node.graphs.record(graph_id)
    demand(node.users, user, "update", graph_id)
    document = json.loads(json.dumps(node.graphs.record(graph_id).document))
    switch = document["forwarding-graph"].get("big-switch", {"flow-rules": []})
    kept = [rule for rule in switch["flow-rules"] if str(rule["id"]) != rule_id]
    if len(kept) == len(switch["flow-rules"]):
        raise NotFound("graphs", f"graph {graph_id} has no flow rule {rule_id!r}")
    switch["flow-rules"] = kept
    await node.check(graph_id, document)
    demand(node.users, user, "update", graph_id)  # again: it may be another's by now
    await node.graphs.update(graph_id, document)
    return Response(status_code=204)
