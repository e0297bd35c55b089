# SPDX-License-Identifier: Apache-2.0
"""An extender of kube-scheduler (KEP-1819): filter, prioritize by marginal cost, and bind.

Names in answers are those of Go's types, which have no tags; in requests case does not count. A pod
that is no VNF passes everywhere, with the same score.

The scheduler chooses a node for a pod while it still binds the one before, and the API server tells
of neither yet. So it is `bind` that decides whether a node has room: what it refuses, the scheduler
tries again.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.cluster.scheduling.bindings import NotBound
from headrace.cluster.scheduling.cost import Score, VnfDemand, ranks
from headrace.cluster.scheduling.pods import WrongPod, demand_of
from headrace.cluster.scheduling.service import Scores

MOST = 10
"""MaxExtenderPriority of kube-scheduler."""


class WrongRequest(Exception):
    """A request that can't be read."""


class Demand(BaseModel):
    """Body of POST /scores: one VNF."""

    model_config = ConfigDict(extra="forbid")

    pps: float = Field(ge=0, lt=1e15)
    frame_bytes: float = Field(512, ge=64, le=65_535)
    cores: float = Field(1, ge=0, lt=1e6)
    cycles: float = Field(0, ge=0, lt=1e15)
    memory_mb: float = Field(0, ge=0, lt=1e12)
    port: str = Field("vhost-user", max_length=32)


class _Args:
    """ExtenderArgs: a pod, and nodes as objects or names."""

    def __init__(self, body: Any) -> None:
        if not isinstance(body, dict):
            raise WrongRequest("the body is no JSON object")
        fields = {str(key).lower(): value for key, value in body.items()}
        pod, names, nodes = fields.get("pod"), fields.get("nodenames"), fields.get("nodes")
        if not isinstance(pod, dict):
            raise WrongRequest("there is no Pod")
        self.pod: Mapping[str, Any] = pod
        self.objects = None if names is not None else nodes
        if names is not None:
            self.names = [str(name) for name in names]
        elif isinstance(nodes, dict):
            self.names = [str(node["metadata"]["name"]) for node in nodes.get("items") or []]
        else:
            raise WrongRequest("there are neither NodeNames nor Nodes")


def filtered(scores: Scores, body: Any) -> dict[str, Any]:
    """ExtenderFilterResult for ExtenderArgs.

    Raises:
        WrongRequest: they can't be read.
    """
    args = _Args(body)
    try:
        demand = demand_of(args.pod)
    except WrongPod as error:
        return {"Error": str(error)}
    if demand is not None and not scores.fresh:
        return {"Error": "the nodes are not known yet"}
    found = {} if demand is None else scores.of(demand, args.names)
    refused = {name: one for name, one in found.items() if one.cost is None}
    kept = [name for name in args.names if name not in refused]
    answer: dict[str, Any] = {
        "FailedNodes": {n: one.reason for n, one in refused.items() if one.passing},
        "FailedAndUnresolvableNodes": {
            n: one.reason for n, one in refused.items() if not one.passing
        },
        "Error": "",
    }
    if args.objects is None:
        answer["NodeNames"] = kept
    else:
        items = [n for n in args.objects.get("items") or [] if n["metadata"]["name"] in kept]
        answer["Nodes"] = {**args.objects, "items": items}
    return answer


def prioritized(scores: Scores, body: Any) -> list[dict[str, Any]]:
    """HostPriorityList for ExtenderArgs.

    Raises:
        WrongRequest: they can't be read.
    """
    args = _Args(body)
    try:
        demand = demand_of(args.pod)
    except WrongPod:
        demand = None  # filter has told
    if demand is None:
        return [{"Host": name, "Score": 0} for name in args.names]
    ranked = ranks(scores.of(demand, args.names), MOST)
    return [{"Host": name, "Score": ranked[name]} for name in args.names]


async def bound(scores: Scores, body: Any) -> dict[str, Any]:
    """ExtenderBindingResult for ExtenderBindingArgs.

    Raises:
        WrongRequest: they can't be read.
    """
    fields = {str(k).lower(): v for k, v in body.items()} if isinstance(body, dict) else {}
    words = [fields.get(name) for name in ("podnamespace", "podname", "poduid", "node")]
    if not all(isinstance(word, str) and word for word in words):
        raise WrongRequest("there are no PodNamespace, PodName, PodUID and Node")
    namespace, name, uid, node = map(str, words)
    try:
        await scores.bind(namespace, name, uid, node)
    except NotBound as error:
        return {"Error": str(error)}
    return {"Error": ""}


def app_of(scores: Scores) -> FastAPI:
    """The HTTP server: /filter, /prioritize, /bind for kube-scheduler, /scores, /healthz."""
    app = FastAPI(title="headrace scheduler extender", docs_url=None, redoc_url=None)

    @app.exception_handler(WrongRequest)
    async def wrong(_: Request, error: WrongRequest) -> JSONResponse:
        return JSONResponse({"message": str(error)}, 400)

    async def read(request: Request) -> Any:
        try:
            return await request.json()
        except ValueError as error:
            raise WrongRequest(f"the body is no JSON: {error}") from error

    @app.post("/filter")
    async def filter_nodes(request: Request) -> JSONResponse:
        return JSONResponse(filtered(scores, await read(request)))

    @app.post("/prioritize")
    async def prioritize(request: Request) -> JSONResponse:
        return JSONResponse(prioritized(scores, await read(request)))

    @app.post("/bind")
    async def bind(request: Request) -> JSONResponse:
        return JSONResponse(await bound(scores, await read(request)))

    @app.post("/scores")
    async def of_all(request: Request) -> JSONResponse:
        try:
            demand = Demand.model_validate(await read(request))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise WrongRequest(f"{place}: {first['msg']}") from error
        found = scores.of(VnfDemand(**demand.model_dump()))
        return JSONResponse({name: _told(one) for name, one in found.items()})

    @app.get("/healthz")
    async def health() -> JSONResponse:
        return JSONResponse({"fresh": scores.fresh}, 200 if scores.fresh else 503)

    return app


def _told(one: Score) -> dict[str, Any]:
    return {"cost": one.cost, "reason": one.reason}
