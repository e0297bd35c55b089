# SPDX-License-Identifier: Apache-2.0
"""Many polling VNFs on the control core: the node answers all the time, and they rest when idle."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from tests.node import graphs
from tests.node.conftest import StartNode

GRAPHS = 24
PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts confined VNFs"),
]


def one_of_many(number: int) -> dict[str, Any]:
    """A graph with a VNF between two VLANs of its own."""
    return graphs.document(
        [graphs.vlan("in", "p0", 100 + number), graphs.vlan("out", "p1", 100 + number)],
        graphs.joined(("endpoint:in", "vnf:v:port:0"), ("vnf:v:port:1", "endpoint:out")),
        [graphs.vnf("v", "pass")],
    )


def workers_of(node: Node) -> Iterator[Path]:
    """The worker threads of all VNFs, in /proc."""
    for name, process in node.supervisor.all().items():
        if name.startswith("vnf-"):
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                if (task / "comm").read_text().strip() == "vnf-worker":
                    yield task


def sleeps(task: Path) -> int:
    """How often a thread has slept: sched_yield(2) is no voluntary switch in this count."""
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.M)
    assert found is not None
    return int(found[1])


async def test_pollers_on_the_control_core_do_not_starve_the_node(start_node: StartNode) -> None:
    try:
        find_program("headrace-vnf")
    except ProgramMissing as error:
        pytest.skip(str(error))
    cores = sorted(os.sched_getaffinity(0))
    node = await start_node(
        cores={"control": cores[:1], "switch": cores[-1:], "vnf": cores[:1]},
        oversubscribe=True,
        hugepages="off",
        memory_mb=256 + 64 * GRAPHS,
    )
    transport = httpx.ASGITransport(app=make_app(node), raise_app_exceptions=False)
    codes: list[tuple[str, int]] = []
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=PATIENCE_S
    ) as http:

        async def ask(method: str, path: str, body: Any = None) -> httpx.Response:
            answer = await asyncio.wait_for(http.request(method, path, json=body), PATIENCE_S)
            codes.append((f"{method} {path}: {answer.text[:200]}", answer.status_code))
            return answer

        for number in range(GRAPHS):
            await ask("PUT", f"/NF-FG/g{number}", one_of_many(number))
            await ask("GET", "/metrics")
        workers = list(workers_of(node))
        assert len(workers) == GRAPHS, [code for code in codes if code[1] >= 400]
        before = {task: sleeps(task) for task in workers}
        awake = set(workers)
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while awake and asyncio.get_running_loop().time() < deadline:
            awake = {task for task in awake if sleeps(task) < before[task] + 10}
            await asyncio.sleep(0.02)
        for number in range(GRAPHS):
            status = (await ask("GET", f"/NF-FG/status/g{number}")).json()
            assert status["status"] == "complete", status
        for number in range(GRAPHS):
            await ask("DELETE", f"/NF-FG/g{number}")
        await ask("GET", "/node/resources")
    assert [(what, code) for what, code in codes if code >= 400] == []
    assert awake == set(), f"{len(awake)} pollers never sleep"
