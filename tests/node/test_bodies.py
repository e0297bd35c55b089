# SPDX-License-Identifier: Apache-2.0
"""Whatever a client sends, it gets an answer below 500, and everybody else goes on."""

import asyncio
import copy
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.node.planning.nffg import MAX_VNFS
from headrace.node.rest import access
from headrace.node.rest.bodies import MAX_BYTES, MAX_DEPTH, parse
from headrace.switches.base import SwitchError
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST, SECOND


def named(**changes: Any) -> bytes:
    document = copy.deepcopy(FIRST)
    document["forwarding-graph"].update(changes)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (named(name="\ud800"), "half of a surrogate pair"),
        (b'{"forwarding-graph": {"\\udc00": 1}}', "half of a surrogate pair"),
        (named(name="a\0b"), "a NUL character"),
        (b'{"forwarding-graph": {"id": ' + b"9" * 5000 + b"}}", "a number of 5000 digits"),
        (b'{"forwarding-graph": {"id": 1e999}}', "a number that is too large"),
        (b'{"forwarding-graph": {"id": NaN}}', "NaN is no number"),
        (b'{"forwarding-graph":' + b"[" * 70 + b"]" * 70 + b"}", "nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (named(VNFs=[graphs.vnf("a\tb", "pass")]), "VNFs[0].id"),
        (named(VNFs=[graphs.vnf("a\u0001", "pass")]), "VNFs[0].id"),
        (
            named(VNFs=[graphs.vnf(str(n), "pass") for n in range(MAX_VNFS + 1)]),
            "VNFs: List should have",
        ),
    ],
)
async def test_what_cannot_be_kept_is_400(api: Api, body: bytes, text: str) -> None:
    for method, path in (("POST", "/NF-FG"), ("PUT", "/NF-FG/g")):
        answer = await api(method, path, body)
        assert answer.status_code == 400, answer.text
        assert text in answer.json()["message"]
    assert api.node.graphs.records() == []
    assert (await api("GET", "/NF-FG")).status_code == 200


async def test_a_body_is_read_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def counting(body: bytes) -> Any:
        read.append(body)
        return parse(body)

    monkeypatch.setattr(access, "parse", counting)
    assert (await api("PUT", "/NF-FG/g", FIRST)).status_code == 201
    assert read == [json.dumps(FIRST).encode()]
    assert (await api("PUT", "/NF-FG/h", b"")).status_code == 400


async def test_as_deep_as_allowed(api: Api) -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    assert (await api("PUT", "/NF-FG/g", {"forwarding-graph": {"colour": deep}})).status_code == 201


async def test_emoji_are_letters_as_others(api: Api) -> None:
    document = graphs.document([], [], [graphs.vnf("\U0001f525", "pass")])
    answer = await api("PUT", "/NF-FG/%F0%9F%94%A5", document)
    assert answer.status_code == 201
    assert answer.headers["location"].endswith("/NF-FG/%F0%9F%94%A5")
    assert (await api("GET", "/NF-FG/%F0%9F%94%A5")).json() == document


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_body_is_413_and_not_kept(api: Api, chunked: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"forwarding-graph": {"name": "'
        for _ in range(50):
            yield b"x" * (1 << 20)
        yield b'"}}'

    content: Any = chunks() if chunked else b"x" * (MAX_BYTES + 1)
    headers = {"content-type": "application/json"}
    answer = await api.http.put("/NF-FG/g", content=content, headers=headers)
    assert answer.status_code == 413 and "4 MiB" in answer.json()["message"]
    assert api.node.graphs.records() == []


@pytest.mark.parametrize(
    "path", ["/NF-FG/%00", "/NF-FG/a%0Ab", "/NF-FG/%ED%A0%80%01", "/NF-FG/" + "x" * 65]
)
async def test_ids_in_paths(api: Api, path: str) -> None:
    assert (await api("PUT", path, FIRST)).status_code == 400
    for method in ("GET", "DELETE"):
        assert (await api(method, path)).status_code == 404


async def test_metrics_and_resources_while_the_switch_is_down(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api("PUT", "/NF-FG/g", FIRST)

    async def down(*_: object) -> None:
        raise SwitchError("the switch does not answer")

    for method in ("port_statistics", "cycles", "rule_statistics", "version"):
        monkeypatch.setattr(api.node.driver, method, down)
    metrics = (await api("GET", "/metrics")).text
    assert "headrace_switch_up 0.0" in metrics and "headrace_graphs{" in metrics
    for path in ("/node", "/node/resources", "/NF-FG", "/NF-FG/status/g"):
        assert (await api("GET", path)).status_code == 200, path
    ports = (await api("GET", "/node/ports")).json()
    assert [port["statistics"] for port in ports] == [{}, {}]
    assert (await api("GET", "/node/switch/cycles")).status_code == 503


texts = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["\ud800", "\0", "9" * 5000, "vnf:v0:port:0", "endpoint:in", "true", "p0", "pass", "-1"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document."""
    found = [at]
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, member in items:
        found += places(member, (*at, key))
    return found


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A graph of which up to three places hold something else."""
    document = copy.deepcopy(draw(st.sampled_from([FIRST, SECOND, graphs.port_to_port()])))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from([p for p in places(document) if p]))
        inside = document
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = draw(values)
    return document


PATHS = ("/NF-FG/g", "/NF-FG/g/r0", "/node/paused", "/login", "/node/pci/0000:00:00.0/driver")
requests = st.one_of(
    st.tuples(st.just("PUT"), st.just("/NF-FG/g"), documents()),
    st.tuples(st.sampled_from(["PUT", "POST", "DELETE", "PATCH"]), st.sampled_from(PATHS), values),
    st.tuples(st.just("GET"), st.sampled_from([*PATHS, "/metrics", "/NF-FG"]), st.none()),
)


def answered(check: Callable[[httpx.AsyncClient], Any]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async for api in api_of(Path(directory)):
                await check(api.http)

    asyncio.run(run())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(requests, min_size=1, max_size=8))
def test_no_input_gives_5xx(sequence: list[tuple[str, str, Any]]) -> None:
    async def check(http: httpx.AsyncClient) -> None:
        for method, path, body in sequence:
            content = None if body is None else json.dumps(body).encode()
            headers = {"content-type": "application/json"} if content else {}
            answer = await http.request(method, path, content=content, headers=headers)
            # 501 is what clients of the original take for "authentication is off".
            assert answer.status_code < 500 or path == "/login", (method, path, body, answer.text)

    answered(check)
