# SPDX-License-Identifier: Apache-2.0
"""The whole controller (kopf, the official client) against a double of an API server."""

import asyncio
import base64
import copy
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
from headrace.cluster.controller.nodes import NodesApi
from headrace.cluster.core.health import HoldDown
from headrace.cluster.core.settings import Settings
from tests.cluster.api_server import ApiServer
from tests.cluster.objects import headrace_node, service_graph
from tests.cluster.rest_node import TOKEN, RestNode

SETTINGS = Settings(hold=HoldDown(down_s=0.3, failures=2, up_s=0.3), retry_s=0.05)


class World:
    """An API server, four nodes, and a controller that can be stopped and started."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.rest = {f"n{n}": RestNode() for n in range(1, 5)}
        self._stop = threading.Event()
        self._thread = threading.Thread()

    def transport(self) -> httpx.MockTransport:
        by_host = {f"192.0.2.{n}": self.rest[f"n{n}"] for n in range(1, 5)}
        return httpx.MockTransport(lambda request: by_host[request.url.host].answer(request))

    def run(self) -> None:
        """Starts the controller in a thread: kopf ends all tasks of its loop when it stops."""
        self._stop = threading.Event()
        work = operator_module.run(SETTINGS, Pace(probe_s=0.05, status_s=0.02), stop=self._stop)
        self._thread = threading.Thread(target=lambda: asyncio.run(work), daemon=True)
        self._thread.start()

    async def halt(self) -> None:
        self._stop.set()
        await asyncio.to_thread(self._thread.join, 20)
        assert not self._thread.is_alive()

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
