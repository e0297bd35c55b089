# SPDX-License-Identifier: Apache-2.0
"""What the node has and what is taken: cores and memory."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.engines.base import VnfSpec
from headrace.node.config import NodeConfig
from headrace.node.errors import GraphRefused


@dataclass(frozen=True)
class CoreGrant:
    """The cores a VNF gets, and what it does there on an empty round."""

    cores: tuple[int, ...]
    idle: str


@dataclass(frozen=True)
class Reserved:
    """Cores and memory that others than VNFs have, under a name."""

    name: str
    cores: tuple[int, ...]
    memory_mb: int


class Inventory:
    """Counts the polling users of each core and the memory; grants more as long as there is any.

    A core of role `vnf` carries one polling VNF. The control programs sleep when idle, so they may
    share a core with a VNF, which then sleeps on empty polls, too. More pollers on one core than
    one (a second VNF, or the switch's worker) only if the node is configured with `oversubscribe:
    true`; what is measured then is marked so, and all pollers there sleep when idle: one that spins
    takes time from those that have packets, and one that yields gives the core only to sessions of
    its own nice value (headrace/machine/autogroup.py). node.yaml's `idle` says otherwise.
    """

    def __init__(
        self,
        config: NodeConfig,
        switch_polls: bool,
        vnfs: Iterable[VnfSpec],
        reserved: Sequence[Reserved] = (),
    ) -> None:
        self._config = config
        self._reserved = {core: one.name for one in reserved for core in one.cores}
        self._polling: Counter[int] = Counter()
        self._memory_mb = config.switch_memory_mb if switch_polls else 0
        if switch_polls:
            self._polling.update(config.cores.switch)
        for vnf in vnfs:
            self._take(vnf.cores, vnf.memory_mb)
        for one in reserved:
            self._take(one.cores, one.memory_mb)

    def _take(self, cores: Iterable[int], memory_mb: int) -> None:
        self._polling.update(cores)
        self._memory_mb += memory_mb

    @property
    def oversubscribed(self) -> list[int]:
        """The cores with more than one poller."""
        return sorted(core for core, users in self._polling.items() if users > 1)

    @property
    def free_mb(self) -> int:
        """The memory that nobody has taken."""
        return max(0, self._config.memory_mb - self._memory_mb)

    def pollers(self, core: int) -> int:
        """How many pollers a core has."""
        return self._polling[core]

    def grant(
        self, place: str, cores: int, memory_mb: int, wanted: tuple[int, ...] = ()
    ) -> CoreGrant:
        """Takes `cores` cores and `memory_mb` for the VNF at `place` of the document.

        It takes the cores `wanted`, or those with the fewest pollers.

        Raises:
            GraphRefused: there is not enough; says how much there is and what helps.
        """
        free_mb = self._config.memory_mb - self._memory_mb
        if memory_mb > free_mb:
            raise GraphRefused(
                "resources",
                f"{place}: needs {memory_mb} MB of memory, {max(free_mb, 0)} MB are left of "
                f"{self._config.memory_mb}; delete a graph or raise memory_mb in node.yaml",
            )
        pool = self._config.cores.vnf
        by_use = sorted(pool, key=lambda core: (self._polling[core], pool.index(core)))
        chosen = list(wanted) or by_use[:cores]
        shared = [core for core in chosen if self._polling[core]]
        if len(chosen) < cores or (shared and not self._config.oversubscribe):
            free = sum(1 for core in pool if not self._polling[core])
            raise GraphRefused(
                "resources",
                f"{place}: needs {cores} free core{'s' if cores > 1 else ''}; of the VNF cores "
                f"{pool} {free or 'none'} {'is' if free < 2 else 'are'} free; delete a graph, add "
                f"cores.vnf in node.yaml, or accept shared cores with oversubscribe: true",
            )
        self._take(chosen, memory_mb)
        return CoreGrant(tuple(chosen), self._idle_on(chosen))

    def _idle_on(self, cores: Iterable[int]) -> str:
        if self._config.idle != "auto":
            return self._config.idle
        alone = not self._config.oversubscribe and not set(cores) & set(self._config.cores.control)
        return "poll" if alone else "sleep"

    def report(self) -> dict[str, Any]:
        """Cores and memory with their use, for GET /node/resources."""
        roles = self._config.cores
        every = sorted({*roles.control, *roles.switch, *roles.vnf})
        free = self._config.memory_mb - self._memory_mb
        return {
            "cores": [
                {
                    "core": core,
                    "roles": [
                        role
                        for role in ("control", "switch", "vnf")
                        if core in getattr(roles, role)
                    ],
                    "polling": self._polling[core],
                    "oversubscribed": self._polling[core] > 1,
                    "reserved_by": self._reserved.get(core),
                }
                for core in every
            ],
            "oversubscribed": bool(self.oversubscribed),
            "oversubscribe_allowed": self._config.oversubscribe,
            "memory_mb": {
                "total": self._config.memory_mb,
                "used": self._memory_mb,
                "free": max(free, 0),
            },
        }
