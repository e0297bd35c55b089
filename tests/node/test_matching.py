# SPDX-License-Identifier: Apache-2.0
"""Every match key and header action of the API: its exact OpenFlow meaning, or a refusal."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.errors import GraphRefused
from headrace.node.planning.flow_rule_model import MATCH_KEYS, FlowRuleModel
from headrace.node.planning.matching import header_actions, match_fields
from headrace.switches.fields import FIELDS
from headrace.switches.rules import FieldMatch, Rule, covers, overlap
from tests.switches.os_ken_encoding import encode_actions, encode_match

PLACE = "big-switch.flow-rules[0]"
IPV4 = {"ether_type": "0x800"}
UDP = {**IPV4, "protocol": "17"}


def model(match: dict[str, str], *actions: dict[str, str | bool]) -> FlowRuleModel:
    return FlowRuleModel.model_validate(
        {
            "id": "r",
            "match": {"port_in": "endpoint:a", **match},
            "actions": [*actions, {"output_to_port": "endpoint:b"}],
        }
    )


def fields(match: dict[str, str], tag: int | None = None) -> dict[str, tuple[int, int]]:
    found = match_fields(model(match), PLACE, tag)
    return {name: (wanted.value, wanted.mask) for name, wanted in found.items()}


def why(match: dict[str, str], *actions: dict[str, str | bool], tag: int | None = None) -> str:
    with pytest.raises(GraphRefused) as caught:
        entry = model(match, *actions)
        header_actions(entry, PLACE, match_fields(entry, PLACE, tag), tag)
    return str(caught.value)


def exact(name: str, value: int) -> tuple[int, int]:
    return value, FIELDS[name].ones


# One example of each key, with what it comes to. `test_every_key_has_an_example` keeps it complete.
EXAMPLES: dict[str, tuple[dict[str, str], dict[str, tuple[int, int]]]] = {
    "hard_timeout": ({"hard_timeout": "10"}, {}),
    "idle_timeout": ({"idle_timeout": "10"}, {}),
    "ether_type": ({"ether_type": "2048"}, {"eth_type": exact("eth_type", 0x800)}),
    "vlan_id": ({"vlan_id": "0x1f"}, {"vlan_vid": exact("vlan_vid", 0x101F)}),
    "vlan_pcp": ({"vlan_pcp": "3", "vlan_id": "ANY"}, {"vlan_pcp": exact("vlan_pcp", 3)}),
    "vlan_priority": ({"vlan_priority": "3", "vlan_id": "7"}, {"vlan_pcp": exact("vlan_pcp", 3)}),
    "ip_dscp": ({**IPV4, "ip_dscp": "46"}, {"ip_dscp": exact("ip_dscp", 46)}),
    "ip_ecn": ({**IPV4, "ip_ecn": "1"}, {"ip_ecn": exact("ip_ecn", 1)}),
    "tos_bits": ({**IPV4, "tos_bits": "0xb9"}, {"ip_dscp": (46, 63), "ip_ecn": (1, 3)}),
    "source_mac": (
        {"source_mac": "02:00:00:00:00:0a"},
        {"eth_src": exact("eth_src", 0x02 << 40 | 10)},
    ),
    "dest_mac": ({"dest_mac": "02:00:00:00:00:0A"}, {"eth_dst": exact("eth_dst", 0x02 << 40 | 10)}),
    "eth_src_mask": (
        {"source_mac": "02:01:00:00:00:0a", "eth_src_mask": "ff:ff:00:00:00:00"},
        {"eth_src": (0x0201 << 32, 0xFFFF << 32)},
    ),
    "eth_dst_mask": (
        {"dest_mac": "01:00:00:00:00:00", "eth_dst_mask": "01:00:00:00:00:00"},
        {"eth_dst": (1 << 40, 1 << 40)},
    ),
    "source_ip": ({"source_ip": "10.0.0.1"}, {"ipv4_src": exact("ipv4_src", 0x0A000001)}),
    "dest_ip": (
        {"dest_ip": "2001:db8::1"},
        {"ipv6_dst": exact("ipv6_dst", (0x20010DB8 << 96) + 1)},
    ),
    "ipv4_src": ({"ipv4_src": "10.0.0.0/8"}, {"ipv4_src": (10 << 24, 0xFF000000)}),
    "ipv4_dst": ({"ipv4_dst": "10.0.0.1"}, {"ipv4_dst": exact("ipv4_dst", 0x0A000001)}),
    "ipv6_src": ({"ipv6_src": "::1"}, {"ipv6_src": exact("ipv6_src", 1)}),
    "ipv6_dst": ({"ipv6_dst": "::1"}, {"ipv6_dst": exact("ipv6_dst", 1)}),
    "ipv4_src_mask": (
        {"source_ip": "10.9.0.0", "ipv4_src_mask": "255.0.0.0"},
        {"ipv4_src": (10 << 24, 0xFF000000)},
    ),
    "ipv4_dst_mask": (
        {"dest_ip": "10.9.0.0", "ipv4_dst_mask": "255.255.0.0"},
        {"ipv4_dst": (0x0A090000, 0xFFFF0000)},
    ),
    "ipv6_src_mask": (
        {"source_ip": "2001:db8::9", "ipv6_src_mask": "ffff:ffff::"},
        {"ipv6_src": (0x20010DB8 << 96, 0xFFFFFFFF << 96)},
    ),
    "ipv6_dst_mask": (
        {"dest_ip": "2001:db8::9", "ipv6_dst_mask": "ffff::"},
        {"ipv6_dst": (0x2001 << 112, 0xFFFF << 112)},
    ),
    "protocol": ({**IPV4, "protocol": "0x06"}, {"ip_proto": exact("ip_proto", 6)}),
    "ip_proto": ({**IPV4, "ip_proto": "6"}, {"ip_proto": exact("ip_proto", 6)}),
    "source_port": ({**UDP, "source_port": "53"}, {"udp_src": exact("udp_src", 53)}),
    "dest_port": (
        {**IPV4, "protocol": "6", "dest_port": "443"},
        {"tcp_dst": exact("tcp_dst", 443)},
    ),
    "sctp_src": ({**IPV4, "sctp_src": "9"}, {"sctp_src": exact("sctp_src", 9)}),
    "sctp_dst": ({**IPV4, "sctp_dst": "9"}, {"ip_proto": exact("ip_proto", 132)}),
    "icmpv4_type": ({"icmpv4_type": "8"}, {"ip_proto": exact("ip_proto", 1)}),
    "icmpv4_code": ({"icmpv4_code": "0"}, {"eth_type": exact("eth_type", 0x800)}),
    "icmpv6_type": ({"icmpv6_type": "128"}, {"eth_type": exact("eth_type", 0x86DD)}),
    "icmpv6_code": ({"icmpv6_code": "0"}, {"ip_proto": exact("ip_proto", 58)}),
    "arp_opcode": ({"arp_opcode": "1"}, {"eth_type": exact("eth_type", 0x806)}),
    "arp_spa": ({"arp_spa": "10.0.0.1"}, {"arp_spa": exact("arp_spa", 0x0A000001)}),
    "arp_spa_mask": (
        {"arp_spa": "10.0.0.1", "arp_spa_mask": "255.0.0.0"},
        {"arp_spa": (10 << 24, 0xFF000000)},
    ),
    "arp_tpa": ({"arp_tpa": "10.0.0.1"}, {"arp_tpa": exact("arp_tpa", 0x0A000001)}),
    "arp_tpa_mask": (
        {"arp_tpa": "10.0.0.1", "arp_tpa_mask": "255.0.0.0"},
        {"arp_tpa": (10 << 24, 0xFF000000)},
    ),
    "arp_sha": ({"arp_sha": "02:00:00:00:00:01"}, {"arp_sha": exact("arp_sha", 0x02 << 40 | 1)}),
    "arp_tha": ({"arp_tha": "02:00:00:00:00:01"}, {"arp_tha": exact("arp_tha", 0x02 << 40 | 1)}),
    "ipv6_flabel": ({"ipv6_flabel": "0xfffff"}, {"ipv6_flabel": exact("ipv6_flabel", 0xFFFFF)}),
    "ipv6_nd_target": (
        {"icmpv6_type": "135", "ipv6_nd_target": "::1"},
        {"ipv6_nd_target": exact("ipv6_nd_target", 1)},
    ),
    "ipv6_nd_sll": (
        {"icmpv6_type": "135", "ipv6_nd_sll": "02:00:00:00:00:01"},
        {"ipv6_nd_sll": exact("ipv6_nd_sll", 0x02 << 40 | 1)},
    ),
    "ipv6_nd_tll": (
        {"icmpv6_type": "136", "ipv6_nd_tll": "02:00:00:00:00:01"},
        {"ipv6_nd_tll": exact("ipv6_nd_tll", 0x02 << 40 | 1)},
    ),
    "mpls_label": ({"mpls_label": "77"}, {"eth_type": exact("eth_type", 0x8847)}),
    "mpls_tc": ({"ether_type": "0x8848", "mpls_tc": "2"}, {"mpls_tc": exact("mpls_tc", 2)}),
}


def test_every_key_has_an_example() -> None:
    assert set(EXAMPLES) == set(MATCH_KEYS)
    for key, (match, _) in EXAMPLES.items():
        assert key in match


@pytest.mark.parametrize("key", EXAMPLES)
def test_meaning_of_key(key: str) -> None:
    match, expected = EXAMPLES[key]
    found = fields(match)
    assert {name: found[name] for name in expected} == expected
    # What the node builds, the OpenFlow codec can write: prerequisites included.
    wanted = {name: FieldMatch(value=v, mask=m) for name, (v, m) in found.items()}
    rule = Rule(lsi="a", label="r", priority=1, in_port="p", match=wanted)
    assert encode_match(rule, {"p": 1}).to_jsondict()["OFPMatch"]["oxm_fields"]
    assert str(rule).startswith("priority=1,in_port=p")


def test_end_point_tag() -> None:
    assert fields({}, tag=31) == {"vlan_vid": exact("vlan_vid", 0x101F)}
    assert "already stands for VLAN 31" in why({"vlan_id": "31"}, tag=31)
    assert fields({"vlan_id": "NO_VLAN"}) == {"vlan_vid": (0, 0x1FFF)}
    assert fields({"vlan_id": "ANY"}) == {"vlan_vid": (0x1000, 0x1000)}


@pytest.mark.parametrize(
    ("match", "text"),
    [
        ({"ether_type": "0x10000"}, "match.ether_type: 0x10000 is out of range 0 to 65535"),
        ({"ether_type": "ip"}, "match.ether_type: 'ip' is no number"),
        ({"vlan_id": "4095"}, "match.vlan_id: VLAN id 4095 is reserved"),
        ({"source_mac": "02:00:00:00:00"}, "match.source_mac: '02:00:00:00:00' is no MAC address"),
        ({"source_ip": "10.0.0"}, "match.source_ip: '10.0.0' is no IPv4 address"),
        ({"protocol": "6"}, "match: ip_proto needs ether_type 0x800 or 0x86dd"),
        ({**IPV4, "source_port": "1"}, 'match.source_port: needs "protocol": "6" (TCP)'),
        ({"ipv4_src_mask": "255.0.0.0"}, "match.ipv4_src_mask: a mask without a value"),
        ({"ether_type": "0x86dd", "source_ip": "10.0.0.1"}, "ipv4_src needs ether_type 0x800"),
        ({"source_ip": "10.0.0.1", "dest_ip": "::1"}, "ipv6_dst needs ether_type 0x86dd"),
        ({**IPV4, "protocol": "6", "ip_proto": "17"}, "contradicts another value for ip_proto"),
        ({"vlan_pcp": "1"}, "vlan_pcp needs vlan_id"),
        ({"ipv6_nd_target": "::1"}, "ipv6_nd_target needs icmpv6_type 0x87 or 0x88"),
        ({"hard_timeout": "65536"}, "match.hard_timeout: 65536 is out of range 0 to 65535"),
        ({"idle_timeout": "soon"}, "match.idle_timeout: 'soon' is no number"),
    ],
)
def test_refused_matches(match: dict[str, str], text: str) -> None:
    assert text in why(match)
    assert why(match).startswith(PLACE)


@pytest.mark.parametrize(
    ("match", "action", "text"),
    [
        ({}, {"pop_vlan": True}, "must also match vlan_id"),
        ({"vlan_id": "NO_VLAN"}, {"set_vlan_id": "3"}, "match vlan_id or push_vlan first"),
        ({}, {"push_vlan": "4095"}, "reserved"),
        ({}, {"set_ip_src_address": "10.0.0.1"}, "must match ether_type 0x800"),
        (IPV4, {"set_ip_src_address": "::1"}, "must match ether_type 0x86dd"),
        (IPV4, {"set_l4_src_port": "1"}, 'needs "protocol"'),
        ({}, {"set_ip_tos": "4"}, "must match ether_type 0x800 or 0x86dd"),
    ],
)
def test_refused_actions(match: dict[str, str], action: dict[str, str | bool], text: str) -> None:
    assert text in why(match, action)
    assert why(match, action).startswith(f"{PLACE}.actions[0]")


def test_every_header_action() -> None:
    actions: list[dict[str, str | bool]] = [
        {"push_vlan": "5"},
        {"set_vlan_id": "6"},
        {"set_vlan_priority": "7"},
        {"pop_vlan": True},
        {"set_ethernet_src_address": "02:00:00:00:00:01"},
        {"set_ethernet_dst_address": "02:00:00:00:00:02"},
        {"set_ip_src_address": "10.0.0.1"},
        {"set_ip_dst_address": "10.0.0.2"},
        {"set_ip_tos": "0xb9"},
        {"set_l4_src_port": "1"},
        {"set_l4_dst_port": "2"},
    ]
    entry = model(UDP, *actions)
    steps = header_actions(entry, PLACE, match_fields(entry, PLACE, None), None)
    rule = Rule(lsi="a", label="r", priority=1, in_port="p", actions=tuple(steps))
    assert str(rule).split(" -> ")[1] == (
        "push_vlan:5,set vlan_vid=4102,set vlan_pcp=7,pop_vlan,set eth_src=02:00:00:00:00:01,"
        "set eth_dst=02:00:00:00:00:02,set ipv4_src=10.0.0.1,set ipv4_dst=10.0.0.2,"
        "set ip_dscp=46,set ip_ecn=1,set udp_src=1,set udp_dst=2"
    )
    assert len(encode_actions(rule, {"p": 1})) == len(steps) + 1  # push is push and set


masked = st.builds(
    lambda value, bits: FieldMatch(value=value >> bits << bits, mask=15 >> bits << bits),
    st.integers(0, 15),
    st.integers(0, 3),
)
small_rules = st.builds(
    lambda fields_: Rule(lsi="a", label="r", priority=1, in_port="p", match=fields_),
    st.dictionaries(st.sampled_from(["ipv4_src", "ipv4_dst"]), masked),
)


@given(small_rules, small_rules)
def test_overlap_and_covers_by_enumeration(one: Rule, other: Rule) -> None:
    def takes(rule: Rule, packet: dict[str, int]) -> bool:
        return all((packet[n] ^ m.value) & m.mask == 0 for n, m in rule.match.items())

    space = [{"ipv4_src": a, "ipv4_dst": b} for a in range(16) for b in range(16)]
    both = [p for p in space if takes(one, p) and takes(other, p)]
    assert overlap(one, other) == bool(both)
    narrow = [p for p in space if takes(other, p)]
    assert covers(one, other) == (len(both) == len(narrow))


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_prefix_notations_agree(address: ipaddress.IPv4Address, length: int) -> None:
    network = ipaddress.ip_network(f"{address}/{length}", strict=False)
    by_mask = fields({"source_ip": str(address), "ipv4_src_mask": str(network.netmask)})
    by_prefix = fields({"ipv4_src": f"{address}/{length}"})
    assert by_mask == by_prefix
