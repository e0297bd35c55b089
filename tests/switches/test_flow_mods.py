# SPDX-License-Identifier: Apache-2.0
"""Messages are packed as os-ken does it, octet by octet."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.switches import flow_mods
from headrace.switches.fields import FIELDS
from headrace.switches.rules import (
    CONTROLLER,
    LOCAL,
    Action,
    Bucket,
    FieldMatch,
    Normal,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
    SetQueue,
)
from tests.switches import os_ken_encoding

OFPORTS = {"in": 1, "out": 2, "far": 0xFFFF_FF00, LOCAL: 0xFFFF_FFFE}
names = st.sampled_from(sorted(FIELDS))
xids = st.integers(0, 0xFFFF_FFFF)


def values(field: str) -> st.SearchStrategy[int]:
    return st.integers(0, FIELDS[field].ones)


@st.composite
def field_matches(draw: st.DrawFn) -> dict[str, FieldMatch]:
    found = {}
    for name in draw(st.lists(names, max_size=8, unique=True)):
        mask = draw(st.one_of(st.just(FIELDS[name].ones), values(name)))
        found[name] = FieldMatch(value=draw(values(name)) & mask, mask=mask)
    return found


outputs = st.builds(Output, port=st.sampled_from([*OFPORTS, CONTROLLER]))
tags = st.builds(PushVlan, vlan_id=st.integers(0, 4095))
sets = names.flatmap(lambda name: st.builds(SetField, field=st.just(name), value=values(name)))
buckets = st.builds(
    Bucket,
    weight=st.integers(0, 0xFFFF),
    actions=st.lists(st.one_of(outputs, tags, st.just(PopVlan())), max_size=3).map(tuple),
)
selects = st.builds(
    Select, buckets=st.lists(buckets, max_size=4).map(tuple), pair=st.integers(0, 0xFFFF_FFFF)
)
actions: st.SearchStrategy[Action] = st.one_of(
    outputs, tags, sets, st.just(PopVlan()), st.just(Normal()),
    st.builds(SetQueue, queue=st.integers(0, 0xFFFF_FFFF)),
)  # fmt: skip
rules = st.builds(
    Rule,
    lsi=st.just("lsi"),
    label=st.just("g/rule"),
    priority=st.integers(0, 0xFFFF),
    in_port=st.sampled_from(sorted(OFPORTS)),
    match=field_matches(),
    actions=st.one_of(
        st.lists(actions, max_size=5).map(tuple),
        selects.map(lambda select: (PopVlan(), select)),
    ),
    idle_timeout=st.integers(0, 0xFFFF),
    hard_timeout=st.integers(0, 0xFFFF),
)


@settings(max_examples=500, deadline=None)
@given(rules, st.booleans(), xids)
def test_messages_are_those_of_os_ken(rule: Rule, keeps_flows: bool, xid: int) -> None:
    expected = os_ken_encoding
    assert flow_mods.addition(rule, OFPORTS, xid) == expected.addition(rule, OFPORTS, xid)
    assert flow_mods.deletion(rule, xid) == expected.deletion(rule, xid)
    exact = flow_mods.exact_deletion(rule, OFPORTS, xid)
    assert exact == expected.exact_deletion(rule, OFPORTS, xid)
    if rule.select is not None:
        assert flow_mods.group_addition(rule, OFPORTS, keeps_flows, xid) == expected.group_addition(
            rule, OFPORTS, keeps_flows, xid
        )
        assert flow_mods.group_deletion(rule, xid) == expected.group_deletion(rule, xid)
