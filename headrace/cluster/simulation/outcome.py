# SPDX-License-Identifier: Apache-2.0
"""What a simulation found."""

from dataclasses import dataclass, field

PROBES = ("GET /ready", "GET /node/graphs")
"""Calls that come whether anything happens or not."""


@dataclass
class Convergence:
    """A rack's failure.

    Attributes:
        graphs: with a part there that can move (no end pinned there); vnfs: theirs there.
        took_s: until all of these are whole again, on nodes that work, or gone.
        moved: VNFs that moved until the rack returned; moved_at_return: after that.
    """

    rack: str
    began: float
    graphs: int
    vnfs: int
    migrations_before: int
    took_s: float | None = None
    moved: int | None = None
    moved_at_return: int | None = None
    waiting: set[str] = field(default_factory=set)


@dataclass
class Outcome:
    """Figures; seconds of simulated time but `place_s` and `cpu_s`, which are CPU time.

    Attributes:
        place_s: of the controller for each graph that comes: placing and cutting it.
        deploy_s: from a graph's arrival until all its parts are deployed.
        never: graphs that went before they were deployed once.
        calls: of the nodes' API, by kind; series: (time, graphs wanted, whole, calls so far).
        left_parts, left_vnis: after all graphs have gone.
    """

    graphs: int = 0
    place_s: list[float] = field(default_factory=list)
    deploy_s: list[float] = field(default_factory=list)
    unplaced_at_first: int = 0
    never: int = 0
    migrations: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)
    outages: list[Convergence] = field(default_factory=list)
    series: list[tuple[float, int, int, int]] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    left_parts: int = 0
    left_vnis: int = 0

    def count(self, kind: str) -> None:
        """One more call."""
        self.calls[kind] = self.calls.get(kind, 0) + 1

    @property
    def calls_total(self) -> int:
        """Calls that deploy, remove or look, without probes."""
        return sum(count for kind, count in self.calls.items() if kind not in PROBES)
