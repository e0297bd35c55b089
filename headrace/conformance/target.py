# SPDX-License-Identifier: Apache-2.0
"""What the tests have before them: the node, wires to its ports, its host, the layer above it.

A part that is missing makes the tests that need it not applicable, with the reason.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from headrace.conformance.findings import NotApplicable
from headrace.conformance.host import Host
from headrace.conformance.node import Node
from headrace.conformance.packets import Frames, Loads
from headrace.conformance.upper_layer import UpperLayer


class Unavailable(Exception):
    """A node can't be had; the text is the reason."""


@dataclass(frozen=True)
class Settings:
    """How long things may take, and how much is tried.

    Attributes:
        duration_s: of one load of the performance tests.
        notice_s: until the layer above has to be told.
        pace: of the intervals between requests, by which they are multiplied.
        poll_s: between two looks at something that may lag.
        scale_s: until a VNF's resources have to follow its load.
        rules: the most flow rules that Test 25 sets up.
        graphs: the most NF-FGs that Test 26 deploys.
        loads: shares of the saturated rate at which the performance tests measure.
        chains: numbers of VNFs in a row (scalability scenarios).
        passing, computing, remembering: ids of the templates of VNFs that pass packets: as they
            are, at a cost of computation, at a cost of memory.
    """

    duration_s: float = 0.1
    notice_s: float = 5.0
    pace: float = 1.0
    poll_s: float = 0.1
    scale_s: float = 20.0
    rules: int = 1000
    graphs: int = 50
    loads: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
    chains: tuple[int, ...] = (1, 2)
    passing: str = "pass"
    computing: str = "cpu"
    remembering: str = "memory"


class Others(Protocol):
    """Further nodes that can be started beside the one under test."""

    def switches(self) -> list[str]:
        """The switches that a node can be started with on this machine, the own one first."""
        ...

    def with_switch(self, switch: str) -> AbstractAsyncContextManager["Target"]:
        """Within it such a node runs."""
        ...

    def placed_by(self, policy: str) -> AbstractAsyncContextManager["Target"]:
        """Within it a node runs whose VNFs are placed by a policy."""
        ...


@dataclass
class Target:
    """A node and what is cabled to it.

    Attributes:
        frames: single frames at its ports; None: no port is cabled to the tests.
        loads: loads at two of its ports; None: there are none, or for the reason `no_loads`.
        host: the machine it runs on, if that is this one.
        others: nodes that can be started beside it; None: it is given, not started.
        given_templates: ids of templates that are to be tested besides the node's own choice.
    """

    node: Node
    upper: UpperLayer
    settings: Settings = field(default_factory=Settings)
    frames: Frames | None = None
    loads: Loads | None = None
    no_loads: str = ""
    host: Host | None = None
    others: Others | None = None
    given_templates: tuple[str, ...] = ()

    def need_host(self) -> Host:
        """The node's host.

        Raises:
            NotApplicable: it is another machine.
        """
        if self.host is None:
            raise NotApplicable("the node runs on another machine: run this on the node's host")
        return self.host

    def need_frames(self, ports: int = 2) -> tuple[Frames, tuple[str, ...]]:
        """Frames at that many ports, and the ports' names.

        Raises:
            NotApplicable: fewer are cabled to the tests.
        """
        if self.frames is None or len(self.frames.ports) < ports:
            have = 0 if self.frames is None else len(self.frames.ports)
            raise NotApplicable(
                f"{ports} of the node's ports must be cabled to interfaces of this machine, "
                f"{have} are (--wire PORT=INTERFACE)"
            )
        return self.frames, self.frames.ports[:ports]

    def need_loads(self) -> Loads:
        """A generator at two ports.

        Raises:
            NotApplicable: none can be attached.
        """
        if self.loads is None:
            why = f": {self.no_loads}" if self.no_loads else " (--wire PORT=INTERFACE)"
            raise NotApplicable(f"no generator can be attached to two of the node's ports{why}")
        return self.loads

    async def two_ports(self) -> tuple[str, str]:
        """Two of the node's ports, cabled or not: enough to deploy graphs on.

        Raises:
            NotApplicable: the node does not say what ports it has.
        """
        if self.frames is not None and len(self.frames.ports) >= 2:
            return self.frames.ports[0], self.frames.ports[1]
        if self.loads is not None:
            return self.loads.ports
        listed = (await self.node.rest.get("/node/ports")).content
        names = [str(row.get("name")) for row in listed] if isinstance(listed, list) else []
        names = names or await self.node.member("/conf", "unPhisicalPorts") or []
        if len(names) < 2:
            raise NotApplicable("the node does not say what ports it has (--wire PORT=INTERFACE)")
        return names[0], names[1]

    async def clear(self) -> None:
        """Tears down what a test has left on the node."""
        await self.node.clear()


@asynccontextmanager
async def each_of(target: Target, switch: str) -> AsyncIterator[Target]:
    """The target itself if it runs that switch, else one that is started for it."""
    own = await target.node.member("/node", "switch", "name")
    if own == switch or target.others is None:
        yield target
    else:
        async with target.others.with_switch(switch) as other:
            yield other
