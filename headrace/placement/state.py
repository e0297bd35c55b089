# SPDX-License-Identifier: Apache-2.0
"""What a plan has taken of each server, and what of a chain still fits where.

`State` is changed by whole chains: `put` and `remove` are exact inverses, so any sequence of them
leaves `free` as the assignment says. `runs` of a chain is the one place that knows what a chain
takes; the searches only ask which servers could hold the VNFs from i to j (`fitting`).
"""

from collections.abc import Sequence

import numpy as np

from headrace.placement.problem import UNPLACED, Bools, Floats, Ints, Problem

Runs = list[tuple[int, int, int]]
"""(server, first VNF, last VNF + 1)."""


class State:
    """A partial plan.

    Attributes:
        where: V, the server of each VNF or UNPLACED.
        free: S x 4, what is left.
        vnfs: S, VNFs on each.
        down: S, servers that must not be used.
    """

    def __init__(self, problem: Problem) -> None:
        """Nothing is placed."""
        self.problem = problem
        self.where: Ints = np.full(len(problem.functions), UNPLACED, dtype=np.int64)
        self.free: Ints = problem.capacity.copy()
        self.vnfs: Ints = np.zeros(len(problem.servers), dtype=np.int64)
        self.down: Bools = np.zeros(len(problem.servers), dtype=bool)

    def copy(self) -> "State":
        """An independent copy."""
        other = State.__new__(State)
        other.problem = self.problem
        other.where = self.where.copy()
        other.free = self.free.copy()
        other.vnfs = self.vnfs.copy()
        other.down = self.down.copy()
        return other

    @property
    def used(self) -> Bools:
        """Servers that have a VNF."""
        return self.vnfs > 0

    def placed(self, chain: int) -> bool:
        """Whether all VNFs of a chain have a server."""
        first, last = self.problem.first[chain], self.problem.first[chain + 1]
        return bool((self.where[first:last] != UNPLACED).all())

    def runs(self, chain: int, servers: Sequence[int]) -> Runs:
        """The runs of a chain whose VNFs are on `servers`."""
        start = int(self.problem.first[chain])
        found: Runs = []
        for place, server in enumerate(servers, start):
            if found and found[-1][0] == server:
                found[-1] = (server, found[-1][1], place + 1)
            else:
                found.append((int(server), place, place + 1))
        return found

    def needs(self, chain: int, first: int, last: int) -> Ints:
        """T x 4: what a run of the VNFs from `first` to before `last` takes by type."""
        problem = self.problem
        needs = np.empty((len(problem.type_names), 4), dtype=np.int64)
        needs[:, :2] = problem.need[first:last].sum(axis=0)
        needs[:, 2] = problem.visit[first:last].sum(axis=0) + problem.entry[chain]
        needs[:, 3] = problem.rate[chain]
        return needs

    def put(self, chain: int, servers: Sequence[int]) -> None:
        """Places a chain that has no place; whether it fits is the caller's to know."""
        for server, first, last in self.runs(chain, servers):
            kind = self.problem.type_of[server]
            self.free[server] -= self.needs(chain, first, last)[kind]
            self.vnfs[server] += last - first
            self.where[first:last] = server

    def remove(self, chain: int) -> list[int]:
        """Takes a placed chain out; returns where its VNFs were."""
        first, last = int(self.problem.first[chain]), int(self.problem.first[chain + 1])
        servers: list[int] = self.where[first:last].tolist()
        for server, start, end in self.runs(chain, servers):
            kind = self.problem.type_of[server]
            self.free[server] += self.needs(chain, start, end)[kind]
            self.vnfs[server] -= end - start
        self.where[first:last] = UNPLACED
        return servers

    def forbidden(self, vnf: int, beside: dict[int, int]) -> Bools | None:
        """Servers that a group forbids a VNF; None: none.

        `beside` has the servers of VNFs that are about to be placed, by VNF.
        """
        problem = self.problem
        groups = problem.groups_of.get(vnf)
        if not groups:
            return None
        mask = np.zeros(len(problem.servers), dtype=bool)
        for group in groups:
            for other in problem.groups[group]:
                server = beside.get(other, int(self.where[other]))
                if other == vnf or server == UNPLACED:
                    continue
                if problem.by_rack[group]:
                    mask |= problem.rack_of == problem.rack_of[server]
                else:
                    mask[server] = True
        return mask

    def latency(self, chain: int, servers: Sequence[int]) -> int:
        """Nanoseconds of a chain on `servers`: VNFs, visits, entries and ways between servers."""
        problem = self.problem
        first, last = problem.first[chain], problem.first[chain + 1]
        hops = problem.hop[problem.type_of[np.asarray(servers)]]
        runs = self.runs(chain, servers)
        entries = sum(int(problem.hop[problem.type_of[server]]) for server, _, _ in runs)
        between = (len(runs) - 1) * problem.network
        return int(problem.latency[first:last].sum() + hops.sum()) + entries + between

    def in_time(self, chain: int, servers: Sequence[int]) -> bool:
        """Whether a chain on `servers` keeps its latency."""
        budget = int(self.problem.budget[chain])
        return budget < 0 or self.latency(chain, servers) <= budget

    def fits(self, chain: int, servers: Sequence[int]) -> bool:
        """Whether a chain that has no place can have this one, by every constraint."""
        problem = self.problem
        taken: dict[int, Ints] = {}
        for server, first, last in self.runs(chain, servers):
            needs = self.needs(chain, first, last)[problem.type_of[server]]
            taken[server] = taken.get(server, np.zeros(4, dtype=np.int64)) + needs
        if any((self.free[server] < needs).any() for server, needs in taken.items()):
            return False
        if any(self.down[server] for server in taken):
            return False
        mask = problem.allowed.get(chain)
        if mask is not None and not all(mask[server] for server in taken):
            return False
        beside = dict(zip(problem.vnfs(chain), servers, strict=True))
        for vnf, server in beside.items():
            forbidden = self.forbidden(vnf, beside)
            if forbidden is not None and forbidden[server]:
                return False
        return self.in_time(chain, servers)

    def cost(self, more: Bools | None = None) -> float:
        """Price of the used servers (and `more` of them) and of what is used of each."""
        problem = self.problem
        counted = self.used if more is None else self.used | more
        used = (problem.capacity - self.free) * problem.unit_price[problem.type_of]
        return float(problem.price[problem.type_of][counted].sum() + used.sum())


def shares(problem: Problem) -> Floats:
    """S x 4: what one unit of a resource is of each server (0 where it has none of it)."""
    capacity = problem.capacity.astype(np.float64)
    return np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)
