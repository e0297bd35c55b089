# SPDX-License-Identifier: Apache-2.0
"""The faulty node behind the API of an original generation: its paths and codes, and no more."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.conformance_node.node import PORTS, FaultyNode


def original(node: FaultyNode, generation: str) -> Starlette:
    """The API of `g2` or `g1` over a node, or that of `g0`, which keeps what it is sent."""
    return _Zeroth().app if generation == "g0" else _newer(node, generation)


def _newer(node: FaultyNode, generation: str) -> Starlette:
    second = generation == "g2"

    async def put(request: Request) -> Response:
        known = request.path_params["name"] in node.graphs
        if second and not known:
            return Response(status_code=405, headers={"Allow": "POST"})
        answer = await node.put_graph(request)
        return Response(status_code=201) if answer.status_code == 202 and not second else answer

    async def post(request: Request) -> Response:
        return await node.post_graph(request) if second else Response(status_code=501)

    async def get(request: Request) -> Response:
        answer = await node.get_graph(request)
        return Response(status_code=405) if second and answer.status_code == 404 else answer

    async def delete(request: Request) -> Response:
        answer = await node.delete_graph(request)
        return Response(status_code=405) if answer.status_code == 404 else answer

    async def conf(_: Request) -> Response:
        return JSONResponse({"datastoreEndpoint": "", "unPhisicalPorts": list(PORTS)})

    routes = [
        Route("/NF-FG/", post, methods=["POST"]),
        Route("/NF-FG", node.list_graphs, methods=["GET"]),
        Route("/NF-FG/status/{name}", node.status),
        Route("/NF-FG/{name}", put, methods=["PUT"]),
        Route("/NF-FG/{name}", get, methods=["GET"]),
        Route("/NF-FG/{name}", delete, methods=["DELETE"]),
    ]
    if not second:
        routes.append(Route("/conf", conf))
    return Starlette(routes=routes)


class _Zeroth:
    """`/graph/{id}` with `flow-graph` documents, of which the form is checked."""

    def __init__(self) -> None:
        self._graphs: dict[str, Any] = {}
        place = "/graph/{name}"
        self.app = Starlette(
            routes=[
                Route(place, self._put, methods=["PUT"]),
                Route(place, self._get, methods=["GET"]),
                Route(place, self._delete, methods=["DELETE"]),
            ]
        )

    async def _put(self, request: Request) -> Response:
        document = await request.json()
        graph = document["flow-graph"]
        vnfs = {vnf["id"] for vnf in graph["VNFs"]}
        for rule in graph["flow-rules"]:
            for half in (rule["match"], rule["action"]):
                named = {"port", "VNF_id", "endpoint_id"} & set(half)
                if len(named) != 1:
                    return Response(status_code=400)
                if "port" in half and half["port"] not in PORTS:
                    return Response(status_code=400)
                if "VNF_id" in half and half["VNF_id"].partition(":")[0] not in vnfs:
                    return Response(status_code=400)
        self._graphs[request.path_params["name"]] = document
        return Response(status_code=201)

    async def _get(self, request: Request) -> Response:
        found = self._graphs.get(request.path_params["name"])
        return Response(status_code=405) if found is None else JSONResponse(found)

    async def _delete(self, request: Request) -> Response:
        known = self._graphs.pop(request.path_params["name"], None) is not None
        return Response(status_code=204 if known else 405)
