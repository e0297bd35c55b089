# SPDX-License-Identifier: Apache-2.0
"""Puts the faulty node before the tests, without a socket in between."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx

from headrace.conformance.dialects import DIALECTS
from headrace.conformance.host import Host
from headrace.conformance.node import Node
from headrace.conformance.rest import Rest
from headrace.conformance.target import Settings, Target
from headrace.conformance.upper_layer import UpperLayer
from tests.conformance_node.node import FaultyNode
from tests.conformance_node.packets import SimulatedFrames, SimulatedLoads

SETTINGS = Settings(notice_s=0.15, scale_s=0.3, rules=300, graphs=20, poll_s=0.002, pace=0.0,
                    chains=(1,), loads=(0.05, 0.5, 1.0))  # fmt: skip


class FaultyBed:
    """The node with one fault, or none, for all tests."""

    def __init__(self, fault: int | None) -> None:
        self._fault = fault

    @property
    def is_one(self) -> bool:
        """See runner.Bed."""
        return True

    @asynccontextmanager
    async def target(self, loaded: bool) -> AsyncIterator[Target]:
        """See runner.Bed."""
        async with self.placed_by("first-fit") as target:
            yield target

    def switches(self) -> list[str]:
        """See target.Others."""
        return ["simulated"]

    def with_switch(self, switch: str) -> AbstractAsyncContextManager[Target]:
        """See target.Others."""
        raise AssertionError(f"the node has one switch, no {switch}")

    @asynccontextmanager
    async def placed_by(self, policy: str) -> AsyncIterator[Target]:
        """See target.Others."""
        faulty = FaultyNode(self._fault, policy=policy)
        rest = Rest("http://node", transport=httpx.ASGITransport(app=faulty.app))
        upper = UpperLayer(rest, ("127.0.0.1", 0))
        await upper.open()
        faulty.upper = ("127.0.0.1", upper.port)
        faulty.tell()
        node = Node(rest, DIALECTS["headrace"], patience_s=1.0)
        try:
            yield Target(node, upper, SETTINGS, frames=SimulatedFrames(faulty),
                         loads=SimulatedLoads(faulty), host=Host(), others=self)  # fmt: skip
        finally:
            await faulty.settle()
            await node.close()
            await upper.close()
