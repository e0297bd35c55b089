# SPDX-License-Identifier: Apache-2.0
"""What goes by itself is seen and made again; no fault leaves a graph without an end."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import NetNS, netns

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.errors import DeployFailed
from headrace.node.restarts import Restarter
from tests.node import graphs
from tests.node.api import Api
from tests.node.conftest import StartNode
from tests.node.crashing import FIRST, SECOND, make_node
from tests.node.fakes import World


class Unexpected(Exception):
    """What nobody has thought of."""


def raising_at(job: str) -> Callable[[str, int], None]:
    def raise_(what: str, _: int) -> None:
        if what.startswith(job):
            raise Unexpected("the sky falls")

    return raise_


@pytest.mark.parametrize("job", ["create", "connect", "add g1", "start", "install"])
async def test_an_unexpected_failure_ends_in_error_and_can_be_retried(
    rundir: Path, job: str
) -> None:
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    world._before = raising_at(job)
    with pytest.raises(DeployFailed, match="Unexpected: the sky falls"):
        await node.graphs.create("g", FIRST)
    status = node.status(node.graphs.record("g"))
    assert status["status"] == "error" and "the sky falls" in status["message"]
    world._before = lambda what, number: None
    await node.graphs.update("g", FIRST)
    assert node.status(node.graphs.record("g"))["status"] == "complete"
    world._before = raising_at("stop")
    with pytest.raises(DeployFailed, match="the sky falls"):
        await node.graphs.delete("g")
    status = node.status(node.graphs.record("g"))
    assert status["status"] == "error" and "deletion failed" in status["message"]
    world._before = lambda what, number: None
    await node.graphs.delete("g")
    assert node.graphs.records() == []
    node.store.close()


async def test_an_unexpected_failure_of_an_update_and_of_its_undoing(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    await node.graphs.create("g", FIRST)
    world._before = raising_at("")
    with pytest.raises(DeployFailed):
        await node.graphs.update("g", SECOND)
    assert "undoing it failed" in node.status(node.graphs.record("g"))["message"]
    world._before = lambda what, number: None
    await node.graphs.update("g", SECOND)
    assert node.status(node.graphs.record("g"))["status"] == "complete"
    node.store.close()


async def test_a_failure_answers_with_its_text(api: Api) -> None:
    api.world._before = raising_at("install")
    answer = await api("PUT", "/NF-FG/g", FIRST)
    assert answer.status_code == 500 and "the sky falls" in answer.json()["message"]
    api.world._before = lambda what, number: None
    assert (await api("PUT", "/NF-FG/g", FIRST)).status_code == 201


async def test_the_watch_goes_on_after_every_fault(
    rundir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(rundir, World(rundir / "world.json"))
    await node.start()
    await node.graphs.create("a", graphs.document([], [], [graphs.vnf("v", "pass")]))
    await node.graphs.create("b", graphs.document([], [], [graphs.vnf("v", "pass")]))
    running = node.engines["process"].running
    seen: list[str] = []

    def look(vnf: Any) -> bool:
        seen.append(vnf.graph)
        if vnf.graph == "a":
            raise Unexpected("unreadable")
        return running(vnf)

    monkeypatch.setattr(node.engines["process"], "running", look)
    restarter = Restarter(node)
    await restarter.look()
    await restarter.look()
    assert seen == ["a", "b", "a", "b"]
    monkeypatch.setattr(node.graphs, "records", lambda: 1 / 0)
    await restarter.look()
    node.store.close()


async def test_a_port_that_goes_is_made_again_with_its_rules(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    await node.graphs.create("g", FIRST)
    before = world.read()
    world.change("somebody's hand", lambda held: held["ports"].pop("g1p0"))
    await Restarter(node).look()
    assert world.read() == before
    world.change("somebody's hand", lambda held: held["ports"].pop("p0"))
    await Restarter(node).look()
    assert world.read() == before
    node.store.close()


@pytest.mark.root
async def test_a_deleted_namespace_is_made_again(start_node: StartNode) -> None:
    node = await start_node(switch="linux-bridge")
    await node.graphs.create("g", graphs.chain("bridge", 1))
    (vnf,) = node.graphs.record("g").plan.vnfs()
    engine = node.engines["native"]
    assert engine.running(vnf)
    await asyncio.to_thread(netns.remove, vnf.name)
    status = node.status(node.graphs.record("g"))
    assert status["status"] == "error" and status["vnfs"][0]["engine"] is None
    # The kernel removes the namespace's devices, and the far ends with them, some time later.
    async with asyncio.timeout(30):
        while not await node.driver.missing([p.switch_port.name for p in vnf.ports]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await Restarter(node).look()
    assert engine.running(vnf)
    assert node.status(node.graphs.record("g"))["status"] == "complete"


@pytest.mark.root
async def test_a_port_moved_out_of_a_namespace_is_noticed(start_node: StartNode) -> None:
    node = await start_node(switch="linux-bridge")
    await node.graphs.create("g", graphs.chain("bridge", 1))
    (vnf,) = node.graphs.record("g").plan.vnfs()

    def remove() -> None:
        with NetNS(vnf.name) as inside:
            inside.link("del", index=inside.link_lookup(ifname="eth1")[0])

    await asyncio.to_thread(remove)
    assert node.status(node.graphs.record("g"))["status"] == "error"
    await Restarter(node).look()
    assert node.engines["native"].running(vnf)


@pytest.mark.root
@pytest.mark.dpdk
async def test_a_dead_database_server_is_started_again(start_node: StartNode) -> None:
    try:
        find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(str(error))
    node = await start_node(hugepages="off")
    await node.graphs.create("g", graphs.port_to_port())
    server, switch = (node.supervisor.find(name) for name in ("ovsdb-server", "switch"))
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        while server.alive():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert node.status(node.graphs.record("g"))["status"] == "error"
    await Restarter(node).look()
    assert node.supervisor.find("ovsdb-server") is not None
    assert node.supervisor.find("switch") == switch  # which forwards all the while
    assert node.status(node.graphs.record("g"))["status"] == "complete"
    await node.graphs.update("g", graphs.document([], []))
    await node.graphs.delete("g")
