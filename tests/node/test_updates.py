# SPDX-License-Identifier: Apache-2.0
"""An update brings every field of what runs to what is wanted; status tells what was found."""

import copy
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.base import EngineError, VnfPort, VnfSpec
from headrace.engines.process import ProcessEngine
from headrace.machine.processes import Supervisor
from headrace.node.config import from_dict
from headrace.node.deployment import drafts
from headrace.node.errors import GraphRefused
from headrace.node.node import Node
from headrace.node.planning.plan import make_plan
from headrace.switches.base import PortKind, PortSpec
from tests.node import graphs
from tests.node.crashing import SETTINGS
from tests.node.fakes import FakeDriver, FakeEngine, World
from tests.node.test_processes import SLEEP


async def node_of(rundir: Path, world: World, **more: Any) -> Node:
    engines = {name: FakeEngine(world) for name in ("process", "container")}
    node = Node(from_dict({**SETTINGS, **more}), rundir, FakeDriver(world), dict(engines))
    await node.start()
    return node


async def test_another_engine_takes_the_place_of_the_first(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = await node_of(rundir, world)
    await node.graphs.create("g", graphs.chain("pass", 1))
    world.changes.clear()
    await node.graphs.update("g", graphs.chain("pass-container", 1))
    assert world.changes == ["stop v0", "start v0"]
    (vnf,) = node.status(node.graphs.record("g"))["vnfs"]
    assert (vnf["engine"], vnf["running"]) == ("container", True)
    node.store.close()


async def test_status_is_what_runs(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = await node_of(rundir, world)
    await node.graphs.create("g", graphs.chain("pass", 1))

    def swap(held: dict[str, Any]) -> None:
        (name,) = held["vnfs"]
        held["vnfs"][name] |= {"engine": "native", "cores": [5]}

    world.change("somebody's hand", swap)
    status = node.status(node.graphs.record("g"))
    assert status["status"] == "error" and "v0 does not run as wanted" in status["message"]
    (vnf,) = status["vnfs"]
    assert (vnf["engine"], vnf["cores"], vnf["running"]) == ("native", [5], False)
    world.change("its end", lambda held: held["vnfs"].clear())
    (vnf,) = node.status(node.graphs.record("g"))["vnfs"]
    assert (vnf["engine"], vnf["running"]) == (None, False)
    node.store.close()


async def test_a_physical_port_that_is_configured_otherwise_is_made_anew(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = await node_of(rundir, world)
    await node.graphs.create("g", graphs.port_to_port())
    before = world.read()
    node.store.close()
    world = World(rundir / "world.json")
    ports = [{"name": "p0", "kind": "memif", "options": {"id": "7"}}, SETTINGS["ports"][1]]  # type: ignore[index]
    node = await node_of(rundir, world, ports=ports)
    lsi0 = node.lsi0
    # The rules know the port by its number, which the new one may not have.
    assert world.changes[:3] == [f"uninstall {lsi0} g/r1,g/r0", "remove p0", "add p0"]
    assert world.changes[3:] == [f"install {lsi0} g/r0,g/r1"]
    assert world.read() == before
    node.store.close()


async def test_a_graph_whose_physical_port_has_gone_is_an_error(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = await node_of(rundir, world)
    await node.graphs.create("g", graphs.port_to_port())
    node.store.close()
    node = await node_of(rundir, world, ports=SETTINGS["ports"][:1])  # type: ignore[index]
    status = node.status(node.graphs.record("g"))
    assert status["status"] == "error" and "p1" in status["message"]
    node.store.close()


async def test_a_change_is_planned_once(rundir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the check to the deployment, unless something has happened in between."""
    made: list[str] = []

    def noting(graph: Any, graph_id: str, *rest: Any) -> Any:
        made.append(graph_id)
        return make_plan(graph, graph_id, *rest)

    monkeypatch.setattr(drafts, "make_plan", noting)
    node = await node_of(rundir, World(rundir / "world.json"))
    first, second = graphs.shared(graphs.port_to_port()), graphs.shared(graphs.chain("pass", 1))
    await node.check("g", first)
    await node.graphs.create("g", first, node.graphs.draft("g", first))
    assert made == ["g"]
    await node.check("g", second)
    await node.check("g", second)
    assert made == ["g"] * 2
    await node.graphs.delete("g")
    await node.check("g", second)
    assert made == ["g"] * 3  # it would be a new graph
    await node.graphs.create("h", copy.deepcopy(second))
    with pytest.raises(GraphRefused, match="is in use"):
        await node.check("g", second)
    node.store.close()


def spec(**changes: Any) -> VnfSpec:
    port = VnfPort(
        id="0", switch_port=PortSpec(name="p", kind=PortKind.MEMIF, options={"socket": "/s"})
    )
    fields: dict[str, Any] = {
        "name": "v",
        "graph": "g",
        "vnf": "v",
        "template": "pass",
        "engine": "process",
        "function": "pass",
        "ports": (port,),
        "cores": (0,),
        "memory_mb": 64,
    }
    return VnfSpec(**{**fields, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "container"},
        {"function": "router"},
        {"cores": (1,)},
        {"memory_mb": 65},
        {"idle": "yield"},
        {"template": "other"},
        {"configuration": {"mac": "swap"}},
        {"ports": (VnfPort(id="0", switch_port=PortSpec(name="q", kind=PortKind.MEMIF)),)},
    ],
)
async def test_a_process_counts_as_running_only_if_every_field_is_its_own(
    rundir: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = Supervisor(rundir)
    engine = ProcessEngine(rundir, supervisor, hugepages=False)
    made_from: list[str] = []

    async def note(_: VnfSpec, __: object, digest: str) -> None:
        made_from.append(digest)
        raise EngineError("not started")

    monkeypatch.setattr(engine, "_launch", note)
    with pytest.raises(EngineError):
        await engine.ensure(spec())
    await supervisor.ensure("vnf-v", SLEEP, digest=made_from[0])
    try:
        assert engine.running(spec()) and not engine.running(spec(**change))
    finally:
        await supervisor.end("vnf-v")
