# SPDX-License-Identifier: Apache-2.0
"""Graphs cut over nodes: nothing is lost, nothing is added, each cut link has one VNI."""

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headrace.cluster.cutting.cut import Link, cut, digest, links_of
from headrace.cluster.cutting.hops import CannotCut, check, neighbors, sequence
from headrace.cluster.cutting.join import join, normal, verify
from headrace.node.planning.nffg import parse
from tests.cluster.graphs import NODES, behaviour, behaviour_of_parts, graphs, places
from tests.cluster.objects import chain_graph

ADDRESSES = {node: f"192.0.2.{number}" for number, node in enumerate(NODES, 1)}


def _cut(graph: dict[str, Any], where: dict[str, str]) -> tuple[dict[str, Any], dict[Link, int]]:
    vnis = {link: 100 + number for number, link in enumerate(links_of(graph, where))}
    return cut(graph, where, vnis, ADDRESSES), vnis


@given(data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_parts_do_what_the_whole_does(data: st.DataObject) -> None:
    """Every rule is kept; each link has one VNI and two ends; parts make the whole again."""
    graph = data.draw(graphs())
    where = data.draw(places(graph))
    check(graph)
    try:
        parts, vnis = _cut(graph, where)
    except CannotCut:
        assume(False)
        raise
    assert set(parts) == set(where.values())
    rules = graph["big-switch"]["flow-rules"]
    assert behaviour_of_parts(parts) == behaviour(rules)
    assert normal(join(parts)) == normal(graph)
    ends: dict[str, list[str]] = {}
    for node, part in parts.items():
        for end in part["forwarding-graph"]["end-points"]:
            if "vxlan" in end:
                ends.setdefault(end["vxlan"]["vni"], []).append(node)
    assert {int(vni): sorted(nodes) for vni, nodes in ends.items()} == {
        vni: sorted(link.nodes) for link, vni in vnis.items()
    }
    for part in parts.values():
        parse(part)  # a node takes it


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_on_one_node_is_not_changed(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    where = dict.fromkeys(data.draw(places(graph)), "n1")
    parts, vnis = _cut(graph, where)
    assert not vnis
    assert normal(parts["n1"]["forwarding-graph"]) == normal(graph)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_rule_that_changes_touches_its_own_parts_only(data: st.DataObject) -> None:
    """Parts on nodes with none of the rule's ports stay as they are, octet by octet."""
    graph = data.draw(graphs())
    where = data.draw(places(graph))
    rules = graph["big-switch"]["flow-rules"]
    assume(rules)
    try:
        before, vnis = _cut(graph, where)
    except CannotCut:
        assume(False)
        raise
    changed = {**rules[0], "description": "changed"}
    other = {**graph, "big-switch": {**graph["big-switch"], "flow-rules": [changed, *rules[1:]]}}
    after = cut(other, where, vnis, ADDRESSES)
    port = rules[0]["match"]["port_in"]
    home = where[":".join(port.split(":")[:2])]
    for node in before:
        assert (digest(before[node]) == digest(after[node])) == (node != home)


def test_a_chain_is_cut_once_per_crossing() -> None:
    graph = chain_graph(4)
    where = {
        "endpoint:in": "n1", "vnf:v0": "n1", "vnf:v1": "n2", "vnf:v2": "n2", "vnf:v3": "n3",
        "endpoint:out": "n3",
    }  # fmt: skip
    parts, vnis = _cut(graph, where)
    assert len(vnis) == 2  # both directions of a hop are one tunnel
    assert [len(part["forwarding-graph"]["VNFs"]) for part in parts.values()] == [1, 2, 1]
    assert sequence(graph) == [
        "endpoint:in", "vnf:v0", "vnf:v1", "vnf:v2", "vnf:v3", "endpoint:out",
    ]  # fmt: skip
    assert neighbors(graph)["vnf:v1"] == ["vnf:v0", "vnf:v2"]


def test_a_wrong_part_is_found() -> None:
    """`verify` is what keeps a fault of cutting from nodes, so it has to find one."""
    graph = chain_graph(2)
    where = {"endpoint:in": "n1", "vnf:v0": "n1", "vnf:v1": "n2", "endpoint:out": "n2"}
    parts, _ = _cut(graph, where)
    verify(graph, parts)
    parts["n2"]["forwarding-graph"]["big-switch"]["flow-rules"].pop(0)
    with pytest.raises(CannotCut):
        verify(graph, parts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end-points": [{"id": "hr-link-1"}]}, "begins with hr-link-"),
        ({"VNFs": []}, "there is no port 'vnf:v0:port:0'"),
    ],
)
def test_what_can_not_be_cut_says_why(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotCut, match=message):
        check({**chain_graph(1), **change})


def test_a_link_needs_tunnel_addresses() -> None:
    graph = chain_graph(1)
    where = {"endpoint:in": "n1", "vnf:v0": "n1", "endpoint:out": "n2"}
    vnis = dict.fromkeys(links_of(graph, where), 7)
    with pytest.raises(CannotCut, match="n2 has no tunnelAddress"):
        cut(graph, where, vnis, {"n1": "192.0.2.1", "n2": None})


def test_a_queue_is_at_the_far_port() -> None:
    graph = chain_graph(1)
    rules = graph["big-switch"]["flow-rules"]
    rules[0]["actions"].append({"output_to_queue": "gold"})
    graph["big-switch"]["queues"] = [{"id": "gold"}]
    where = {"endpoint:in": "n1", "vnf:v0": "n2", "endpoint:out": "n2"}
    parts, vnis = _cut(graph, where)
    assert len(vnis) == 2  # the way back has no queue
    sent = parts["n1"]["forwarding-graph"]["big-switch"]["flow-rules"][0]
    assert all("output_to_queue" not in action for action in sent["actions"])
    queued = [
        rule
        for rule in parts["n2"]["forwarding-graph"]["big-switch"]["flow-rules"]
        if {"output_to_queue": "gold"} in rule["actions"]
    ]
    assert len(queued) == 1
    both = {**rules[0], "actions": [*rules[0]["actions"], {"output_to_port": "endpoint:in"}]}
    graph["big-switch"]["flow-rules"] = [both]
    with pytest.raises(CannotCut, match="several nodes"):
        links_of(graph, where)
