# SPDX-License-Identifier: Apache-2.0
"""/NF-FG/{id}/prediction: what the model predicted of a graph, beside what it does now.

/node/model: the model's terms as they are now.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from headrace.model.mechanistic.stored import dump
from headrace.node.access.permissions import demand
from headrace.node.deployment.store import GraphState
from headrace.node.observing import measured
from headrace.node.rest.contract import Answer, refusals
from headrace.node.rest.graphs import NodeDep
from headrace.node.rest.login import UserDep

router = APIRouter(tags=["graphs"])


class Measured(Answer):
    """Over some seconds: packets per second from the end-points, bytes of a frame with FCS.

    `busy` are busy shares by role; that of the switch is of all graphs together.
    """

    seconds: float
    pps: float | None
    bytes: float | None
    busy: dict[str, float | None]


class GraphPrediction(Answer):
    """`predicted` as it was stored with the graph; null, with the `reason`, if it could not be.

    `measured` is null if the graph does not run, or `seconds` is 0. `learned` has, by role, the
    windows that the node has learned from and the terms now; `warnings` say what they now mean for
    the graph's demand.
    """

    predicted: dict[str, Any] | None
    reason: str
    measured: Measured | None
    learned: dict[str, Any]
    warnings: list[str]


class ModelTerms(Answer):
    """The terms by role, fitted and learned, as `headrace model fit` stores them; null: no model.

    `learned` has, by role, how many windows of the node's own became what, and whether its terms
    are used: those of a VNF that was in no trial are, once enough windows were learned from.
    """

    terms: dict[str, Any] | None
    reason: str
    learned: dict[str, Any]


@router.get("/node/model", response_model=ModelTerms)
async def get_model(node: NodeDep) -> dict[str, Any]:
    """The terms of the node's model as they are now, and what they were learned from."""
    terms = node.model.terms()
    return {
        "terms": None if terms is None else dump(terms),
        "reason": node.model.reason if terms is None else "",
        "learned": node.model.learned(),
    }


@router.get("/NF-FG/{graph_id}/prediction", response_model=GraphPrediction, responses=refusals(404))
async def get_prediction(
    graph_id: str,
    node: NodeDep,
    user: UserDep,
    seconds: Annotated[float, Query(ge=0, le=2, description="time to measure")] = 0.5,
) -> dict[str, Any]:
    """What the model predicted of a graph when it was deployed, beside what it does now."""
    record = node.graphs.record(graph_id)
    demand(node.users, user, "read", graph_id)
    stored = record.plan.prediction
    reason = "" if stored is None else str(stored.get("reason", ""))
    if stored is None:
        reason = node.model.reason if node.model.fitted is None else "it was deployed without one"
    running = record.state is GraphState.RUNNING and seconds > 0
    return {
        "predicted": None if reason else stored,
        "reason": reason,
        "measured": await measured(node, record, seconds) if running else None,
        "learned": node.model.learned(),
        "warnings": node.model.warnings(record.document, record.plan),
    }
