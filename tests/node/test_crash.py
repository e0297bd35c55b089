# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of the node before and after every single change: the next start finishes the work."""

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.places import database
from headrace.node.errors import Busy, DeployFailed, StoreFault
from headrace.node.node import Node
from headrace.node.restarts import Restarter
from headrace.switches.base import SwitchError
from tests.node import graphs
from tests.node.crashing import FIRST, NODE_CHANGES, SECOND, make_node, run_killed
from tests.node.fakes import World


def world_of(rundir: Path) -> dict[str, Any]:
    """The fake world."""
    held = World(rundir / "world.json").read()
    return {**held, "lsis": sorted(held["lsis"])}


def assert_only_lsi0(rundir: Path) -> None:
    held = world_of(rundir)
    assert len(held["lsis"]) == 1 and held["lsis"][0].endswith("-0")
    assert set(held["ports"]) == {"p0", "p1"}
    assert held["rules"] == {} and held["vnfs"] == {}


async def recovered(rundir: Path, adopts: bool = True) -> Node:
    node = make_node(rundir, World(rundir / "world.json"), adopts)
    await node.start()
    return node


@pytest.mark.parametrize("job", ["create", "update", "delete"])
def test_killed_at_every_change(rundir: Path, job: str) -> None:
    place, snapshot = rundir / "node", rundir / "snapshot"
    place.mkdir()
    if job != "create":
        run_killed(place, "create")
    shutil.copytree(place, snapshot)
    count = run_killed(place, job)
    undisturbed = world_of(place)
    wanted = {"create": [FIRST], "update": [SECOND], "delete": []}[job]
    assert count >= 5

    async def check(begun: bool) -> None:
        node = await recovered(place)
        records = node.graphs.records()
        assert [node.status(record)["status"] for record in records] == ["complete"] * len(records)
        assert [record.document for record in records] == (wanted if begun else [])
        if begun:
            assert world_of(place) == undisturbed
        for record in records:
            await node.graphs.delete(record.id)
        assert_only_lsi0(place)  # nothing was there that the store did not know
        node.store.close()

    for side in ("before", "after"):
        for at in range(count):
            shutil.rmtree(place)
            shutil.copytree(snapshot, place)
            run_killed(place, job, side, at)
            asyncio.run(check(begun=job != "create" or at >= NODE_CHANGES))


async def test_lost_switch_is_filled_again(rundir: Path) -> None:
    first = await recovered(rundir)
    await first.graphs.create("g", FIRST)
    before = world_of(rundir)
    first.store.close()
    (rundir / "world.json").unlink()
    node = await recovered(rundir, adopts=False)
    assert world_of(rundir) == before
    node.store.close()


async def test_failure_undoes_everything(rundir: Path) -> None:
    """A step that the switch refuses, for each step: nothing is left, the graph is not listed."""
    world = World(rundir / "reference" / "world.json")
    reference = make_node(rundir / "reference", world)
    await reference.start()
    await reference.graphs.create("g", FIRST)
    reference.store.close()
    for at in range(NODE_CHANGES, len(world.changes)):
        victim = rundir / f"fails{at}"

        def fail(what: str, number: int, at: int = at) -> None:
            if number == at:
                raise SwitchError(f"no {what} today")

        node = make_node(victim, World(victim / "world.json", before=fail))
        await node.start()
        with pytest.raises(DeployFailed, match="today"):
            await node.graphs.create("g", FIRST)
        node.graphs.forget_failed("g")
        assert_only_lsi0(victim)
        assert node.graphs.records() == [] and node.store.steps("g") == []
        node.store.close()


async def test_failed_update_goes_back(rundir: Path) -> None:
    armed = False

    def fail(what: str, number: int) -> None:
        if armed and what.startswith("install") and "/r4" in what:
            raise SwitchError("table full")

    node = make_node(rundir, World(rundir / "world.json", before=fail))
    await node.start()
    await node.graphs.create("g", FIRST)
    before = world_of(rundir)
    armed = True
    with pytest.raises(DeployFailed, match="table full"):
        await node.graphs.update("g", SECOND)
    assert world_of(rundir) == before
    record = node.graphs.record("g")
    assert record.document == FIRST
    status = node.status(record)
    assert status["status"] == "complete" and "table full" in status["message"]


async def test_update_touches_only_what_changes(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    await node.graphs.create("g", FIRST)
    world.changes.clear()
    await node.graphs.update("g", FIRST)
    assert world.changes == []
    changed = graphs.chain("pass", 1)
    rules = changed["forwarding-graph"]["big-switch"]["flow-rules"]
    rules[0]["match"]["dest_mac"] = "02:00:00:00:00:01"
    await node.graphs.update("g", changed)
    lsi0 = node.lsi0
    assert world.changes == [f"install {lsi0} g/r0", f"uninstall {lsi0} g/r0"]
    node.store.close()


async def test_delete_while_deploying(rundir: Path) -> None:
    node = make_node(rundir, World(rundir / "world.json"))
    await node.start()
    creation = node.graphs.create("g", FIRST)
    deletion = node.graphs.delete("g")
    await asyncio.gather(creation, deletion)
    assert node.graphs.records() == []
    assert_only_lsi0(rundir)
    node.store.close()


async def test_what_an_adopted_switch_holds_is_not_made_again(rundir: Path) -> None:
    """As when its database alone has ended: counters of rules go on."""
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    await node.graphs.create("g", FIRST)
    made = list(world.changes)
    node.graphs.doubt()
    assert node.graphs.recovering == 1
    with pytest.raises(Busy):
        node.graphs.update("g", SECOND)
    await node.graphs.recover(adopted=True)
    assert world.changes == made and node.graphs.recovering == 0
    assert node.status(node.graphs.record("g"))["status"] == "complete"
    # A node that was killed then cannot know, and makes all of it again.
    node.graphs.doubt()
    node.store.close()
    world.changes.clear()
    again = await recovered(rundir)
    assert again.status(again.graphs.record("g"))["status"] == "complete"
    world_again = again.driver.world  # type: ignore[attr-defined]
    assert any(change.startswith("install") for change in world_again.changes)
    again.store.close()


async def test_a_database_that_cannot_be_written_changes_nothing_and_work_is_taken_up(
    rundir: Path,
) -> None:
    node = make_node(rundir, World(rundir / "world.json"))
    await node.start()
    await node.graphs.create("g", FIRST)
    before = world_of(rundir)
    other = sqlite3.connect(database(rundir), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFault, match="database is locked; nothing was changed"):
        node.graphs.update("g", SECOND)
    assert world_of(rundir) == before and node.graphs.record("g").document == FIRST
    other.execute("ROLLBACK")
    task = node.graphs.update("g", SECOND)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFault):
        await task
    other.close()
    assert [record.id for record in node.graphs.unfinished()] == ["g"]
    await Restarter(node).look()
    assert node.status(node.graphs.record("g"))["status"] == "complete"
    assert node.graphs.record("g").document == SECOND
    node.store.close()
