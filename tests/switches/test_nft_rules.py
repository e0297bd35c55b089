# SPDX-License-Identifier: Apache-2.0
"""Rules as nftables' JSON: the bits that are compared, and the order of what is done."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.switches.fields import FIELDS, VLAN_PRESENT
from headrace.switches.nft_rules import MATCHES, cookie_of, counter_of, expression
from headrace.switches.rules import FieldMatch, Output, Rule, SetField
from tests.switches.cases import CASES, exact

Json = dict[str, Any]


def rule(match: dict[str, FieldMatch], *actions: Output | SetField) -> Rule:
    return Rule(lsi="l", label="r", priority=1, in_port="a", match=match, actions=actions)


def statements(match: dict[str, FieldMatch], *actions: Output | SetField) -> list[Json]:
    return expression(rule(match, *actions), lambda port: f"dev-{port}")


@pytest.mark.parametrize("name", MATCHES)
def test_a_match_compares_exactly_the_bits_of_the_field(name: str) -> None:
    case = CASES[name]
    matches = [s["match"] for s in statements(case.match) if "match" in s]
    base = [s["match"] for s in statements(exact(case.base)) if "match" in s]
    assert len(matches) > len(base)
    compared = [m for m in matches if "payload" in m["left"] and m["left"]["payload"]["len"] <= 32]
    assert all(0 <= m["right"] < 1 << 32 for m in matches), "a number that nft takes"
    assert all(0 <= m["right"] < 1 << m["left"]["payload"]["len"] for m in compared)


def test_a_wide_field_is_compared_in_pieces() -> None:
    value = 0x20010DB8 << 96 | 0xABCD
    match = {**exact({"eth_type": 0x86DD}), **exact({"ipv6_src": value})}
    pieces = [
        s["match"] for s in statements(match) if "payload" in s.get("match", {}).get("left", {})
    ]
    assert [p["left"]["payload"]["offset"] for p in pieces] == [64, 96, 128, 160]
    assert [p["right"] for p in pieces] == [0x20010DB8, 0, 0, 0xABCD]


def test_a_prefix_leaves_out_what_it_does_not_cover() -> None:
    wanted = FieldMatch(value=0xFD << 120, mask=0xFF << 120)
    match = {**exact({"eth_type": 0x86DD}), "ipv6_dst": wanted}
    (piece,) = [s["match"] for s in statements(match) if "&" in s.get("match", {}).get("left", {})]
    assert piece["left"]["&"][1] == 0xFF00_0000 and piece["right"] == 0xFD00_0000


def test_tags_are_told_apart_from_their_absence() -> None:
    none = statements(exact({"vlan_vid": 0}))[0]["match"]
    some = statements({"vlan_vid": FieldMatch(value=VLAN_PRESENT, mask=VLAN_PRESENT)})
    five = statements(exact({"vlan_vid": VLAN_PRESENT | 5}))
    assert (none["op"], none["right"]) == ("!=", 0x8100)
    assert [s["match"]["right"] for s in some if "match" in s] == [0x8100]
    assert [s["match"]["right"] for s in five if "match" in s] == [0x8100, 5]


def test_the_last_output_ends_the_rule_and_the_others_are_copies() -> None:
    step = SetField(field="eth_dst", value=1)
    kinds = statements({}, Output(port="b"), step, Output(port="c"))
    assert [next(iter(s)) for s in kinds] == ["counter", "dup", "mangle", "fwd"]
    assert kinds[1] == {"dup": {"addr": "dev-b"}} and kinds[3] == {"fwd": {"dev": "dev-c"}}
    assert statements({}, step)[-1] == {"drop": None}, "a change without an output drops"
    assert "mangle" not in {next(iter(s)) for s in statements({}, step)}


def test_a_counter_names_its_rule() -> None:
    one = rule({})
    assert cookie_of(counter_of(one)) == one.cookie
    assert set(MATCHES) == {name for name in FIELDS if not name.startswith("mpls")}
