# SPDX-License-Identifier: Apache-2.0
"""Counters of flows are read as os-ken reads them, and wrong lengths are refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from headrace.switches.base import SwitchError
from headrace.switches.openflow import PortCounts, decode_flow_counts, decode_port_counts

counts = st.integers(0, 2**64 - 1)


def flow(cookie: int, packets: int, octets: int, matched: bool) -> bytes:
    match, instructions = bytearray(), bytearray()
    found = parser.OFPMatch(in_port=3, eth_type=0x800) if matched else parser.OFPMatch()
    found.serialize(match, 0)
    if matched:
        output = parser.OFPActionOutput(4)
        parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, [output]).serialize(instructions, 0)
    rest = bytes(match) + bytes(instructions)
    head = struct.pack(
        "!HBxIIHHHH4xQQQ", 48 + len(rest), 0, 1, 2, 10, 0, 0, 0, cookie, packets, octets
    )
    return head + rest


@given(st.lists(st.tuples(counts, counts, counts, st.booleans()), max_size=4))
def test_as_os_ken_reads_them(flows: list[tuple[int, int, int, bool]]) -> None:
    body = b"".join(flow(*one) for one in flows)
    found = [(row.cookie, row.packets, row.bytes) for row in decode_flow_counts(body)]
    assert found == [one[:3] for one in flows]
    at, theirs = 0, []
    while at < len(body):
        stats = parser.OFPFlowStats.parser(body, at)
        theirs.append((stats.cookie, stats.packet_count, stats.byte_count))
        at += stats.length
    assert found == theirs


@pytest.mark.parametrize("body", [b"\0" * 20, b"\0\7" + b"\0" * 60, b"\1\0" + b"\0" * 60])
def test_wrong_lengths_are_refused(body: bytes) -> None:
    with pytest.raises(SwitchError, match="flow statistics"):
        list(decode_flow_counts(body))


@given(st.lists(st.lists(counts, min_size=12, max_size=12), max_size=10))
def test_port_counts_are_those_that_os_ken_reads(ports: list[list[int]]) -> None:
    rows = [struct.pack("!I4x12QII", n + 1, *port, 1, 2) for n, port in enumerate(ports)]
    theirs = [parser.OFPPortStats.parser(row, 0) for row in rows]
    fields = PortCounts._fields
    wanted = [tuple(getattr(one, field) for field in fields) for one in theirs]
    assert list(decode_port_counts(b"".join(rows))) == wanted


def test_a_cut_port_is_an_error() -> None:
    with pytest.raises(SwitchError, match="within a port"):
        decode_port_counts(bytes(113))
