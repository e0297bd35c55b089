# SPDX-License-Identifier: Apache-2.0
"""Policies that place one chain after another, as it comes; to compare with, and for arrivals.

gather      the whole chain on the least loaded server (Luizelli's P_g, nova's load balancing)
distribute  each VNF on another server, the least loaded (his P_d)
first-fit   VNF by VNF on the first server that has room
best-fit    VNF by VNF on the server that is left with the least
headrace    the whole chain on the fullest used server that has room, else cut over used servers
            where that is cheaper than a server more, else on a new one
"""

from collections.abc import Callable

import numpy as np

from headrace.placement import search
from headrace.placement.problem import Floats, Problem
from headrace.placement.state import State, shares

Policy = Callable[[State, int], list[int] | None]
"""The servers of a chain that has no place, or None; the state is as before afterwards."""


class Scarcity:
    """How much of a server a unit of each resource is, weighted by what the demands lack most."""

    def __init__(self, problem: Problem, multipliers: Floats | None = None) -> None:
        """By the multipliers of a bound, if there is one, else all resources alike."""
        self.even = shares(problem)
        self.scale = self.even
        if multipliers is not None and multipliers.any():
            worth = multipliers[problem.type_of]
            total = (worth * problem.capacity).sum(axis=1, keepdims=True)
            # A part for each resource stays: one that is not scarce on average may be on a server.
            weights = np.divide(worth, total, out=np.zeros_like(worth), where=total > 0)
            self.scale = 0.8 * weights + 0.2 / 4 * self.even
        self.order = self._order(problem, multipliers)

    @staticmethod
    def _order(problem: Problem, multipliers: Floats | None) -> list[int]:
        """Types by what their servers cost for what they are worth, the best first."""
        counts = np.bincount(problem.type_of, minlength=len(problem.type_names))
        capacity = np.zeros((len(problem.type_names), 4))
        for kind in np.flatnonzero(counts):
            capacity[kind] = problem.capacity[np.flatnonzero(problem.type_of == kind)[0]]
        worth = np.ones_like(capacity) / np.maximum(1, capacity.max(axis=0))
        if multipliers is not None and multipliers.any():
            worth = multipliers
        value = (worth * capacity).sum(axis=1)
        ratio = (problem.price + 1e-9) / np.maximum(value, 1e-12)
        return [int(kind) for kind in np.argsort(ratio, kind="stable") if counts[kind]]


CUT_SHARE = 0.02
"""A chain that comes alone is cut over used servers if that costs less of a server than this."""


def headrace_policy(
    problem: Problem, multipliers: Floats | None = None, cut_share: float = CUT_SHARE
) -> Policy:
    """Ours; with `cut_share` 0 no chain is cut that fits on a server."""
    scarcity = Scarcity(problem, multipliers)
    choose = search.tight_fit(scarcity.scale)
    by_type = [problem.type_of == kind for kind in range(len(problem.type_names))]

    def place(state: State, chain: int) -> list[int] | None:
        used = state.used
        may_cut = problem.modes[chain] != "gather"
        servers = search.whole(state, chain, choose, used)
        if servers is not None:
            return servers
        spread = None
        if may_cut and cut_share > 0:
            spread = search.cut(state, chain, choose, used)
            if spread is not None and _cut_costs(state, chain, spread) < cut_share:
                return spread
        for kind in scarcity.order:
            servers = search.whole(state, chain, search.first_fit, by_type[kind] & ~used)
            if servers is not None:
                return servers
        if not may_cut:
            return None
        # A chain that no unused server holds: the used servers are filled first.
        spread = spread or search.cut(state, chain, choose, used)
        return spread or search.cut(state, chain, choose)

    return place


def _cut_costs(state: State, chain: int, servers: list[int]) -> float:
    """The largest share of a server's switch or link that the cuts of a chain take besides."""
    problem = state.problem
    more = len(state.runs(chain, servers)) - 1
    kind = problem.type_of[servers[0]]
    _, _, switch, link = problem.capacity[servers[0]]
    share = max(problem.entry[chain, kind] / switch, problem.rate[chain] / link)
    return float(more * share)


def _one_by_one(choose_of: Callable[[Problem], search.Choose]) -> Callable[[Problem], Policy]:
    def make(problem: Problem) -> Policy:
        choose = choose_of(problem)

        def place(state: State, chain: int) -> list[int] | None:
            if problem.modes[chain] == "gather":
                return search.whole(state, chain, choose)
            return search.cut(state, chain, choose, longest=1)

        return place

    return make


def _gather(problem: Problem) -> Policy:
    choose = search.least_loaded(shares(problem))

    def place(state: State, chain: int) -> list[int] | None:
        return search.whole(state, chain, choose)

    return place


def _distribute(problem: Problem) -> Policy:
    """Each VNF on another server, without regard to what is cheap."""
    choose = search.least_loaded(shares(problem))

    def place(state: State, chain: int) -> list[int] | None:
        if problem.modes[chain] == "gather":
            return search.whole(state, chain, choose)
        beside: dict[int, int] = {}
        for vnf in problem.vnfs(chain):
            mask, needs = search.candidates(state, chain, vnf, vnf + 1, beside)
            mask[list(beside.values())] = False
            if not mask.any():
                return None
            beside[vnf] = choose(state, mask, needs)
        servers = list(beside.values())
        return servers if state.fits(chain, servers) else None

    return place


POLICIES: dict[str, Callable[[Problem], Policy]] = {
    "gather": _gather,
    "distribute": _distribute,
    "first-fit": _one_by_one(lambda _: search.first_fit),
    "best-fit": _one_by_one(lambda problem: search.best_fit(shares(problem))),
    "headrace": headrace_policy,
}
