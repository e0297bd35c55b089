# SPDX-License-Identifier: Apache-2.0
"""/nfs: the templates as the original's name resolver gave them until 2016.

The virtualizer (UNIFY's XML in front of a node) reads it when it starts. The resolver was a server
of its own; its clients are told its address, which may be the node's.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from headrace.node.errors import AccessError
from headrace.node.node import Node
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import refusals
from headrace.node.templates import LEGACY_TYPES, Template

router = APIRouter(prefix="/nfs", tags=["templates"])

NodeDep = Annotated[Node, Depends(node_of)]

_KINDS = {**LEGACY_TYPES, "vm": "kvm"}


class Name(BaseModel):
    """A network function by its name."""

    name: str


class Digest(BaseModel):
    """The names of all network functions."""

    model_config = ConfigDict(populate_by_name=True)

    functions: list[Name] = Field(alias="network-functions")


class Implementation(BaseModel):
    """One way to run a network function; `cores` and `location` are of type dpdk."""

    type: str
    uri: str
    cores: int | None = None
    location: str | None = None


class NetworkFunction(BaseModel):
    """A network function with its implementations."""

    name: str
    nports: int
    summary: str
    implementations: list[Implementation]


class NetworkFunctions(BaseModel):
    """All network functions."""

    model_config = ConfigDict(populate_by_name=True)

    functions: list[NetworkFunction] = Field(alias="network-functions")


@router.get("/digest", response_model=Digest)
async def get_digest(node: NodeDep) -> dict[str, Any]:
    """The names of all network functions."""
    return {"network-functions": [{"name": name} for name in _by_name(node)]}


@router.get("", response_model=NetworkFunctions, response_model_exclude_none=True)
async def get_all(node: NodeDep) -> dict[str, Any]:
    """All network functions."""
    found = _by_name(node)
    return {"network-functions": [_shown(name, found[name]) for name in found]}


@router.get(
    "/{capability}",
    response_model=NetworkFunction,
    response_model_exclude_none=True,
    responses=refusals(405),
)
async def get_one(capability: str, node: NodeDep) -> dict[str, Any]:
    """One network function; 405 for a name that is unknown, as the original answered."""
    found = _by_name(node).get(capability)
    if found is None:
        raise AccessError(405, f"there is no network function {capability!r}")
    return _shown(capability, found)


def _by_name(node: Node) -> dict[str, list[Template]]:
    """The templates by capability, as graphs ask for them."""
    found: dict[str, list[Template]] = {}
    for template in node.datastore.templates().all():
        found.setdefault(template.functional_capability, []).append(template)
    return found


def _shown(name: str, templates: list[Template]) -> dict[str, Any]:
    return {
        "name": name,
        "nports": max(template.ports.max for template in templates),
        "summary": templates[0].description or templates[0].name,
        "implementations": [_implementation(template) for template in templates],
    }


def _implementation(template: Template) -> dict[str, Any]:
    kind = _KINDS.get(template.engine, template.engine)
    shown: dict[str, Any] = {"type": kind, "uri": f"/v2/nf_template/{template.id}"}
    if kind == "dpdk":
        shown |= {"cores": template.cores, "location": "local"}
    return shown
