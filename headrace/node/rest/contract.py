# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says beside what FastAPI finds in the routes: refusals, bodies, login.

The routes of graphs, templates and users read their bodies themselves (`rest/bodies.py`: within
bounds, and a client's document is kept as it was sent), so they say here what these have to be.
"""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict

_SCHEMAS = "#/components/schemas/"

BINARY = {"type": "string", "format": "binary"}
"""The schema of octets."""

OPEN_PATHS = ("/login", "/health", "/ready")
"""The paths that need no token."""


class Answer(BaseModel):
    """What the node answers. A test finds what an answer has and its model does not describe."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class Refusal(Answer):
    """Why the node did not do what was asked: the part that found it, and where and what to do."""

    module: str
    message: str


_REFUSAL = {"$ref": f"{_SCHEMAS}Refusal"}

_MEANING = {
    400: "The request or its body is not as it has to be; the message names the place",
    401: "The token is missing or not valid (any more)",
    403: "The user may not do that, or has no quota left; or the request is another site's",
    404: "There is no such thing",
    405: "There is no such thing, as the original node said it",
    408: "The request did not come in time",
    409: "It is in use, or being changed by another request",
    413: "The body is too large",
    415: "The content type of the body is another than the path takes",
    429: "Too many failed logins; Retry-After says how many seconds to wait",
    500: "The switch or an engine failed; everything was undone",
    501: "Login is off on this node",
    503: "The switch or a VNF does not answer, or too many connections are open; if the switch is "
    "being started again, Retry-After says how many seconds to wait",
}

Responses = dict[int | str, dict[str, Any]]


def refusals(*codes: int) -> Responses:
    """The description of refusals with these codes."""
    return {code: {"model": Refusal, "description": _MEANING[code]} for code in codes}


EVERYWHERE = refusals(400, 401, 403, 408, 413, 415, 500, 503)
"""With what any request can be refused."""


def content(media_type: str, schema: dict[str, Any], description: str = "OK") -> dict[str, Any]:
    """The description of an answer that is no JSON."""
    return {"description": description, "content": {media_type: {"schema": schema}}}


def json_body(model: type[BaseModel], examples: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The description of a body that the route reads itself."""
    schema = model.model_json_schema(ref_template=_SCHEMAS + "{model}")
    kind: dict[str, Any] = {"schema": schema}
    if examples:
        kind["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": True, "content": {"application/json": kind}}}


def octets_body(field: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The description of octets, as they are or as a field of a form."""
    form = {"type": "object", "properties": {**(fields or {}), field: BINARY}, "required": [field]}
    kinds = {
        "application/octet-stream": {"schema": BINARY},
        "multipart/form-data": {"schema": form},
    }
    return {"requestBody": {"required": True, "content": kinds}}


def parameter(place: str, name: str, description: str, pattern: str = "") -> dict[str, Any]:
    """A parameter, in the query or a header, that the route reads itself."""
    schema = {"type": "string", **({"pattern": pattern} if pattern else {})}
    return {"name": name, "in": place, "description": description, "schema": schema}


LOCATION = {"headers": {"Location": {"description": "Where it is", "schema": {"type": "string"}}}}


def describe_api(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the app."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            # FastAPI answers a wrong request with 422; this node, as the original, with 400.
            operation["responses"].pop("422", None)
            for code, answer in operation["responses"].items():
                if int(code) in _MEANING and (path, code) != (
                    "/ready",
                    "503",
                ):  # also where what was asked for is no JSON
                    answer["content"] = {"application/json": {"schema": _REFUSAL}}
            for kind in operation.get("requestBody", {}).get("content", {}).values():
                _hoist(kind["schema"], schemas)
            if path in OPEN_PATHS:
                operation["security"] = []
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = {
        "token": {
            "type": "apiKey",
            "in": "header",
            "name": "X-Auth-Token",
            "description": "What POST /login gives. Without rest.login none is needed.",
        }
    }
    document["security"] = [{"token": []}]
    return document


def _hoist(schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Moves the models of a body to those of the document, where all references point."""
    for name, model in schema.pop("$defs", {}).items():
        schemas.setdefault(name, model)
    if "title" in schema and "$ref" not in schema:
        name = schema["title"]
        schemas.setdefault(name, dict(schema))
        schema.clear()
        schema["$ref"] = _SCHEMAS + name
