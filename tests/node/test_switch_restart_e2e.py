# SPDX-License-Identifier: Apache-2.0
"""While the switch starts again, requests are answered: what needs it with 503, never with 500."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from headrace.node.restarts import Restarter
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.crashing import SETTINGS

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a switch"),
]

READS = (
    "/node", "/node/ports", "/node/resources", "/node/switch/ports", "/node/switch/cycles",
    "/metrics", "/ready", "/NF-FG", "/NF-FG/g", "/NF-FG/status/g", "/NF-FG/g/statistics",
    "/NF-FG/g/wiring", "/node/graphs", "/node/vnfs/g/v0/counters", "/node/vnfs/g/v0/cycles",
)  # fmt: skip
KILLS = 3


async def ask(http: httpx.AsyncClient, method: str, path: str, body: object = None) -> str:
    """`METHOD path code`, with the text if that is none that may be."""
    answer = await http.request(method, path, json=body)
    said = f"{method} {path} {answer.status_code}"
    fine = answer.is_success or answer.status_code in (409, 503)
    if answer.status_code == 503 and "does not answer" not in answer.text and method != "GET":
        fine = answer.headers.get("Retry-After") == "1"
    return said if fine else f"WRONG {said}: {answer.text}"


async def until_complete(http: httpx.AsyncClient, graph: str) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    while True:
        status = (await http.get(f"/NF-FG/status/{graph}")).json()
        if status.get("status") == "complete":
            return
        assert asyncio.get_running_loop().time() < deadline, status
        await asyncio.sleep(0.1)


async def test_no_request_is_answered_500(start_node: StartNode, rundir: Path) -> None:
    try:
        find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(str(error))
    node: Node = await start_node(**SETTINGS)
    watch = asyncio.create_task(Restarter(node).run())
    app = make_app(node)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    said: Counter[str] = Counter()
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            one, two = graphs.chain("pass", 1), graphs.chain("pass", 2)
            assert (await http.put("/NF-FG/g", json=one)).status_code == 201
            for _ in range(KILLS):
                before = node.supervisor.find("switch")
                assert before is not None
                changes = asyncio.create_task(ask(http, "PUT", "/NF-FG/g", two))
                await asyncio.sleep(0.01)
                before.signal(signal.SIGKILL)
                deadline = asyncio.get_running_loop().time() + 1.5
                while asyncio.get_running_loop().time() < deadline:
                    said.update(await asyncio.gather(*(ask(http, "GET", path) for path in READS)))
                    said[await ask(http, "PUT", "/NF-FG/g", one)] += 1
                    await asyncio.sleep(0.02)
                said[await changes] += 1
                await until_complete(http, "g")
    finally:
        watch.cancel()
    assert [line for line in said if line.startswith("WRONG")] == []
    assert any(line.endswith(" 503") for line in said), said
