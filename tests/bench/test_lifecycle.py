# SPDX-License-Identifier: Apache-2.0
"""The graphs that `headrace bench lifecycle` deploys are such as the node takes."""

from headrace.bench.lifecycle import documents
from headrace.bench.lifecycle.suite import CHANGED_RULES
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import Plan
from tests.node.surroundings import surroundings


def plan(document: documents.Document, others: dict[str, Plan] | None = None) -> Plan:
    graph, warnings = parse(document)
    assert not warnings
    number = len(others or {}) + 1
    return make_plan(graph, f"g{number}", number, surroundings(others, memory_mb=16_000))


def test_chains_of_all_sizes() -> None:
    for size in (0, 1, 10, 100):
        assert len(plan(documents.chain(size)).vnfs()) == size


def test_idle_graphs_go_beside_each_other_and_beside_a_chain_with_a_tag() -> None:
    others = {"g1": plan(documents.chain(1, tag=documents.MARKED))}
    for number in range(20):
        others[f"g{len(others) + 1}"] = plan(documents.idle(number), others)


def test_a_changed_version_differs_in_so_many_rules() -> None:
    first = documents.with_rules(documents.chain(1), 500, 1)
    second = documents.changed(first, CHANGED_RULES, 2)
    before = {rule.identity for rule in plan(first).rules()}
    after = {rule.identity for rule in plan(second).rules()}
    assert len(before - after) == len(after - before) == CHANGED_RULES
