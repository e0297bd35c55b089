# SPDX-License-Identifier: Apache-2.0
"""The policy `model`: kinds of ports, direct links and cores by the marginal cycles of a packet."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headrace.model.mechanistic.fitting import Fitted, RoleModel
from headrace.model.mechanistic.visits import reference, visits_of
from headrace.model.mechanistic.windows import Key
from headrace.node.config import usable_cores
from headrace.node.planning import by_model
from headrace.node.planning.by_model import ByModel, direct_pairs
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.policies import POLICIES
from headrace.node.planning.policy import FIRST_FIT, CoreUse, PlacementPolicy
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from headrace.switches.base import PortKind
from tests.node import graphs
from tests.node.surroundings import surroundings

CORES = usable_cores()
KINDS = (PortKind.MEMIF, PortKind.VHOST_USER, PortKind.SHM, PortKind.VETH)
MEMIF_DEAR = {"memif": (400.0, 90.0), "vhost-user": (250.0, 80.0), "shm": (100.0, 50.0)}


def role(key: Key, **terms: float) -> RoleModel:
    count = len(terms)
    zero = ((0.0,) * count,) * count
    spans = dict.fromkeys(("size", "vnfs", "pps"), (0.0, 1e9))
    names, values = tuple(terms), tuple(terms.values())
    return RoleModel(key, names, values, zero, 0.05, 20, 50.0, {}, 2e9, spans)


def fitted(visits: Mapping[str, tuple[float, float]], switch: str = "fake") -> Fitted:
    """By kind of ports the switch's cycles of a visit and the VNF's."""
    found = Fitted()
    for kind, (visit, own) in visits.items():
        subject = f"{switch}/in-process+{kind}"
        for one in (
            role(Key(subject, "switch"), packets=60.0, visits=visit),
            role(Key(subject, "VNF", "pass"), packets=own),
        ):
            found.roles[one.key] = one
    return found


def planned(
    policy: PlacementPolicy,
    length: int = 2,
    switch: str = "fake",
    previous: Plan = EMPTY_PLAN,
    document: dict[str, Any] | None = None,
) -> Plan:
    node = surroundings(cores={"control": [CORES[0]], "switch": [CORES[0]], "vnf": CORES})
    capabilities = node.capabilities.model_copy(update={"vnf_kinds": KINDS})
    node = replace(
        node, policy=policy, capabilities=capabilities, engine_kinds={"process": KINDS},
        switch=switch,
    )  # fmt: skip
    graph, _ = parse(document or graphs.chain("pass", length))
    return make_plan(graph, "g", 1, node, previous)


def kinds_of(plan: Plan) -> list[str]:
    return [vnf.ports[0].switch_port.kind.value for vnf in plan.vnfs()]


def by(visits: Mapping[str, tuple[float, float]]) -> ByModel:
    return ByModel(lambda: fitted(visits))


def test_the_cheapest_kind_for_switch_and_vnfs_together() -> None:
    plan = planned(by({"memif": (100.0, 200.0), "vhost-user": (150.0, 80.0), "shm": (300, 50)}), 1)
    assert kinds_of(plan) == ["vhost-user"]
    assert plan.placement["policy"] == "model" and plan.placement["terms"] == "the node's model"
    assert plan.placement["cycles-per-packet"] == 230.0
    assert plan.placement["first-fit-cycles-per-packet"] == 300.0


def test_a_direct_link_saves_a_visit() -> None:
    visits = {"memif": (300.0, 50.0), "vhost-user": (180.0, 50.0), "shm": (250.0, 50.0)}
    assert kinds_of(planned(by(visits), 1)) == ["vhost-user"]
    both = planned(by(visits), 2)
    assert kinds_of(both) == ["shm", "shm"]
    # 250 for one visit of the switch and 100 for the VNFs, instead of 460.
    assert both.placement["cycles-per-packet"] == 350.0
    pairs = [sorted(pair) for pair in both.placement["direct-links"]]
    names = sorted(vnf.vnf for vnf in both.vnfs())
    assert pairs == [names, names]


def test_rules_decide_whether_there_can_be_a_direct_link() -> None:
    document = graphs.chain("pass", 2)
    graph, _ = parse(document)
    assert {frozenset(pair) for pair in direct_pairs(graph)} == {
        frozenset(vnf.id for vnf in graph.vnfs)
    }
    between = [
        rule
        for rule in document["forwarding-graph"]["big-switch"]["flow-rules"]
        if rule["match"]["port_in"].startswith("vnf:")
        and rule["actions"][0]["output_to_port"].startswith("vnf:")
    ]
    for rule in between:
        rule["match"]["ether_type"] = "0x0800"
    assert direct_pairs(parse(document)[0]) == []


def test_vnfs_that_stay_keep_their_kind_and_count_for_direct_links() -> None:
    visits = {"memif": (300.0, 50.0), "vhost-user": (180.0, 50.0), "shm": (250.0, 50.0)}
    one = planned(by(visits), 1)
    two = planned(by(visits), 2, previous=one)
    assert kinds_of(two) == ["vhost-user", "vhost-user"]


def test_kinds_that_were_not_measured_are_not_chosen() -> None:
    assert kinds_of(planned(by({"vhost-user": (900.0, 80.0)}), 1)) == ["vhost-user"]


def test_long_chains_are_improved_to_what_trying_all_gives(monkeypatch: Any) -> None:
    visits = {"memif": (300.0, 50.0), "vhost-user": (180.0, 50.0), "shm": (250.0, 50.0)}
    whole = planned(by(visits), 5)
    monkeypatch.setattr(by_model, "MOST_TRIED", 1)
    assert planned(by(visits), 5).placement == whole.placement


def test_without_a_model_kinds_compare_by_the_reference() -> None:
    none = ByModel(lambda: None)
    plan = planned(none, 3, switch="headrace")
    assert plan.placement["terms"].startswith("the reference's (")
    assert "the node has no model" in plan.placement["terms"]
    # A model of one kind says nothing of the others.
    partial = ByModel(lambda: fitted({"memif": (1.0, 1.0)}, "headrace"))
    again = planned(partial, 3, switch="headrace")
    assert kinds_of(again) == kinds_of(plan) and "has no" in again.placement["terms"]
    assert plan.placement["cycles-per-packet"] < plan.placement["first-fit-cycles-per-packet"]


def test_a_switch_that_nobody_measured_is_left_to_first_fit() -> None:
    plan = planned(ByModel(lambda: None), 1)
    assert kinds_of(plan) == ["memif"]
    assert any("neither the node's model" in text for text in plan.warnings)


def test_it_takes_no_more_than_first_fit() -> None:
    ours, theirs = planned(by(MEMIF_DEAR), 3), planned(FIRST_FIT, 3)

    def use(plan: Plan) -> tuple[int, list[int]]:
        cores = [core for vnf in plan.vnfs() for core in vnf.cores]
        return sum(vnf.memory_mb for vnf in plan.vnfs()), sorted(map(cores.count, set(cores)))

    assert use(ours) == use(theirs)
    assert kinds_of(ours) == ["shm"] * 3


def test_the_vnfs_that_cost_the_switch_most_are_on_its_numa_node(monkeypatch: Any) -> None:
    asked = []

    class Spy(ByModel):
        def decide(self, question: Any) -> Any:
            far = [CoreUse(core, 1 - use.numa, 0) for core, use in ((9, question.cores[0]),)]
            near = [CoreUse(core, use.numa, 0) for core, use in ((7, question.cores[0]),)]
            asked.append(super().decide(replace(question, cores=(*far, *near))))
            return asked[-1]

    document = graphs.chain("pass", 2)
    rules = document["forwarding-graph"]["big-switch"]["flow-rules"]
    first, second = (vnf["id"] for vnf in document["forwarding-graph"]["VNFs"])
    spy = Spy(lambda: fitted({"vhost-user": (250.0, 80.0)}))
    with pytest.raises(Exception, match="cores"):  # 7 and 9 are not this node's
        planned(spy, 2, document=document)
    cores = {vnf: choice.cores for vnf, choice in asked[0].choices.items()}
    assert sorted(cores.values()) == [(7,), (9,)]
    assert rules and cores[first] == (7,) and cores[second] == (9,)


def test_the_policies_that_node_yaml_can_name() -> None:
    assert sorted(POLICIES) == ["first-fit", "model"]
    made = {name: make(lambda: None) for name, make in POLICIES.items()}
    assert {name: policy.name for name, policy in made.items()} == {n: n for n in POLICIES}


def test_the_reference_knows_headraces_kinds_and_the_machine() -> None:
    for size in (64, 1518):
        known = visits_of(reference(), "headrace", size)
        assert known.keys() == {"memif", "vhost-user", "shm"}
        whole = {kind: visit.switch + (visit.own("pass") or 0) for kind, visit in known.items()}
        assert min(whole, key=lambda kind: whole[kind]) == "shm"
        assert known["shm"].own("never measured") == known["shm"].own("pass")
    assert reference().manifest["machine"]["processor"]
    assert visits_of(reference(), "ovs-dpdk", 64) == {}
