# SPDX-License-Identifier: Apache-2.0
"""Packs chains into a given set of servers by keeping the load of all resources even.

Filling servers one by one takes the large chains first, so the first servers run out of what large
chains need and the last of what small ones need: a tenth of all capacity is left over. Here the set
of servers is fixed, and each chain, the largest first, goes where the potential

    sum over servers and resources of exp(BETA x load / capacity)

grows least (exponential weights, as in online vector scheduling, Azar et al. 2013). Large chains
are spread evenly, small ones fill gaps, each server ends with the mixture of all demands. The
smallest set that takes everything is found by bisection (`solver.py`).
"""

from collections.abc import Sequence

import numpy as np

from headrace.placement import search
from headrace.placement.problem import UNPLACED, Bools, Floats, Ints, Problem
from headrace.placement.state import State

BETA = 12.0


def whole_needs(problem: Problem) -> Ints:
    """C x T x 4: what each chain takes as one run."""
    starts = problem.first[:-1]
    needs = np.empty((len(problem.chains), len(problem.type_names), 4), dtype=np.int64)
    if not problem.chains:
        return needs
    needs[:, :, :2] = np.add.reduceat(problem.need, starts, axis=0)
    needs[:, :, 2] = np.add.reduceat(problem.visit, starts, axis=0) + problem.entry
    needs[:, :, 3] = problem.rate[:, None]
    return needs


def constrained(problem: Problem) -> Bools:
    """C: chains that may not be on just any server, so that they are placed by the full search."""
    mask = np.array([mode == "distribute" for mode in problem.modes], dtype=bool)
    mask |= problem.budget >= 0
    mask[list(problem.allowed)] = True
    mask[sorted({int(problem.chain_of[vnf]) for vnf in problem.groups_of})] = True
    return mask


class Balancer:
    """Places chains into the servers of a mask, the potential being kept by server."""

    def __init__(self, state: State, needs: Ints, among: Bools) -> None:
        """`needs` are those of `whole_needs`."""
        problem = state.problem
        self.state, self.needs = state, needs
        self.servers = np.flatnonzero(among & ~state.down)
        self.among = among
        self.kinds = problem.type_of[self.servers]
        self.one_type = len(set(self.kinds.tolist())) <= 1
        scale = 1.0 / np.maximum(1, problem.capacity)
        self.scale = scale
        self.grows = self._potential(self.servers)
        self.limited = constrained(problem)
        self.place_in = np.full(len(problem.servers), -1)
        self.place_in[self.servers] = np.arange(len(self.servers))

    def _potential(self, servers: Ints) -> Floats:
        """The slope of the potential in each resource, of each server."""
        state = self.state
        load = 1.0 - state.free[servers] * self.scale[servers]
        return np.asarray(np.exp(BETA * load) * self.scale[servers])

    def choose(self, state: State, mask: Bools, needs: Ints) -> int:
        """The server of a mask at which the potential grows least."""
        servers = np.flatnonzero(mask)
        slope = self._potential(servers)
        return int(servers[(slope * needs[state.problem.type_of[servers]]).sum(axis=1).argmin()])

    def place(self, chain: int) -> bool:
        """Places one chain; whether it found room."""
        state, problem = self.state, self.state.problem
        if self.limited[chain]:
            servers = search.whole(state, chain, self.choose, self.among)
            servers = servers or search.cut(state, chain, self.choose, self.among)
            if servers is None:
                return False
            self.put(chain, servers)
            return True
        needs = self.needs[chain]
        wanted = needs[self.kinds[:1]] if self.one_type else needs[self.kinds]
        fits = (state.free[self.servers] >= wanted).all(axis=1)
        if not fits.any():
            return False
        score = np.where(
            fits,
            np.einsum("ij,ij->i", self.grows, np.broadcast_to(wanted, self.grows.shape)),
            np.inf,
        )
        server = int(self.servers[score.argmin()])
        self.put(chain, [server] * problem.length(chain))
        return True

    def put(self, chain: int, servers: Sequence[int]) -> None:
        """Puts a chain and keeps the potential."""
        self.state.put(chain, servers)
        touched = np.unique(np.asarray(servers))
        touched = touched[self.place_in[touched] >= 0]
        self.grows[self.place_in[touched]] = self._potential(touched)

    def pack(self, order: Sequence[int], give_up: int) -> list[int]:
        """Places chains in order; stops early when more than `give_up` found no room."""
        left: list[int] = []
        for chain in order:
            if self.state.where[self.state.problem.first[chain]] != UNPLACED:
                continue
            if not self.place(chain):
                left.append(chain)
                if len(left) > give_up:
                    break
        return left

    def cut(self, chains: Sequence[int]) -> list[int]:
        """Cuts chains over the servers of the mask; returns those that found no room."""
        left = []
        for chain in chains:
            servers = search.cut(self.state, chain, self.choose, self.among)
            if servers is None:
                left.append(chain)
            else:
                self.put(chain, servers)
        return left
