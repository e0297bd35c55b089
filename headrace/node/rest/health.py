# SPDX-License-Identifier: Apache-2.0
"""/health and /ready, for a service manager, Kubernetes or a load balancer; they need no token.

Health is that the node's own loop answers: if it does not, restarting the node helps, and loses no
traffic. Readiness is that graphs can be deployed: the switch runs and has its physical ports. A
graph that has failed makes no node unready.
"""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from headrace.node.node import Node
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import Answer
from headrace.switches.base import SwitchError

router = APIRouter(tags=["health"])

NodeDep = Annotated[Node, Depends(node_of)]
_PATIENCE_S = 5.0


class Health(Answer):
    """The node answers."""

    status: Literal["ok"]


class Readiness(Answer):
    """Graphs can be deployed."""

    ready: Literal[True]


@router.get("/health", response_model=Health)
async def get_health() -> dict[str, str]:
    """Whether the node's process works."""
    return {"status": "ok"}


@router.get("/ready", response_model=Readiness)
async def get_readiness(node: NodeDep) -> dict[str, bool]:
    """Whether the switch runs, answers and has its ports; else 503, which says what is missing."""
    missing = [name for name in node.driver.watched() if node.supervisor.find(name) is None]
    if node.paused:
        missing.append("the switch, which is paused")
    elif not missing:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                gone = await node.outer.missing()
            missing = [f"port {name}" for name in sorted(gone)]
        except (SwitchError, TimeoutError):
            missing = ["an answer of the switch"]
    if missing:
        raise SwitchError(f"not ready; missing: {', '.join(missing)}")
    return {"ready": True}
