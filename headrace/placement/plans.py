# SPDX-License-Identifier: Apache-2.0
"""From a document to a checked plan that can be printed: the one entry point of this module.

A plan that is handed out has passed check.py. Where not everything can be placed, the plan holds
what can, is marked `partial`, and says of each other chain why.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from headrace.placement import exact as exact_program
from headrace.placement import search
from headrace.placement.bound import Bound, lower_bound
from headrace.placement.check import Assignment, Checker
from headrace.placement.document import Document
from headrace.placement.failures import backups, replace_failed
from headrace.placement.policies import headrace_policy
from headrace.placement.problem import RESOURCES, Problem, build
from headrace.placement.solver import SECONDS, Plan, empty_servers, solve
from headrace.placement.state import State, shares

Exactness = Literal["auto", "always", "never"]


class InfeasiblePlan(Exception):
    """A plan that violates its document: a fault of this program, never of the document."""


class CannotPlan(Exception):
    """What was asked for can't be done; the message says why."""


@dataclass(frozen=True)
class Earlier:
    """A plan that is in place.

    Attributes:
        chains: by name, the servers of its VNFs.
        failed: servers that are down.
        migrations: VNFs that may be moved to save cost; those of failed servers move besides.
    """

    chains: Assignment
    failed: Sequence[str] = ()
    migrations: int = 0


def make_plan(
    document: Document,
    *,
    policy: str = "headrace",
    exactness: Exactness = "auto",
    seconds: float = SECONDS,
    earlier: Earlier | None = None,
) -> tuple[Problem, Plan]:
    """Plans a document and checks the plan.

    Raises:
        DocumentError: it is too large.
        CannotPlan: an exact plan is asked for that does not fit into the time or the memory.
        InfeasiblePlan: never, if this program is right.
    """
    problem = build(document)
    if earlier is not None:
        plan = _continue(problem, earlier, seconds)
    else:
        plan = solve(problem, seconds=seconds, policy=policy)
        if policy == "headrace" and exactness != "never":
            plan = _with_exact(problem, plan, exactness, seconds)
    verify(document, problem, plan, () if earlier is None else earlier.failed)
    return problem, plan


def _with_exact(problem: Problem, plan: Plan, exactness: Exactness, seconds: float) -> Plan:
    """The exact plan where the case is small (or it is asked for), with the better bound."""
    small = exact_program.variables(problem) <= exact_program.MAX_VARIABLES
    assert plan.bound is not None
    if not small and exactness == "auto":
        return plan
    if not small:
        raise CannotPlan(
            f"an exact plan of this case takes {exact_program.variables(problem)} variables, more "
            f"than {exact_program.MAX_VARIABLES}; leave --exact out to get the heuristic's plan "
            f"and its distance from the bound"
        )
    if not problem.chains:
        return plan
    found = exact_program.exact(problem, min(seconds, exact_program.SECONDS))
    if found.infeasible:
        return plan  # the most that could be placed; `verify` checks it either way
    bound = replace(plan.bound, cost=max(plan.bound.cost, found.bound))
    best = found.plan
    worse = best is None or (not plan.unplaced and _key(plan) <= _key(best))
    chosen = plan if worse else best
    assert chosen is not None
    proven = found.optimal and chosen.cost <= found.bound * (1 + 1e-5) + 1e-9
    chosen.bound, chosen.optimal = bound, proven
    chosen.seconds = plan.seconds + found.seconds
    return chosen


def _key(plan: Plan) -> tuple[int, int, float]:
    unprotected = len(plan.backups.unprotected) if plan.backups else 0
    return len(plan.unplaced), unprotected, plan.cost


def place_in(problem: Problem, state: State, chains: Assignment) -> list[int]:
    """Puts an earlier plan's chains back; returns those that no longer fit where they were."""
    numbers = {name: number for number, name in enumerate(problem.servers)}
    moved = []
    for chain, name in enumerate(problem.chains):
        servers = [numbers.get(server) for server in chains.get(name, [])]
        if not servers:
            continue
        known = [server for server in servers if server is not None]
        right = len(known) == len(servers) == problem.length(chain)
        if right and state.fits(chain, known):
            state.put(chain, known)
        else:
            moved.append(chain)
    return moved


def _continue(problem: Problem, earlier: Earlier, seconds: float) -> Plan:
    """Keeps what is in place, re-places what failed, adds what is new, then saves servers."""
    started = time.monotonic()
    unknown = sorted(set(earlier.failed) - set(problem.servers))
    if unknown:
        raise CannotPlan(f"there is no server {', '.join(unknown)} that could have failed")
    bound = lower_bound(problem)
    state = State(problem)
    displaced = place_in(problem, state, earlier.chains)
    before = state.where.copy()
    failed = {problem.servers.index(name) for name in earlier.failed}
    unplaced = list(replace_failed(state, failed).unplaced) if failed else []
    policy = headrace_policy(problem, bound.multipliers)
    for chain in displaced + [c for c in range(len(problem.chains)) if not state.placed(c)]:
        if state.placed(chain):
            continue
        servers = policy(state, chain)
        if servers is not None:
            state.put(chain, servers)
        elif chain not in unplaced:
            unplaced.append(chain)
    unplaced = [chain for chain in unplaced if not state.placed(chain)]
    if earlier.migrations > 0:
        until = time.monotonic() + seconds
        empty_servers(state, shares(problem), until, earlier.migrations)
    plan = Plan(state, unplaced, bound=bound, method="heuristic, on the plan in place")
    moved = int(((before >= 0) & (state.where != before)).sum())
    plan.moved = moved + sum(problem.length(chain) for chain in displaced)
    if problem.headroom:
        plan.backups = backups(state)
    plan.seconds = time.monotonic() - started
    return plan


def assignment(problem: Problem, plan: Plan) -> dict[str, list[str]]:
    """By chain, the servers of its VNFs."""
    where = plan.state.where
    return {
        name: [problem.servers[int(where[vnf])] for vnf in problem.vnfs(chain)]
        for chain, name in enumerate(problem.chains)
        if plan.state.placed(chain)
    }


def failures_of(problem: Problem, plan: Plan) -> dict[str, dict[str, list[str]]]:
    """By server that fails, the chains that move and their servers then."""
    if plan.backups is None:
        return {}
    return {
        problem.servers[server]: {
            problem.chains[chain]: [problem.servers[s] for s in servers]
            for chain, servers in moved.items()
        }
        for server, moved in plan.backups.after.items()
    }


def verify(document: Document, problem: Problem, plan: Plan, down: Sequence[str] = ()) -> None:
    """Checks a plan against its document.

    Raises:
        InfeasiblePlan: it violates it.
    """
    checker = Checker(document)
    found = assignment(problem, plan)
    lines = checker.violations(found, down=down)
    if plan.backups is not None:
        spares = [problem.servers[server] for server in plan.spares]
        open_to = [problem.servers[server] for server in plan.backups.unprotected]
        lines += checker.failures(found, failures_of(problem, plan), spares, open_to)
    if lines:
        raise InfeasiblePlan("; ".join(lines[:3]))


def why_not(problem: Problem, plan: Plan, chain: int) -> str:
    """Why a chain has no place: what no server has, or what is used up."""
    empty = State(problem)
    empty.down = plan.state.down.copy()
    usable = ~empty.down
    allowed = problem.allowed.get(chain)
    if allowed is not None:
        usable &= allowed
    if not usable.any():
        return "no server that it may use is there"
    for vnf in problem.vnfs(chain):
        needs = empty.needs(chain, vnf, vnf + 1)[problem.type_of]
        fits = (problem.capacity >= needs) & usable[:, None]
        if not fits.all(axis=1).any():
            short = [RESOURCES[k] for k in range(4) if not fits[:, k].any()]
            what = " and ".join(short) or "all of what it needs together"
            return f"no server has the {what} of {problem.name(vnf)} even when empty"
    alone = search.whole(empty, chain, search.first_fit)
    cut = search.cut(empty, chain, search.first_fit)
    if alone is None and cut is None:
        if problem.budget[chain] >= 0:
            least = _least_latency(problem, chain)
            if least > problem.budget[chain]:
                return (
                    f"it takes {least / 1000:.1f} us on the fastest server, "
                    f"{problem.budget[chain] / 1000:g} are allowed"
                )
        if problem.modes[chain] == "gather":
            return "gathered, it fits on no server even when empty"
        return "its constraints leave no servers even when all are empty"
    return f"no room is left: {_shortage(problem, plan.state)}"


def _least_latency(problem: Problem, chain: int) -> int:
    vnfs = problem.vnfs(chain)
    own = int(problem.latency[vnfs.start : vnfs.stop].sum())
    return own + (len(vnfs) + 1) * int(problem.hop[np.unique(problem.type_of)].min())


def _shortage(problem: Problem, state: State) -> str:
    used = 1 - state.free.sum(axis=0) / np.maximum(1, problem.capacity.sum(axis=0))
    told = [f"{name} {share:.0%} used" for name, share in zip(RESOURCES, used, strict=True)]
    return ", ".join(told)


def reason(problem: Problem, plan: Plan, chain: int) -> str:
    """Why a chain is where it is."""
    state = plan.state
    first, last = problem.first[chain], problem.first[chain + 1]
    runs = state.runs(chain, state.where[first:last].tolist())
    if len(runs) == 1:
        saved = problem.length(chain) - 1
        if not saved:
            return "one VNF"
        kind = problem.type_of[runs[0][0]]
        cores = saved * problem.entry[chain, kind] * problem.unit_cycles[kind]
        return (
            f"gathered: {saved} entr{'y' if saved == 1 else 'ies'} less than distributed, "
            f"{cores:.2f} cores of switching and {saved * problem.rate[chain] / 1e9:.2f} Gbit/s"
        )
    if problem.modes[chain] == "distribute":
        return f"distributed, as asked: {len(runs)} runs"
    if any(vnf in problem.groups_of for vnf in problem.vnfs(chain)):
        return f"{len(runs)} runs: VNFs have to be apart"
    return f"{len(runs)} runs: it fills servers that are used, which saves others"


def document_of(
    document: Document, problem: Problem, plan: Plan, *, reasons: bool = True
) -> dict[str, Any]:
    """The plan as `headrace place --json` prints it; docs/placement.md describes the fields."""
    state = plan.state
    bound: Bound | None = plan.bound
    used = np.flatnonzero(state.used)
    share = 1 - state.free / np.maximum(1, problem.capacity)
    servers = {
        problem.servers[s]: {
            "type": problem.type_names[int(problem.type_of[s])],
            "vnfs": int(state.vnfs[s]),
            **{name: round(float(share[s, k]), 4) for k, name in enumerate(RESOURCES)},
        }
        for s in used
    }
    told: dict[str, Any] = {
        "method": plan.method,
        "optimal": plan.optimal,
        "partial": bool(plan.unplaced) or bool(plan.backups and plan.backups.unprotected),
        "cost": round(plan.cost, 6),
        "bound": None if bound is None else round(bound.cost, 6),
        "gap": _gap(plan),
        "servers_used": len(used),
        "used_by_type": dict(Counter(problem.type_names[int(problem.type_of[s])] for s in used)),
        "spares": [problem.servers[s] for s in plan.spares],
        "moved": plan.moved,
        "seconds": round(plan.seconds, 3),
        "chains": assignment(problem, plan),
        "unplaced": {problem.chains[c]: why_not(problem, plan, c) for c in plan.unplaced},
        "servers": servers,
        "failures": failures_of(problem, plan),
        "unprotected": (
            [problem.servers[s] for s in plan.backups.unprotected] if plan.backups else []
        ),
    }
    if reasons:
        told["reasons"] = {
            name: reason(problem, plan, chain)
            for chain, name in enumerate(problem.chains)
            if state.placed(chain)
        }
        told["scarce"] = scarce(problem, bound)
    return told


def _gap(plan: Plan) -> float | None:
    """How far the cost is above the bound; none of a plan that leaves chains out."""
    if plan.bound is None or plan.unplaced or plan.bound.cost <= 0:
        return None
    return round(plan.cost / plan.bound.cost - 1, 6)


def scarce(problem: Problem, bound: Bound | None) -> dict[str, float]:
    """By resource, its part of what decides the number of servers (from the multipliers)."""
    if bound is None:
        return {}
    capacity = np.zeros((len(problem.type_names), 4))
    for kind in np.unique(problem.type_of):
        capacity[kind] = problem.capacity[np.flatnonzero(problem.type_of == kind)[0]]
    worth = (bound.multipliers * capacity).clip(min=0).sum(axis=0)
    total = float(worth.sum())
    if total <= 0:
        return {}
    return {name: round(float(w / total), 3) for name, w in zip(RESOURCES, worth, strict=True)}


def read_earlier(content: Mapping[str, Any]) -> dict[str, list[str]]:
    """The chains of a plan that was printed as JSON.

    Raises:
        CannotPlan: it is no plan.
    """
    chains = content.get("chains")
    if not isinstance(chains, dict) or not all(
        isinstance(servers, list) and all(isinstance(s, str) for s in servers)
        for servers in chains.values()
    ):
        raise CannotPlan("it is no plan: `chains` has to give the servers of each chain's VNFs")
    return chains
