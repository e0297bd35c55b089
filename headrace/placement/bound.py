# SPDX-License-Identifier: Apache-2.0
"""A lower bound of the cost of any plan, by Lagrange multipliers on the capacities.

The plan is relaxed: the servers of one type are one pool, of which any fraction may be used, and
VNFs may be divided. Multipliers l (one for each type and resource) price what a run takes, so that
each chain chooses its types for itself (a shortest path over its VNFs: staying in a type is free,
changing it is an entry), and each type opens all of its servers if they are worth more than their
price, or none:

    L(l) = sum over chains of min cost(types, unit prices + l)
         + sum over types of count x min(0, price - l . capacity)

is a lower bound for every l >= 0 (weak duality), whether the search for the best l has converged or
not. L is concave and piecewise linear; it is maximised by cutting planes, whose master problem is a
small linear program (HiGHS, by scipy).

Chains that must be gathered stay in one type; those to be distributed pay an entry for each VNF.
Where each used server has one price and nothing else costs, the number of servers is rounded up.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from headrace.placement.problem import CORES, LINK, MEMORY, SWITCH, Floats, Problem

ITERATIONS = 60
TOLERANCE = 5e-4


@dataclass(frozen=True)
class Bound:
    """The bound, and the multipliers that give it.

    Attributes:
        cost: no plan costs less.
        multipliers: T x 4, cost of a unit of each resource of each type.
        iterations: of the cutting planes.
    """

    cost: float
    multipliers: Floats
    iterations: int


class _Dual:
    """Evaluates L and a supergradient, in units of a server's capacity."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        types, chains = len(problem.type_names), len(problem.chains)
        self.count = np.bincount(problem.type_of, minlength=types).astype(np.float64)
        self.capacity = np.ones((types, 4))
        for kind in range(types):
            servers = np.flatnonzero(problem.type_of == kind)
            if len(servers):
                self.capacity[kind] = np.maximum(problem.capacity[servers[0]], 1)
        lengths = np.diff(problem.first)
        self.longest = int(lengths.max()) if chains else 0
        # needs[i]: chains x types x 4 of the i-th VNF, zeros beyond a chain's end.
        self.needs: list[Floats] = []
        self.has: list[np.ndarray] = []
        for place in range(self.longest):
            has = lengths > place
            at = np.minimum(problem.first[:-1] + place, max(0, len(problem.functions) - 1))
            needs = np.zeros((chains, types, 4))
            needs[:, :, CORES] = problem.need[at, :, 0]
            needs[:, :, MEMORY] = problem.need[at, :, 1]
            needs[:, :, SWITCH] = problem.visit[at]
            needs[~has] = 0
            self.needs.append(needs / self.capacity)
            self.has.append(has)
        enter = np.zeros((chains, types, 4))
        enter[:, :, SWITCH] = problem.entry
        enter[:, :, LINK] = problem.rate[:, None]
        self.enter = enter / self.capacity
        unit = problem.unit_price * self.capacity
        self.unit = unit
        modes = np.array(problem.modes, dtype=object)
        self.gather = modes == "gather"
        self.distribute = modes == "distribute"
        # Types that a chain may use: those with an allowed server.
        self.closed = np.zeros((chains, types), dtype=bool)
        self.closed[:, self.count == 0] = True
        for chain, mask in problem.allowed.items():
            usable = np.bincount(problem.type_of[mask], minlength=types) > 0
            self.closed[chain] |= ~usable

    def value(self, scaled: Floats) -> tuple[float, Floats]:
        """L and its supergradient at multipliers in cost per whole server's capacity (T x 4)."""
        chains, types = self.closed.shape
        prices = self.unit + scaled
        enter = (self.enter * prices).sum(axis=2)
        enter[self.closed] = np.inf
        best = np.zeros((chains, types))
        back: list[tuple[np.ndarray, np.ndarray]] = []
        for place, (needs, has) in enumerate(zip(self.needs, self.has, strict=True)):
            own = (needs * prices).sum(axis=2)
            own[self.closed] = np.inf
            if place == 0:
                best = np.where(has[:, None], enter + own, best)
                continue
            cheapest = best.argmin(axis=1)
            moved = best[np.arange(chains), cheapest][:, None] + enter
            moved[self.gather] = np.inf
            stay = np.where(self.distribute[:, None], best + enter, best)
            stays = stay <= moved
            back.append((stays, cheapest))
            best = np.where(has[:, None], np.where(stays, stay, moved) + own, best)
        if chains:
            last = best.argmin(axis=1)
            total = float(best[np.arange(chains), last].sum())
        else:
            last, total = np.zeros(0, dtype=np.int64), 0.0
        used = self._used(last, back)
        worth = self._worth(scaled)
        opened = self.count * (worth < 0)
        total += float((self.count * np.minimum(0.0, worth)).sum())
        return total, used - opened[:, None]

    def _worth(self, scaled: Floats) -> Floats:
        return np.asarray(self.problem.price - scaled.sum(axis=1), dtype=np.float64)

    def _used(self, last: np.ndarray, back: list[tuple[np.ndarray, np.ndarray]]) -> Floats:
        """What the cheapest paths take of each type, in servers."""
        chains, types = self.closed.shape
        used = np.zeros((types, 4))
        at, rows = last.copy(), np.arange(chains)
        for place in reversed(range(self.longest)):
            has = self.has[place]
            np.add.at(used, at[has], self.needs[place][rows[has], at[has]])
            if place == 0:
                enters, before = has, at
            else:
                stays, cheapest = back[place - 1]
                stayed = stays[rows, at]
                enters = has & (~stayed | self.distribute)
                before = np.where(has & ~stayed, cheapest, at)
            np.add.at(used, at[enters], self.enter[rows[enters], at[enters]])
            at = before
        return used


def lower_bound(problem: Problem, iterations: int = ITERATIONS) -> Bound:
    """Maximises L by cutting planes in a trust region around the best point so far."""
    dual = _Dual(problem)
    types = len(problem.type_names)
    if not problem.chains:
        return Bound(0.0, np.zeros((types, 4)), 0)
    scale = float(problem.price.max() + dual.unit.sum()) or 1.0
    point = np.repeat(problem.price[:, None] / 4, 4, axis=1)
    cuts: list[np.ndarray] = []
    values: list[float] = []
    best, at, radius = -np.inf, point, scale
    for _ in range(iterations):
        value, slope = dual.value(point)
        cuts.append(np.append(-slope.ravel(), 1.0))
        values.append(value - float((slope * point).sum()))
        if value > best:
            gained = value - best
            best, at = value, point
            if gained > 0.1 * abs(best):
                radius = min(4 * scale, 2 * radius)
        else:
            radius = max(0.01 * scale, radius / 1.5)
        box = [(max(0.0, one - radius), one + radius) for one in at.ravel()] + [(None, None)]
        goal = np.zeros(types * 4 + 1)
        goal[-1] = -1.0
        solved = linprog(goal, np.array(cuts), np.array(values), bounds=box, method="highs")
        if solved.status != 0:
            break
        if -solved.fun - best <= TOLERANCE * max(1e-12, abs(best)):
            if radius >= scale:
                break
            radius = 4 * scale
            continue_from = solved.x[:-1].reshape(types, 4)
            if np.allclose(continue_from, point):
                break
        point = solved.x[:-1].reshape(types, 4)
    cost = max(0.0, best)
    prices = problem.price[dual.count > 0]
    if not problem.unit_price.any() and np.ptp(prices) == 0 and prices[0] > 0:
        cost = float(prices[0] * np.ceil(cost / prices[0] - 1e-6))
    return Bound(cost, at / dual.capacity, len(cuts))
