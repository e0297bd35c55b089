# SPDX-License-Identifier: Apache-2.0
"""DPDK programs of others as VNFs: testpmd passes every packet, and what it may is its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from headrace.node.errors import ConfigError, DeployFailed, GraphRefused
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from headrace.node.templates import load
from headrace.traffic import TrafficProcess
from tests.guest.bed import cross_both_ways, eventually
from tests.node import graphs
from tests.node.conftest import StartNode, give_template

TESTPMD = shutil.which("dpdk-testpmd") or "/usr/bin/dpdk-testpmd"
MAC = "02:00:00:00:00:11"
# Two threads: one waits, one forwards. It reads its end from /dev/null unless it prints statistics.
ARGUMENTS = (
    "--nb-ports={ports}", "--forward-mode=io", "--total-num-mbufs=8192",
    "--txd=1024", "--rxd=1024", "--stats-period=1",
)  # fmt: skip

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(not os.access(TESTPMD, os.X_OK), reason="dpdk-testpmd is not installed"),
]


def template(rundir: Path, **configuration: Any) -> str:
    words = {
        "id": "pmd",
        "name": "pmd",
        "functional-capability": "pmd",
        "engine": "process",
        "function": "program",
        "cores": 2,
        "memory-mb": 128,
        "configuration": {
            "program": TESTPMD,
            "arguments": list(ARGUMENTS),
            "ready": "NIC statistics",
            **configuration,
        },
    }
    file = rundir / "pmd.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


async def start(start_node: StartNode, file: str) -> Node:
    return await start_node(
        hugepages="off",
        cores={"control": [0], "switch": [1], "vnf": [0, 1]},
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        templates=[file],
        oversubscribe=True,
    )


async def test_testpmd_passes_every_packet(start_node: StartNode, rundir: Path) -> None:
    node = await start(start_node, template(rundir))
    transport = httpx.ASGITransport(app=make_app(node))
    graph = graphs.chain("pmd", 1)
    graph["forwarding-graph"]["VNFs"][0]["ports"][0]["mac"] = MAC
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http,
        TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic,
    ):
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 201, answer.text
        await cross_both_ways(http, traffic)
        (vnf,) = node.graphs.record("g").plan.vnfs()
        assert vnf.ports[0].switch_port.kind == "vhost-user"
        process = node.supervisor.find(f"vnf-{vnf.name}")
        assert process is not None
        place = Path(f"/proc/{process.pid}")
        assert (await asyncio.to_thread(place.stat)).st_uid == vnf.user
        status = await asyncio.to_thread((place / "status").read_text)
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
        environment = (await asyncio.to_thread((place / "environ").read_bytes)).split(b"\0")
        (said,) = [one for one in environment if one.startswith(b"HEADRACE_PORTS=")]
        ports = json.loads(said.split(b"=", 1)[1])
        assert [port["id"] for port in ports] == ["port:0", "port:1"]
        assert ports[0]["mac"] == MAC and "mac" not in ports[1]
        assert (await http.get("/node/vnfs/g/v0/cycles")).json()["cpu_ns"] > 0

        # The same again is no change; killed, its sockets are in the way, and it is made again.
        assert (await http.put("/NF-FG/g", json=graph)).status_code < 300
        assert node.supervisor.find(f"vnf-{vnf.name}") == process
        os.kill(process.pid, signal.SIGKILL)
        spec, engine = node.vnf("g", "v0")
        await eventually(lambda: not engine.running(spec))
        await engine.ensure(spec)
        assert node.supervisor.find(f"vnf-{vnf.name}") not in (None, process)
        assert (await http.delete("/NF-FG/g")).status_code == 204
    assert node.supervisor.find(f"vnf-{vnf.name}") is None
    assert not list(node.rundir.glob("vnf/*"))


async def test_what_does_not_start_says_why(start_node: StartNode, rundir: Path) -> None:
    file = template(rundir, arguments=["--no-such-option"], ready="never", start_s=20)
    node = await start(start_node, file)
    with pytest.raises(DeployFailed, match="ended while starting"):
        await node.graphs.create("g", graphs.chain("pmd", 1))
    for wrong, words in (
        ({"program": "/nothing"}, "no program /nothing"),
        ({"arguments": ["{mac:0}"]}, "port 0 has no mac"),
        ({"devices": []}, "devices"),
    ):
        give_template(node, template(rundir, **wrong))
        with pytest.raises(GraphRefused, match=words):
            await node.check("h", graphs.chain("pmd", 1))


@pytest.mark.parametrize("key", ["program", "arguments", "eal"])
def test_no_template_lets_a_graph_name_a_program(rundir: Path, key: str) -> None:
    file = Path(template(rundir))
    file.write_text(json.dumps({**yaml.safe_load(file.read_text()), "graph-may-set": [key]}))
    with pytest.raises(ConfigError, match=f"graph-may-set: {key}"):
        load([file])
