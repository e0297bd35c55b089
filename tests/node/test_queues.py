# SPDX-License-Identifier: Apache-2.0
"""Queues and the controller of a graph: from its rules to the switch's."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import ControllerResource, Plan, QueueResource
from headrace.switches.base import QueueSpec
from headrace.switches.rules import CONTROLLER, Output, Rule, SetQueue
from tests.node import graphs
from tests.node.surroundings import surroundings


def plan_of(document: dict[str, Any], number: int = 3, **settings: Any) -> Plan:
    graph, _ = parse(document)
    node = surroundings(**settings)
    able = (*node.capabilities.actions, "controller", "set_queue")
    has = node.capabilities.model_copy(update={"actions": able})
    return make_plan(graph, "g", number, type(node)(**{**vars(node), "capabilities": has}))


def through_a_vnf(**big_switch: Any) -> dict[str, Any]:
    """in -> v -> out, by rules r0 to r3; the first two are there, the others back."""
    document = graphs.chain("pass", 1)
    document["forwarding-graph"]["big-switch"].update(big_switch)
    return document


def rules_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["forwarding-graph"]["big-switch"]["flow-rules"]
    return found


def by_label(plan: Plan, label: str) -> Rule:
    (found,) = [rule for rule in plan.rules() if rule.label == label]
    return found


def test_a_queue_is_made_on_the_port_that_a_rule_sends_to_by_it() -> None:
    document = graphs.port_to_port()
    document["forwarding-graph"]["big-switch"]["queues"] = [
        {"id": "gold", "min-rate": 5_000_000},
        {"id": "tin", "max-rate": 1_000_000},
    ]
    first, second = rules_of(document)
    first["actions"].append({"output_to_queue": "tin"})
    plan = plan_of(document)
    (queue,) = [r for r in plan.resources if isinstance(r, QueueResource)]
    assert queue.lsi == "hr-0"
    assert queue.queue == QueueSpec(port="p1", number=3 * 16 + 2, max_rate=1_000_000)
    assert by_label(plan, f"g/{first['id']}").actions == (SetQueue(queue=50), Output(port="p1"))
    assert by_label(plan, f"g/{second['id']}").actions == (Output(port="p0"),)


def test_the_same_end_point_by_two_queues_has_two_links() -> None:
    document = through_a_vnf(queues=[{"id": "1", "max-rate": 1000}, {"id": "2"}])
    outward = next(
        rule
        for rule in rules_of(document)
        if rule["match"]["port_in"].startswith("vnf:")
        and any("endpoint:" in str(action) for action in rule["actions"])
    )
    slow = {**outward, "id": "slow", "priority": 9}
    slow["match"] = {**outward["match"], "ether_type": "0x800"}
    slow["actions"] = [*outward["actions"], {"output_to_queue": "1"}]
    rules_of(document).append(slow)
    plan = plan_of(document)
    downs = [rule for rule in plan.rules() if rule.label.endswith(" down")]
    physical = by_label(plan, "g/slow").outputs
    assert physical != by_label(plan, f"g/{outward['id']}").outputs, "a link of its own"
    queued = [rule for rule in downs if isinstance(rule.actions[0], SetQueue)]
    assert [rule.actions[0] for rule in queued] == [SetQueue(queue=49)]


def test_what_goes_to_the_controller_goes_through_the_graphs_own_lsi() -> None:
    document = graphs.port_to_port()
    document["forwarding-graph"]["big-switch"]["controller"] = "tcp:192.0.2.7:6653"
    first, _ = rules_of(document)
    first["actions"] = [{"output_to_controller": True}]
    plan = plan_of(document, controllers=["192.0.2.0/24"])
    (found,) = [r for r in plan.resources if isinstance(r, ControllerResource)]
    assert (found.lsi, found.address) == ("hr-3", "tcp:192.0.2.7:6653")
    entry = by_label(plan, f"g/{first['id']}")
    (up,) = [rule for rule in plan.rules() if rule.label.endswith(" up")]
    assert entry.lsi == "hr-0" and CONTROLLER not in entry.outputs
    assert (up.lsi, up.actions) == ("hr-3", (Output(port=CONTROLLER),))


@pytest.mark.parametrize(
    ("big_switch", "actions", "refusal"),
    [
        ({}, [{"output_to_queue": "1"}], r"output_to_queue: there is no queue '1'.*are: none"),
        ({"queues": [{"id": 1}, {"id": 1}]}, [], r"queues\[1\].id: there are two queues '1'"),
        ({}, [{"output_to_controller": True}], r'\[0\]: output_to_controller, and.*add "controll'),
        ({"controller": "tcp:203.0.113.1:6653"}, [], r"controllers in: 192.0.2.0/24 \(controllers"),
        ({"controller": "tcp:192.0.2.1:0"}, [], "0 is out of range"),
        ({"controller": "unix:/run/x"}, [], "controller"),
    ],
)
def test_refusals(big_switch: dict[str, Any], actions: list[dict[str, Any]], refusal: str) -> None:
    document = graphs.port_to_port()
    document["forwarding-graph"]["big-switch"].update(big_switch)
    rules_of(document)[0]["actions"] += actions
    with pytest.raises(GraphRefused, match=refusal):
        plan_of(document, controllers=["192.0.2.0/24"])


def test_a_switch_without_queues_refuses_the_rule() -> None:
    document = graphs.port_to_port()
    document["forwarding-graph"]["big-switch"]["queues"] = [{"id": "q"}]
    rules_of(document)[0]["actions"].append({"output_to_queue": "q"})
    graph, _ = parse(document)
    with pytest.raises(GraphRefused, match=r"flow-rules\[0\] .*switch fake cannot use queues"):
        make_plan(graph, "g", 1, surroundings())
