# SPDX-License-Identifier: Apache-2.0
"""The whole controller (kopf, the official client) against a double of an API server."""

import asyncio
import base64
import copy
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes.config import kube_config

from headrace.cluster.controller import operator as operator_module
from headrace.cluster.controller.driver import Pace
from headrace.cluster.controller.lease import Terms
from headrace.cluster.controller.nodes import NodesApi
from headrace.cluster.core.health import HoldDown
from headrace.cluster.core.settings import Settings
from tests.cluster.api_server import ApiServer
from tests.cluster.objects import headrace_node, service_graph
from tests.cluster.rest_node import TOKEN, RestNode

SETTINGS = Settings(hold=HoldDown(down_s=0.3, failures=2, up_s=0.3), retry_s=0.05)

TERMS = Terms(duration_s=3, deadline_s=2.0, retry_s=0.1)


class Controller:
    """One in a thread of its own: kopf ends all tasks of its loop when it stops."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        pace = Pace(probe_s=0.05, status_s=0.02)
        try:
            asyncio.run(operator_module.run(SETTINGS, pace, stop=self._stop, terms=TERMS))
        except Exception as error:
            self.error = error

    async def halt(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self.thread.join, 20)
        assert not self.thread.is_alive()


class World:
    """An API server, four nodes, and a controller that can be stopped and started."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.rest = {f"n{n}": RestNode() for n in range(1, 5)}
        self._controller: Controller

    def transport(self) -> httpx.MockTransport:
        by_host = {f"192.0.2.{n}": self.rest[f"n{n}"] for n in range(1, 5)}
        return httpx.MockTransport(lambda request: by_host[request.url.host].answer(request))

    def run(self) -> None:
        self._controller = Controller()

    async def halt(self) -> None:
        await self._controller.halt()

    def holder(self) -> str:
        found = self.server.leases.get(("headrace", "headrace-controller"))
        return str(found["spec"]["holderIdentity"]) if found else ""

    def ready(self, plural: str, namespace: str, name: str) -> str:
        found: Any = self.server.get(plural, namespace, name) or {}
        for one in found.get("status", {}).get("conditions", []):
            if one["type"] == "Ready":
                return f"{one['status']} {one['reason']}"
        return ""

    async def until(self, what: Callable[[], bool], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not what():  # noqa: ASYNC110  (what is looked at sets no event)
                await asyncio.sleep(0.02)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    server = ApiServer()
    await server.start()
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(server.kubeconfig()))
    monkeypatch.setenv("KUBECONFIG", str(config))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(config))
    made = World(server)
    transport = made.transport()
    monkeypatch.setattr(operator_module, "NodesApi", lambda secrets: NodesApi(secrets, transport))
    for number in range(1, 5):
        server.apply("headracenodes", headrace_node(f"n{number}", number))
        token = base64.b64encode(TOKEN.encode()).decode()
        server.secrets["headrace", f"n{number}-token"] = {"token": token}
    made.run()
    try:
        yield made
    finally:
        await made.halt()
        await server.stop()


async def test_objects_come_change_and_go(world: World) -> None:
    server = world.server
    body = service_graph()
    server.apply("servicegraphs", body)
    await world.until(lambda: world.ready("servicegraphs", "default", "chain") == "True Deployed")
    found: Any = server.get("servicegraphs", "default", "chain")
    await world.until(lambda: found["metadata"].get("finalizers") == ["headrace.dev/controller"])
    annotations = found["metadata"].get("annotations", {})
    assert all(len(value) < 200 for value in annotations.values())
    assert found["status"]["nodeList"] and found["status"]["observedGeneration"] == 1
    await world.until(lambda: any(e["reason"] == "Deployed" for e in server.events))

    changed = copy.deepcopy(body)
    changed["spec"]["forwarding-graph"]["big-switch"]["flow-rules"][0]["priority"] = 99
    server.apply("servicegraphs", changed)

    def updated() -> bool:
        rules = [
            rule
            for node in world.rest.values()
            for part in node.graphs.values()
            for rule in part["forwarding-graph"]["big-switch"]["flow-rules"]
        ]
        return any(rule.get("priority") == 99 for rule in rules)

    await world.until(updated)

    # A restart of the controller changes nothing, and what goes meanwhile is found.
    second = service_graph("second", 2, constraints={})
    server.apply("servicegraphs", second)
    await world.until(lambda: world.ready("servicegraphs", "default", "second") == "True Deployed")
    await world.halt()
    for node in world.rest.values():
        node.requests.clear()
    server.delete("servicegraphs", "default", "second")
    assert server.get("servicegraphs", "default", "second") is not None
    world.run()
    await world.until(lambda: server.get("servicegraphs", "default", "second") is None)
    assert not any("sg-uid-second" in node.graphs for node in world.rest.values())
    methods = {
        method
        for node in world.rest.values()
        for method, path in node.requests
        if "uid-chain" in path
    }
    assert methods == set()

    server.delete("servicegraphs", "default", "chain")
    await world.until(lambda: server.get("servicegraphs", "default", "chain") is None)
    assert not any(node.graphs for node in world.rest.values())
    server.delete("headracenodes", "", "n4")
    await world.until(lambda: server.get("headracenodes", "", "n4") is None)


async def test_a_second_controller_stands_by_and_takes_over(world: World) -> None:
    server = world.server
    server.apply("servicegraphs", service_graph())
    await world.until(lambda: world.ready("servicegraphs", "default", "chain") == "True Deployed")
    first = world.holder()
    second = Controller()
    try:
        await asyncio.sleep(1.0)
        assert world.holder() == first and second.thread.is_alive()
        await world.halt()  # it gives the Lease back
        await world.until(lambda: world.holder() not in ("", first))
        server.apply("servicegraphs", service_graph("next", 2, constraints={}))
        await world.until(
            lambda: world.ready("servicegraphs", "default", "next") == "True Deployed"
        )
        # Somebody else holds it: the active one ends, and touches no node any more.
        lease = server.leases["headrace", "headrace-controller"]
        lease["spec"]["holderIdentity"] = "kubectl"
        lease["metadata"]["resourceVersion"] = "edited"
        await asyncio.to_thread(second.thread.join, 10)
        assert isinstance(second.error, operator_module.NotActive)
        assert "kubectl holds it" in str(second.error)
        for node in world.rest.values():
            node.requests.clear()
        await asyncio.sleep(0.3)
        assert not any(node.requests for node in world.rest.values())
        assert world.holder() == "kubectl"
    finally:
        await second.halt()


async def test_who_stands_by_answers_probes() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/healthz"
    async with httpx.AsyncClient() as client:
        async with operator_module.standing_by(url):
            answer = await client.get(url)
            assert (answer.status_code, answer.json()) == (200, {"active": False})
        with pytest.raises(httpx.ConnectError):
            await client.get(url)
        async with operator_module.standing_by(url):  # the address is free for kopf at once
            assert (await client.get(url)).status_code == 200
