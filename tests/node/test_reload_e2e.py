# SPDX-License-Identifier: Apache-2.0
"""A change of a VNF's configuration reaches the process that runs, and no packet is lost."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.runc import RUNC
from headrace.machine.processes import ProcessId
from headrace.protocols import control
from tests.node import graphs
from tests.node.conftest import give_template
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

NEEDS_RUNC = pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed")
FRAME = udp(bytes(26))
FRAMES = 200


CONTAINER = """
{id: firewall, name: firewall, functional-capability: firewall, engine: container,
 function: firewall, cores: 1, memory-mb: 64, graph-may-set: [default, max_sessions, stateful]}
"""


def firewall(**configuration: Any) -> graphs.Json:
    document = graphs.chain("firewall", 1)
    document["forwarding-graph"]["VNFs"][0]["configuration"] = configuration
    return document


def process_of(bench: Bench) -> ProcessId | None:
    vnf, engine = bench.node.vnf("g", "v0")
    (name,) = engine.processes(vnf)
    return bench.node.supervisor.find(name)


@pytest.mark.parametrize("bench", ["headrace"], indirect=True)
@pytest.mark.parametrize("engine", ["process", pytest.param("container", marks=NEEDS_RUNC)])
async def test_a_configuration_is_reloaded_without_loss(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, rundir: Path, engine: str
) -> None:
    if engine == "container":
        file = rundir / "firewall.yaml"
        file.write_text(CONTAINER)
        give_template(bench.node, str(file))
    await bench.node.graphs.create("g", firewall(default="allow"))
    assert await bench.comes_to_pass(FRAME, through=True)
    before = process_of(bench)
    assert before is not None
    frames = [udp(b"%4d" % number + bytes(22)) for number in range(FRAMES)]

    async def send() -> None:
        for frame in frames:
            bench.p0.send(frame)
            await asyncio.sleep(0.002)

    sending = asyncio.create_task(send())
    for number in range(5):
        await bench.node.graphs.update("g", firewall(default="allow", max_sessions=1000 + number))
    await sending
    assert await bench.p1.receive(FRAMES) == frames
    # It has taken the settings: a stateless firewall knows no sessions that it would let pass.
    closed = firewall(default="deny", stateful=False)
    await bench.node.graphs.update("g", closed)
    assert await bench.comes_to_pass(FRAME, through=False)
    assert process_of(bench) == before
    assert bench.node.status(bench.node.graphs.record("g"))["status"] == "complete"

    # What cannot be reloaded is started anew; so is what is not the same but for its settings.
    async def refuse(*_: object, **__: object) -> None:
        raise control.ControlError("vnf", "no")

    monkeypatch.setattr("headrace.engines.process.reload", refuse)
    await bench.node.graphs.update("g", firewall(default="allow"))
    again = process_of(bench)
    assert again not in (None, before)
    monkeypatch.undo()
    assert await bench.comes_to_pass(FRAME, through=True)
    await bench.node.graphs.update("g", graphs.chain("pass", 1))
    assert process_of(bench) not in (None, before, again)
