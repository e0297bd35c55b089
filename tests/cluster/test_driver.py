# SPDX-License-Identifier: Apache-2.0
"""The controller with its loops, against nodes that speak the REST API over httpx, in process.

The nodes check tokens and documents as a node does (its own parser of NF-FGs); the API server is a
dictionary. kopf's handlers are called as kopf calls them.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import kopf
import pytest

from headrace.cluster.controller.driver import Driver, Pace
from headrace.cluster.controller.nodes import NodesApi
from headrace.cluster.controller.operator import GenerationStorage, Operator, plain
from headrace.cluster.core.actions import Delete, Event, Result, TakeStock
from headrace.cluster.core.core import Core
from headrace.cluster.core.health import HoldDown
from headrace.cluster.core.settings import Settings
from headrace.cluster.resources import NodeSpec, node_of
from tests.cluster.graphs import behaviour, behaviour_of_parts
from tests.cluster.objects import headrace_node, service_graph
from tests.cluster.rest_node import TOKEN, RestNode

HOLD = HoldDown(down_s=0.2, failures=2, up_s=0.3)


class FakeCluster:
    """Objects by key, with their statuses as written."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.node_bodies = nodes
        self.graph_bodies: list[dict[str, Any]] = []
        self.statuses: dict[str, dict[str, Any]] = {}
        self.data: dict[str, bytes] = {"token": TOKEN.encode()}
        self.writes = 0
        self.pods: list[dict[str, Any]] = []
        self.events: list[tuple[str, Event]] = []

    async def graphs(self) -> list[dict[str, Any]]:
        return list(self.graph_bodies)

    async def nodes(self) -> list[dict[str, Any]]:
        return list(self.node_bodies)

    async def vnf_pods(self) -> list[dict[str, Any]]:
        return self.pods

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        assert namespace == "headrace" and name.endswith("-token")
        return self.data

    async def write_status(self, body: dict[str, Any], status: dict[str, Any]) -> None:
        self.writes += 1
        self.statuses[body["metadata"]["name"]] = status

    async def post_event(self, body: dict[str, Any], event: Event) -> None:
        self.events.append((body["metadata"]["name"], event))

    def condition(self, name: str, kind: str = "Ready") -> tuple[str, str]:
        for one in self.statuses.get(name, {}).get("conditions", []):
            if one["type"] == kind:
                return one["status"], one["reason"]
        return "", ""


class Bench:
    def __init__(self) -> None:
        self.rest = {f"n{n}": RestNode() for n in range(1, 5)}
        self.cluster = FakeCluster([headrace_node(f"n{n}", n) for n in range(1, 5)])
        self.driver = self.make()

    def make(self) -> Driver:
        by_host = {f"192.0.2.{n}": self.rest[f"n{n}"] for n in range(1, 5)}
        transport = httpx.MockTransport(lambda request: by_host[request.url.host].answer(request))
        return Driver(
            Core(Settings(hold=HOLD, retry_s=0.05, look_s=0.1)),
            self.cluster,
            NodesApi(self.cluster.secret, transport),
            Pace(probe_s=0.05, status_s=0.02, pods_s=0.05),
        )

    async def until(self, what: Callable[[], bool], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not what():  # noqa: ASYNC110  (what is looked at sets no event)
                await asyncio.sleep(0.01)

    def parts(self, uid: str) -> dict[str, Any]:
        name = f"sg-{uid}"
        return {n: r.graphs[name] for n, r in self.rest.items() if r.alive and name in r.graphs}

    def whole(self, body: dict[str, Any]) -> bool:
        rules = body["spec"]["forwarding-graph"]["big-switch"]["flow-rules"]
        return behaviour_of_parts(self.parts(body["metadata"]["uid"])) == behaviour(rules)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    await made.driver.start()
    yield made
    await made.driver.stop()


def _ready(bench: Bench, name: str) -> bool:
    return bench.cluster.condition(name) == ("True", "Deployed")


async def test_a_graph_comes_and_goes(bench: Bench) -> None:
    body = service_graph()
    bench.driver.set_graph(body)
    await bench.until(lambda: _ready(bench, "chain"))
    assert bench.whole(body)
    status = bench.cluster.statuses["chain"]
    assert status["nodeList"].split() == sorted(bench.parts("uid-chain"))
    assert all(re.fullmatch(r".+Z", one["lastTransitionTime"]) for one in status["conditions"])
    assert ("chain", "Deployed") in [(name, event.reason) for name, event in bench.cluster.events]
    writes = bench.cluster.writes
    await asyncio.sleep(0.3)
    assert bench.cluster.writes == writes, "a status that stays is not written again"
    await bench.until(lambda: bench.driver.remove_graph("uid-chain"))
    assert not any(node.graphs for node in bench.rest.values())


async def test_a_node_is_killed_and_comes_back(bench: Bench) -> None:
    pinned = [{"endPoint": "in", "node": "n1"}, {"endPoint": "out", "node": "n3"}]
    constraints = {"pinned": pinned, "nodes": ["n2", "n4"]}
    body = service_graph(constraints=constraints)
    bench.driver.set_graph(body)
    await bench.until(lambda: _ready(bench, "chain"))
    carrier = next(name for name in ("n2", "n4") if name in bench.parts("uid-chain"))
    bench.rest[carrier].alive = False
    await bench.until(lambda: bench.cluster.condition(carrier)[1] == "Lost")
    await bench.until(lambda: bench.whole(body) and _ready(bench, "chain"))
    bench.rest[carrier].alive = True
    await bench.until(lambda: bench.cluster.condition(carrier) == ("True", "Ready"))
    assert not bench.rest[carrier].graphs and bench.whole(body)
    assert bench.cluster.statuses["chain"]["migrations"] == 4


async def test_a_restarted_controller_touches_nothing(bench: Bench) -> None:
    body = service_graph()
    bench.driver.set_graph(body)
    await bench.until(lambda: _ready(bench, "chain"))
    await bench.driver.stop()
    before = bench.parts("uid-chain")
    for node in bench.rest.values():
        node.requests.clear()
    body["status"] = bench.cluster.statuses.pop("chain")
    bench.cluster.graph_bodies = [body]
    bench.driver = bench.make()
    await bench.driver.start()
    await bench.until(lambda: _ready(bench, "chain"))
    assert bench.parts("uid-chain") == before
    assert {method for node in bench.rest.values() for method, _ in node.requests} == {"GET"}


async def test_a_graph_that_a_node_refuses_says_so(bench: Bench) -> None:
    body = service_graph()
    body["spec"]["forwarding-graph"]["VNFs"][0]["scaling"] = {"max-replicas": 99}
    bench.driver.set_graph(body)
    await bench.until(lambda: bench.cluster.condition("chain") == ("False", "Refused"))
    (ready,) = (c for c in bench.cluster.statuses["chain"]["conditions"] if c["type"] == "Ready")
    assert "max-replicas" in ready["message"]
    await bench.until(lambda: not any(node.graphs for node in bench.rest.values()))


async def test_a_vnf_that_fails_is_told(bench: Bench) -> None:
    bench.driver.set_graph(service_graph())
    await bench.until(lambda: _ready(bench, "chain"))
    bench.rest["n1"].fault = "VNF v0 does not run as wanted"
    await bench.until(lambda: bench.cluster.condition("chain") == ("False", "PartFailed"))
    bench.rest["n1"].fault = ""
    await bench.until(lambda: _ready(bench, "chain"))


async def test_pods_take_of_their_nodes(bench: Bench) -> None:
    """A graph does not get the cores of pods, and the status says what graphs alone have taken."""
    requests = {"headrace.dev/vnf-core": "4"}
    bench.cluster.pods = [
        {
            "metadata": {"labels": {"headrace.dev/vnf": "true"}},
            "spec": {"nodeName": name, "containers": [{"resources": {"requests": requests}}]},
            "status": {"phase": "Running"},
        }
        for name in ("n1", "n2", "n3")
    ]
    await bench.until(lambda: bool(bench.driver.core.fleet.count.sum() == 3))
    bench.driver.set_graph(service_graph(length=2, constraints={}))
    await bench.until(lambda: _ready(bench, "chain"))
    assert set(bench.parts("uid-chain")) == {"n4"}
    await bench.until(lambda: bench.cluster.statuses["n4"]["used"]["cores"] == 2.0)
    assert bench.cluster.statuses["n1"]["used"]["cores"] == 0.0


async def test_an_object_that_can_not_be_read_says_so(bench: Bench) -> None:
    body = service_graph()
    body["spec"]["demand"]["pps"] = -1
    bench.driver.set_graph(body)
    await bench.until(lambda: bench.cluster.condition("chain") == ("False", "Invalid"))


def _spec() -> NodeSpec:
    return node_of(headrace_node("n1"))[1]


async def test_a_login_gives_the_token_and_is_renewed() -> None:
    node, cluster = RestNode(), FakeCluster([])
    cluster.data = {"username": b"ann", "password": b"pw"}
    api = NodesApi(cluster.secret, httpx.MockTransport(node.answer))
    assert (await api.call(TakeStock("n1", 1), _spec())).stock == {}
    node.token = "another"
    assert (await api.call(Delete("n1", "x"), _spec())).result is Result.DONE
    assert node.logins == 2
    cluster.data = {"username": b"ann", "password": b"wrong"}
    node.token = "a third"
    outcome = await api.call(TakeStock("n1", 1), _spec())
    assert outcome.result is Result.FAILED and "wrong user" in outcome.message
    await api.close()


async def test_a_token_is_never_sent_in_the_clear() -> None:
    node, cluster = RestNode(), FakeCluster([])
    api = NodesApi(cluster.secret, httpx.MockTransport(node.answer))
    plain_http = _spec().model_copy(update={"address": "http://192.0.2.1:8080"})
    ok, why = await api.ready("n1", plain_http)
    assert not ok and "https://" in why and not node.requests


async def test_handlers_hold_objects_until_they_are_gone(bench: Bench) -> None:
    operator = Operator()
    operator.driver = bench.driver
    body = service_graph()
    await operator.graph(body=kopf.Body(body))  # type: ignore[arg-type]
    await bench.until(lambda: _ready(bench, "chain"))
    bench.rest["n3"].stuck = True
    with pytest.raises(kopf.TemporaryError):
        await operator.delete_graph(uid="uid-chain")
    bench.rest["n3"].stuck = False
    await bench.until(lambda: bench.driver.remove_graph("uid-chain"))
    await operator.delete_graph(uid="uid-chain")
    await operator.delete_node(name="n4")
    assert "n4" not in bench.driver.core.fleet.specs


def test_kopf_remembers_the_generation_alone() -> None:
    """Annotations have 256 KiB at most, graphs may have more."""
    storage = GenerationStorage(prefix="headrace.dev")
    essence = storage.build(body=kopf.Body(service_graph()))  # type: ignore[arg-type]
    assert essence == {"metadata": {"generation": 1}}
    assert plain(kopf.Body(service_graph())) == service_graph()  # type: ignore[arg-type]
