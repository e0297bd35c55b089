# SPDX-License-Identifier: Apache-2.0
"""Plans are the same with rules that were read and lowered before as without."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.node.errors import GraphRefused
from headrace.node.planning.known_rules import KnownRules
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from tests.node import graphs
from tests.node.surroundings import surroundings

POINTS = [
    graphs.interface("in", "p0"),
    graphs.vlan("tagged", "p1", 31),
    graphs.vlan("other", "p1", 32),
]
REFERENCES = ["endpoint:in", "endpoint:tagged", "endpoint:other", "vnf:v0:port:0", "vnf:v0:port:1",
              "vnf:v1:port:0"]  # fmt: skip

values = st.sampled_from
matches = st.fixed_dictionaries(
    {"port_in": values(REFERENCES)},
    optional={
        "ether_type": values(["0x0800", 2048, "0x86dd", True]),
        "source_ip": values(["10.0.0.1", "10.0.0.0/8", "fe80::1", "nothing"]),
        "protocol": values(["6", "17", 17]),
        "dest_port": values(["80", 443, "70000"]),
        "vlan_id": values(["ANY", "NO_VLAN", "7"]),
        "dest_mac": values(["02:00:00:00:00:01"]),
        "idle_timeout": values(["3", 1]),
    },
)
several = st.lists(values(REFERENCES), min_size=1, max_size=2)
actions = st.one_of(
    st.builds(lambda to: {"output_to_port": to}, values(REFERENCES)),
    st.builds(lambda to: {"output_to_one_of": to}, several),
    values(
        [
            {"drop": True}, {"drop": 1}, {"drop": "true"}, {"push_vlan": "5"}, {"pop_vlan": True},
            {"set_ethernet_dst_address": "02:00:00:00:00:02"}, {"output_to_queue": "q"},
            {"set_ip_tos": 4}, {"output_to_controller": True},
        ]
    ),
)  # fmt: skip
rules = st.lists(
    st.fixed_dictionaries(
        {
            "id": values(["a", "b", "c", "d", 1, "1"]),
            "priority": values([1, 10, True]),
            "match": matches,
            "actions": st.lists(actions, min_size=1, max_size=2),
        },
        optional={"colour": values(["red"])},
    ),
    max_size=4,
    unique_by=lambda rule: str(rule["id"]),
)


@st.composite
def versions(draw: st.DrawFn) -> list[graphs.Json]:
    """Documents that have rules, or nearly the same ones, in common."""
    pool: list[graphs.Json] = []
    found = []
    for _ in range(draw(st.integers(2, 5))):
        pool += draw(rules)
        chosen = draw(st.lists(st.sampled_from(pool), max_size=6)) if pool else []
        points = draw(st.permutations(POINTS))[: draw(st.integers(2, 3))]
        vnfs = [graphs.vnf(f"v{n}", "pass") for n in range(draw(st.integers(1, 2)))]
        if draw(st.booleans()):
            vnfs[0]["ports"][0] |= {"mac": "02:00:00:00:00:07", "trusted": True}
        by_id = {str(rule["id"]): rule for rule in chosen}
        document = graphs.document(points, copy.deepcopy(list(by_id.values())), vnfs)
        document["forwarding-graph"]["big-switch"]["queues"] = [{"id": "q"}]
        found.append(document)
    return found


def planned(
    document: graphs.Json, graph_id: str, previous: Plan, known: KnownRules | None
) -> tuple[Plan | None, Any]:
    """The plan and the warnings, or why there is none."""
    try:
        graph, warnings = parse(document) if known is None else known.read(document)
        return make_plan(graph, graph_id, 1, surroundings(), previous, known=known), warnings
    except GraphRefused as refused:
        return None, str(refused)


@pytest.mark.timeout(300)
@settings(max_examples=50, deadline=None)
@given(versions(), st.integers(1, 8), st.lists(st.sampled_from(["g", "h"]), min_size=5, max_size=5))
def test_what_is_known_changes_no_plan(
    documents: list[graphs.Json], most: int, names: list[str]
) -> None:
    known = KnownRules(most)
    previous: dict[str, Plan] = {}
    for document, name in zip(documents, names, strict=False):
        before = previous.get(name, EMPTY_PLAN)
        plain = planned(document, name, before, None)
        assert planned(document, name, before, known) == plain
        assert planned(document, name, before, known) == plain  # all of it known
        if plain[0] is not None:
            previous[name] = plain[0]
            assert json.loads(plain[0].to_json()) == json.loads(plain[0].model_dump_json())
            assert Plan.model_validate_json(plain[0].to_json()) == plain[0]


def test_rules_that_stay_are_the_same_objects() -> None:
    known = KnownRules()
    first, second = graphs.chain("pass", 1), graphs.chain("pass", 2)
    plan, _ = planned(first, "g", EMPTY_PLAN, known)
    assert plan is not None
    again, _ = planned(copy.deepcopy(first), "g", plan, known)
    longer, _ = planned(second, "g", plan, known)
    assert again is not None and longer is not None

    def by_key(of: Plan) -> dict[str, object]:
        return {r.key: r for r in of.resources if r.kind == "rule" and "link" not in r.rule.label}

    before, same, later = by_key(plan), by_key(again), by_key(longer)
    assert before and all(same[key] is rule for key, rule in before.items())
    kept = [key for key in before if later.get(key) == before[key]]
    assert kept and all(later[key] is before[key] for key in kept)


def test_the_oldest_are_forgotten() -> None:
    known = KnownRules(2)
    known.read(graphs.chain("pass", 1))
    assert len(known._by_text) == len(known._by_model) == 2
