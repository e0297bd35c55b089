# SPDX-License-Identifier: Apache-2.0
"""/NF-FG/{id}/prediction: what the model predicted of a graph, beside what it does now."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

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
    windows that the node has learned from and the terms now.
    """

    predicted: dict[str, Any] | None
    reason: str
    measured: Measured | None
    learned: dict[str, Any]


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
    }
