# SPDX-License-Identifier: Apache-2.0
"""A graph whose VNF is a virtual machine: its packets counted, then all of it gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest
import yaml

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.vm import VmEngine
from headrace.node.rest import make_app
from headrace.processes import Supervisor
from headrace.traffic import StreamSpec, TrafficProcess
from tests.guest.bed import LATE_US, PER_DIRECTION, eventually
from tests.guest.guest import COMMAND_LINE, base_image, require_guest, wire_script
from tests.node import graphs
from tests.node.conftest import StartNode

PACKETS = 2 * PER_DIRECTION
READY = "guest: forwards"


def template(rundir: Path) -> Path:
    """A template of a machine that bridges two ports, and its image."""
    kernel = require_guest()
    image = base_image(kernel)
    lines = [*wire_script("br0", "eth0", "eth1"), f"echo '{READY}'"]
    image.add("/autostart", "\n".join(lines).encode())
    archive = rundir / "bridge.cpio"
    archive.write_bytes(image.archive())
    file = rundir / "vm-bridge.yaml"
    configuration = {
        "kernel": str(kernel.image),
        "initrd": str(archive),
        "command_line": COMMAND_LINE,
        "accelerator": "tcg",
        "ready": READY,
        "boot_s": 90,
    }
    file.write_text(
        yaml.safe_dump(
            {
                "id": "vm-bridge",
                "name": "vm-bridge",
                "functional-capability": "bridge",
                "engine": "vm",
                "function": "guest",
                "cores": 1,
                "memory-mb": 128,
                "configuration": configuration,
            }
        )
    )
    return file


@pytest.mark.root
@pytest.mark.dpdk
async def test_a_machine_forwards_every_packet_and_leaves_nothing(
    start_node: StartNode, rundir: Path
) -> None:
    node = await start_node(
        hugepages="off",
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        templates=[str(template(rundir))],
        oversubscribe=True,
    )
    transport = httpx.ASGITransport(app=make_app(node))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://node", timeout=110) as http,
        TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic,
    ):
        graph = graphs.chain("vm-bridge", 1)
        answer = await http.put("/NF-FG/g", json=graph)
        assert answer.status_code == 201, answer.text
        for number, port in enumerate((await http.get("/node/ports")).json()):
            devargs = port["attach"]["devargs"].replace("{n}", str(number))
            await traffic.add_port(port["name"], devargs, wait_link_s=10)
        await traffic.configure(
            [
                StreamSpec(name="there", tx_port="p0", rx_port="p1", flows=10),
                StreamSpec(name="back", tx_port="p1", rx_port="p0", flows=10),
            ]
        )
        result = await traffic.trial(
            0.3, PACKETS / 0.3, drain_s=2.0, yield_core=True, late_bound_us=LATE_US
        )
        assert result.sent == result.received == PACKETS
        assert result.duplicated == result.reordered == result.misdelivered == 0
        assert (await http.get("/node/vnfs/g/v0/cycles")).json()["cpu_ns"] > 0

        vnf, engine = node.vnf("g", "v0")
        [name] = engine.processes(vnf)
        process = node.supervisor.find(name)
        assert process is not None
        # The same again is no change; killed, its sockets are in the way, and it is made again.
        assert (await http.put("/NF-FG/g", json=graph)).status_code < 300
        assert node.supervisor.find(name) == process
        os.kill(process.pid, signal.SIGKILL)
        await eventually(lambda: not engine.running(vnf))
        await engine.ensure(vnf)
        assert node.supervisor.find(name) not in (None, process)
        assert (await http.delete("/NF-FG/g")).status_code == 204
    assert node.supervisor.find(name) is None
    assert list((rundir / "vm").iterdir()) == []
    assert not any((rundir / "ports").glob("*.sock"))


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({}, "give either `disk` or `kernel`"),
        ({"disk": "/nowhere/image.qcow2"}, "there is no file /nowhere/image.qcow2"),
        ({"kernel": "/bin/sh", "cpus": 0}, "configuration.cpus: Input should be greater"),
        ({"kernel": "/bin/sh", "color": "red"}, "configuration.color: Extra inputs"),
    ],
)
async def test_an_image_that_cannot_be(
    tmp_path: Path, configuration: dict[str, object], message: str
) -> None:
    engine = VmEngine(tmp_path, Supervisor(tmp_path), hugepages=False)
    vnf = VnfSpec(
        name="n-g-v",
        graph="g",
        vnf="v",
        template="t",
        engine="vm",
        function="guest",
        ports=(),
        memory_mb=128,
        configuration=configuration,
    )
    with pytest.raises(EngineError, match=message):
        await engine.ensure(vnf)
    assert not engine.running(vnf)
