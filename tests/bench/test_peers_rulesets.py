# SPDX-License-Identifier: Apache-2.0
"""Rule sets of firewalls: sizes, ranges, which rule takes a packet, and the frames made of it."""

import numpy as np
import pytest

from headrace.bench.peers import frames, rte_acl
from headrace.bench.peers.cases import firewall
from headrace.bench.peers.rulesets import (
    DENIED,
    ICMP,
    SEEDS,
    TCP,
    UDP,
    Filter,
    port_prefixes,
    ruleset,
    zipf,
)


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [(0, 65535, 1), (1024, 65535, 6), (0, 1023, 1), (80, 80, 1), (1, 65534, 30), (65535, 65535, 1)],
)
def test_prefixes_are_just_the_range(first: int, last: int, count: int) -> None:
    """Each port of the range is in one of them, no other port in any."""
    ports = np.arange(65536)
    prefixes = port_prefixes(first, last)
    inside = sum((ports & mask) == value for value, mask in prefixes)
    assert len(prefixes) == count
    assert (inside == ((ports >= first) & (ports <= last))).all()


@pytest.mark.parametrize(("seed", "bits"), [*((seed, 32) for seed in SEEDS), ("acl", 128)])
def test_a_packet_is_taken_by_the_first_rule_that_it_matches(seed: str, bits: int) -> None:
    """By looking at one entry after the other."""
    made = ruleset(seed, 500, bits)
    packets = made.traffic(300)
    matches = ((packets[:, None, :] & made.masks) == made.values).all(axis=2)
    best = np.where(matches, made.priorities, -1).max(axis=1)
    assert (made.winners(packets) == best).all()
    assert (best >= 0).all()
    assert (best % DENIED != 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_size_is_the_number_of_entries(seed: str) -> None:
    """All different, of many shapes, and the same in every run."""
    made = ruleset(seed, 1000)
    assert len(made.values) == 1000
    assert len(np.unique(np.hstack([made.values, made.masks]), axis=0)) == 1000
    assert len(np.unique(made.masks, axis=0)) > 100
    assert any(one.denies for one in made.filters)
    ruleset.cache_clear()
    assert ruleset(seed, 1000).filters == made.filters


def test_traffic_hits_most_rules() -> None:
    """Those that are not hidden by others, that is."""
    made = ruleset("acl", 1000)
    allowing = {one.priority for one in made.filters if not one.denies}
    hit = set(made.winners(made.traffic(10_000)).tolist())
    assert hit <= allowing
    assert len(hit) > 0.9 * len(allowing)


def test_popular_flows_have_most_of_the_packets() -> None:
    """The most popular twice what the second has."""
    counts = np.sort(np.bincount(zipf(10_000, 65_536), minlength=10_000))[::-1]
    assert counts[0] == pytest.approx(2 * counts[1], rel=0.1)
    assert counts[:100].sum() > 0.5 * counts.sum()


RULE = Filter((0x0A000000, 8), (0, 0), (0, 65535), (1024, 1031), TCP, 17)


def test_rules_are_in_the_words_of_each_tool() -> None:
    """Masks for OpenFlow, ranges for ClassBench."""
    assert firewall.entry_matches(RULE, 32) == ["tcp,nw_src=10.0.0.0/8,tp_dst=0x400/0xfff8"]
    ports = "0 : 65535\t1024 : 1031"
    assert rte_acl.rule_line(RULE) == f"@10.0.0.0/8\t0.0.0.0/0\t{ports}\t0x06/0xFF\t0x0000/0x0000"
    six = Filter((0x2001 << 112, 16), (0, 0), (0, 65535), (53, 53), UDP, 17)
    assert firewall.entry_matches(six, 128) == ["udp6,ipv6_src=2001::/16,tp_dst=53"]


def test_frames_carry_the_five_tuples() -> None:
    """Protocols of a packet's own, ports where there are any, true checksums."""
    words = np.array(
        [
            [0x0A000001, 0x0B000002, TCP << 32 | 1111 << 16 | 443],
            [0x0A000003, 0x0B000004, UDP << 32 | 2222 << 16 | 53],
            [0x0A000005, 0x0B000006, ICMP << 32 | 3333 << 16 | 7],
        ],
        dtype=np.uint64,
    )
    made = firewall.frames_of(words, 32)
    assert made[:, 23].tolist() == [TCP, UDP, ICMP]
    assert made[:, 26:34].tobytes() == words[:, :2].astype(">u4").tobytes()
    assert made[0, 34:38].tobytes() == bytes.fromhex("045701bb")
    assert made[1, 34:38].tobytes() == bytes.fromhex("08ae0035")
    assert made[2, 34:36].tolist() == [8, 0]
    assert made[0, 46] == 0x50
    headers = made[:, 14:34].copy()
    stated = headers[:, 10:12].copy()
    headers[:, 10:12] = 0
    assert (frames.ipv4_checksums(headers) == stated).all()


def test_ipv6_frames_have_room_for_tcp() -> None:
    """And say their lengths."""
    made = firewall.frames_of(ruleset("acl", 500, 128).traffic(64), 128)
    assert made.shape == (64, 74)
    assert (made[:, 12:14] == [0x86, 0xDD]).all()
    assert (made[:, 18:20] == [0, 20]).all()
    assert set(made[:, 20].tolist()) <= {6, 17, 58}
    # The rules' own; sources may be any.
    assert ((made[:, 38] & 0xE0) == 0x20).all()


def test_udp_checksums_are_true() -> None:
    """By adding up the pseudo-header and all, the checksum with them."""
    made = frames.udp_frames(
        eth_dst=bytes(6),
        eth_src=bytes(6),
        ipv4_src=np.array([0xC0A80001, 0xFFFFFFFF], dtype=np.uint32),
        ipv4_dst=np.array([0x0A000001, 0xFFFFFFFE], dtype=np.uint32),
    )
    made[:, 40:42] = frames.udp_checksums(made)
    for frame in made:
        octets = frame[26:34].tobytes() + b"\0\x11" + frame[38:40].tobytes() + frame[34:].tobytes()
        total = sum(int.from_bytes(octets[at : at + 2], "big") for at in range(0, len(octets), 2))
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF


def test_a_tag_is_behind_the_addresses() -> None:
    """Nothing else moves but backwards."""
    plain = frames.udp_frames(
        eth_dst=bytes(range(6)),
        eth_src=bytes(range(6, 12)),
        ipv4_src=np.array([1], dtype=np.uint32),
        ipv4_dst=np.array([2], dtype=np.uint32),
    )
    (tagged,) = frames.vlan_tagged(plain, np.array([0x123], dtype=np.uint32))
    assert tagged[:12].tolist() == list(range(12))
    assert tagged[12:16].tobytes() == bytes.fromhex("81000123")
    assert tagged[16:].tobytes() == plain[0, 12:].tobytes()
