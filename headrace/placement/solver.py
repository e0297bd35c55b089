# SPDX-License-Identifier: Apache-2.0
"""The plan of many chains: the smallest set of servers into which they can be packed evenly.

1. The bound (bound.py) says what any plan costs at least.
2. Servers are put in an order by type; a plan takes the first N of it. The smallest N into which
   all chains can be packed (balancing.py) is found by bisection, for several orders of the types.
3. A smaller last server, and servers that can be emptied into the others, save what is left.
4. With `headroom: 1`, each server gets an answer to its failure (failures.py).

The cheapest plan that was found within the time counts. Where all servers together do not suffice,
the plan has what fits and names the rest.
"""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from headrace.placement import search
from headrace.placement.balancing import Balancer, constrained, whole_needs
from headrace.placement.bound import Bound, lower_bound
from headrace.placement.failures import Backups, backups, chains_on
from headrace.placement.policies import POLICIES
from headrace.placement.problem import Floats, Ints, Problem
from headrace.placement.state import State, shares

SECONDS = 40.0
ATTEMPTS = 20
"""Servers in a row that could not be emptied, after which no more are tried."""
NEAR = 1.005
"""A plan this near to the bound ends the search."""


@dataclass
class Plan:
    """Where everything goes.

    Attributes:
        state: the assignment.
        unplaced: chains without a place.
        backups: what happens at failures; None without headroom.
        bound: the lower bound; None if it was not computed.
        method: how the plan was found.
        optimal: it is proven that no plan is cheaper.
        moved: VNFs that an earlier plan had elsewhere.
    """

    state: State
    unplaced: list[int] = field(default_factory=list)
    backups: Backups | None = None
    bound: Bound | None = None
    method: str = "heuristic"
    optimal: bool = False
    moved: int = 0
    seconds: float = 0.0

    @property
    def spares(self) -> list[int]:
        """Servers that are kept for a failure and have no VNF."""
        return [] if self.backups is None else self.backups.spares

    @property
    def cost(self) -> float:
        """Of the used servers and the spares."""
        spares = np.zeros(len(self.state.problem.servers), dtype=bool)
        spares[self.spares] = True
        return self.state.cost(spares)


def solve(problem: Problem, *, seconds: float = SECONDS, policy: str = "headrace") -> Plan:
    """A plan by the heuristic, or by one of the simple policies in the chains' own order."""
    started = time.monotonic()
    bound = lower_bound(problem)
    if policy == "headrace":
        plan = _Packing(problem, bound, started + seconds).best()
    else:
        state, place = State(problem), POLICIES[policy](problem)
        plan = Plan(state, bound=bound, method=policy)
        for chain in range(len(problem.chains)):
            servers = place(state, chain)
            if servers is None:
                plan.unplaced.append(chain)
            else:
                state.put(chain, servers)
    if problem.headroom:
        plan.backups = backups(plan.state)
    plan.seconds = time.monotonic() - started
    return plan


class _Packing:
    """The search over orders of types and numbers of servers."""

    def __init__(self, problem: Problem, bound: Bound, until: float) -> None:
        self.problem, self.bound, self.until = problem, bound, until
        self.needs = whole_needs(problem)
        # Chains that may not be anywhere come first, while there is most to choose from.
        self.order = np.lexsort((-self._sizes(), ~constrained(problem))).tolist()
        self.found: Plan | None = None

    def _sizes(self) -> Floats:
        """C: the largest share of a server that a chain takes, on the average type."""
        problem = self.problem
        capacity = np.maximum(1, problem.capacity.mean(axis=0))
        return np.asarray((self.needs.mean(axis=1) / capacity).max(axis=1), dtype=np.float64)

    def best(self) -> Plan:
        """The cheapest plan within the time."""
        for servers in self._orders():
            self._smallest(servers)
            if self._over() or (self.found is not None and self._near(self.found)):
                break
        assert self.found is not None
        if not self.found.unplaced and not self._near(self.found):
            empty_servers(self.found.state, shares(self.problem), self.until)
        return self.found

    def _near(self, plan: Plan) -> bool:
        return not plan.unplaced and plan.cost <= NEAR * self.bound.cost

    def _over(self) -> bool:
        return time.monotonic() > self.until

    def _orders(self) -> Iterator[Ints]:
        """Servers by type, the types that carry the demands at the least price first."""
        problem = self.problem
        kinds = [k for k in range(len(problem.type_names)) if (problem.type_of == k).any()]
        demand = self.needs.sum(axis=0)
        capacity = {k: problem.capacity[np.flatnonzero(problem.type_of == k)[0]] for k in kinds}
        price = {
            k: (problem.price[k] + 1e-9) * (demand[k] / np.maximum(1, capacity[k])).max()
            for k in kinds
        }
        kinds.sort(key=lambda k: price[k])
        orders = itertools.islice(itertools.permutations(kinds), 6)
        for order in orders:
            yield np.concatenate([np.flatnonzero(problem.type_of == k) for k in order])

    def _smallest(self, servers: Ints) -> None:
        """Bisects for the smallest prefix that takes everything."""
        problem = self.problem
        least = self.needs.min(axis=1).sum(axis=0)
        sums = problem.capacity[servers].cumsum(axis=0)
        enough = (sums >= least).all(axis=1)
        low = int(enough.argmax()) if enough.any() else len(servers) - 1
        prices = problem.price[problem.type_of[servers]].cumsum()
        high = len(servers)
        # A prefix that costs more than a plan does can't become the best.
        if self.found is not None and not self.found.unplaced:
            dear = prices >= self.found.cost - 1e-12
            high = min(high, int(dear.argmax()) + 1 if dear.any() else high)
        step = 0
        tried: int | None = None
        while low < high and not (self.found is not None and self._over()):
            # Near the least first: that is where it mostly is.
            middle = min(low + max(step, len(servers) // 200), (low + high) // 2)
            plan = self._pack(servers[: middle + 1])
            step = 2 * max(step, 1)
            if plan is not None:
                high, step, tried = middle, 0, middle
            else:
                low = middle + 1
        if tried is None and not (self.found is not None and self._over()):
            self._pack(servers[: high if high < len(servers) else len(servers)], partial=True)
        if tried:
            self._smaller_last(servers[:tried])

    def _smaller_last(self, servers: Ints) -> None:
        """Tries a cheaper last server."""
        problem = self.problem
        for kind in np.argsort(problem.price):
            others = np.setdiff1d(np.flatnonzero(problem.type_of == kind), servers)
            if len(others) and not self._over():
                self._pack(np.append(servers, others[0]))

    def _pack(self, servers: Ints, *, partial: bool = False) -> Plan | None:
        """A plan with these servers only; None if not all chains found room there."""
        problem = self.problem
        state = State(problem)
        among = np.zeros(len(problem.servers), dtype=bool)
        among[servers] = True
        balancer = Balancer(state, self.needs, among)
        few = len(self.order) if partial else max(8, len(self.order) // 100)
        left = balancer.pack(self.order, few)
        if len(left) > few:
            return None
        left = balancer.cut(left)
        if left and not partial:
            return None
        plan = Plan(state, left, bound=self.bound)
        best = self.found
        if best is None or (len(left), plan.cost) < (len(best.unplaced), best.cost):
            self.found = plan
        return plan


def empty_servers(state: State, scale: Floats, until: float, most: int | None = None) -> int:
    """Moves chains off the least used servers while that saves cost; returns the VNFs moved.

    Args:
        state: a plan; it stays feasible.
        scale: the worth of a unit of each resource, S x 4.
        until: when to stop, by time.monotonic().
        most: VNFs that may be moved at most.
    """
    problem = state.problem
    choose = search.tight_fit(scale)
    moved = failed = 0
    tried: set[int] = set()
    while failed < ATTEMPTS and time.monotonic() < until:
        used = state.used
        fill = ((problem.capacity - state.free) * shares(problem)).max(axis=1)
        fill[~used] = np.inf
        fill[list(tried)] = np.inf
        server = int(fill.argmin())
        if not np.isfinite(fill[server]):
            break
        tried.add(server)
        others = used.copy()
        others[server] = False
        chains = chains_on(state, server)
        before, cost = state.where.copy(), state.cost()
        changed = _move_off(state, chains, others, choose)
        shifted = int((state.where != before).sum())
        over = most is not None and moved + shifted > most
        if not changed or over or state.cost() >= cost:
            _restore(state, chains, before)
            failed += 1
        else:
            moved += shifted
            failed = 0
    return moved


def _move_off(state: State, chains: list[int], others: np.ndarray, choose: search.Choose) -> bool:
    for chain in chains:
        state.remove(chain)
    for chain in chains:
        servers = search.whole(state, chain, choose, others)
        servers = servers or search.cut(state, chain, choose, others)
        if servers is None:
            return False
        state.put(chain, servers)
    return True


def _restore(state: State, chains: list[int], before: Ints) -> None:
    for chain in chains:
        if state.placed(chain):
            state.remove(chain)
    for chain in chains:
        first, last = state.problem.first[chain], state.problem.first[chain + 1]
        state.put(chain, before[first:last].tolist())
