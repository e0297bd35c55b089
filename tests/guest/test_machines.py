# SPDX-License-Identifier: Apache-2.0
"""What a template and a graph can say of a virtual machine: firmware, seed, queues, memory."""

from __future__ import annotations

import asyncio
import io
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pycdlib
import pytest
import yaml

from headrace.engines.base import EngineError
from headrace.engines.cloud_init import LABEL, seed
from headrace.engines.qemu import UEFI_CODE
from headrace.engines.vm import VmEngine
from headrace.engines.vm_opened import Opened
from headrace.machine.numa import node_of
from headrace.machine.processes import Supervisor
from headrace.node.errors import GraphRefused
from tests.guest.guest import COMMAND_LINE, base_image, require_guest, wire_script
from tests.guest.test_vm_engine import machine_of
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.test_linux_bridge_e2e import exchange
from tests.node.test_native_on_switches_e2e import crosses
from tests.node.test_openflow_e2e import bench_of

USER_DATA = "#cloud-config\nfinal_message: the seed was read\n"


def template(
    rundir: Path,
    lines: list[str],
    *modules: str,
    forward: list[int] | None = None,
    programs: Sequence[Path] = (),
    **configuration: Any,
) -> str:
    """A machine of Debian's kernel and busybox that runs these lines of shell at its start."""
    kernel = require_guest()
    image = base_image(kernel, *modules)
    for program in programs:
        image.add_program(program)
    image.add("/autostart", "\n".join(lines).encode())
    archive = rundir / "guest.cpio"
    archive.write_bytes(image.archive())
    words = {
        "id": "guest",
        "name": "guest",
        "functional-capability": "guest",
        "engine": "vm",
        "function": "guest",
        "cores": 1,
        "memory-mb": 256,
        "idle": "yield",  # weighs as any other process: a busy host may leave VNFs little else
        "graph-may-set": ["user_data"],
        "graph-may-forward": forward or [],
        "configuration": {
            "kernel": str(kernel.image),
            "initrd": str(archive),
            "command_line": COMMAND_LINE,
            "accelerator": "tcg",
            "boot_s": 300,
            **configuration,
        },
    }
    file = rundir / "guest.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


def test_the_seed_is_what_cloud_init_looks_for() -> None:
    disk = pycdlib.PyCdlib()
    disk.open_fp(io.BytesIO(seed(USER_DATA, "node-vnf-1", "web")))
    assert disk.pvd.volume_identifier.decode().strip() == LABEL
    found = {}
    for name in ("user-data", "meta-data"):
        out = io.BytesIO()
        disk.get_file_from_iso_fp(out, rr_path=f"/{name}")
        found[name] = out.getvalue().decode()
    assert found["user-data"] == USER_DATA
    assert yaml.safe_load(found["meta-data"]) == {
        "instance-id": "node-vnf-1",
        "local-hostname": "web",
    }


@pytest.mark.root
@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node")
@pytest.mark.skipif(not UEFI_CODE.exists(), reason="ovmf is not installed (make setup)")
@pytest.mark.timeout(400)
async def test_uefi_and_cloud_init(start_node: StartNode, rundir: Path) -> None:
    lines = [
        *wire_script("br0", "eth0", "eth1"),
        "test -d /sys/firmware/efi && echo 'guest: by UEFI'",
        "mkdir /seed && mount -t iso9660 -o ro /dev/vda /seed",
        "cat /seed/user-data /seed/meta-data",
    ]
    file = template(
        rundir, lines, "virtio_blk", "isofs", firmware="uefi", ready="local-hostname: v0"
    )
    node = await start_node(
        switch="linux-bridge", hugepages="off", templates=[file], oversubscribe=True
    )
    graph = graphs.chain("guest", 1)
    graph["forwarding-graph"]["VNFs"][0]["user_data"] = USER_DATA
    await node.graphs.create("g", graph)
    vnf, engine = node.vnf("g", "v0")
    assert isinstance(engine, VmEngine)
    said = engine.console(vnf).read_text(errors="replace")
    assert "guest: by UEFI" in said and "final_message: the seed was read" in said
    assert f"instance-id: {vnf.name}-" in said
    await exchange(node)
    # Other user data is another machine; without the template's leave it is not taken.
    graph["forwarding-graph"]["VNFs"][0]["user_data"] = "x" * (1 << 19)
    with pytest.raises(Exception, match="user_data: String should have at most"):
        await node.check("g", graph)


def echoed(port: int) -> bytes:
    """What comes back from a port of the host; nothing if the connection ends."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"hello")
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(100)
    except OSError:
        return b""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node")
async def test_forwarded_ports_and_the_seed_of_a_machine(
    start_node: StartNode, rundir: Path
) -> None:
    lines = [
        *wire_script("br0", "eth0", "eth1"),
        "ip link set eth2 up && ip addr add 10.0.2.15/24 dev eth2",
        "nc -ll -p 7 -e /bin/cat &",
        "mkdir /seed && mount -t iso9660 -o ro /dev/vda /seed && cat /seed/meta-data",
        "echo 'guest: ready'",
    ]
    modules = ("virtio_blk", "isofs")
    file = template(rundir, lines, *modules, ready="guest: ready", forward=[7])
    node = await start_node(
        switch="linux-bridge", hugepages="off", templates=[file], oversubscribe=True
    )
    graph = graphs.chain("guest", 1)
    (vnf_of_graph,) = graph["forwarding-graph"]["VNFs"]
    vnf_of_graph["user_data"] = USER_DATA

    async def forward(port: int) -> None:
        vnf_of_graph["unify-control"] = [{"host-tcp-port": port, "vnf-tcp-port": 7}]
        change = node.graphs.update if node.graphs.records() else node.graphs.create
        await change("g", graph)

    first, second = free_port(), free_port()
    await forward(first)
    assert await asyncio.to_thread(echoed, first) == b"hello"
    await exchange(node)  # the NICs of the graph are where they were
    vnf, engine = node.vnf("g", "v0")
    assert isinstance(engine, VmEngine)
    assert "local-hostname: v0" in engine.console(vnf).read_text(errors="replace")
    process = node.supervisor.find(f"vnf-{vnf.name}")
    await forward(second)  # the machine runs on
    assert node.supervisor.find(f"vnf-{vnf.name}") == process
    assert await asyncio.to_thread(echoed, second) == b"hello"
    assert await asyncio.to_thread(echoed, first) == b""
    vnf_of_graph["unify-control"] = [{"host-tcp-port": first, "vnf-tcp-port": 8}]
    with pytest.raises(GraphRefused, match="does not let a graph forward to port 8"):
        node.graphs.draft("g", graph)
    await node.graphs.delete("g")
    assert await asyncio.to_thread(echoed, second) == b""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches")
@pytest.mark.parametrize("switch", ["headrace", "ovs-dpdk"])
async def test_several_queues(start_node: StartNode, rundir: Path, switch: str) -> None:
    lines = [
        *wire_script("br0", "eth0", "eth1"),
        "echo queues: $(ls -d /sys/class/net/eth0/queues/rx-* | wc -l)",
    ]
    file = template(rundir, lines, queues=2, cpus=2, ready="queues: 2")
    more: dict[str, Any] = {"hugepages": "off", "templates": [file], "oversubscribe": True}
    async with bench_of(start_node, switch, **more) as bench:
        await bench.node.graphs.create("g", graphs.chain("guest", 1))
        (vnf,) = bench.node.graphs.record("g").plan.vnfs()
        assert [port.switch_port.options["n_rxq"] for port in vnf.ports] == ["2", "2"]
        await crosses(bench)


def words_of(tmp_path: Path, cores: tuple[int, ...] = (0,), **configuration: Any) -> list[str]:
    """The command line of a machine."""
    engine = VmEngine(tmp_path, Supervisor(tmp_path), hugepages=False)
    vnf = machine_of({"kernel": "/bin/sh", **configuration}).model_copy(update={"cores": cores})
    return engine.machine(vnf, engine.image(vnf), Opened()).arguments()


def test_memory_is_where_its_cores_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = {0: 0, 1: 0, 2: 1, 3: 1}
    assert (node_of([2, 3], two), node_of([1, 2], two), node_of([9], two)) == (1, None, None)
    assert node_of([0], {0: 0, 1: 0}) is None  # one node: nothing to choose
    monkeypatch.setattr("headrace.machine.numa._here", lambda: two)
    (memory,) = [w for w in words_of(tmp_path, (2, 3)) if w.startswith("memory-backend")]
    assert memory.endswith("host-nodes=1,policy=bind")
    for cores, numa in (((1, 2), "auto"), ((2, 3), "off")):
        assert not any("host-nodes" in word for word in words_of(tmp_path, cores, numa=numa))


def test_firmware_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any("pflash" in word for word in words_of(tmp_path))
    monkeypatch.setattr("headrace.engines.vm_image.UEFI_CODE", tmp_path / "none")
    with pytest.raises(EngineError, match="install ovmf"):
        words_of(tmp_path, firmware="uefi")
