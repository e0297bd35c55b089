# SPDX-License-Identifier: Apache-2.0
"""The custom resources keep the rules of structural schemas, and take and refuse what they should.

The validations in CEL are evaluated by a real API server (`make test-cluster`).
"""

import copy
import json
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.cluster import manifests
from tests.cluster.objects import headrace_node, service_graph
from tests.cluster.structural import cost_bounds, offences

CUSTOM = ("servicegraph", "headracenode")


def _version(name: str) -> dict[str, Any]:
    (definition,) = manifests.objects(name)
    (version,) = definition["spec"]["versions"]
    return dict(version)


def _schema(name: str) -> dict[str, Any]:
    return dict(_version(name)["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize("name", CUSTOM)
def test_schemas_are_structural_and_their_rules_bounded(name: str) -> None:
    """Offences are what an API server refuses."""
    assert list(offences(_schema(name))) == []
    assert list(cost_bounds(_schema(name))) == []


@pytest.mark.parametrize("name", CUSTOM)
def test_status_is_a_subresource_with_conditions(name: str) -> None:
    version = _version(name)
    assert version["subresources"] == {"status": {}}
    conditions = _schema(name)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    columns = {column["name"] for column in version["additionalPrinterColumns"]}
    assert {"Ready", "Reason", "Age"} <= columns


def test_the_checker_finds_what_is_not_structural() -> None:
    """A checker that never complains would let the test above pass."""
    wrong = {
        "type": "object",
        "properties": {
            "a": {"properties": {}},
            "b": {"type": "array"},
            "c": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
            "d": {"type": "string", "$ref": "#/x"},
            "e": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "properties": {"id": {"type": "string"}}},
            },
        },
        "required": ["f"],
    }
    assert len(list(offences(wrong))) == 6


@pytest.mark.parametrize(
    ("name", "example"),
    [("servicegraph", service_graph()), ("headracenode", headrace_node("n1"))],
)
def test_examples_are_valid(name: str, example: dict[str, Any]) -> None:
    jsonschema.validate(example, _schema(name))


def _without(example: dict[str, Any], *path: str) -> dict[str, Any]:
    made = copy.deepcopy(example)
    at = made
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return made


def _with(example: dict[str, Any], value: Any, *path: str) -> dict[str, Any]:
    made = copy.deepcopy(example)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made


@pytest.mark.parametrize(
    "wrong",
    [
        _without(service_graph(), "spec", "forwarding-graph"),
        _without(service_graph(), "spec", "forwarding-graph", "big-switch"),
        _with(service_graph(), "anywhere", "spec", "placement"),
        _with(service_graph(), {"pps": 0}, "spec", "demand"),
        _with(service_graph(), [{"endPoint": "in"}], "spec", "constraints", "pinned"),
        _with(service_graph(), [{"id": "a:b", "ports": []}], "spec", "forwarding-graph", "VNFs"),
    ],
)
def test_wrong_graphs_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, _schema("servicegraph"))


def test_the_command_prints_them() -> None:
    runner = CliRunner()
    printed = runner.invoke(app, ["cluster", "manifests", "headracenode"])
    assert printed.exit_code == 0 and printed.output == manifests.text("headracenode")
    assert "ServiceGraph" in runner.invoke(app, ["cluster", "manifests"]).output
    told = json.loads(runner.invoke(app, ["cluster", "manifests", "--json"]).output)
    assert (told["apiVersion"], told["kind"]) == ("v1", "List")
    assert told["items"] == [one for name in manifests.NAMES for one in manifests.objects(name)]
    assert runner.invoke(app, ["cluster", "manifests", "nothing"]).exit_code == 1
