# SPDX-License-Identifier: Apache-2.0
"""The rules of structural schemas (Kubernetes, "Specifying a structural schema"), as a checker.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from collections.abc import Iterator
from typing import Any

KNOWN = {
    "type", "format", "title", "description", "default", "example", "nullable", "properties",
    "additionalProperties", "required", "items", "enum", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems",
    "minProperties", "maxProperties", "allOf", "anyOf", "oneOf", "not",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", "x-kubernetes-validations",
}  # fmt: skip
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
SCALARS = TYPES - {"object", "array"}


def offences(schema: dict[str, Any], place: str = "") -> Iterator[str]:
    """What an API server would refuse, with its place."""
    where = place or "."
    for key in sorted(set(schema) - KNOWN):
        yield f"{where}: {key} is no field of a structural schema"
    kind = schema.get("type")
    if kind not in TYPES and not schema.get("x-kubernetes-int-or-string"):
        yield f"{where}: no type"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{where}: properties and additionalProperties exclude each other"
    if schema.get("additionalProperties") is False:
        yield f"{where}: additionalProperties must not be false"
    for name in schema.get("required", []):
        if name not in schema.get("properties", {}):
            yield f"{where}: {name} is required and not described"
    if place == "" and set(schema.get("properties", {}).get("metadata", {})) - {
        "type", "description", "properties"
    }:  # fmt: skip
        yield ".metadata: only name and generateName may be restricted"
    if kind == "array" and "items" not in schema:
        yield f"{where}: an array without items"
    yield from _lists(schema, where)
    for rule in schema.get("x-kubernetes-validations", []):
        if not rule.get("rule", "").strip() or not rule.get("message", "").strip():
            yield f"{where}: a validation needs a rule and a message"
        if "\n" in rule.get("message", ""):
            yield f"{where}: a message of several lines"
    for name, below in schema.get("properties", {}).items():
        yield from offences(below, f"{place}.{name}")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from offences(schema["additionalProperties"], f"{place}.*")
    if "items" in schema:
        yield from offences(schema["items"], f"{place}[]")


def _lists(schema: dict[str, Any], where: str) -> Iterator[str]:
    kind = schema.get("x-kubernetes-list-type")
    items = schema.get("items", {})
    if kind is not None and schema.get("type") != "array":
        yield f"{where}: a list type of what is no array"
    if kind == "set" and items.get("type") not in SCALARS:
        yield f"{where}: a set of what are no scalars"
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if (kind == "map") != bool(keys):
        yield f"{where}: list type map and its keys belong together"
    for key in keys:
        described = items.get("properties", {}).get(key)
        if described is None or described.get("type") not in SCALARS:
            yield f"{where}: the key {key} is no scalar of its items"
        elif key not in items.get("required", []) and "default" not in described:
            yield f"{where}: the key {key} has to be required or have a default"


def cost_bounds(schema: dict[str, Any], place: str = "") -> Iterator[str]:
    """Lists and strings below a validation without a bound: their estimated cost is too high."""
    if "x-kubernetes-validations" in schema:
        yield from _unbounded(schema, place)
    for name, below in schema.get("properties", {}).items():
        yield from cost_bounds(below, f"{place}.{name}")
    if "items" in schema:
        if _has_rules(schema["items"]) and "maxItems" not in schema:
            yield f"{place}: rules for each of its items, and no maxItems"
        yield from cost_bounds(schema["items"], f"{place}[]")


def _has_rules(schema: dict[str, Any]) -> bool:
    below = [*schema.get("properties", {}).values()]
    if "items" in schema:
        below.append(schema["items"])
    return "x-kubernetes-validations" in schema or any(_has_rules(one) for one in below)


def _unbounded(schema: dict[str, Any], place: str) -> Iterator[str]:
    if schema.get("type") == "array" and "maxItems" not in schema:
        yield f"{place}: no maxItems"
    if schema.get("type") == "string" and not {"maxLength", "enum", "format"} & set(schema):
        yield f"{place}: no maxLength"
    if isinstance(schema.get("additionalProperties"), dict) and "maxProperties" not in schema:
        yield f"{place}: no maxProperties"
    for name, below in schema.get("properties", {}).items():
        yield from _unbounded(below, f"{place}.{name}")
    if "items" in schema:
        yield from _unbounded(schema["items"], f"{place}[]")
