# SPDX-License-Identifier: Apache-2.0
"""Environment variables and forwarded TCP ports: what a graph may ask for, and what comes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest
from pyroute2 import netns

from headrace.node.errors import ConfigError
from headrace.node.node import Node
from headrace.node.restarts import Restarter
from headrace.node.templates import load
from tests.guest.bed import eventually
from tests.guest.programs import SERVER, chain, log_of, needs_runc, node_with, template
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]
KINDS = [pytest.param("native", marks=needs_runc), pytest.param("container", marks=needs_runc)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def echo(port: int) -> bytes:
    """What comes back of a few octets; nothing if nobody takes them."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            return client.recv(100)
    except OSError:
        return b""


def variables(**values: str) -> list[dict[str, str]]:
    return [{"variable": f"{name}={value}"} for name, value in values.items()]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_graph_sets_the_variables_that_its_template_lets_it(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    more = {"environment": {"MODE": "lax", "LEVEL": "1"}, "graph-may-set": ["environment.MODE"]}
    async with node_with(start_node, template(rundir, kind, SERVER, **more)) as (node, http):
        assert (await http.put("/NF-FG/g", json=chain())).status_code == 201
        await eventually(lambda: "mode lax level 1" in log_of(node))
        graph = chain(more={"unify-env-variables": variables(MODE="a=b c")})
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 202, answer.text
        assert (await http.get("/NF-FG/status/g")).json()["warnings"] == []
        await eventually(lambda: "mode a=b c level 1" in log_of(node))
        for entry, words in (
            ("LEVEL=2", "does not let a graph set LEVEL; a graph may set: MODE"),
            ("LD_PRELOAD=/x", "does not let"),
            ("A B=2", "no variable's name"),
            ("MODE", "VNFs[0].unify-env-variables[0].variable"),
            ("HEADRACE_OWNER=x", "the node's own"),
            ("MODE=" + "x" * 5000, "4096"),
        ):
            wrong = chain(more={"unify-env-variables": [{"variable": entry}]})
            answer = await http.put("/NF-FG/g", json=wrong)
            assert answer.status_code == 400 and words in answer.json()["message"], answer.text
            assert "VNFs[0].unify-env-variables" in answer.json()["message"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_port_of_the_host_leads_to_the_program(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    file = template(rundir, kind, SERVER, **{"graph-may-forward": [7000]})
    first, second = free_port(), free_port()

    def graph(port: int, vnfs: int = 1) -> graphs.Json:
        return chain(vnfs, {"unify-control": [{"host-tcp-port": port, "vnf-tcp-port": 7000}]})

    async with node_with(start_node, file) as (node, http):
        answer = await http.put("/NF-FG/g", json=graph(first))
        assert answer.status_code == 201, answer.text
        vnf, engine = node.vnf("g", "v0")
        process = node.supervisor.find(f"vnf-{vnf.name}")
        assert process is not None
        await eventually(lambda: echo(first) == b"hello")
        forwarder = node.supervisor.find(f"forward-{vnf.name}")
        assert forwarder is not None
        status = await asyncio.to_thread(Path(f"/proc/{forwarder.pid}/status").read_text)
        assert "CapEff:\t0000000000000000" in status and f"Uid:\t{vnf.user}" in status

        # Another port: the program runs on, and the first one is nobody's.
        assert (await http.put("/NF-FG/g", json=graph(second))).status_code == 202
        assert node.supervisor.find(f"vnf-{vnf.name}") == process
        assert await asyncio.to_thread(echo, second) == b"hello"
        assert await asyncio.to_thread(echo, first) == b""

        # The forwarder ends by itself with the program, and both are made again.
        os.kill(process.pid, signal.SIGKILL)
        await eventually(lambda: node.supervisor.find(f"forward-{vnf.name}") is None)
        await eventually(lambda: have_gone(node))
        await Restarter(node).look()
        await eventually(lambda: echo(second) == b"hello")
        spec = node.vnf("g", "v0")[0]
        assert engine.running(spec)
        await node.supervisor.end(f"forward-{vnf.name}")
        assert not engine.running(spec)
        await Restarter(node).look()
        await eventually(lambda: echo(second) == b"hello")

        other = graph(second)
        other["forwarding-graph"]["end-points"] = []
        other["forwarding-graph"]["big-switch"] = {"flow-rules": []}
        for port, inner, words in (
            (second, 7000, "is in use by graph g"),
            (22, 7000, "host-tcp-port: this node gives graphs the ports 1024 to 65535"),
            (first, 22, "vnf-tcp-port: template mine does not let a graph forward to port 22"),
            (0, 7000, "host-tcp-port"),
        ):
            other["forwarding-graph"]["VNFs"][0]["unify-control"] = [
                {"host-tcp-port": port, "vnf-tcp-port": inner}
            ]
            answer = await http.put("/NF-FG/h", json=other)
            assert answer.status_code == 400 and words in answer.json()["message"], answer.text

        with socket.create_server(("127.0.0.1", first)):
            answer = await http.put("/NF-FG/g", json=graph(first))
            assert answer.status_code == 500
            assert f"host port {first} at 127.0.0.1: Address" in answer.json()["message"]
        assert (await http.delete("/NF-FG/g")).status_code == 204
        assert await asyncio.to_thread(echo, second) == b""
        assert node.supervisor.find(f"forward-{vnf.name}") is None


ON_THE_NIC = """#!/bin/sh
while [ ! -e /sys/class/net/management ]; do busybox sleep 0.1; done
echo on the NIC
exec busybox nc -ll -p 7000 -e /bin/cat
"""


def remains(node: Node) -> list[str]:
    return [name for name in netns.listnetns() if name.startswith(f"{node.prefix}-")]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_management_nic(start_node: StartNode, rundir: Path, kind: str) -> None:
    """Forwarded connections come by an interface of their own, by which nobody gets out."""
    settings = {"management": True, "ready": "on the NIC"}
    more = {"graph-may-forward": [7000], "graph-may-set": ["addresses"]}
    file = template(rundir, kind, ON_THE_NIC, configuration=settings, **more)
    port = free_port()
    graph = chain(more={"unify-control": [{"host-tcp-port": port, "vnf-tcp-port": 7000}]})
    async with node_with(start_node, file) as (node, http):
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 201, answer.text
        await eventually(lambda: echo(port) == b"hello")
        vnf, engine = node.vnf("g", "v0")

        async def says(*words: str) -> str:
            done = await engine.execute(vnf, words)  # type: ignore[attr-defined]
            return str((done.stdout + done.stderr).decode())

        shown = await says("busybox", "ip", "-o", "addr")
        assert "management    inet 10.0.2.15/24" in shown
        assert await says("busybox", "ip", "route") == (
            "10.0.2.0/24 dev management scope link  src 10.0.2.15 \n"
        )
        for interface, has_packets in (("management", True), ("lo", False)):
            counted = f"/sys/class/net/{interface}/statistics/rx_packets"
            assert (int(await says("busybox", "cat", counted)) > 0) == has_packets, interface
        with socket.create_server(("0.0.0.0", 0)) as server:  # the host's, on all its addresses
            target = str(server.getsockname()[1])
            said = await says("busybox", "nc", "-w", "2", "10.0.2.2", target)
            assert "refused" in said or "timed out" in said

        # The far side is the node's to watch, too: what goes there is made again.
        (name,) = remains(node)
        await asyncio.to_thread(netns.remove, name)
        await eventually(lambda: not engine.running(vnf))
        await Restarter(node).look()
        await eventually(lambda: echo(port) == b"hello")

        graph["forwarding-graph"]["VNFs"][0]["configuration"] = {
            "addresses": {"port:0": ["10.0.2.1/25"]}
        }
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 400 and "is of the management NIC" in answer.json()["message"]
        assert (await http.delete("/NF-FG/g")).status_code == 204
        assert remains(node) == []


def have_gone(node: Node) -> bool:
    """Whether the ports of the VNF have gone with it: of the node's, p0 and p1 are left."""
    names = [name for name in os.listdir("/sys/class/net") if name.startswith(f"{node.prefix}n")]
    return len(names) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"environment": {"A B": "1"}}, "no variable's name"),
        ({"environment": {"HEADRACE_X": "1"}}, "the node's own"),
        ({"engine": "vm", "function": "guest", "environment": {"A": "1"}}, "no environment"),
        ({"engine": "process", "function": "pass", "graph-may-forward": [22]}, "no TCP ports"),
        ({"graph-may-forward": [0]}, "graph-may-forward"),
    ],
)
def test_a_template_says_what_its_engine_can_do(
    rundir: Path, more: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        load([Path(template(rundir, "native", SERVER, **more))])
