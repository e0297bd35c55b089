# SPDX-License-Identifier: Apache-2.0
"""POST /node/vnfs/{graph}/{vnf}/exec: a command in a VNF, with a permission of its own, audited."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from headrace.engines.execution import Executor, NotRunning
from headrace.node.access.permissions import demand
from headrace.node.errors import Busy, GraphRefused
from headrace.node.node import Node
from headrace.node.rest.access import node_of
from headrace.node.rest.bodies import sendable
from headrace.node.rest.contract import Answer, refusals
from headrace.node.rest.login import UserDep, source_of

router = APIRouter(tags=["node"])

NodeDep = Annotated[Node, Depends(node_of)]
Word = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]

_AT_ONCE = asyncio.Semaphore(8)


class Command(BaseModel):
    """Body: the command's words, without a shell; what it reads; how long it may take."""

    model_config = ConfigDict(extra="forbid", strict=True)

    command: Annotated[list[Word], Field(min_length=1, max_length=256)]
    stdin: Annotated[str, Field(max_length=1 << 20)] = ""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0


class CommandResult(Answer):
    """What a command printed and how it ended; null: it was killed, its time being over.

    `truncated`: it printed more than is kept.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    truncated: bool


@router.post(
    "/node/vnfs/{graph_id}/{vnf_id}/exec",
    response_model=CommandResult,
    responses=refusals(404, 409),
)
async def post_exec(
    graph_id: str, vnf_id: str, body: Command, node: NodeDep, user: UserDep, request: Request
) -> dict[str, Any]:
    """Runs a command in a VNF, as its user, in its namespaces; `exit_code` is null after a kill."""
    demand(node.users, user, "exec", graph_id)
    vnf, engine = node.vnf(graph_id, vnf_id)
    if not isinstance(engine, Executor):
        text = f"VNF {vnf_id!r} of engine {vnf.engine} runs no commands"
        raise GraphRefused("exec", text)
    words = [sendable(word) for word in body.command]
    request.app.state.audit.note_exec(user.name, source_of(request.scope), graph_id, vnf_id, words)
    try:
        async with _AT_ONCE:
            done = await engine.execute(vnf, words, body.stdin.encode(), body.timeout_s)
    except NotRunning as error:
        raise Busy("exec", str(error)) from error
    return {
        "exit_code": done.exit_code,
        "stdout": done.stdout.decode(errors="replace"),
        "stderr": done.stderr.decode(errors="replace"),
        "truncated": done.truncated,
    }
