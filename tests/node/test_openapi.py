# SPDX-License-Identifier: Apache-2.0
"""/openapi.json: it is valid, has every route with types, and says what is really answered."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

from headrace.node.access.users import User
from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import MAX_VNFS, parse
from headrace.node.rest import node_answers
from headrace.node.rest.app import make_app
from headrace.node.rest.contract import Answer
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST
from tests.node.fake_sysfs import FakeSysfs

Json = dict[str, Any]
EXAMPLES = list(Path(node_answers.__file__).parents[1].glob("examples/*.json"))
REFUSAL = {"$ref": "#/components/schemas/Refusal"}

NO_BODY = {("put", "/groups/{name}")}
"""What is done without a body by a method that has one."""

NO_CONTENT = {
    ("put", "/NF-FG/{graph_id}"),
    ("put", "/v2/nf_template/{template_id}"),
    ("delete", "/v2/nf_template/{template_id}"),
    ("delete", "/v2/nf_image/{template_id}"),
    ("post", "/users/{name}"),
    ("put", "/groups/{name}"),
    ("delete", "/groups/{name}"),
}
"""What is answered without a content although its code allows one, as the original does."""


@pytest.fixture
async def site(rundir: Path) -> AsyncIterator[Api]:
    """A node with a graph, a template of a client, users and a PCI function."""
    async for api in api_of(rundir, rest={"login": True}):
        sysfs = FakeSysfs(rundir / "sys")
        sysfs.add_driver("i40e")
        sysfs.add_function("0000:03:00.0", driver="i40e", interface="ens1", total_vfs=4)
        api.node.sysfs = sysfs
        users = api.node.users
        users.add_group("one")
        for name, group in (("root", "admin"), ("ann", "one")):
            users.add(User(name, group), "no hash")
        api.http.headers["x-auth-token"] = users.give_token("root")
        assert (await api("PUT", "/NF-FG/g", FIRST)).status_code == 201
        template = {"name": "own", "vnf-type": "kvm", "ports": [{"position": "0-1"}]}
        assert (await api("PUT", "/v2/nf_template", template)).status_code == 200
        yield api


async def document_of(api: Api) -> Json:
    answer = await api("GET", "/openapi.json")
    found: Json = answer.json()
    return found


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def is_typed(schema: Json) -> bool:
    """Whether a schema says anything of a value."""
    if schema.get("type") == "array":
        return is_typed(schema["items"])
    return bool({"$ref", "type", "anyOf"} & set(schema))


async def test_it_is_valid(site: Api) -> None:
    document = await document_of(site)
    validate(document)
    assert document["security"] == [{"token": []}]
    assert document["paths"]["/login"]["post"]["security"] == []
    wrong = copy.deepcopy(document)
    wrong["paths"]["/NF-FG"]["post"]["requestBody"] = {"content": {"application/json": 1}}
    with pytest.raises(OpenAPIValidationError):
        validate(wrong)


async def test_every_route_is_in_it(site: Api) -> None:
    document = await document_of(site)
    found = {(method.upper(), path) for method, path, _ in operations(document)}
    routes = set()
    for route in iter_route_contexts(make_app(site.node).routes):
        for method in (route.methods or set()) - {"HEAD"}:
            routes.add((method, route.path))
    own = {path for _, path in routes - found}
    page = {"/", "/ui/{path:path}"}
    assert own == {"/openapi.json", "/docs", "/docs/{name}", *page}
    assert found <= routes


async def test_every_route_has_types(site: Api) -> None:
    for method, path, operation in operations(await document_of(site)):
        place = (method, path)
        if method in ("put", "post") and place not in NO_BODY:
            kinds = operation["requestBody"]["content"]
            assert kinds and all(is_typed(kind["schema"]) for kind in kinds.values()), place
        else:
            assert "requestBody" not in operation, place
        answers = operation["responses"]
        good = {code: answer for code, answer in answers.items() if code < "300"}
        assert good, place
        for code, answer in good.items():
            if code == "204" or place in NO_CONTENT:
                assert "content" not in answer, place
            else:
                kinds = answer["content"]
                assert kinds and all(is_typed(kind["schema"]) for kind in kinds.values()), place
        assert "422" not in answers, place
        for code in {"400", "401", "403", "413", "415", "500", "503"} | set(answers) - set(good):
            assert answers[code]["content"]["application/json"]["schema"] == REFUSAL, (place, code)
        for parameter in operation.get("parameters", []):
            assert is_typed(parameter["schema"]), (place, parameter)


def validator(document: Json, schema: Json) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})


OPEN = (node_answers.VnfCycles, node_answers.VnfCounters, node_answers.VnfPortCounters)
"""Answers to which engines add what they know."""


def strict(document: Json) -> Json:
    """The document with nothing left open in the node's own answers."""

    def below(model: type[Answer]) -> Iterator[type[Answer]]:
        yield model
        for sub in model.__subclasses__():
            yield from below(sub)

    made = copy.deepcopy(document)
    for model in below(Answer):
        schema = made["components"]["schemas"].get(model.__name__)
        if schema is not None and not issubclass(model, OPEN):
            schema["additionalProperties"] = False
    return made


async def test_answers_are_what_it_says(site: Api) -> None:
    """Every GET with something to read, and a refusal of each kind: no key is left out."""
    document = strict(await document_of(site))
    names = {"graph_id": "g", "vnf_id": "v0", "name": "ann", "template_id": "pass"}
    names |= {"capability": "pass"}
    checked = set()
    for method, path, operation in operations(document):
        if method != "get":
            continue
        if path == "/events":
            asyncio.get_running_loop().call_later(0.3, site.node.events.close)
        answer = await site("GET", path.format_map(names))
        described = operation["responses"][str(answer.status_code)].get("content", {})
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in described, (path, answer.text)
        if kind == "application/json":
            validator(document, described[kind]["schema"]).validate(answer.json())
        if answer.status_code == 200:
            checked.add(path)
    missing = {path for method, path, _ in operations(document) if method == "get"} - checked
    # The fake engine has no machines, and no template here has an image.
    assert missing == {"/node/vnfs/{graph_id}/{vnf_id}/console", "/v2/nf_image/{template_id}"}


async def test_the_example_graphs_are_graphs(site: Api) -> None:
    document = await document_of(site)
    body = document["paths"]["/NF-FG"]["post"]["requestBody"]["content"]["application/json"]
    files = {file.stem: file for file in EXAMPLES}
    assert set(body["examples"]) == set(files) and files
    for file in files.values():
        validator(document, body["schema"]).validate(json.loads(file.read_text()))


async def test_numbers_may_be_written_bare(site: Api) -> None:
    document = await document_of(site)
    match = {"port_in": "endpoint:1", "dest_port": 80, "protocol": "6"}
    rules = [graphs.rule("1", match, graphs.out("endpoint:1"))]
    graph = graphs.document([{**graphs.vlan("1", "p0", 7), "id": 1}], rules)
    graph["forwarding-graph"]["end-points"][0]["vlan"]["vlan-id"] = 7
    parse(graph)
    graph_schema(document).validate(graph)


def graph_schema(document: Json) -> Draft202012Validator:
    return validator(document, {"$ref": "#/components/schemas/GraphDocument"})


GOOD_RULE = graphs.rule("r", {"port_in": "endpoint:e"}, graphs.out("endpoint:e"))
WRONG: dict[str, Any] = {
    "no graph": {},
    "no object": {"forwarding-graph": []},
    "no port_in": graphs.document([], [{**GOOD_RULE, "match": {}}]),
    "unknown field": graphs.document([], [{**GOOD_RULE, "match": {"port_in": "x", "colour": "1"}}]),
    "no action": graphs.document([], [{**GOOD_RULE, "actions": []}]),
    "unknown action": graphs.document([], [{**GOOD_RULE, "actions": [{"paint": "red"}]}]),
    "two at once": graphs.document(
        [], [{**GOOD_RULE, "actions": [{"pop_vlan": True, "output_to_port": "endpoint:e"}]}]
    ),
    "priority": graphs.document([], [{**GOOD_RULE, "priority": 65536}]),
    "id of a rule": graphs.document([], [{**GOOD_RULE, "id": "a:b"}]),
    "id of a VNF": graphs.document([], [], [graphs.vnf("", "pass")]),
    "too many VNFs": graphs.document(
        [], [], [graphs.vnf(str(n), "pass") for n in range(MAX_VNFS + 1)]
    ),
    "id of a port": graphs.document([], [], [{"id": "v", "ports": [{"id": "port"}]}]),
    "mac": graphs.document([], [], [{"id": "v", "ports": [{"id": "port:0", "mac": "02"}]}]),
    "no if-name": graphs.document([{"id": "e", "type": "interface", "interface": {}}], []),
}


async def test_what_is_no_graph_for_the_node_is_none_in_it(site: Api) -> None:
    schema = graph_schema(await document_of(site))
    for name, wrong in WRONG.items():
        with pytest.raises(GraphRefused):
            parse(wrong)
        assert not schema.is_valid(wrong), name
