# SPDX-License-Identifier: Apache-2.0
"""A graph whose VNF is a virtual machine: its packets counted, then all of it gone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest
import yaml

from headrace.engines.base import EngineError, VnfPort, VnfSpec
from headrace.engines.vm import VmEngine
from headrace.engines.vm_opened import Opened
from headrace.machine.guests.initramfs import Initramfs
from headrace.machine.guests.kernel import GuestKernel
from headrace.machine.processes import Supervisor
from headrace.machine.programs import find_program
from headrace.node.pci import binding
from headrace.node.pci.users import users_of
from headrace.node.rest.app import make_app
from headrace.node.restarts import Restarter
from headrace.switches.base import PortKind, PortSpec
from headrace.traffic import TrafficProcess
from tests.guest.bed import cross_both_ways, eventually
from tests.guest.guest import COMMAND_LINE, base_image, require_guest, wire_script
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.fake_sysfs import FakeSysfs
from tests.node.test_interfaces_e2e import host, transfer
from tests.node.test_linux_bridge_e2e import devices, ends, exchange

READY = "guest: forwards"


def image_of(kind: str) -> tuple[GuestKernel, Initramfs]:
    """A machine that forwards between two ports: by its kernel's bridge, or in shared memory."""
    kernel = require_guest()
    image = base_image(kernel, *(["qemu_fw_cfg"] if kind == "shm" else []))
    if kind == "vhost-user":
        lines = [*wire_script("br0", "eth0", "eth1"), f"echo '{READY}'"]
    else:
        program = "headrace-port-pass"
        image.add_program(find_program("headrace-switch").parents[1] / "shm" / program)
        lines = [
            # {"0000:00:04.0": {"port:0": "g1p0", "port:1": "g1p1"}}
            "ports=$(cat /sys/firmware/qemu_fw_cfg/by_name/opt/headrace/ports/raw)",
            r"""device=$(echo "$ports" | sed 's/^{"\([^"]*\)".*/\1/')""",
            r"""names=$(echo "$ports" | sed 's/.*: "\(.*\)", .*: "\(.*\)"}}/\1 \2/')""",
            "cd /sys/bus/pci/devices/$device && echo 1 >enable",
            f"{program} --memory resource2 $names &",
            f"sleep 0.2; kill -0 $! && echo '{READY}'",
        ]
    image.add("/autostart", "\n".join(lines).encode())
    return kernel, image


def template(rundir: Path, kind: str) -> Path:
    """A template of such a machine."""
    kernel, image = image_of(kind)
    archive = rundir / "guest.cpio"
    archive.write_bytes(image.archive())
    file = rundir / "vm-wire.yaml"
    configuration = {
        "kernel": str(kernel.image),
        "initrd": str(archive),
        "command_line": COMMAND_LINE,
        "accelerator": "tcg",
        "ready": READY,
        "boot_s": 90,
    }
    words = {
        "id": "vm-wire",
        "name": "vm-wire",
        "functional-capability": "wire",
        "engine": "vm",
        "function": "guest",
        "cores": 1,
        "memory-mb": 128,
        "idle": "yield",  # weighs as any other process: a busy host may leave VNFs little else
        "configuration": configuration,
    }
    file.write_text(yaml.safe_dump(words))
    return file


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.parametrize("kind", ["vhost-user", "shm"])
async def test_a_machine_forwards_every_packet_and_leaves_nothing(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    node = await start_node(
        hugepages="off",
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        templates=[str(template(rundir, kind))],
        vnf_ports=kind,
        oversubscribe=True,
    )
    transport = httpx.ASGITransport(app=make_app(node))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=110) as http,
        TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic,
    ):
        graph = graphs.chain("vm-wire", 1)
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 201, answer.text
        await cross_both_ways(http, traffic)
        assert (await http.get("/node/vnfs/g/v0/cycles")).json()["cpu_ns"] > 0

        vnf, engine = node.vnf("g", "v0")
        [name] = engine.processes(vnf)
        process = node.supervisor.find(name)
        assert process is not None
        # The same again is no change; killed, its sockets are in the way, and it is made again (of
        # the one in shared memory there are two anyway: each boot takes its seconds).
        assert (await http.put("/NF-FG/g", json=graph)).status_code < 300
        assert node.supervisor.find(name) == process
        if kind == "vhost-user":
            os.kill(process.pid, signal.SIGKILL)
            await eventually(lambda: not engine.running(vnf))
            await engine.ensure(vnf)
            assert node.supervisor.find(name) not in (None, process)
        second = node.supervisor.find(name)
        # A new switch: sockets are connected again, but a region is dead, and so is who holds it.
        switch = node.supervisor.find("switch")
        assert switch is not None
        os.kill(switch.pid, signal.SIGKILL)
        await eventually(lambda: node.supervisor.find("switch") is None)
        await node.fill_switch()
        assert (node.supervisor.find(name) == second) == (kind == "vhost-user")
        assert engine.running(vnf)
        assert (await http.delete("/NF-FG/g")).status_code == 204
    assert node.supervisor.find(name) is None
    assert list((rundir / "vnf").iterdir()) == []
    assert not any((rundir / "ports").glob("**/*.sock"))


@pytest.mark.root
async def test_a_machine_on_the_kernels_bridge(start_node: StartNode, rundir: Path) -> None:
    """Its ports are taps: every frame, and TCP with segments and checksums left to the kernel."""
    file = template(rundir, "vhost-user")
    node = await start_node(
        switch="linux-bridge", hugepages="off", templates=[str(file)], oversubscribe=True
    )
    before = devices(node.prefix)
    await node.graphs.create("g", graphs.chain("vm-wire", 1))
    vnf, engine = node.vnf("g", "v0")
    assert [port.switch_port.kind for port in vnf.ports] == ["tap", "tap"]
    await exchange(node)
    # Killed, it is made again: a tap that nobody has open stays where it is.
    (name,) = engine.processes(vnf)
    process = node.supervisor.find(name)
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await eventually(lambda: not engine.running(vnf))
    assert await node.driver.missing([p.switch_port.name for p in vnf.ports]) == set()
    await Restarter(node).look()
    await exchange(node)
    left, right = ends(node)
    octets = 200_000
    with host(left, "10.9.0.1/24") as first, host(right, "10.9.0.2/24") as second:
        received = await asyncio.to_thread(transfer, first, second, octets)
    assert received == bytes(n % 251 for n in range(octets))
    await node.graphs.delete("g")
    assert devices(node.prefix) == before


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({}, "give either `disk` or `kernel`"),
        ({"disk": "/nowhere/image.qcow2"}, "there is no file /nowhere/image.qcow2"),
        ({"kernel": "/bin/sh", "cpus": 0}, "configuration.cpus: Input should be greater"),
        ({"kernel": "/bin/sh", "color": "red"}, "configuration.color: Extra inputs"),
        ({"kernel": "/bin/sh", "pci": ["03:10.0"]}, "configuration.pci.0: String should match"),
        ({"kernel": "/bin/sh", "pci": ["0000:03:10.0"] * 2}, "names a function twice"),
        ({"kernel": "/bin/sh", "pci": ["0000:03:10.0"]}, "pci: 0000:03:10.0 is not this node's"),
    ],
)
async def test_an_image_that_cannot_be(
    tmp_path: Path, configuration: dict[str, object], message: str
) -> None:
    engine = VmEngine(tmp_path, Supervisor(tmp_path), hugepages=False)
    vnf = machine_of(configuration)
    with pytest.raises(EngineError, match=message):
        await engine.ensure(vnf)
    assert not engine.running(vnf)


def machine_of(configuration: dict[str, object], *ports: VnfPort) -> VnfSpec:
    """A VNF of the engine vm."""
    return VnfSpec(
        name="n-g-v",
        graph="g",
        vnf="v",
        template="t",
        engine="vm",
        function="guest",
        ports=ports,
        memory_mb=128,
        configuration=configuration,
    )


def test_pci_functions_come_after_the_ports(tmp_path: Path) -> None:
    engine = VmEngine(tmp_path, Supervisor(tmp_path), hugepages=False)
    switch_port = PortSpec(
        name="g1p0", kind=PortKind.VHOST_USER, options={"path": "/run/x.sock"}, labels={}
    )
    functions = ["0000:03:10.0", "0000:03:10.1"]
    vnf = machine_of(
        {"kernel": "/bin/sh", "pci": functions}, VnfPort(id="p", switch_port=switch_port)
    )
    words = engine.machine(vnf, engine.image(vnf), Opened()).arguments()
    given = [words[i + 1] for i, word in enumerate(words) if word == "-device"]
    assert "virtio-net-pci" in given[0] and "addr=0x4" in given[0]
    assert given[1:] == [
        "vfio-pci,host=0000:03:10.0,addr=0x5",
        "vfio-pci,host=0000:03:10.1,addr=0x6",
    ]


async def test_the_node_gives_a_machine_only_what_is_bound_and_free(
    start_node: StartNode, rundir: Path
) -> None:
    """The node's own claim, on a sysfs of the test's: first the driver, then vfio's file."""
    node = await start_node(
        hugepages="off",
        switch="linux-bridge",
        ports=[{"name": name, "kind": "veth"} for name in ("p0", "p1")],
    )
    node.sysfs = sysfs = FakeSysfs(rundir / "sys")
    sysfs.add_driver("vfio-pci")
    sysfs.add_driver("i40e", "0000:03:00.0")
    sysfs.add_function("0000:03:00.0", driver="i40e", iommu_group=4_000_000)
    vnf = machine_of({"kernel": "/bin/sh", "pci": ["0000:03:00.0"]})
    engine = node.engines["vm"]
    with pytest.raises(EngineError, match=r"is with i40e, not with vfio-pci; PUT /node/pci/0000"):
        await engine.ensure(vnf)
    binding.bind_to_vfio("0000:03:00.0", sysfs)
    with pytest.raises(EngineError, match="/dev/vfio/4000000 cannot be opened"):
        await engine.ensure(vnf)
    assert not engine.running(vnf)


def test_who_uses_a_function() -> None:
    ports = {
        "wan": PortSpec(name="wan", kind=PortKind.DPDK, options={"devargs": "3B:00.1"}, labels={})
    }
    vnf = machine_of({"kernel": "/bin/sh", "pci": ["0000:03:10.0"]})
    assert users_of(ports, [vnf]) == {
        "0000:3b:00.1": ["port wan"],
        "0000:03:10.0": ["VNF g/v"],
    }
