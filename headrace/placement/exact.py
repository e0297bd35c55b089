# SPDX-License-Identifier: Apache-2.0
"""The cheapest plan of a small case, by mixed-integer programming (HiGHS, by scipy).

Variables, all 0 or 1: x[v, s], VNF v is on server s; e[v, s], a run begins there with v; y[s], the
server is used. A run begins where the VNF before is elsewhere: e[v, s] >= x[v, s] - x[v - 1, s].
With headroom the same x and e for the failure of each server, in which only chains with a VNF on it
may move: |x' - x| <= h[c, f] <= sum of x[v, f].

Rows are scaled to capacity 1. The solver's tolerance is 1e-6 of that, so what it returns is put
into the integer state and must fit there; if it does not, there is no exact answer.
"""

import itertools
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from headrace.placement.failures import Backups
from headrace.placement.problem import Problem
from headrace.placement.solver import Plan
from headrace.placement.state import State

MAX_VARIABLES = 2500
SECONDS = 20.0


def variables(problem: Problem) -> int:
    """Binary variables that the exact program would have, but for the few of the servers."""
    cells = len(problem.functions) * len(problem.servers)
    return 2 * cells * (1 + len(problem.servers) * problem.headroom)


@dataclass(frozen=True)
class Scenario:
    """The columns of x and e in one situation; `failed` is the server that is down, or -1."""

    x: np.ndarray
    e: np.ndarray
    failed: int


class _Program:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.count = 0
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.y = self._new(len(problem.servers))
        self.upper = np.ones(0)
        self.plan = self._scenario(-1)
        self.failures: list[Scenario] = []
        if problem.headroom:
            self.failures = [self._scenario(s) for s in range(len(problem.servers))]
            for one in self.failures:
                self._moves(one)
        else:
            self._symmetry()

    def _new(self, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        made = np.arange(self.count, self.count + size).reshape(shape)
        self.count += size
        return made

    def _row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        number = len(self.low)
        for column, value in terms:
            self.rows.append(number)
            self.columns.append(int(column))
            self.values.append(float(value))
        self.low.append(low)
        self.high.append(high)

    def _scenario(self, failed: int) -> Scenario:
        problem = self.problem
        shape = (len(problem.functions), len(problem.servers))
        one = Scenario(self._new(*shape), self._new(*shape), failed)
        for vnf in range(shape[0]):
            self._row([(one.x[vnf, s], 1) for s in range(shape[1])], 1, 1)
        for chain in range(len(problem.chains)):
            self._chain(one, chain)
        for server in range(shape[1]):
            self._server(one, server)
        for group, by_rack in zip(problem.groups, problem.by_rack, strict=True):
            of = problem.rack_of if by_rack else np.arange(shape[1])
            for domain in np.unique(of):
                inside = np.flatnonzero(of == domain)
                self._row([(one.x[v, s], 1) for v in group for s in inside], 0, 1)
        return one

    def _chain(self, one: Scenario, chain: int) -> None:
        problem = self.problem
        servers = range(len(problem.servers))
        vnfs = problem.vnfs(chain)
        for vnf in vnfs:
            for s in servers:
                terms = [(one.e[vnf, s], 1.0), (one.x[vnf, s], -1.0)]
                if vnf > vnfs.start:
                    terms.append((one.x[vnf - 1, s], 1.0))
                    if problem.modes[chain] == "gather":
                        self._row([(one.x[vnf, s], 1), (one.x[vnf - 1, s], -1)], 0, 0)
                self._row(terms, 0, np.inf)
        allowed = problem.allowed.get(chain)
        barred = [s for s in servers if allowed is not None and not allowed[s]]
        if barred:
            self._row([(one.x[v, s], 1) for v in vnfs for s in barred], 0, 0)
        budget = float(problem.budget[chain])
        if budget >= 0:
            hops = problem.hop[problem.type_of]
            terms = [(one.x[v, s], float(hops[s])) for v in vnfs for s in servers]
            terms += [
                (one.e[v, s], float(hops[s] + problem.network)) for v in vnfs for s in servers
            ]
            own = float(problem.latency[vnfs.start : vnfs.stop].sum())
            room = budget - own + problem.network
            scale = max(1.0, room)
            self._row([(c, v / scale) for c, v in terms], -np.inf, room / scale)

    def _server(self, one: Scenario, server: int) -> None:
        problem = self.problem
        kind = int(problem.type_of[server])
        vnfs = range(len(problem.functions))
        for vnf in vnfs:
            # A link of each x to y makes the relaxation tight.
            self._row([(one.x[vnf, server], 1), (self.y[server], -1)], -np.inf, 0)
        if server == one.failed:
            self._row([(one.x[vnf, server], 1) for vnf in vnfs], 0, 0)
            return
        capacity = np.maximum(1, problem.capacity[server]).astype(float)
        entry = problem.entry[problem.chain_of, kind]
        rate = problem.rate[problem.chain_of]
        parts = (
            (problem.need[:, kind, 0], None),
            (problem.need[:, kind, 1], None),
            (problem.visit[:, kind], entry),
            (None, rate),
        )
        for resource, (by_vnf, by_run) in enumerate(parts):
            terms: list[tuple[int, float]] = []
            for values, columns in ((by_vnf, one.x), (by_run, one.e)):
                if values is not None:
                    terms += [(columns[v, server], values[v] / capacity[resource]) for v in vnfs]
            self._row([*terms, (self.y[server], -1)], -np.inf, 0)

    def _moves(self, one: Scenario) -> None:
        problem = self.problem
        for chain in range(len(problem.chains)):
            vnfs = problem.vnfs(chain)
            (moves,) = self._new(1)
            self._row([(moves, 1), *((self.plan.x[v, one.failed], -1) for v in vnfs)], -np.inf, 0)
            for v in vnfs:
                for s in range(len(problem.servers)):
                    pair = [(one.x[v, s], 1), (self.plan.x[v, s], -1)]
                    self._row([*pair, (moves, -1)], -np.inf, 0)
                    self._row([*pair, (moves, 1)], 0, np.inf)

    def _symmetry(self) -> None:
        """Of equal servers the first are used first."""
        problem = self.problem
        if problem.allowed or any(problem.by_rack):
            return
        for kind in range(len(problem.type_names)):
            servers = np.flatnonzero(problem.type_of == kind)
            for one, other in itertools.pairwise(servers):
                self._row([(self.y[one], 1), (self.y[other], -1)], 0, np.inf)

    def cost(self) -> np.ndarray:
        """The coefficient of each variable."""
        problem = self.problem
        cost = np.zeros(self.count)
        kind = problem.type_of
        cost[self.y] = problem.price[kind]
        unit = problem.unit_price[kind]
        needs = problem.need[:, kind]
        cost[self.plan.x] = (
            needs[:, :, 0] * unit[:, 0]
            + needs[:, :, 1] * unit[:, 1]
            + problem.visit[:, kind] * unit[:, 2]
        )
        entry = problem.entry[problem.chain_of][:, kind]
        rate = problem.rate[problem.chain_of][:, None]
        cost[self.plan.e] = entry * unit[:, 2] + rate * unit[:, 3]
        return cost


@dataclass(frozen=True)
class Exact:
    """What the solver says: the plan, None if it has none; a lower bound; whether it is proven."""

    plan: Plan | None
    bound: float
    optimal: bool
    infeasible: bool
    seconds: float


def _where(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.asarray(values[columns].argmax(axis=1))


def exact(problem: Problem, seconds: float = SECONDS) -> Exact:
    """Solves a case to the optimum, or as far as the time allows."""
    started = time.monotonic()
    program = _Program(problem)
    shape = (len(program.low), program.count)
    matrix = coo_array((program.values, (program.rows, program.columns)), shape=shape).tocsr()
    result = milp(
        program.cost(),
        integrality=np.ones(program.count),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, program.low, program.high),
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )
    took = time.monotonic() - started
    bound = float(result.mip_dual_bound) if result.mip_dual_bound is not None else 0.0
    if result.x is None:
        return Exact(None, bound, optimal=False, infeasible=result.status == 2, seconds=took)
    plan = _plan_of(problem, program, result.x)
    return Exact(
        plan, bound, plan is not None and result.status == 0, infeasible=False, seconds=took
    )


def _plan_of(problem: Problem, program: _Program, values: np.ndarray) -> Plan | None:
    where = _where(values, program.plan.x)
    state = _state(problem, where, -1)
    if state is None:
        return None
    plan = Plan(state, method="exact (HiGHS)")
    if problem.headroom:
        after: dict[int, dict[int, list[int]]] = {}
        used = np.flatnonzero(state.used)
        powered = set(used.tolist())
        for server in used:
            then = _where(values, program.failures[server].x)
            if _state(problem, then, int(server)) is None:
                return None
            after[int(server)] = {
                int(chain): then[list(problem.vnfs(chain))].tolist()
                for chain in np.unique(problem.chain_of[where == server])
            }
            powered |= {s for moved in after[int(server)].values() for s in moved}
        spares = sorted(powered - set(used.tolist()))
        plan.backups = Backups(after, spares, [])
    return plan


def _state(problem: Problem, where: np.ndarray, down: int) -> State | None:
    """The assignment as a state, or None if it does not fit in integers."""
    state = State(problem)
    if down >= 0:
        state.down[down] = True
    for chain in range(len(problem.chains)):
        servers = where[list(problem.vnfs(chain))].tolist()
        if not state.fits(chain, servers):
            return None
        state.put(chain, servers)
    return state
