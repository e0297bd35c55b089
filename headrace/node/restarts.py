# SPDX-License-Identifier: Apache-2.0
"""Restarts a switch or a VNF that has ended by itself.

It checks once a second. What fails again right after its start is tried less and less often, down
to once a minute, so that a VNF that cannot run does not take the machine's CPU time.
"""

import asyncio
import logging
import time

from headrace.engines.base import EngineError
from headrace.node.deployment.store import GraphState
from headrace.node.errors import NodeError
from headrace.node.node import Node
from headrace.switches.base import SwitchError

log = logging.getLogger("headrace.node")

_LOOK_EVERY_S = 1.0
_LONGEST_WAIT_S = 60.0
_STEADY_AFTER_S = 60.0


class Backoff:
    """When something may be tried again: 1 s after a failure, then twice that, up to a minute."""

    def __init__(self) -> None:
        self._wait_s: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def may_try(self, name: str, now: float) -> bool:
        """Whether `name` may be tried at `now` (seconds); if so, the try is counted."""
        last = self._last.get(name)
        if last is not None:
            if now - last > _STEADY_AFTER_S + self._wait_s[name]:
                self._wait_s[name] = 0.0  # it has run for a while: a new failure
            elif now - last < self._wait_s[name]:
                return False
        self._last[name] = now
        self._wait_s[name] = min(max(1.0, 2 * self._wait_s.get(name, 0.0)), _LONGEST_WAIT_S)
        return True


class Restarter:
    """Watches one node; `run` until cancelled."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._backoff = Backoff()

    async def run(self) -> None:
        """Checks once a second."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self.look()
            except (SwitchError, EngineError, NodeError) as error:
                log.error("%s", error)

    async def look(self) -> None:
        """Starts again whatever has ended."""
        node = self._node
        for name in node.driver.processes():
            if node.supervisor.find(name) is None and self._may_try(name):
                log.error("%s has ended; starting it again", name)
                await node.fill_switch()
        for record in node.graphs.records():
            if record.state is not GraphState.RUNNING:
                continue
            for vnf in record.plan.vnfs():
                if not node.engines[vnf.engine].running(vnf) and self._may_try(vnf.name):
                    log.error("graph %s: VNF %s has ended; starting it again", record.id, vnf.vnf)
                    await node.graphs.repair(record.id)

    def _may_try(self, name: str) -> bool:
        return self._backoff.may_try(name, time.monotonic())
