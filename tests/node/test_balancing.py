# SPDX-License-Identifier: Apache-2.0
"""Rules that distribute flows over several ports: their lowering, and what is refused where."""

import pytest

from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import Plan
from headrace.switches.flow_mods import group_of
from headrace.switches.rules import Bucket, Output, PushVlan, Rule, Select
from tests.node import graphs
from tests.node.api import Api
from tests.node.graphs import out, rule
from tests.node.surroundings import surroundings
from tests.switches.os_ken_encoding import encode_actions, encode_buckets

POINTS = [graphs.interface("in", "p0"), graphs.vlan("a", "p1", 5), graphs.internal("b", "g")]


def plan_of(*actions: graphs.Json, source: str = "endpoint:in") -> Plan:
    flow = rule("r", {"port_in": source}, *actions)
    graph, _ = parse(graphs.document(POINTS, [flow], [graphs.vnf("v", "pass")]))
    return make_plan(graph, "g", 1, surroundings())


def balanced(*actions: graphs.Json, source: str = "endpoint:in") -> Rule:
    (found,) = [r for r in plan_of(*actions, source=source).rules() if r.label == "g/r"]
    return found


def test_buckets() -> None:
    members = ["endpoint:a", {"port": "endpoint:b", "weight": 3}, "vnf:v:port:0"]
    found = balanced({"output_to_one_of": members})
    assert found.lsi == "hr-0"
    assert found.select == Select(
        buckets=(
            Bucket(weight=1, actions=(PushVlan(vlan_id=5), Output(port="p1"))),
            Bucket(weight=3, actions=(Output(port="g1l0a"),)),
            Bucket(weight=1, actions=(Output(port="g1l1a"),)),
        )
    )
    assert found.outputs == ("p1", "g1l0a", "g1l1a")
    assert not found.is_plain()


def test_header_actions_come_first() -> None:
    found = balanced({"output_to_one_of": ["endpoint:a"]}, {"push_vlan": "7"})
    assert [action.kind for action in found.actions] == ["push_vlan", "select"]


def test_on_the_wire() -> None:
    found = balanced({"output_to_one_of": ["endpoint:a", {"port": "endpoint:in", "weight": 2}]})
    numbers = {"p0": 4, "p1": 5}
    (action,) = encode_actions(found, numbers)
    assert action.group_id == group_of(found)
    plain = encode_buckets(found, numbers, keeps_flows=False)
    assert [bucket.weight for bucket in plain] == [1, 2]
    assert [step.cls_action_type for step in plain[0].actions] == [17, 25, 0]
    assert plain[1].actions[0].port == 0xFFFFFFF8  # back to where it came from: IN_PORT
    kept = encode_buckets(found, numbers, keeps_flows=True)
    assert all(bucket.actions[0].experimenter == 0x00524143 for bucket in kept)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([{"output_to_one_of": "endpoint:a"}], "output_to_one_of takes a list of ports"),
        ([{"output_to_port": ["endpoint:a"]}], "output_to_port takes no list"),
        ([{"output_to_one_of": ["endpoint:c"]}], "actions[0].output_to_one_of: there is no end-"),
        ([{"output_to_one_of": [{"port": "endpoint:a", "weight": 0}]}], "of[0].weight:"),
        ([{"output_to_one_of": ["endpoint:a", "endpoint:a"]}], "two outputs to the same port"),
        ([{"output_to_one_of": []}], "the rule goes nowhere"),
        ([{"output_to_one_of": ["endpoint:a"]}, out("endpoint:b")], "is the only output of a rule"),
        ([{"output_to_one_of": ["endpoint:a"]}, {"drop": True}], "exclude each other"),
    ],
)
def test_refusals(actions: list[graphs.Json], words: str) -> None:
    with pytest.raises(GraphRefused) as caught:
        plan_of(*actions)
    assert words in str(caught.value)
    assert "flow-rules[0]" in str(caught.value)


async def test_a_rule_that_no_longer_selects_leaves_no_group(api: Api) -> None:
    def document(*actions: graphs.Json) -> graphs.Json:
        return graphs.document(POINTS, [rule("r", {"port_in": "endpoint:in"}, *actions)])

    both = document({"output_to_one_of": ["endpoint:a", "endpoint:b"]})
    assert (await api("PUT", "/NF-FG/g", both)).status_code == 201
    api.world.changes.clear()
    more = document({"output_to_one_of": ["endpoint:a", {"port": "endpoint:b", "weight": 2}]})
    assert (await api("PUT", "/NF-FG/g", more)).status_code == 202
    assert not any(change.startswith("uninstall") for change in api.world.changes)
    assert (await api("PUT", "/NF-FG/g", document(out("endpoint:a")))).status_code == 202
    ruled = [c for c in api.world.changes if "install" in c and c.endswith(" g/r")]
    assert [change.split()[0] for change in ruled] == ["install", "uninstall", "install"]
