# SPDX-License-Identifier: Apache-2.0
"""Plans of one node: as cheap as trying everything, and within each core's cycles."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headrace.cli import app
from headrace.placement.document import DocumentError
from headrace.placement.one_node import (
    NodeDocument,
    NodeFull,
    NodePlan,
    choose_kinds,
    parse_node,
    plan_node,
)

KINDS = {
    "vhost-user": {"switch": 120, "vnf": 80, "per_byte": 0.05},
    "shm": {"switch": 45, "vnf": 20, "direct": 15},
}
FUNCTIONS = {
    "any": {"cycles": 200, "memory_mb": 100, "kinds": ["vhost-user", "shm"]},
    "shm": {"cycles": 200, "kinds": ["shm"]},
    "old": {"cycles": 100, "kinds": ["vhost-user"]},
}


def document(chains: list[dict[str, Any]], cores: list[int], **node: Any) -> NodeDocument:
    """`cores` are the NUMA nodes of the cores."""
    made = [{"core": number, "numa": numa} for number, numa in enumerate(cores)]
    whole = {"ghz": 2.0, "memory_mb": 4096, "entry": 60, "kinds": KINDS, "cores": made, **node}
    named = [{"name": f"c{n}", "kpps": 100, **chain} for n, chain in enumerate(chains)]
    return parse_node({"node": whole, "functions": FUNCTIONS, "chains": named})


def cost_of(one: NodeDocument, kinds: list[str], direct: tuple[bool, ...]) -> float:
    """Cycles of a packet of the first chain, added up link by link."""
    chain, known = one.chains[0], one.node.kinds

    def port(kind: str) -> float:
        of = known[kind]
        return of.switch + of.vnf + 2 * of.per_byte * chain.bytes

    total = port(kinds[0]) + port(kinds[-1])
    for (a, b), is_direct in zip(itertools.pairwise(kinds), direct, strict=True):
        if is_direct:
            if a != b or known[a].direct is None:
                return float("inf")
            total += 2 * (known[a].direct or 0.0)
        else:
            total += port(a) + port(b)
    return total


@given(st.lists(st.sampled_from(sorted(FUNCTIONS)), min_size=1, max_size=4), st.booleans())
def test_kinds_and_direct_links_are_the_cheapest(vnfs: list[str], direct: bool) -> None:
    one = document([{"vnfs": vnfs, "direct": direct}], [0] * 8)
    chosen = choose_kinds(one, one.chains[0])
    ways = list(itertools.product([False, True] if direct else [False], repeat=len(vnfs) - 1))
    known = [one.functions[name].kinds for name in vnfs]
    options = [(kinds, way) for kinds in itertools.product(*known) for way in ways]
    least = min(cost_of(one, list(kinds), way) for kinds, way in options)
    ours = cost_of(one, [v.kind for v in chosen], tuple(v.next_direct for v in chosen[:-1]))
    assert ours == pytest.approx(least)


def fits(one: NodeDocument, plan: NodePlan) -> None:
    """No core has two roles or more than it may; every VNF has one."""
    cores = [*plan.workers, *plan.core_of.values()]
    assert len(set(cores)) == len(cores)
    assert set(cores) <= {core.core for core in one.node.cores}
    assert set(plan.core_of) == {
        f"{chain.name}/{n}" for chain in one.chains for n in range(len(chain.vnfs))
    }
    assert max(plan.used.values()) <= one.node.max_load + 1e-9
    assert plan.cost == pytest.approx(sum(plan.used.values()))
    assert plan.bound <= plan.cost + 1e-9


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(sorted(FUNCTIONS)), min_size=1, max_size=3), min_size=1,
             max_size=3),
    st.lists(st.integers(0, 1), min_size=4, max_size=10),
    st.sampled_from([1.0, 1.4]),
    st.sampled_from([50, 1000, 4000]),
)  # fmt: skip
def test_a_plan_fits_or_says_what_is_short(
    chains: list[list[str]], cores: list[int], remote: float, kpps: float
) -> None:
    one = document([{"vnfs": vnfs, "kpps": kpps} for vnfs in chains], cores, remote=remote)
    try:
        plan = plan_node(one)
    except NodeFull as error:
        assert str(error)
        return
    fits(one, plan)


def test_direct_links_stay_on_one_numa_node() -> None:
    """Two chains of two on nodes with three cores each: one worker, so one pair is on the other."""
    one = document([{"vnfs": ["shm", "shm"]}] * 2, [0, 0, 0, 1, 1, 1], remote=2.0)
    plan = plan_node(one)
    fits(one, plan)
    assert plan.optimal and len(plan.direct_links()) == 2
    numa = {core.core: core.numa for core in one.node.cores}
    assert plan.workers == [0]
    for first, second in plan.direct_links():
        assert numa[plan.core_of[first]] == numa[plan.core_of[second]]


def test_more_packets_take_more_workers_and_too_many_are_refused() -> None:
    few = plan_node(document([{"vnfs": ["old"], "kpps": 1000}], [0] * 4))
    more = plan_node(document([{"vnfs": ["old"], "kpps": 6000, "bytes": 64}], [0] * 4))
    assert len(few.workers) == 1 and len(more.workers) == 2
    with pytest.raises(NodeFull, match=r"takes .* of a core"):
        plan_node(document([{"vnfs": ["old"], "kpps": 9000}], [0] * 9))
    with pytest.raises(NodeFull, match="need a core each"):
        plan_node(document([{"vnfs": ["old"] * 4}], [0] * 4))
    with pytest.raises(NodeFull, match="MB"):
        plan_node(document([{"vnfs": ["any"] * 3}], [0] * 4, memory_mb=200))


def test_wrong_files_are_refused() -> None:
    with pytest.raises(DocumentError, match="no function"):
        document([{"vnfs": ["none"]}], [0, 0])
    with pytest.raises(DocumentError, match="cores"):
        document([{"vnfs": ["any"]}], [0])
    with pytest.raises(DocumentError, match="remote"):
        document([{"vnfs": ["any"]}], [0, 0], remote=0.5)


def test_the_command_plans_a_node(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "docs" / "placement" / "one-node.yaml"
    told = json.loads(CliRunner().invoke(app, ["place", str(file), "--json"]).stdout)
    assert told["direct_links"] and told["optimal"]
    assert "worker" in CliRunner().invoke(app, ["place", str(file)]).stdout
    full = tmp_path / "full.yaml"
    full.write_text(file.read_text().replace("kpps: 1500", "kpps: 15000"))
    ran = CliRunner().invoke(app, ["place", str(full)])
    assert ran.exit_code == 3 and "of a core" in ran.stderr
