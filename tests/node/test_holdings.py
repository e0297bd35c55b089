# SPDX-License-Identifier: Apache-2.0
"""The index of what graphs hold says what a scan of all plans would."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.node.planning.checks import ambiguous
from headrace.node.planning.holdings import Holdings
from headrace.node.planning.resources import Claim, Plan, RuleResource
from headrace.switches.fields import FIELDS
from headrace.switches.rules import FieldMatch, Output, Rule, overlap

_FIELDS = {"vlan_vid": 0x1FFF, "ipv4_src": 0xFFFF_FFFF, "tcp_dst": 0xFFFF}


@st.composite
def matches(draw: st.DrawFn) -> dict[str, FieldMatch]:
    names = draw(st.lists(st.sampled_from(sorted(_FIELDS)), unique=True))
    found = {}
    for name in names:
        mask = draw(st.sampled_from([FIELDS[name].ones, 0x3, 0x1]))
        found[name] = FieldMatch(value=draw(st.integers(0, 3)) & mask, mask=mask)
    return found


rules = st.builds(
    Rule,
    lsi=st.sampled_from(["lsi0", "lsi1"]),
    label=st.uuids().map(str),
    priority=st.integers(1, 2),
    in_port=st.sampled_from(["p0", "p1"]),
    match=matches(),
    actions=st.sampled_from([(), (Output(port="p1"),)]),
)


def distinct(found: list[Rule]) -> list[Rule]:
    return list({rule.identity: rule for rule in found}.values())


plans = st.builds(
    lambda found, claims: Plan(
        resources=tuple(RuleResource(rule=rule) for rule in distinct(found)), claims=tuple(claims)
    ),
    st.lists(rules, max_size=4),
    st.lists(st.builds(Claim, port=st.sampled_from(["p0", "p1"])), max_size=2),
)
changes = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), plans)), min_size=1, max_size=12
)


@given(changes, rules)
def test_the_index_finds_what_a_scan_finds(done: list[tuple[str, Plan | None]], rule: Rule) -> None:
    holdings, held = Holdings(), dict[str, Plan]()
    for graph, plan in done:
        if plan is None:
            holdings.drop(graph)
            held.pop(graph, None)
        else:
            holdings.put(graph, plan)
            held[graph] = plan
    assert holdings.plans() == held
    others = holdings.without("a")
    rest = {graph: plan for graph, plan in held.items() if graph != "a"}
    met = [r.label for r in others.rules_that_may_meet(rule) if overlap(r, rule)]
    scanned = [r.label for plan in rest.values() for r in plan.rules() if overlap(r, rule)]
    assert sorted(met) == sorted(scanned)
    for port in ("p0", "p1"):
        claims = sorted(graph for graph, _ in others.claims(port))
        assert claims == sorted(g for g, p in rest.items() for c in p.claims if c.port == port)
        users = {
            graph
            for graph, plan in held.items()
            for r in plan.rules()
            if r.lsi == "lsi0" and port in (r.in_port, *r.outputs)
        }
        assert set(holdings.users("lsi0", port)) == users


@given(st.lists(rules, max_size=12))
def test_ambiguous_rules_are_those_that_overlap(found: list[Rule]) -> None:
    found = distinct(found)
    pairs = [
        (one.label, other.label)
        for position, other in enumerate(found)
        for one in found[:position]
        if one.priority == other.priority and overlap(one, other)
    ]
    assert sorted((a.label, b.label) for a, b in ambiguous(found)) == sorted(pairs)
