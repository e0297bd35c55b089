# SPDX-License-Identifier: Apache-2.0
"""Placement policies: what they are asked, and what becomes of their answers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.numa import numa_nodes
from headrace.node.config import usable_cores
from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.policy import (
    Candidate,
    Choice,
    Decision,
    PlacementQuestion,
    PolicyError,
)
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from headrace.switches.base import PortKind
from tests.node import graphs
from tests.node.surroundings import surroundings

CORES = usable_cores()


class Policy:
    """Answers by a function, and keeps what it was asked."""

    name = "test"

    def __init__(self, answer: Callable[[PlacementQuestion], Decision]) -> None:
        self._answer = answer
        self.asked: list[PlacementQuestion] = []

    def decide(self, question: PlacementQuestion) -> Decision:
        self.asked.append(question)
        return self._answer(question)


def plan(policy: Policy, length: int = 1, previous: Plan = EMPTY_PLAN, **settings: Any) -> Plan:
    node = surroundings(cores={"control": [CORES[0]], "switch": [CORES[0]], "vnf": CORES})
    kinds: tuple[PortKind, ...] = (PortKind.MEMIF, PortKind.VHOST_USER)
    capabilities = node.capabilities.model_copy(update={"vnf_kinds": kinds})
    node = replace(
        node, policy=policy, capabilities=capabilities, engine_kinds={"process": kinds}, **settings
    )
    graph, _ = parse(graphs.chain("pass", length))
    return make_plan(graph, "g", 1, node, previous)


def last_candidate(question: PlacementQuestion) -> Decision:
    choices = {v: Choice(c[-1], (CORES[-1],)) for v, c in question.candidates.items()}
    return Decision(choices, {"predicted-mpps": 3.5})


def test_a_policy_chooses_kind_of_ports_and_cores_and_its_reasons_are_stored() -> None:
    policy = Policy(last_candidate)
    found = plan(policy)
    (vnf,) = found.vnfs()
    assert vnf.cores == (CORES[-1],)
    assert {port.switch_port.kind for port in vnf.ports} == {PortKind.VHOST_USER}
    assert found.placement == {"policy": "test", "predicted-mpps": 3.5}
    (question,) = policy.asked
    assert [use.core for use in question.cores] == CORES
    assert [c.kind for c in question.candidates[vnf.vnf]] == [PortKind.MEMIF, PortKind.VHOST_USER]
    assert Plan.model_validate_json(found.model_dump_json()) == found


def test_vnfs_that_stay_are_not_placed_again() -> None:
    policy = Policy(last_candidate)
    first = plan(policy)
    second = plan(policy, length=2, previous=first)
    assert second.vnfs()[0] == first.vnfs()[0]
    assert [*policy.asked[1].candidates] == [second.vnfs()[1].vnf]
    assert [*policy.asked[1].staying] == [first.vnfs()[0].vnf]


def test_a_policy_that_cannot_decide_leaves_it_to_first_fit_with_a_warning() -> None:
    def fail(_: PlacementQuestion) -> Decision:
        raise PolicyError("no results are stored")

    found = plan(Policy(fail))
    assert found.vnfs()[0].ports[0].switch_port.kind is PortKind.MEMIF
    assert found.warnings == ("placement test: no results are stored; placed by first-fit",)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (lambda c: None, "no choice"),
        (lambda c: Choice(c[0], (CORES[0], CORES[-1])), r"cores \[.*\], not 1 of"),
        (lambda c: Choice(c[0], (10_000,)), r"cores \[10000\]"),
        (lambda c: Choice(Candidate(c[0].template, PortKind.SHM)), "was not offered"),
    ],
)
def test_a_policy_gets_no_further_than_what_it_is_offered(
    choice: Callable[[tuple[Candidate, ...]], Choice | None], said: str
) -> None:
    def wrong(question: PlacementQuestion) -> Decision:
        found = {v: choice(c) for v, c in question.candidates.items()}
        return Decision({v: c for v, c in found.items() if c is not None})

    with pytest.raises(GraphRefused, match=said):
        plan(Policy(wrong))


def test_numa_nodes_of_cores(tmp_path: Path) -> None:
    for name, cores in (("node0", "0-1,4\n"), ("node1", "2-3\n"), ("node2", "\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(cores)
    assert numa_nodes(tmp_path) == {0: 0, 1: 0, 4: 0, 2: 1, 3: 1}
    assert numa_nodes(tmp_path / "absent") == {}
