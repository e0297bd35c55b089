# SPDX-License-Identifier: Apache-2.0
"""Nodes on a fake world, and a child process with such a node that is killed on the way."""

import asyncio
import os
import signal
import traceback
from pathlib import Path

from headrace.node.config import from_dict
from headrace.node.node import Node
from tests.node import graphs
from tests.node.fakes import FakeDriver, FakeEngine, World

FIRST = graphs.chain("pass", 1)
SECOND = graphs.chain("pass", 2)
SETTINGS = {
    "oversubscribe": True,
    "ports": [{"name": name, "kind": "memif"} for name in ("p0", "p1")],
}
NODE_CHANGES = 3  # LSI-0, p0, p1: made by the start of a node, before any job


def make_node(rundir: Path, world: World, adopts: bool = True) -> Node:
    """A node with the fake world."""
    driver = FakeDriver(world, adopts)
    return Node(from_dict(SETTINGS), rundir, driver, {"process": FakeEngine(world)})


async def _do(rundir: Path, job: str, world: World) -> None:
    node = make_node(rundir, world)
    await node.start()
    if job == "create":
        await node.graphs.create("g", FIRST)
    elif job == "update":
        await node.graphs.update("g", SECOND)
    else:
        await node.graphs.delete("g")


def run_killed(rundir: Path, job: str, side: str = "before", at: int = -1) -> int:
    """Does `job` in a child that dies by SIGKILL before or after (`side`) change number `at`.

    Returns the number of changes that it made; raises if it ended in another way than it should.
    """
    rundir.mkdir(exist_ok=True)
    report = rundir / "changes"
    child = os.fork()
    if child == 0:

        def kill(what: str, number: int) -> None:
            if number == at:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            hooks = {side: kill}
            world = World(rundir / "world.json", **hooks)
            asyncio.run(_do(rundir, job, world))
            report.write_text(str(len(world.changes)))
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    expected = 0 if at < 0 else -signal.SIGKILL
    if os.waitstatus_to_exitcode(status) != expected:
        raise AssertionError(f"the child ended with {os.waitstatus_to_exitcode(status)}")
    return int(report.read_text()) if at < 0 else 0
