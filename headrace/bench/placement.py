# SPDX-License-Identifier: Apache-2.0
"""`headrace bench placement`: how near the bound plans are, and how long they take.

Everything is computed from seeded documents (headrace/placement/demands.py); the times are CPU
seconds of this process, which has one thread, so that other programs do not count.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headrace.bench.manifest import machine
from headrace.bench.rows import Row, row
from headrace.placement import demands
from headrace.placement.check import Checker
from headrace.placement.document import Document, parse
from headrace.placement.exact import exact
from headrace.placement.failures import replace_failed
from headrace.placement.plans import assignment, verify
from headrace.placement.policies import POLICIES, headrace_policy
from headrace.placement.problem import Problem, build
from headrace.placement.solver import Plan, solve

CHAINS, SERVERS = 10_000, 1_000
SECONDS = 45.0
SMALL_CASES = 8
EVENTS = 200

Say = Callable[[str], None]


def _solved(document: Document, seconds: float) -> tuple[Problem, Plan, float]:
    started = time.process_time()
    problem = build(document)
    plan = solve(problem, seconds=seconds)
    return problem, plan, time.process_time() - started


def _gap(plan: Plan) -> float:
    assert plan.bound is not None
    return 100 * (plan.cost / plan.bound.cost - 1)


def _large(seeds: list[int], chains: int, servers: int, say: Say) -> Iterator[Row]:
    gaps, times, wrong, left, firsts = [], [], [], [], []
    adds: list[float] = []
    failures: list[float] = []
    moved: list[float] = []
    lost = 0
    for seed in seeds:
        document = parse(demands.document(seed, chains, servers, constrained=0.05))
        problem, plan, took = _solved(document, SECONDS)
        violations = Checker(document).violations(assignment(problem, plan))
        gaps.append(_gap(plan))
        times.append(took)
        wrong.append(float(len(violations)))
        left.append(float(len(plan.unplaced)))
        say(f"seed {seed}: {gaps[-1]:.2f} % above the bound, {took:.1f} s of CPU")
        first = solve(problem, policy="best-fit")
        firsts.append(100 * (first.cost / plan.cost - 1) if not first.unplaced else np.nan)
        added, replaced, shifted, out = _events(problem, plan, seed)
        adds += added
        failures += replaced
        moved += shifted
        lost += out
        verify(document, problem, plan)
    name = f"{chains} chains on {servers} servers"
    yield row(f"{name}: above the lower bound", gaps, "%", goal=5, better="lower")
    yield row(f"{name}: time", times, "s of CPU", goal=60, better="lower")
    yield row(f"{name}: violated constraints", wrong, "", goal=0, better="lower")
    yield row(f"{name}: chains without a place", left, "", goal=0, better="lower")
    known = [value for value in firsts if not np.isnan(value)]
    if known:
        yield row(f"{name}: best fit costs more than the plan by", known, "%")
    yield row("one more chain", adds, "ms", goal=20, better="lower", note=_tail(adds))
    note = _tail(failures)
    yield row("a server's failure re-placed", failures, "ms", goal=1000, better="lower", note=note)
    yield row("VNFs moved by a failure", moved, "", note="those that the server had, no other")
    yield row("chains that a failure left without a place", [float(lost)], "")


def _tail(samples: list[float]) -> str:
    return f"the slowest of {len(samples)}: {max(samples):.1f} ms"


def _events(
    problem: Problem, plan: Plan, seed: int
) -> tuple[list[float], list[float], list[float], int]:
    """Times of placing one more chain (each taken out and placed again) and of failures."""
    random = np.random.default_rng(seed)
    state = plan.state.copy()
    assert plan.bound is not None
    place = headrace_policy(problem, plan.bound.multipliers)
    adds, failures, moved, lost = [], [], [], 0
    for chain in random.choice(
        len(problem.chains), min(EVENTS, len(problem.chains)), replace=False
    ):
        if not state.placed(int(chain)):
            continue
        state.remove(int(chain))
        started = time.process_time()
        servers = place(state, int(chain))
        adds.append(1000 * (time.process_time() - started))
        if servers is not None:
            state.put(int(chain), servers)
    used = np.flatnonzero(plan.state.used)
    for server in random.choice(used, min(20, len(used)), replace=False):
        trial = plan.state.copy()
        before = trial.where.copy()
        started = time.process_time()
        found = replace_failed(trial, {int(server)})
        failures.append(1000 * (time.process_time() - started))
        moved.append(float((trial.where != before).sum()))
        lost += len(found.unplaced)
    return adds, failures, moved, lost


def _small(say: Say) -> Iterator[Row]:
    """The heuristic beside the optimum where that is known."""
    gaps, bounds = [], []
    for seed in range(SMALL_CASES):
        document = parse(
            demands.document(seed, 6, 5, longest=4, constrained=0.3, types=("edge", "standard"))
        )
        problem = build(document)
        heuristic = solve(problem, seconds=5)
        found = exact(problem, 20)
        if not found.optimal or found.plan is None or heuristic.unplaced:
            continue
        verify(document, problem, found.plan)
        assert heuristic.bound is not None
        gaps.append(100 * (heuristic.cost / found.plan.cost - 1))
        bounds.append(100 * (1 - heuristic.bound.cost / found.plan.cost))
    say(f"{len(gaps)} of {SMALL_CASES} small cases solved to the optimum")
    if gaps:
        note = f"{len(gaps)} cases of 6 chains on 5 servers, mean {statistics.mean(gaps):.2f} %"
        yield row("small cases: heuristic above the optimum", gaps, "%", note=note)
        yield row("small cases: bound below the optimum", bounds, "%")


def _protected(seed: int, say: Say) -> Iterator[Row]:
    document = parse(demands.document(seed, 1000, 120, headroom=1, constrained=0.05))
    problem, plan, took = _solved(document, 20)
    verify(document, problem, plan)
    assert plan.backups is not None
    name = "1000 chains on 120 servers, any one may fail"
    yield row(f"{name}: above the bound without failures", [_gap(plan)], "%")
    yield row(f"{name}: spare servers", [float(len(plan.spares))], "")
    yield row(f"{name}: servers without an answer", [float(len(plan.backups.unprotected))], "")
    yield row(f"{name}: time", [took], "s of CPU")
    say(f"{name}: {took:.1f} s of CPU")


def _policies(seed: int) -> Iterator[Row]:
    """What each policy costs and places on one case that all servers together just take."""
    document = parse(demands.document(seed, 1000, 120))
    problem = build(document)
    for name in POLICIES:
        plan = solve(problem, policy=name, seconds=20)
        verify(document, problem, plan)
        note = f"{len(plan.unplaced)} of 1000 chains without a place"
        yield row(f"1000 chains on 120 servers: cost by {name}", [plan.cost], "", note=note)


def measure(
    say: Say,
    *,
    seeds: int = 3,
    chains: int = CHAINS,
    servers: int = SERVERS,
    side_cases: bool = True,
) -> tuple[list[Row], dict[str, Any]]:
    """All rows and the manifest; without `side_cases` the large cases only."""
    rows = list(_large(list(range(1, seeds + 1)), chains, servers, say))
    if side_cases:
        rows += _small(say)
        rows += _protected(1, say)
        rows += _policies(1)
    return rows, {
        "machine": machine(),
        "seeds": list(range(1, seeds + 1)),
        "definitions": {
            "lower bound": "Lagrange relaxation: no plan costs less (headrace/placement/bound.py)",
            "above": "cost of the plan / lower bound - 1",
            "time": "CPU seconds of one thread, reading the document not included",
            "one more chain": "one of the placed chains taken out and placed again",
        },
    }
