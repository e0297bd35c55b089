# SPDX-License-Identifier: Apache-2.0
"""Who reaches the API, and what of a VNF a client may decide."""

import stat
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.base import EngineError
from headrace.engines.process import ProcessEngine
from headrace.machine.processes import Supervisor
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node import templates
from headrace.node.config import from_dict
from headrace.node.errors import ConfigError, GraphRefused
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.serving import listen_unix
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST
from tests.node.surroundings import surroundings
from tests.node.test_updates import spec


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8080"},
        {"host": "localhost@evil.example"},
        {"host": "localhost:http"},
        {"host": "localhost.evil.example"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://localhost"},
        {"origin": "http://localhost:81"},
    ],
)
async def test_pages_of_other_places_are_kept_out(api: Api, headers: dict[str, str]) -> None:
    for method, path, body in (("GET", "/NF-FG", None), ("PUT", "/NF-FG/g", FIRST)):
        answer = await api.http.request(method, path, json=body, headers=headers)
        assert answer.status_code == 403, answer.text
        assert next(iter(headers)).capitalize() in answer.json()["message"]
    assert api.node.graphs.records() == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST", "n1"])
async def test_the_nodes_own_names_are_let_in(rundir: Path, host: str) -> None:
    async for api in api_of(rundir, rest={"names": ["n1"]}):
        headers = {"host": host, "origin": f"http://{host}"}
        assert (await api.http.get("/node", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/plain; application/json",
    ],
)
async def test_a_body_is_json_by_its_content_type_alone(api: Api, kind: str | None) -> None:
    headers = {"content-type": kind} if kind else {}
    content = b'{"forwarding-graph": {}}'
    for method, path in (("POST", "/NF-FG"), ("PUT", "/NF-FG/g"), ("PUT", "/node/paused")):
        answer = await api.http.request(method, path, content=content, headers=headers)
        assert answer.status_code == 415, path
    assert api.node.graphs.records() == []


async def test_content_types_of_json(api: Api) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    answer = await api.http.put("/NF-FG/g", content=b'{"forwarding-graph":{}}', headers=headers)
    assert answer.status_code == 201


TLS = {"certificate": "/c.pem", "key": "/c.key"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"])
def test_an_address_that_others_reach_demands_tls_and_login(host: str) -> None:
    for lacking in ({}, {"login": True}, {"tls": TLS}):
        with pytest.raises(ConfigError, match="any other demands TLS and login"):
            from_dict({"rest": {"host": host, **lacking}})
    assert from_dict({"rest": {"host": host, "login": True, "tls": TLS}}).rest.tls is not None


@pytest.mark.parametrize("host", ["example.org", "", "127.1", "localhost.example.org"])
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="no IP address"):
        from_dict({"rest": {"host": host, "login": True, "tls": TLS}})


def test_the_unix_socket_is_its_users_alone(rundir: Path) -> None:
    with listen_unix(rundir):
        assert stat.S_IMODE((rundir / "api.sock").stat().st_mode) == 0o600


VM: dict[str, Any] = {
    "id": "guest",
    "name": "guest",
    "functional-capability": "guest",
    "engine": "vm",
    "function": "guest",
    "configuration": {"kernel": "/boot/vmlinuz"},
}


@pytest.mark.parametrize("key", ["disk", "kernel", "initrd", "command_line", "pci", "accelerator"])
def test_no_template_lets_a_graph_name_what_is_the_hosts(key: str) -> None:
    with pytest.raises(ValueError, match=f"graph-may-set: {key} of engine vm"):
        templates.Template.model_validate({**VM, "graph-may-set": [key]})


@pytest.mark.parametrize("key", ["mac", "disk", "no such key"])
def test_a_graph_sets_what_its_template_lets_it(key: str) -> None:
    node = surroundings()
    document = graphs.chain("pass", 1)
    document["forwarding-graph"]["VNFs"][0]["configuration"] = {key: "swap"}
    graph, _ = parse(document)
    if key == "mac":
        (vnf,) = make_plan(graph, "g", 1, node).vnfs()
        assert vnf.configuration == {"mac": "swap"}
        return
    with pytest.raises(GraphRefused, match="template pass does not let a graph set") as refused:
        make_plan(graph, "g", 1, node)
    assert "a graph may set: mac, pairs, set" in str(refused.value)


async def test_a_wrong_configuration_is_refused_before_anything_starts(rundir: Path) -> None:
    try:
        find_program("headrace-vnf")
    except ProgramMissing as error:
        pytest.skip(str(error))
    engine = ProcessEngine(rundir, Supervisor(rundir), hugepages=False)
    two = tuple(spec().ports[0].model_copy(update={"id": port}) for port in "01")
    await engine.check(spec(function="firewall", ports=two, configuration={"default": "allow"}))
    settings = {"default": "perhaps", "colour": 1}
    wrong = spec(function="firewall", ports=two, configuration=settings)
    with pytest.raises(EngineError, match=r"configuration\.default: .*configuration\.colour"):
        await engine.check(wrong)
    with pytest.raises(EngineError, match="nosuch"):
        await engine.check(spec(function="nosuch"))


async def test_a_wrong_configuration_is_400(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: object) -> None:
        raise EngineError("VNF v0: configuration.mac: no")

    before = api.world.read()
    monkeypatch.setattr(api.node.engines["process"], "check", refuse)
    for method, path in (("POST", "/NF-FG"), ("PUT", "/NF-FG/g")):
        answer = await api(method, path, FIRST)
        assert answer.status_code == 400
        assert answer.json() == {
            "module": "configuration",
            "message": "VNF v0: configuration.mac: no",
        }
    assert api.world.read() == before and api.node.graphs.records() == []
