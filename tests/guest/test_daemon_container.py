# SPDX-License-Identifier: Apache-2.0
"""Containers of a Docker or Podman: made by its API, here that of a server of the tests' own."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.node.errors import DeployFailed
from headrace.node.node import Node
from headrace.node.restarts import Restarter
from tests.guest.bed import eventually
from tests.guest.fake_docker import running
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.test_linux_bridge_e2e import devices, exchange

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare"),
]

BRIDGE = (
    "set -e; ip link add br0 type bridge; ip link set br0 up; "
    "for port in eth0 eth1; do ip link set $port master br0; done; echo bridged"
)
IMAGE = "registry.example.org:5000/lab/wire:1"


def template(rundir: Path, address: str, **configuration: Any) -> str:
    words = {
        "id": "theirs",
        "name": "theirs",
        "functional-capability": "theirs",
        "engine": "container",
        "function": "docker",
        "cores": 1,
        "memory-mb": 32,
        "environment": {"MODE": "strict"},
        "configuration": {
            "daemon": address,
            "image": IMAGE,
            "command": ["sh", "-c", "echo mode $MODE; exec sleep 100000"],
            "start": ["sh", "-c", BRIDGE],
            "capabilities": ["CAP_NET_ADMIN"],
            **configuration,
        },
    }
    file = rundir / "theirs.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


async def start(start_node: StartNode, file: str) -> Node:
    return await start_node(switch="linux-bridge", templates=[file], oversubscribe=True)


async def test_frames_pass_a_container_of_a_daemon(start_node: StartNode, rundir: Path) -> None:
    with running(rundir, set(), {IMAGE}) as (address, daemon):
        file = template(rundir, address, ready="mode strict")
        node = await start(start_node, file)
        before = devices(node.prefix)
        await node.graphs.create("g", graphs.chain("theirs", 1))
        await exchange(node)
        vnf, engine = node.vnf("g", "v0")
        assert daemon.pulled == [IMAGE] and list(daemon.containers) == [vnf.name]
        (asked,) = daemon.created
        host = asked["HostConfig"]
        assert host["NetworkMode"] == "none" and host["CapDrop"] == ["ALL"]
        assert host["CapAdd"] == ["NET_ADMIN"] and not host.get("Privileged")
        assert host["SecurityOpt"] == ["no-new-privileges"] and host["PidsLimit"] == 64
        assert host["CpusetCpus"] == str(vnf.cores[0]) and host["Memory"] == (32 + 192) << 20
        counted = (await engine.counters(vnf))["ports"]
        assert [port["rx_packets"] for port in counted.values()] == [50, 50]
        done = await engine.execute(vnf, ["sh", "-c", "echo out; echo err >&2; exit 3"])  # type: ignore[attr-defined]
        assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
        assert "mode strict" in node.supervisor.log_of(f"vnf-{vnf.name}").read_text()

        # Killed behind the daemon's back, it is made again, with its interfaces.
        first = daemon.containers[vnf.name].pid
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: not engine.running(vnf))
        await Restarter(node).look()
        assert daemon.containers[vnf.name].pid not in (0, first)
        await exchange(node)
        await node.graphs.delete("g")
        assert daemon.containers == {}
        await eventually(lambda: devices(node.prefix) == before)


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ({"daemon": "unix:///nothing/docker.sock"}, "no Docker or Podman answers at unix:///noth"),
        ({"pull": "never"}, "No such image"),
        ({"image": "registry.example.org/unknown:1"}, "No such manifest"),
        ({"command": ["sh", "-c", "sleep 0.2; exit 7"]}, "ended"),
        ({"start": ["sh", "-c", "echo sorry >&2; exit 9"]}, "its start ended with 9: sorry"),
    ],
)
async def test_what_cannot_run_says_why_and_leaves_nothing(
    start_node: StartNode, rundir: Path, configuration: dict[str, Any], words: str
) -> None:
    with running(rundir, set(), {IMAGE}) as (address, daemon):
        file = template(rundir, address, **{"ready": "never", "start_s": 5, **configuration})
        node = await start(start_node, file)
        with pytest.raises(DeployFailed, match=words):
            await node.graphs.create("g", graphs.chain("theirs", 1))
        assert daemon.containers == {}
