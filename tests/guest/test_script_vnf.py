# SPDX-License-Identifier: Apache-2.0
"""Scripts, and archives as the original node had them, as native VNFs; their packets counted."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.engines.runc import RUNC
from headrace.node.errors import ConfigError, DeployFailed
from headrace.node.node import Node
from headrace.node.templates import load
from tests.guest.bed import eventually
from tests.guest.images import Layer
from tests.node import graphs
from tests.node.conftest import StartNode, give_template
from tests.node.test_linux_bridge_e2e import exchange
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed (make setup)"),
]

BRIDGE = """#!/bin/sh
set -e
ip link add br0 type bridge
for port in eth0 eth1; do ip link set $port master br0; done
ip link set br0 up
echo "$0 got $* as $(id -u) in $PWD with $COLOR"
"""
FILTER = """
nft add table bridge f
nft add chain bridge f forward '{ type filter hook forward priority 0; policy drop; }'
nft add rule bridge f forward udp dport 9 counter accept
"""


def template(rundir: Path, function: str, **configuration: Any) -> str:
    words = {
        "id": "mine",
        "name": "mine",
        "functional-capability": "mine",
        "engine": "native",
        "function": function,
        "cores": 1,
        "memory-mb": 16,
        "configuration": configuration,
    }
    file = rundir / "mine.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


def script(rundir: Path, text: str) -> str:
    file = rundir / "script"
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


def log_of(node: Node) -> str:
    (vnf,) = node.graphs.record("g").plan.vnfs()
    return node.supervisor.log_of(f"vnf-{vnf.name}").read_text()


async def crosses(bench: Bench, port: int, through: bool = True) -> bool:
    """Whether a datagram to `port` comes to cross the graph, or not to."""
    return await bench.comes_to_pass(udp(b"datagram" + bytes(20), dest_port=port), through=through)


def left(node: Node) -> list[str]:
    """The devices and containers of the node's VNFs that there still are."""
    devices = [name for name in os.listdir("/sys/class/net") if name.startswith(node.prefix)]
    return [
        *(name for name in devices if name[len(node.prefix)] in "gx"),
        *(str(path) for place in ("runc", "bundles") for path in (node.rundir / place).glob("*")),
    ]


async def test_a_script_filters_by_nftables(bench: Bench, rundir: Path) -> None:
    node = bench.node
    words = {"once": True, "arguments": ["a", "b c"], "environment": {"COLOR": "red"}}
    give_template(
        node, template(rundir, "script", program=script(rundir, BRIDGE + FILTER), **words)
    )
    await node.graphs.create("g", graphs.chain("mine", 1))
    own = node.rundir / "vnf"
    assert "got a b c as 0 in " + str(own) in log_of(node) and "with red" in log_of(node)
    assert await crosses(bench, 9)
    assert await crosses(bench, 10, through=False)
    assert await crosses(bench, 9)
    vnf, engine = node.vnf("g", "v0")
    ports = (await engine.counters(vnf))["ports"]
    assert ports["port:0"]["rx_packets"] >= 2 and ports["port:1"]["tx_packets"] >= 2
    (shown,) = node.status(node.graphs.record("g"))["vnfs"]
    assert shown["engine"] == "native" and shown["running"] and shown["user"] == vnf.user
    await node.graphs.delete("g")
    await eventually(lambda: left(node) == [])


async def test_an_archive_is_started_and_stopped(bench: Bench, rundir: Path) -> None:
    node = bench.node
    archive = rundir / "bridge.tar.gz"
    files = Layer().add("./start", (BRIDGE + "cat data/note").encode())
    files.add("data/note", b"from the archive\n").add("stop", b"#!/bin/sh\necho stopped with $*\n")
    archive.write_bytes(gzip.compress(files.tar()))
    give_template(node, template(rundir, "archive", archive=str(archive)))
    await node.graphs.create("g", graphs.chain("mine", 1))
    assert await crosses(bench, 9)
    log = node.supervisor.log_of(f"vnf-{node.vnf('g', 'v0')[0].name}")
    said = await asyncio.to_thread(log.read_text)
    assert "got g v0 2 eth0 eth1 as 0 in" in said and "from the archive" in said
    await node.graphs.delete("g")
    assert "stopped with g v0 2 eth0 eth1" in await asyncio.to_thread(log.read_text)
    await eventually(lambda: left(node) == [])


async def test_an_update_starts_it_anew_on_the_same_ports(
    start_node: StartNode, rundir: Path
) -> None:
    node = await start_node(switch="linux-bridge", oversubscribe=True)
    program = script(rundir, BRIDGE)
    for color in ("red", "blue"):
        words = {"once": True, "environment": {"COLOR": color}}
        give_template(node, template(rundir, "script", program=program, **words))
        change = node.graphs.update if node.graphs.records() else node.graphs.create
        await change("g", graphs.chain("mine", 1))
        await exchange(node)
        assert f"with {color}" in log_of(node)


@pytest.mark.parametrize(
    ("function", "files", "words"),
    [
        ("archive", {"begin": b""}, "no file `start`"),
        ("archive", {"start": b"#!/bin/sh\necho broken; exit 4\n"}, "broken"),
        ("archive", {"../start": b"#!/bin/sh\n"}, "out of the image"),
        ("script", {"script": b"#!/bin/sh\nip link add b type bridge; nft x\n"}, "syntax error"),
        ("script", {"script": b"#!/bin/sh\nls /root /var/lib; cat /etc/shadow\n"}, "No such file"),
        (
            "script",
            {"script": b"#!/bin/sh\nmount -t tmpfs none /tmp\n"},
            "must be superuser|denied|permitted",
        ),
    ],
)
async def test_what_does_not_start_says_why(
    bench: Bench, rundir: Path, function: str, files: dict[str, bytes], words: str
) -> None:
    node = bench.node
    if function == "script":
        file = script(rundir, files["script"].decode())
        give_template(node, template(rundir, "script", program=file, once=True))
    else:
        layer = Layer()
        for name, data in files.items():
            layer.add(name, data)
        archive = rundir / "bad.tar"
        archive.write_bytes(layer.tar())
        give_template(node, template(rundir, "archive", archive=str(archive)))
    with pytest.raises(DeployFailed, match=words):
        await node.graphs.create("g", graphs.chain("mine", 1))
    await node.graphs.settle()
    await eventually(lambda: left(node) == [])


def test_no_template_lets_a_graph_name_a_program(rundir: Path) -> None:
    for function, keys in (("script", ("program", "once")), ("archive", ("archive",))):
        file = Path(template(rundir, function))
        words = yaml.safe_load(file.read_text())
        for key in keys:
            file.write_text(json.dumps({**words, "graph-may-set": [key]}))
            with pytest.raises(ConfigError, match=f"graph-may-set: {key}"):
                load([file])
