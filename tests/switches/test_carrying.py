# SPDX-License-Identifier: Apache-2.0
"""What planning says of rules beyond a switch, and what LSIs amount to on a switch without them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.switches.base import Capabilities, LinkSpec, PortKind, PortSpec
from headrace.switches.carrying import lacks, undecided
from headrace.switches.flat import FlatState, flatten
from headrace.switches.registry import DRIVERS, driver_class
from headrace.switches.rules import (
    Action,
    Bucket,
    FieldMatch,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
)
from tests.node import graphs
from tests.node.surroundings import surroundings

EVERYTHING = Capabilities(port_kinds=(), vnf_kinds=())
NOTHING = EVERYTHING.model_copy(
    update={"matches": (), "masks": (), "actions": ("output",), "sets": (), "timeouts": False}
)
OUT = Output(port="b")


def rule(*actions: Action, port: str = "a", lsi: str = "0", **match: int) -> Rule:
    fields = {name: FieldMatch(value=value, mask=value or 1) for name, value in match.items()}
    return Rule(lsi=lsi, label="r", priority=1, in_port=port, match=fields, actions=actions)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (rule(OUT), None),
        (rule(OUT, eth_type=0xFFFF), "cannot match eth_type; it matches nothing but the port"),
        (rule(OUT, Output(port="c")), "cannot send a packet to several ports"),
        (rule(PopVlan(), OUT), "cannot pop VLAN tags"),
        (rule(PushVlan(vlan_id=1), OUT), "cannot push VLAN tags"),
        (rule(SetField(field="eth_src", value=1), OUT), "cannot change headers"),
        (rule(Select(buckets=(Bucket(weight=1, actions=(OUT,)),))), "cannot distribute flows"),
        (rule(OUT).model_copy(update={"idle_timeout": 5}), "has no timeouts"),
    ],
)
def test_what_a_switch_lacks(wanted: Rule, why: str | None) -> None:
    found = lacks(NOTHING, wanted)
    assert (found is None) == (why is None)
    assert why is None or why in str(found)
    assert lacks(EVERYTHING, wanted) is None


def test_masks_and_sets_are_declared_by_field() -> None:
    some = EVERYTHING.model_copy(update={"masks": ("ipv4_src",), "sets": ("eth_dst",)})
    assert lacks(some, rule(OUT, ipv4_src=0xFF00)) is None
    assert lacks(some, rule(OUT, ipv4_dst=0xFF00)) == "cannot match single bits of ipv4_dst"
    step = SetField(field="eth_src", value=1)
    assert lacks(some, rule(step, OUT)) == "cannot set eth_src; it sets eth_dst"


def test_without_priorities_no_packet_may_match_twice() -> None:
    plain, narrow = rule(OUT), rule(OUT, eth_type=0xFFFF)
    assert undecided(EVERYTHING, [plain, narrow]) is None
    without = EVERYTHING.model_copy(update={"priorities": False})
    assert undecided(without, [plain, narrow]) == (plain, narrow)
    assert undecided(without, [plain, rule(OUT, port="c")]) is None


def test_a_graph_beyond_the_switch_is_refused_with_rule_and_reason() -> None:
    document = graphs.port_to_port()
    second = document["forwarding-graph"]["big-switch"]["flow-rules"][1]
    second["match"]["dest_mac"] = "02:00:00:00:00:01"
    graph, _ = parse(document)
    node = surroundings()
    poor = node.capabilities.model_copy(update={"matches": ("eth_src",)})
    refusal = rf"flow-rules\[1\] \({second['id']}\): switch fake cannot match eth_dst"
    with pytest.raises(GraphRefused, match=refusal):
        make_plan(graph, "g", 1, type(node)(**{**vars(node), "capabilities": poor}))


@pytest.mark.parametrize("name", DRIVERS)
def test_what_a_driver_declares_exists(name: str) -> None:
    has: Capabilities = driver_class(name).capabilities  # type: ignore[attr-defined]
    assert set(has.masks) <= set(has.matches) or not has.matches
    assert "output" in has.actions and has.counters[:1] == ("port",)
    assert bool(has.sets) == ("set_field" in has.actions)


def state(*rules: Rule) -> FlatState:
    ports = {name: PortSpec(name=name, kind=PortKind.VETH) for name in ("a", "b", "c", "v")}
    links = [
        LinkSpec(first="0", first_port=f"l{n}", second="1", second_port=f"m{n}") for n in (0, 1)
    ]
    return FlatState(ports=ports, links=links, rules={r.identity: r for r in rules})


def flat(*rules: Rule) -> dict[str, Sequence[Action]]:
    return {r.in_port: r.actions for r in flatten(state(*rules))}


def test_links_are_seen_through() -> None:
    into = rule(PopVlan(), Output(port="l0"), vlan_vid=0x1005)
    behind = rule(Output(port="v"), port="m0", lsi="1")
    back = rule(Output(port="m1"), port="v", lsi="1")
    out = rule(PushVlan(vlan_id=5), Output(port="a"), port="l1")
    assert flat(into, behind, back, out) == {
        "a": (PopVlan(), Output(port="v")),
        "v": (PushVlan(vlan_id=5), Output(port="a")),
    }
    assert flat(into) == {"a": ()}, "nothing is behind the link yet: dropped"
    (seen,) = flatten(state(into, behind))
    assert (seen.cookie, seen.label) == (into.cookie, into.label)


def test_what_is_pushed_behind_a_link_is_not_on_other_copies() -> None:
    both = rule(Output(port="l0"), Output(port="l1"))
    tagged = rule(PushVlan(vlan_id=5), Output(port="b"), port="m0", lsi="1")
    plain = rule(Output(port="c"), port="m1", lsi="1")
    assert flat(both, tagged, plain) == {
        "a": (PushVlan(vlan_id=5), Output(port="b"), PopVlan(), Output(port="c"))
    }


def test_a_loop_of_links_ends() -> None:
    loop = rule(Output(port="m0"), port="m0", lsi="1")
    again = rule(Output(port="l0"), port="l0")
    assert flat(rule(Output(port="l0")), loop, again) == {"a": ()}
