# SPDX-License-Identifier: Apache-2.0
"""Nodes in OpenStack's Placement, and Nova's weigher, against the programs themselves.

They stand in a Python of their own, named by HEADRACE_OPENSTACK_PYTHON (docs/kubernetes.md);
without one these tests are skipped.
"""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from headrace.cluster.resources import node_of
from headrace.cluster.scheduling.cost import NodeState
from headrace.cluster.scheduling.extender import app_of
from headrace.cluster.scheduling.openstack import providers as providers_module
from headrace.cluster.scheduling.openstack.providers import (
    CORES,
    SWITCH,
    TRAIT,
    PlacementError,
    Providers,
    inventories,
)
from headrace.cluster.scheduling.service import Scores
from tests.cluster.objects import headrace_node

PROGRAMS = Path(__file__).with_name("openstack_programs.py")
WEIGHER = Path(providers_module.__file__).with_name("weigher.py")
VARIABLE = "HEADRACE_OPENSTACK_PYTHON"


def _python(module: str) -> str:
    """The Python that has OpenStack's `module`."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no Python with OpenStack's packages")
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"{python} has no {module}")
    return python


def _node(name: str, used: dict[str, float] | None = None, ready: bool = True) -> NodeState:
    return NodeState(node_of(headrace_node(name))[1], used or {}, ready=ready)


def test_what_graphs_took_is_reserved() -> None:
    found = inventories(_node("n1", {"cores": 1.2, "switchCores": 0.25}))
    assert found[CORES] == {"total": 4, "reserved": 2, "allocation_ratio": 1.0}
    assert found[SWITCH] == {"total": 900, "reserved": 250, "allocation_ratio": 1.0}
    assert inventories(_node("n1", ready=False))[CORES]["reserved"] == 4


@pytest.fixture
def placement(tmp_path: Path) -> Iterator[str]:
    """The address of a Placement that is empty."""
    python = _python("placement")
    command = [python, str(PROGRAMS), "placement", str(tmp_path / "placement.sqlite")]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        assert port, (tmp_path / "log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait(10)
        log.close()


async def test_nodes_are_resource_providers(placement: str) -> None:
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
    async with httpx.AsyncClient(base_url=placement, headers=headers, timeout=30) as client:
        host = (await client.post("/resource_providers", json={"name": "n1"})).json()
        foreign = {"name": "headrace-foreign"}
        await client.post("/resource_providers", json=foreign)
        providers = Providers(client, "admin")
        nodes = {"n1": _node("n1"), "n2": _node("n2", {"cores": 4.0})}
        done = await providers.sync(nodes)
        assert (done.created, done.updated) == (["n1", "n2"], ["n1", "n2"])
        again = await providers.sync(nodes)
        assert not (again.created or again.updated or again.deleted or again.kept)
        listed = (await client.get("/resource_providers?name=headrace-n1")).json()
        (mine,) = listed["resource_providers"]
        assert mine["parent_provider_uuid"] == host["uuid"]
        # Placement itself now finds room on n1 alone.
        query = f"/allocation_candidates?resources={CORES}:1,{SWITCH}:100&required={TRAIT}"
        found = (await client.get(query)).json()
        assert set(found["provider_summaries"]) == {host["uuid"], mine["uuid"]}
        # What has instances is kept; what has none goes; what is not ours stays.
        consumer = "5b9a3c1e-3c46-4a9b-93e1-0d6a8a4f0001"
        body = {
            "allocations": {mine["uuid"]: {"resources": {CORES: 1}}},
            "project_id": "p", "user_id": "u", "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }  # fmt: skip
        made = await client.put(f"/allocations/{consumer}", json=body)
        assert made.status_code == 204, made.text
        done = await providers.sync({})
        assert (done.kept, done.deleted) == (["n1"], ["n2"])
        names = {
            one["name"]
            for one in (await client.get("/resource_providers")).json()["resource_providers"]
        }
        assert names == {"n1", "headrace-n1", "headrace-foreign"}


async def test_a_refusal_is_told() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(403, json={"errors": [{"detail": "admin required"}]})

    async with httpx.AsyncClient(
        base_url="http://placement", transport=httpx.MockTransport(refuse)
    ) as client:
        with pytest.raises(PlacementError, match="403 admin required"):
            await Providers(client, "x").sync({})


class _Source:
    async def nodes(self) -> list[dict[str, object]]:
        found = []
        for number, price in ((1, 4.0), (2, 1.0), (3, 2.0)):
            body = headrace_node(f"n{number}", number, prices={"node": price})
            body["status"] = {"conditions": [{"type": "Ready", "status": "True", "message": ""}]}
            found.append(body)
        return found

    async def vnf_pods(self) -> list[dict[str, object]]:
        return []

    async def pod(self, namespace: str, name: str) -> dict[str, object]:
        raise OSError("Nova has no pods")

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise OSError("Nova has no pods")


@pytest.fixture
def extender() -> Iterator[str]:
    """The address of an extender of three nodes."""
    scores = Scores(_Source())
    asyncio.run(scores.refresh())
    server = uvicorn.Server(uvicorn.Config(app_of(scores), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


def test_nova_orders_hosts_by_cost(extender: str) -> None:
    python = _python("nova.scheduler.weights")

    def order(url: str) -> str:
        command = [python, str(PROGRAMS), "weigh", str(WEIGHER), url, "n1", "n2", "n3", "other"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    weighed = dict(one.split("=") for one in order(extender).split())
    assert next(iter(weighed)) == "n2" and float(weighed["n2"]) == 1.0
    assert float(weighed["n3"]) > float(weighed["n1"]) == float(weighed["other"]) == 0.0
    silent = order("http://127.0.0.1:9")
    assert all(one.endswith("=0.000") for one in silent.split())
