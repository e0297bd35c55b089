# SPDX-License-Identifier: Apache-2.0
"""TCP connections through chains of a container, a process, a machine, an image and a script."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.engines.runc import RUNC
from headrace.node.node import Node
from tests.guest.bed import eventually
from tests.guest.bootable import require_bootable, uefi_disk
from tests.guest.guest import base_image, require_guest, wire_script
from tests.guest.images import Image, nginx
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.support.namespaces import Namespace
from tests.support.veth import VethPair

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed (make setup)"),
]

CLIENT_MAC = "02:00:00:00:0c:01"
SIZE = 300_000
FETCHES = 5


class Ends:
    """A client and a server, each in a namespace behind a physical port of the node."""

    def __init__(self, client: Namespace, server: Namespace, files: Path) -> None:
        self.client, self.server, self.files = client, server, files
        self.content = os.urandom(SIZE)

    def fetches(self, address: str, port: int = 80) -> bool:
        """Whether the client gets the server's file, whole."""
        return self._fetched(self.client, address, port)

    def listens(self, address: str, port: int) -> bool:
        """Whether the server itself gets its file."""
        return self._fetched(self.server, address, port)

    def _fetched(self, where: Namespace, address: str, port: int) -> bool:
        done = subprocess.run(
            ["ip", "netns", "exec", where.name, "busybox", "timeout", "10",
             "busybox", "wget", "-q", "-O", "-", f"http://{address}:{port}/file"],
            capture_output=True,
            check=False,
        )  # fmt: skip
        return hashlib.sha256(done.stdout).digest() == hashlib.sha256(self.content).digest()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Ends, list[dict[str, Any]]]]:
    """The ends, and the node's ports towards them. The server listens on ports 80 and 23."""
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(2)]
        client, server = (stack.enter_context(Namespace()) for _ in range(2))
        client.take(pairs[0].far)
        client.run("ip", "link", "set", pairs[0].far, "address", CLIENT_MAC, "name", "eth0")
        server.take(pairs[1].far)
        server.run("ip", "link", "set", pairs[1].far, "name", "eth0")
        found = Ends(client, server, tmp_path / "www")
        found.files.mkdir()
        (found.files / "file").write_bytes(found.content)
        for port in ("80", "23"):
            words = ["busybox", "httpd", "-f", "-vv", "-p", port, "-h", str(found.files)]
            process = server.start(*words)
            stack.callback(process.wait)
            stack.callback(process.kill)
        names = zip(("p0", "p1"), pairs, strict=True)
        yield (
            found,
            [
                {"name": name, "kind": "system", "options": {"iface": pair.near}}
                for name, pair in names
            ],
        )


def template(rundir: Path, name: str, engine: str, function: str, **configuration: Any) -> str:
    words = {
        "id": name,
        "name": name,
        "functional-capability": name,
        "engine": engine,
        "function": function,
        "cores": 1,
        "memory-mb": 256 if engine == "vm" else 64,
        **({"idle": "yield"} if engine == "vm" else {}),  # weighs as any other process
        "configuration": configuration,
    }
    file = rundir / f"{name}.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


def machine(rundir: Path) -> str:
    """The template of a machine that is a bridge: a disk of Debian's kernel and busybox."""
    kernel = require_guest()
    require_bootable()
    image = base_image(kernel)
    lines = [*wire_script("br0", "eth0", "eth1"), "echo 'guest: forwards'"]
    image.add("/autostart", "\n".join(lines).encode())
    return template(
        rundir, "machine", "vm", "guest",
        disk=str(uefi_disk(rundir, kernel, image)), format="qcow2", firmware="uefi",
        accelerator="tcg", ready="guest: forwards", boot_s=120,
    )  # fmt: skip


def chain(*templates: str) -> graphs.Json:
    """p0, VNFs v0, v1, ... of these templates, p1."""
    document = graphs.chain("", len(templates))
    for vnf, name in zip(document["forwarding-graph"]["VNFs"], templates, strict=True):
        vnf["vnf_template"] = name
    return document


async def packets(node: Node, vnf_id: str) -> list[tuple[int, int]]:
    """Packets received and sent by each port of a VNF, as it counts them."""
    vnf, engine = node.vnf("g", vnf_id)
    ports = (await engine.counters(vnf))["ports"]
    return [(port["rx_packets"], port["tx_packets"]) for port in ports.values()]


async def start(start_node: StartNode, ports: list[dict[str, Any]], *templates: str) -> Node:
    return await start_node(
        hugepages="off", ports=ports, templates=list(templates), oversubscribe=True, memory_mb=1024
    )


async def test_firewall_nat_and_a_machine(
    start_node: StartNode, rundir: Path, ends: tuple[Ends, list[dict[str, Any]]]
) -> None:
    """End-point, firewall (container), nat (process), machine (a disk that boots), end-point."""
    hosts, ports = ends
    hosts.client.run("ip", "addr", "add", "10.0.0.1/24", "dev", "eth0")
    hosts.server.run("ip", "addr", "add", "10.0.0.2/24", "dev", "eth0")
    denied = {"action": "deny", "proto": "tcp", "dst_port": 23}
    files = (
        template(rundir, "wall", "container", "firewall", rules=[denied], default="allow"),
        template(
            rundir, "nat44", "process", "nat",
            inside="port:0", outside="port:1", public=["10.0.0.100"], inside_mac=CLIENT_MAC,
        ),
        machine(rundir),
    )  # fmt: skip
    node = await start(start_node, ports, *files)
    await node.graphs.create("g", chain("wall", "nat44", "machine"))
    engines = [vnf["engine"] for vnf in node.status(node.graphs.record("g"))["vnfs"]]
    assert engines == ["container", "process", "vm"]
    await eventually(lambda: hosts.fetches("10.0.0.2"), timeout_s=60)
    before = await packets(node, "v1")
    for _ in range(FETCHES):
        await eventually(lambda: hosts.fetches("10.0.0.2"), timeout_s=60)
    # The server answers to the public address, and the port that the firewall denies is shut.
    neighbors = hosts.server.run("ip", "neigh")
    assert "10.0.0.100 " in neighbors
    assert hosts.listens("10.0.0.2", 23)
    assert not await asyncio.to_thread(hosts.fetches, "10.0.0.2", 23)
    least = FETCHES * SIZE // 65536
    for vnf in ("v0", "v1"):
        assert all(rx > least and tx > least for rx, tx in await packets(node, vnf)), vnf
    assert (await packets(node, "v1"))[1][0] - before[1][0] >= least
    await node.graphs.delete("g")
    assert not await asyncio.to_thread(hosts.fetches, "10.0.0.2", 80)


async def test_a_script_a_machine_and_an_image(
    start_node: StartNode, rundir: Path, ends: tuple[Ends, list[dict[str, Any]]]
) -> None:
    """End-point, nftables script (native), virtual machine, image (a router with nginx), end-point.

    They are made from Debian's nftables, kernel and busybox (a disk that boots), and nginx.
    """
    hosts, ports = ends
    hosts.client.run("ip", "addr", "add", "10.0.0.1/24", "dev", "eth0")
    hosts.client.run("ip", "route", "add", "10.1.0.0/24", "via", "10.0.0.254")
    hosts.server.run("ip", "addr", "add", "10.1.0.2/24", "dev", "eth0")
    hosts.server.run("ip", "route", "add", "10.0.0.0/24", "via", "10.1.0.254")
    program = rundir / "filter.sh"
    program.write_text(FILTER)
    program.chmod(0o755)
    web = nginx().add("www/file", hosts.content)
    image = Image(web, Entrypoint=["/usr/sbin/nginx", "-c", "/etc/nginx/nginx.conf"])
    addresses = {"port:0": ["10.0.0.254/24"], "port:1": ["10.1.0.254/24"]}
    place = image.write(rundir / "web.tar", "oci-archive")
    files = (
        template(rundir, "filter", "native", "script", program=str(program), once=True),
        machine(rundir),
        template(
            rundir, "web", "container", "image",
            image=str(place), addresses=addresses, forward=True,
        ),
    )  # fmt: skip
    node = await start(start_node, ports, *files)
    await node.graphs.create("g", chain("filter", "machine", "web"))
    engines = [vnf["engine"] for vnf in node.status(node.graphs.record("g"))["vnfs"]]
    assert engines == ["native", "vm", "container"]
    for address in ("10.0.0.254", "10.1.0.2"):  # the image's own server; the one beyond
        await eventually(lambda: hosts.fetches(address), timeout_s=60)  # noqa: B023
    for _ in range(FETCHES):
        await eventually(lambda: hosts.fetches("10.1.0.2"), timeout_s=60)
    assert hosts.listens("10.1.0.2", 23)
    assert not await asyncio.to_thread(hosts.fetches, "10.1.0.2", 23)
    for vnf in ("v0", "v2"):
        assert all(rx > FETCHES and tx > FETCHES for rx, tx in await packets(node, vnf)), vnf
    await node.graphs.delete("g")
    assert not await asyncio.to_thread(hosts.fetches, "10.1.0.2", 80)


FILTER = """#!/bin/sh
set -e
ip link add br0 type bridge
for port in eth0 eth1; do ip link set $port master br0; done
ip link set br0 up
nft add table bridge f
nft add chain bridge f forward '{ type filter hook forward priority 0; policy drop; }'
nft add rule bridge f forward ether type arp accept
nft add rule bridge f forward tcp dport 80 accept
nft add rule bridge f forward tcp sport 80 accept
"""
