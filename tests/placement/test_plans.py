# SPDX-License-Identifier: Apache-2.0
"""No plan violates its document, none costs less than the bound, small ones are the optimum."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.placement import demands, exact
from headrace.placement.check import Checker
from headrace.placement.document import Document, parse
from headrace.placement.plans import (
    CannotPlan,
    Earlier,
    assignment,
    document_of,
    failures_of,
    make_plan,
)
from headrace.placement.policies import POLICIES
from headrace.placement.problem import build
from headrace.placement.solver import solve
from headrace.placement.state import State

CYCLES = {"entry": 100.0, "visit": {"vhost-user": 300.0}, "per_byte": 0.1}
SMALL: dict[str, Any] = {
    "types": {
        "small": {
            "cores": 4, "ghz": 2.0, "memory_mb": 4096, "link_gbps": 10, "hop_us": 5,
            "cycles": CYCLES,
        }
    },
    "servers": [{"name": "s", "type": "small", "count": 3}],
    "functions": {"fw": {"cores": 1, "memory_mb": 512, "latency_us": 10}},
    "chains": [{"name": "c", "vnfs": ["fw", "fw", "fw"], "kpps": 100}],
}  # fmt: skip


def document(**changed: Any) -> Document:
    return parse({**SMALL, **changed})


def chains(*some: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": f"c{number}", "kpps": 100, **one} for number, one in enumerate(some)]


@st.composite
def documents(draw: st.DrawFn, largest: int = 12) -> Document:
    """Random documents: mixed servers, all constraints, demands from trivial to impossible."""
    racks = draw(st.booleans())
    kinds = draw(st.lists(st.sampled_from(["standard", "edge", "large"]), min_size=1, max_size=5))
    types = {name: {**demands.TYPES[name]} for name in sorted(set(kinds))}
    for kind in types.values():
        kind["cores"] = draw(st.sampled_from([2, 4.5, 28]))
        kind["link_gbps"] = draw(st.sampled_from([1, 10]))
        kind["core_price"] = draw(st.sampled_from([0, 0.1]))
    servers = [
        {"name": f"s{n}", "type": kind, "rack": f"r{n % 2}" if racks else ""}
        for n, kind in enumerate(kinds)
    ]
    names = list(demands.FUNCTIONS)
    made = []
    for number in range(draw(st.integers(0, largest))):
        vnfs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5))
        one: dict[str, Any] = {
            "name": f"c{number}",
            "vnfs": vnfs,
            "kpps": draw(st.sampled_from([1, 33.3, 150, 900])),
            "bytes": draw(st.sampled_from([64, 577.5, 1500])),
        }
        if draw(st.booleans()):
            one["placement"] = draw(st.sampled_from(["any", "gather", "distribute"]))
        if draw(st.integers(0, 3)) == 0:
            one["latency_us"] = draw(st.sampled_from([20, 80, 300]))
        if draw(st.integers(0, 4)) == 0:
            one["servers"] = [draw(st.sampled_from([*(s["name"] for s in servers), *types]))]
        if len(vnfs) > 1 and one.get("placement") != "gather" and draw(st.integers(0, 3)) == 0:
            one["apart"] = [[0, len(vnfs) - 1]]
        made.append(one)
    apart = []
    if len(made) > 1 and draw(st.booleans()):
        domain = draw(st.sampled_from(["server", "rack"])) if racks else "server"
        apart.append({"vnfs": ["c0/0", "c1/0"], "domain": domain})
    return parse(
        {
            "types": types, "servers": servers, "functions": demands.FUNCTIONS, "chains": made,
            "apart": apart, "headroom": draw(st.integers(0, 1)), "network_us": 20,
        }
    )  # fmt: skip


SLOW = settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(documents())
def test_no_plan_violates_its_document_and_none_costs_less_than_the_bound(one: Document) -> None:
    problem, plan = make_plan(one, exactness="never", seconds=5)
    checker = Checker(one)
    found = assignment(problem, plan)
    assert checker.violations(found) == []
    if plan.backups is not None:
        spares = [problem.servers[s] for s in plan.spares]
        unprotected = [problem.servers[s] for s in plan.backups.unprotected]
        answers = failures_of(problem, plan)
        assert checker.failures(found, answers, spares, unprotected) == []
    assert len(found) + len(plan.unplaced) == len(problem.chains)
    if not plan.unplaced:
        assert plan.bound is not None
        assert plan.cost >= plan.bound.cost - 1e-9
    # What is printed names every chain once and can be printed.
    told = document_of(one, problem, plan)
    assert set(told["chains"]) | set(told["unplaced"]) == set(problem.chains)
    assert told["partial"] == bool(plan.unplaced or told["unprotected"])


@SLOW
@given(documents(), st.sampled_from(sorted(POLICIES)))
def test_no_policy_violates_a_document(one: Document, policy: str) -> None:
    problem, plan = make_plan(one, policy=policy, seconds=2)
    assert Checker(one).violations(assignment(problem, plan)) == []


@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(documents(largest=4))
def test_the_optimum_is_between_the_bound_and_the_heuristic(one: Document) -> None:
    problem = build(one)
    if exact.variables(problem) > 700 or not problem.chains:
        return
    plan = solve(problem, seconds=2)
    found = exact.exact(problem, 20)
    complete = not plan.unplaced and not (plan.backups and plan.backups.unprotected)
    if found.infeasible:
        assert not complete
        return
    if not found.optimal or found.plan is None or plan.bound is None:
        return
    assert Checker(one).violations(assignment(problem, found.plan)) == []
    assert found.plan.cost >= plan.bound.cost - 1e-6
    if complete:
        assert found.plan.cost <= plan.cost + 1e-6


@SLOW
@given(documents(), st.data())
def test_put_and_remove_are_inverses(one: Document, data: st.DataObject) -> None:
    problem = build(one)
    state = State(problem)
    servers = range(len(problem.servers))
    put = []
    for chain in range(len(problem.chains)):
        length = problem.length(chain)
        where = data.draw(st.lists(st.sampled_from(servers), min_size=length, max_size=length))
        state.put(chain, where)
        put.append(where)
    for chain in data.draw(st.permutations(range(len(put)))):
        assert state.remove(chain) == put[chain]
    assert (state.free == problem.capacity).all()
    assert not state.used.any()


def test_a_chain_that_fits_is_gathered() -> None:
    problem, plan = make_plan(document())
    assert assignment(problem, plan)["c"] in [[name] * 3 for name in problem.servers]
    assert plan.optimal and plan.cost == 1.0


def test_a_chain_larger_than_a_server_is_cut_into_the_fewest_runs() -> None:
    one = document(chains=chains({"vnfs": ["fw"] * 6}))
    problem, plan = make_plan(one, exactness="never")
    assert len(set(assignment(problem, plan)["c0"])) == 2
    assert len(plan.state.runs(0, plan.state.where.tolist())) == 2


def test_gather_and_distribute_are_kept() -> None:
    one = document(
        chains=chains(
            {"vnfs": ["fw"] * 3, "placement": "gather"},
            {"vnfs": ["fw"] * 3, "placement": "distribute"},
        )
    )
    problem, plan = make_plan(one)
    found = assignment(problem, plan)
    assert len(set(found["c0"])) == 1
    assert len(set(found["c1"])) == 3


def test_latency_forbids_a_cut() -> None:
    """Two runs take 6 x 10 + 8 x 5 + 1000 us, one would take less but has no room."""
    long = chains({"vnfs": ["fw"] * 6, "latency_us": 500})
    problem, plan = make_plan(document(chains=long, network_us=1000))
    assert plan.unplaced == [0]
    told = document_of(document(chains=long, network_us=1000), problem, plan)
    assert told["partial"] and "constraints" in told["unplaced"]["c0"]
    assert not make_plan(document(chains=long, network_us=10))[1].unplaced


def test_a_latency_that_no_server_keeps_is_named() -> None:
    one = document(chains=chains({"vnfs": ["fw"], "latency_us": 15}))
    problem, plan = make_plan(one)
    assert "20.0 us on the fastest server, 15 are allowed" in str(
        document_of(one, problem, plan)["unplaced"]
    )


def test_a_demand_that_no_server_meets_is_named() -> None:
    one = document(chains=chains({"vnfs": ["fw"], "kpps": 20_000, "bytes": 1500}))
    problem, plan = make_plan(one)
    assert document_of(one, problem, plan)["unplaced"] == {
        "c0": "no server has the switch and link of c0/0 even when empty"
    }


def test_apart_by_rack() -> None:
    servers = [{"name": f"s{n}", "type": "small", "rack": f"r{n // 2}"} for n in range(4)]
    one = document(
        servers=servers,
        chains=chains({"vnfs": ["fw"]}, {"vnfs": ["fw"]}),
        apart=[{"vnfs": ["c0/0", "c1/0"], "domain": "rack"}],
    )
    for exactness in ("always", "never"):
        problem, plan = make_plan(one, exactness=exactness)
        (first,), (second,) = assignment(problem, plan).values()
        assert {first, second} & {"s0", "s1"} and {first, second} & {"s2", "s3"}


def test_headroom_keeps_room_for_the_failure_of_any_server() -> None:
    one = document(headroom=1, chains=chains({"vnfs": ["fw"] * 4}, {"vnfs": ["fw"] * 4}))
    _, plan = make_plan(one, exactness="never")
    assert len(plan.spares) == 1 and not plan.backups.unprotected  # type: ignore[union-attr]
    assert plan.cost == 3.0
    full = document(headroom=1, chains=chains(*({"vnfs": ["fw"] * 4} for _ in range(3))))
    told = document_of(full, *make_plan(full))
    assert told["partial"] and len(told["unprotected"]) == 3


def test_a_failure_moves_only_what_was_there() -> None:
    one = document(chains=chains(*({"vnfs": ["fw"] * 2} for _ in range(4))))
    problem, plan = make_plan(one)
    before = assignment(problem, plan)
    victim = before["c0"][0]
    problem, after = make_plan(one, earlier=Earlier(before, [victim]))
    found = assignment(problem, after)
    hit = [name for name, servers in before.items() if victim in servers]
    assert all(found[name] == before[name] for name in before if name not in hit)
    assert all(victim not in servers for servers in found.values())
    assert after.moved == 2 * len(hit) and not after.unplaced


@SLOW
@given(documents(), st.data())
def test_continuing_a_plan_keeps_it_feasible_and_its_migrations_bounded(
    one: Document, data: st.DataObject
) -> None:
    problem, plan = make_plan(one, policy=data.draw(st.sampled_from(["first-fit", "gather"])))
    before = assignment(problem, plan)
    most = data.draw(st.integers(0, 6))
    problem, after = make_plan(one, earlier=Earlier(before, (), most), seconds=2)
    found = assignment(problem, after)
    assert Checker(one).violations(found) == []
    moved = sum(a != b for name in before for a, b in zip(before[name], found[name], strict=True))
    assert moved == after.moved <= most
    assert after.state.cost() <= plan.state.cost() + 1e-9 or len(found) > len(before)


def test_what_can_be_moved_is_moved() -> None:
    """Two half-empty servers become one if two migrations are allowed, and not before."""
    one = document(chains=chains({"vnfs": ["fw"] * 2}, {"vnfs": ["fw"] * 2}))
    spread = {"c0": ["s-1", "s-1"], "c1": ["s-2", "s-2"]}
    assert make_plan(one, earlier=Earlier(spread, (), 1))[1].cost == 2.0
    plan = make_plan(one, earlier=Earlier(spread, (), 2))[1]
    assert plan.cost == 1.0 and plan.moved == 2


def test_an_exact_plan_of_a_large_case_is_refused() -> None:
    with pytest.raises(CannotPlan, match="variables"):
        make_plan(parse(demands.document(1, 60, 20)), exactness="always", seconds=1)


def test_the_checker_finds_what_is_wrong() -> None:
    one = document(chains=chains({"vnfs": ["fw"] * 3, "placement": "gather", "latency_us": 55}))
    checker = Checker(one)
    assert checker.violations({"c0": ["s-1"] * 3}) == []
    (said,) = checker.violations({"c0": ["s-1"] * 2})
    assert "2 servers for 3 VNFs" in said
    assert len(checker.violations({"c0": ["s-1", "s-2", "s-1"]})) == 2  # gathered, too slow
    assert checker.violations({"c0": ["s-1"] * 3}, down=["s-1"])
    assert checker.violations({"c0": ["elsewhere"] * 3})
    heavy = document(chains=chains({"vnfs": ["fw"] * 5}))
    assert "5 cores of 4" in Checker(heavy).violations({"c0": ["s-1"] * 5})[0]
    assert Checker(one).failures({"c0": ["s-1"] * 3}, {}, [])


def test_equal_seeds_give_equal_documents() -> None:
    assert demands.document(7, 20, 5, constrained=0.5) == demands.document(
        7, 20, 5, constrained=0.5
    )
    rates = [chain["kpps"] for chain in demands.document(7, 500, 50)["chains"]]
    assert np.median(rates) == pytest.approx(demands.MEDIAN_KPPS, rel=0.15)
