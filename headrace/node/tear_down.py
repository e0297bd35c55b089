# SPDX-License-Identifier: Apache-2.0
"""Ends all that a node has started and removes what it has made, without the node itself."""

import asyncio
import contextlib
from pathlib import Path

from headrace.engines.base import EngineError, engine_of
from headrace.engines.confinement import remove_remains
from headrace.engines.native import remove_namespaces
from headrace.machine.places import database
from headrace.machine.processes import Supervisor
from headrace.node.config import NodeConfig
from headrace.node.deployment.store import Store
from headrace.node.parts import parts_of, prefix_of
from headrace.node.planning.resources import VnfResource


async def tear_down(rundir: Path) -> list[str]:
    """Ends whatever a node of this directory has started, and removes all of it; for `down`.

    Works without a running node. Returns the names of the processes that were ended.
    """
    supervisor = Supervisor(rundir)
    ended = list(supervisor.all())
    if database(rundir).exists():
        await _remove_known(rundir, supervisor)
    # Whatever the store did not know of: VNFs, then the switch, then its database.
    order = sorted(
        supervisor.all(), key=lambda n: (not n.startswith("vnf-"), n.startswith("ovsdb-server"))
    )
    for name in order:
        await supervisor.end(name)
    remove_namespaces(prefix_of(rundir))
    await asyncio.to_thread(remove_remains, rundir)
    return ended


async def _remove_known(rundir: Path, supervisor: Supervisor) -> None:
    """Ends VNFs and switch through engines and driver, so that nothing stays in the kernel."""
    store = Store(database(rundir))
    try:
        text = store.meta("config")
        rows = [row for record in store.graphs() for row in store.steps(record.id)]
    finally:
        store.close()
    if text is None:
        return  # it never came as far as starting a switch
    config = NodeConfig.model_validate_json(text)
    driver, engines = parts_of(config, rundir, supervisor, hugepages=True)
    for row in rows:
        resource = row.resource
        if isinstance(resource, VnfResource):
            with contextlib.suppress(EngineError):  # its process is ended by id below
                await engine_of(engines, resource.vnf).stop(resource.vnf)
    await driver.stop()
