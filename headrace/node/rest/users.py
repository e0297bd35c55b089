# SPDX-License-Identifier: Apache-2.0
"""/login, /users, /groups: with the original node's codes; 501 where login is off."""

import asyncio
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.node.access.users import Quota, User, hash_of, is_password
from headrace.node.errors import AccessError, GraphRefused, describe
from headrace.node.node import Node
from headrace.node.rest.access import json_of, node_of
from headrace.node.rest.contract import LOCATION, Answer, json_body, refusals
from headrace.node.rest.login import source_of

router = APIRouter(tags=["users"], responses=refusals(501))

NodeDep = Annotated[Node, Depends(node_of)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
Limit = Annotated[int, Field(ge=0)] | None

Model = TypeVar("Model", bound=BaseModel)

_HASHING = asyncio.Semaphore(1)
"""A hash takes 64 MiB and a core for a moment: one at a time, whoever asks."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Credentials(_Body):
    """Body of POST /login."""

    username: Annotated[str, Field(max_length=64)]
    password: Annotated[str, Field(max_length=1024)]


class NewUser(_Body):
    """Body of POST /users/{name}; without a limit, as much as the node has."""

    password: Annotated[str, Field(min_length=8, max_length=1024)]
    group: Name
    max_graphs: Limit = None
    max_cores: Limit = None
    max_memory_mb: Limit = None
    max_images_mb: Limit = None
    may_exec: bool = False


class _NewName(_Body):
    name: Name


class UserAnswer(Answer):
    """A user; a limit of null is as much as the node has. `may_exec`: commands in its VNFs."""

    username: str
    group: str
    max_graphs: int | None
    max_cores: int | None
    max_memory_mb: int | None
    max_images_mb: int | None
    may_exec: bool


class UserList(Answer):
    """Users."""

    users: list[UserAnswer]


class GroupAnswer(Answer):
    """A group."""

    name: str


class GroupList(Answer):
    """Groups."""

    groups: list[GroupAnswer]


def _demand_login(node: Node) -> None:
    if not node.config.rest.login:
        raise AccessError(501, "login is off on this node (rest.login in node.yaml)")


async def _body_of(request: Request, model: type[Model]) -> Model:
    try:
        return model.model_validate(await json_of(request))
    except ValidationError as error:
        raise GraphRefused("users", describe(error, "body")) from None


@router.post(
    "/login",
    response_class=PlainTextResponse,
    responses=refusals(429),
    openapi_extra=json_body(Credentials),
)
async def login(node: NodeDep, request: Request) -> Response:
    """Gives a token for a name and a password, as plain text."""
    _demand_login(node)
    credentials = await _body_of(request, Credentials)
    name, source = credentials.username, source_of(request.scope)
    async with _HASHING:  # the wait is looked at inside, or requests at once would all be in time
        wait_s = node.lockout.wait_s(name, source)
        if wait_s:
            raise AccessError(429, f"too many failed logins: wait {wait_s} s", retry_s=wait_s)
        stored = node.users.password_hash(name)
        right = await asyncio.to_thread(is_password, stored, credentials.password)
        if not right or node.users.find(name) is None:
            node.lockout.failed(name, source)
            raise AccessError(401, "wrong user or password")
    node.lockout.succeeded(name)
    token = node.users.give_token(name)
    return Response(token, media_type="text/plain", headers={"Cache-Control": "no-cache"})


@router.get("/users", response_model=UserList)
async def list_users(node: NodeDep) -> dict[str, list[dict[str, Any]]]:
    """All users."""
    _demand_login(node)
    return {"users": [_shown(user) for user in node.users.all()]}


@router.get("/users/{name}", response_model=UserAnswer, responses=refusals(404))
async def get_user(name: str, node: NodeDep) -> dict[str, Any]:
    """One user."""
    _demand_login(node)
    user = node.users.find(name)
    if user is None:
        raise AccessError(404, f"there is no user {name!r}")
    return _shown(user)


@router.post(
    "/users/{name}", status_code=202, response_class=Response, openapi_extra=json_body(NewUser)
)
async def post_user(name: str, node: NodeDep, request: Request) -> Response:
    """Adds a user."""
    _demand_login(node)
    body = await _body_of(request, NewUser)
    _check_name(name)
    async with _HASHING:
        hashed = await asyncio.to_thread(hash_of, body.password)
    quota = Quota(body.max_graphs, body.max_cores, body.max_memory_mb, body.max_images_mb)
    node.users.add(User(name, body.group, quota, body.may_exec), hashed)
    return Response(status_code=202)


@router.delete("/users/{name}", status_code=204, responses=refusals(404))
async def delete_user(name: str, node: NodeDep) -> Response:
    """Removes a user; the graphs stay."""
    _demand_login(node)
    node.users.remove(name)
    return Response(status_code=204)


@router.get("/groups", response_model=GroupList)
async def list_groups(node: NodeDep) -> dict[str, list[dict[str, str]]]:
    """All groups."""
    _demand_login(node)
    return {"groups": [{"name": name} for name in node.users.groups()]}


@router.put("/groups/{name}", status_code=201, response_class=Response, responses={201: LOCATION})
async def put_group(name: str, node: NodeDep, request: Request) -> Response:
    """Makes a group."""
    _demand_login(node)
    _check_name(name)
    node.users.add_group(name)
    return Response(status_code=201, headers={"Location": str(request.url)})


@router.delete("/groups/{name}", status_code=202, response_class=Response, responses=refusals(404))
async def delete_group(name: str, node: NodeDep) -> Response:
    """Removes a group without members."""
    _demand_login(node)
    node.users.remove_group(name)
    return Response(status_code=202)


def _check_name(name: str) -> None:
    try:
        _NewName(name=name)
    except ValidationError as error:
        raise GraphRefused("users", describe(error, "name")) from None


def _shown(user: User) -> dict[str, Any]:
    quota = user.quota
    return {
        "username": user.name,
        "group": user.group,
        "max_graphs": quota.graphs,
        "max_cores": quota.cores,
        "max_memory_mb": quota.memory_mb,
        "max_images_mb": quota.images_mb,
        "may_exec": user.may_exec,
    }
