# SPDX-License-Identifier: Apache-2.0
"""Makes codec.txt in dataplane/openflow/codec/testdata: messages as os-ken's OpenFlow 1.3 library
sees them.

Run `python -m tests.openflow.make_codec_fixtures > dataplane/openflow/codec/testdata/codec.txt`.
Lines are `kind name hex`, or `error name type code hex`. Requests are serialised by os-ken; replies
are packed here by the specification's tables, and os-ken's parsers must take them.
test_codec_fixtures.py checks that the file is what this program makes.
"""

import struct
import sys
from collections.abc import Iterator
from typing import Any

from os_ken.ofproto import ofproto_parser, ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

DATAPATH = ofproto_protocol.ProtocolDesc(ofp.OFP_VERSION)

IPV4 = {"eth_type": 0x0800}
IPV6 = {"eth_type": 0x86DD}
ND = IPV6 | {"ip_proto": 58}

# Every field, exact and (where it can be) masked, behind its prerequisites.
MATCHES: dict[str, dict[str, Any]] = {
    "empty": {},
    "in_port": {"in_port": 7},
    "in_phy_port": {"in_port": 7, "in_phy_port": 8},
    "metadata": {"metadata": 0x123456789ABCDEF0},
    "metadata_masked": {"metadata": (0x1200000000000000, 0xFF00000000000000)},
    "eth_dst": {"eth_dst": "12:34:56:78:9a:bc"},
    "eth_dst_masked": {"eth_dst": ("01:00:00:00:00:00", "01:00:00:00:00:00")},
    "eth_src_masked": {"eth_src": ("02:04:00:00:00:00", "ff:ff:00:00:00:00")},
    "eth_type": {"eth_type": 0x88CC},
    "vlan_none": {"vlan_vid": 0},
    "vlan_any": {"vlan_vid": (0x1000, 0x1000)},
    "vlan_vid_pcp": {"vlan_vid": 0x1000 | 100, "vlan_pcp": 5},
    "dscp_ecn": IPV4 | {"ip_dscp": 46, "ip_ecn": 1},
    "ipv4": IPV4 | {"ipv4_src": "10.0.0.1", "ipv4_dst": ("10.1.0.0", "255.255.0.0")},
    "tcp": IPV4 | {"ip_proto": 6, "tcp_src": 1024, "tcp_dst": 80},
    "udp6": IPV6 | {"ip_proto": 17, "udp_src": 53, "udp_dst": 5353},
    "sctp": IPV4 | {"ip_proto": 132, "sctp_src": 5, "sctp_dst": 6},
    "icmpv4": IPV4 | {"ip_proto": 1, "icmpv4_type": 8, "icmpv4_code": 0},
    "arp": {
        "eth_type": 0x0806,
        "arp_op": 1,
        "arp_spa": "10.0.0.1",
        "arp_tpa": ("10.0.0.0", "255.0.0.0"),
        "arp_sha": "02:00:00:00:00:01",
        "arp_tha": ("02:00:00:00:00:00", "ff:00:00:00:00:00"),
    },
    "ipv6": IPV6
    | {
        "ipv6_src": "2001:db8::1",
        "ipv6_dst": ("2001:db8::", "ffff:ffff::"),
        "ipv6_flabel": (0x12300, 0xFFF00),
        "ipv6_exthdr": (0x10, 0x1F0),
    },
    "icmpv6": ND | {"icmpv6_type": 128, "icmpv6_code": 0},
    "nd_sol": ND
    | {"icmpv6_type": 135, "ipv6_nd_target": "fe80::1", "ipv6_nd_sll": "02:00:00:00:00:01"},
    "nd_adv": ND | {"icmpv6_type": 136, "ipv6_nd_tll": "02:00:00:00:00:02"},
    "mpls": {"eth_type": 0x8847, "mpls_label": 0xABCDE, "mpls_tc": 3, "mpls_bos": 1},
    "pbb": {"eth_type": 0x88E7, "pbb_isid": (0x123000, 0xFFF000)},
    "tunnel": {"tunnel_id": (5, 0xFFFFFF)},
    "tcp_flags": IPV4 | {"ip_proto": 6, "tcp_flags": (0x002, 0x012)},
}

ACTIONS: dict[str, list[Any]] = {
    "none": [],
    "output": [parser.OFPActionOutput(2)],
    "controller": [parser.OFPActionOutput(ofp.OFPP_CONTROLLER, 128)],
    "ttls": [
        parser.OFPActionCopyTtlOut(),
        parser.OFPActionCopyTtlIn(),
        parser.OFPActionSetMplsTtl(64),
        parser.OFPActionDecMplsTtl(),
        parser.OFPActionSetNwTtl(32),
        parser.OFPActionDecNwTtl(),
    ],
    "vlan": [
        parser.OFPActionPushVlan(0x88A8),
        parser.OFPActionSetField(vlan_vid=0x1000 | 200),
        parser.OFPActionSetField(vlan_pcp=3),
        parser.OFPActionOutput(1),
    ],
    "mpls": [
        parser.OFPActionPushMpls(0x8847),
        parser.OFPActionSetField(mpls_label=77),
        parser.OFPActionPopMpls(0x0800),
        parser.OFPActionPopVlan(),
    ],
    "pbb": [
        parser.OFPActionPushPbb(0x88E7),
        parser.OFPActionSetField(pbb_isid=0x010203),
        parser.OFPActionPopPbb(),
    ],
    "queue_group": [parser.OFPActionSetQueue(4), parser.OFPActionGroup(9)],
    "macs": [
        parser.OFPActionSetField(eth_dst="02:00:00:00:00:09"),
        parser.OFPActionSetField(tunnel_id=99),
    ],
}

IPV6_SET = [
    parser.OFPActionSetField(ipv6_dst="2001:db8::2"),
    parser.OFPActionSetField(ipv6_flabel=0x54321),
]


def apply(actions: list[Any]) -> Any:
    """An apply-actions instruction."""
    return parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)


def write(actions: list[Any]) -> Any:
    """A write-actions instruction."""
    return parser.OFPInstructionActions(ofp.OFPIT_WRITE_ACTIONS, actions)


def flow_mod(match: Any, instructions: list[Any], **extra: Any) -> bytes:
    """A serialised flow-mod."""
    args: dict[str, Any] = {
        "cookie": 0x1122334455667788,
        "table_id": 3,
        "idle_timeout": 10,
        "hard_timeout": 20,
        "priority": 1000,
        "flags": ofp.OFPFF_SEND_FLOW_REM,
    }
    args |= extra
    message = parser.OFPFlowMod(DATAPATH, match=match, instructions=instructions, **args)
    return serialise(message)


def serialise(message: Any) -> bytes:
    """The message's octets, with a fixed xid."""
    message.set_xid(0x01020304)
    message.serialize()
    return bytes(message.buf)


def requests() -> Iterator[tuple[str, str, bytes]]:
    """What the switch must decode and can echo octet for octet."""
    for name, fields in MATCHES.items():
        yield "flow_mod", f"match_{name}", flow_mod(parser.OFPMatch(**fields), [])
    for name, actions in ACTIONS.items():
        yield "flow_mod", f"apply_{name}", flow_mod(parser.OFPMatch(), [apply(actions)])
    everything = [
        parser.OFPInstructionMeter(5),
        apply(IPV6_SET),
        parser.OFPInstructionActions(ofp.OFPIT_CLEAR_ACTIONS, []),
        write([parser.OFPActionOutput(3)]),
        parser.OFPInstructionWriteMetadata(0xAB00, 0xFF00),
        parser.OFPInstructionGotoTable(4),
    ]
    yield "flow_mod", "instructions", flow_mod(parser.OFPMatch(**IPV6), everything)
    set_order = [
        parser.OFPActionSetField(vlan_vid=0x1000 | 5),
        parser.OFPActionPushVlan(0x8100),
    ]
    yield "flow_mod", "set_before_push_in_set", flow_mod(parser.OFPMatch(), [write(set_order)])
    buckets = [
        parser.OFPBucket(30, 1, ofp.OFPG_ANY, [parser.OFPActionOutput(1)]),
        parser.OFPBucket(70, ofp.OFPP_ANY, 8, ACTIONS["vlan"]),
    ]
    for kind in (ofp.OFPGT_ALL, ofp.OFPGT_SELECT, ofp.OFPGT_INDIRECT, ofp.OFPGT_FF):
        group = parser.OFPGroupMod(DATAPATH, ofp.OFPGC_ADD, kind, 50 + kind, buckets)
        yield "group_mod", f"type_{kind}", serialise(group)
    bands = [parser.OFPMeterBandDrop(1000, 50), parser.OFPMeterBandDscpRemark(500, 20, 1)]
    meter = parser.OFPMeterMod(DATAPATH, ofp.OFPMC_ADD, ofp.OFPMF_KBPS | ofp.OFPMF_BURST, 6, bands)
    yield "meter_mod", "kbps", serialise(meter)
    out = parser.OFPPacketOut(
        DATAPATH, ofp.OFP_NO_BUFFER, 4, [parser.OFPActionOutput(ofp.OFPP_TABLE)], b"payload" * 4
    )
    yield "packet_out", "table", serialise(out)


def errors() -> Iterator[tuple[str, int, int, bytes]]:
    """Requests that the specification wants refused, with error type and code."""
    bad_match, bad_action, bad_instruction = 4, 2, 3
    any_match = parser.OFPMatch()

    def matching(fields: dict[str, Any]) -> bytes:
        return flow_mod(parser.OFPMatch(**fields), [])

    def raw(oxm: str) -> bytes:
        """A flow-mod whose match is these octets."""
        fields = bytes.fromhex(oxm)
        length = 4 + len(fields)
        match = struct.pack("!HH", 1, length) + fields + bytes(-length % 8)
        head = bytearray(flow_mod(any_match, [])[:48] + match)
        struct.pack_into("!H", head, 2, len(head))
        return bytes(head)

    def doing(*actions: Any, **fields: Any) -> bytes:
        return flow_mod(parser.OFPMatch(**fields), [apply(list(actions))])

    yield "prereq_ip", bad_match, 9, matching({"ip_proto": 6})
    yield "prereq_tcp", bad_match, 9, matching(IPV4 | {"tcp_dst": 80})
    yield "prereq_proto", bad_match, 9, matching(IPV4 | {"ip_proto": 17, "tcp_dst": 80})
    yield "prereq_version", bad_match, 9, matching(IPV6 | {"ipv4_src": "10.0.0.1"})
    yield "prereq_pcp", bad_match, 9, matching({"vlan_vid": 0, "vlan_pcp": 1})
    yield "prereq_phy", bad_match, 9, raw("8000020400000001")
    yield (
        "prereq_nd",
        bad_match,
        9,
        matching(ND | {"icmpv6_type": 136, "ipv6_nd_sll": "02:00:00:00:00:01"}),
    )
    yield "dup_field", bad_match, 10, raw("80000a020800" + "80000a020800")
    yield "unknown_field", bad_match, 6, raw("80007e0100")
    yield "unknown_class", bad_match, 6, raw("0001000400000001")
    yield "unknown_experimenter", bad_match, 6, raw("ffff5406" + "00002320" + "0002")
    yield "field_too_long", bad_match, 1, raw("8000000500000000ff")
    yield "field_past_end", bad_match, 1, raw("80000004")
    yield "value_bits", bad_match, 7, raw("80000c022064")
    yield "dscp_bits", bad_match, 7, raw("80000a020800" + "8000100140")
    yield "mask_not_allowed", bad_match, 8, raw("80000108" + "00000002" + "0000000f")
    yield "value_outside_mask", bad_match, 5, raw("8000070c" + "020000000001" + "ff0000000000")
    standard = bytearray(flow_mod(any_match, []))
    standard[48:50] = b"\x00\x00"
    yield "standard_match", bad_match, 0, bytes(standard)

    yield "output_zero", bad_action, 4, doing(parser.OFPActionOutput(0))
    yield "output_any", bad_action, 4, doing(parser.OFPActionOutput(ofp.OFPP_ANY))
    yield "output_table", bad_action, 4, doing(parser.OFPActionOutput(ofp.OFPP_TABLE))
    yield "output_reserved", bad_action, 4, doing(parser.OFPActionOutput(0xFFFFFF01))
    yield "group_any", bad_action, 9, doing(parser.OFPActionGroup(ofp.OFPG_ANY))
    yield "push_vlan_type", bad_action, 5, doing(parser.OFPActionPushVlan(0x0800))
    yield "push_mpls_type", bad_action, 5, doing(parser.OFPActionPushMpls(0x8100))
    yield "set_in_port", bad_action, 13, doing(parser.OFPActionSetField(in_port=3))
    yield (
        "set_vid_absent",
        bad_action,
        15,
        doing(parser.OFPActionSetField(vlan_vid=5), vlan_vid=(0x1000, 0x1000)),
    )
    yield "set_without_prereq", bad_action, 10, doing(parser.OFPActionSetField(tcp_dst=80))
    yield "set_vid_without_tag", bad_action, 10, doing(parser.OFPActionSetField(vlan_vid=0x1005))
    yield (
        "set_after_pop",
        bad_action,
        10,
        doing(
            parser.OFPActionPopMpls(0x0800),
            parser.OFPActionSetField(mpls_label=5),
            eth_type=0x8847,
        ),
    )
    nicira = parser.OFPActionExperimenterUnknown(0x00002320, b"\x00\x07" + bytes(14))
    yield "nicira_action", bad_action, 2, doing(nicira)
    unknown = bytearray(doing(parser.OFPActionSetQueue(1)))
    unknown[64:66] = struct.pack("!H", 13)
    yield "unknown_action", bad_action, 0, bytes(unknown)
    short = bytearray(doing(parser.OFPActionSetQueue(1)))
    short[66:68] = struct.pack("!H", 16)
    yield "action_past_end", bad_action, 1, bytes(short)

    def instructing(*instructions: Any, **extra: Any) -> bytes:
        return flow_mod(any_match, list(instructions), **extra)

    yield "goto_back", bad_instruction, 2, instructing(parser.OFPInstructionGotoTable(3))
    yield "goto_last", bad_instruction, 2, instructing(parser.OFPInstructionGotoTable(254))
    unknown = bytearray(instructing(parser.OFPInstructionMeter(1)))
    unknown[56:58] = struct.pack("!H", 9)
    yield "unknown_instruction", bad_instruction, 0, bytes(unknown)
    unknown[56:58] = struct.pack("!H", 0xFFFF)
    yield "experimenter_instruction", bad_instruction, 5, bytes(unknown)
    twice = instructing(apply([]), apply([]))
    yield "duplicate_instruction", 0xFFFF, 2600, twice
    yield "table_all_add", 5, 2, instructing(table_id=ofp.OFPTT_ALL)
    yield "table_254", 5, 2, instructing(table_id=254)
    yield "bad_command", 5, 6, instructing(command=9)
    yield "bad_flags", 5, 7, instructing(flags=0x100)
    cut = bytearray(instructing()[:40])
    struct.pack_into("!H", cut, 2, 40)
    yield "truncated", 1, 6, bytes(cut)


def replies() -> Iterator[tuple[str, str, bytes]]:
    """What the switch must encode; codec_test.cc holds the same values."""
    header = struct.Struct("!BBHI")

    def message(kind: int, xid: int, body: bytes) -> bytes:
        whole = header.pack(ofp.OFP_VERSION, kind, 8 + len(body), xid) + body
        ofproto_parser.msg(DATAPATH, ofp.OFP_VERSION, kind, len(whole), xid, whole)
        return whole

    def match(**fields: Any) -> bytes:
        octets = bytearray()
        parser.OFPMatch(**fields).serialize(octets, 0)
        return bytes(octets)

    port = struct.pack(
        "!I4x6s2x16s8I", 5, bytes.fromhex("020000000005"), b"memif5", 4, 1, 2, 3, 4, 5, 6, 7
    )
    features = struct.pack("!QIBB2xII", 0xAB, 256, 254, 0, 0x4F, 0)
    yield "features", "reply", message(ofp.OFPT_FEATURES_REPLY, 9, features)
    packet_in = struct.pack("!IHBBQ", 77, 60, 1, 2, 0xC0)
    packet_in += match(in_port=5, metadata=0x10, tunnel_id=0x20) + bytes(2) + bytes(range(20))
    yield "packet_in", "buffered", message(ofp.OFPT_PACKET_IN, 0, packet_in)
    yield "port_status", "modified", message(ofp.OFPT_PORT_STATUS, 0, struct.pack("!B7x", 2) + port)
    removed = struct.pack("!QHBBIIHHQQ", 0xC0, 1000, 1, 3, 7, 8, 10, 20, 11, 13)
    removed += match(eth_type=0x0800, ipv4_dst="10.0.0.1")
    yield "flow_removed", "hard", message(ofp.OFPT_FLOW_REMOVED, 0, removed)
    stats = struct.pack("!I4x12QII", 5, *range(1, 13), 7, 8)
    yield (
        "port_stats",
        "one",
        message(ofp.OFPT_MULTIPART_REPLY, 9, struct.pack("!HH4x", ofp.OFPMP_PORT_STATS, 0) + stats),
    )
    yield "role", "master", message(ofp.OFPT_ROLE_REPLY, 9, struct.pack("!I4xQ", 2, 66))
    yield "async", "all", message(ofp.OFPT_GET_ASYNC_REPLY, 9, struct.pack("!6I", *range(1, 7)))


def lines() -> Iterator[str]:
    """The file, line by line."""
    yield "# SPDX-License-Identifier: Apache-2.0"
    yield "# Made by tests/openflow/make_codec_fixtures.py with os-ken's OpenFlow 1.3 library."
    for kind, name, octets in requests():
        yield f"{kind} {name} {octets.hex()}"
    for name, error_type, code, octets in errors():
        yield f"error {name} {error_type} {code} {octets.hex()}"
    for kind, name, octets in replies():
        yield f"{kind} {name} {octets.hex()}"


def main() -> None:
    """Prints the file."""
    for line in lines():
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
