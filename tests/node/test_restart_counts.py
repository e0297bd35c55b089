# SPDX-License-Identifier: Apache-2.0
"""How often VNFs were restarted, and which stay ended, outlives the node."""

from pathlib import Path

import pytest

from headrace.engines.base import VnfSpec
from headrace.engines.supervision import RestartPolicy
from headrace.node.config import from_dict
from headrace.node.deployment.store import Store
from headrace.node.node import Node
from headrace.node.restarts import Restarter
from headrace.node.supervision import Supervision
from tests.node import graphs
from tests.node.crashing import SETTINGS
from tests.node.fakes import FakeDriver, FakeEngine, World


def vnf(graph: str = "g", **policy: object) -> VnfSpec:
    return VnfSpec(
        name="n",
        graph=graph,
        vnf="v0",
        template="t",
        engine="process",
        function="pass",
        ports=(),
        restart=RestartPolicy.model_validate(policy),
    )


def test_counts_and_waiting_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.time", lambda: 5_000_000.0 + now)
    store = Store(tmp_path / "node.sqlite")
    one = vnf(backoff_s=4, limit=2)
    assert Supervision(store).may_restart(one, 1, now)
    store.close()

    # Another process of the node, whose clock begins elsewhere, two seconds later.
    now = 2.0
    monkeypatch.setattr("time.time", lambda: 5_001_000.0 + now)
    store = Store(tmp_path / "node.sqlite")
    again = Supervision(store)
    assert (again.state(one).restarts, again.state(one).streak) == (1, 1)
    assert again.state(one).last == pytest.approx(0.0)
    assert not again.may_restart(one, 1, 3.9)  # it still waits
    assert again.may_restart(one, 1, 4.1)
    assert not again.may_restart(one, 1, 20.0)
    assert "restarted 2 times" in Supervision(store).state(one).held
    other = vnf("h")
    assert again.may_restart(other, 1, 4.1)
    again.forget("g")
    assert Supervision(store).state(one).restarts == 0
    assert Supervision(store).state(other).restarts == 1
    store.close()


async def test_what_stays_ended_stays_so_when_the_node_starts_again(rundir: Path) -> None:
    file = rundir / "once.yaml"
    file.write_text(
        "{id: once, name: once, functional-capability: once, engine: process, function: pass, "
        "cores: 1, memory-mb: 1, restart: {policy: never}}"
    )
    world = World(rundir / "world.json")

    async def start() -> Node:
        config = from_dict({**SETTINGS, "templates": [str(file)]})
        node = Node(config, rundir, FakeDriver(world), {"process": FakeEngine(world)})
        await node.start()
        return node

    node = await start()
    await node.graphs.create("g", graphs.chain("once", 1))
    world.change("it ends", lambda held: held["vnfs"].clear())
    await Restarter(node).look()
    message = node.status(node.graphs.record("g"))["message"]
    assert "its restart policy is never" in message
    await node.close()

    node = await start()
    await Restarter(node).look()
    assert world.read()["vnfs"] == {}
    assert node.status(node.graphs.record("g"))["message"] == message
    await node.graphs.update("g", graphs.chain("once", 1))  # asked for again
    assert len(world.read()["vnfs"]) == 1
    await node.close()
