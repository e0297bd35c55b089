# SPDX-License-Identifier: Apache-2.0
"""Firewalls: five-tuple rules like ClassBench's, matched evenly or mostly by few popular flows."""

import ipaddress

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import ROUTER_MAC, SENDER_MAC, SINK, Case, short
from headrace.bench.peers.frames import Bytes
from headrace.bench.peers.rulesets import (
    ICMP,
    SEEDS,
    TCP,
    UDP,
    Filter,
    Numbers,
    Ruleset,
    port_prefixes,
    ruleset,
    zipf,
)

SIZES = (1_000, 10_000, 100_000)
# With more, OVS would fill its caches for minutes: with 100k rules an upcall takes a millisecond.
FLOWS = 10_000
POPULAR_FRAMES = 65_536  # drawn by popularity
LOWEST = 1  # priority of the final deny rule
GOAL = 3.0
FILLING_S = 120.0  # at most
NAMES = {TCP: "tcp", UDP: "udp", ICMP: "icmp"}


def entry_matches(one: Filter, bits: int) -> list[str]:
    """A filter's entries as `ovs-ofctl` writes their matches."""
    address = ipaddress.IPv4Address if bits == 32 else ipaddress.IPv6Address
    version = "ip" if bits == 32 else "ipv6"
    protocol = version if one.protocol is None else NAMES[one.protocol]
    if bits == 128 and one.protocol is not None:
        protocol += "6"
    source, destination = ("nw_src", "nw_dst") if bits == 32 else ("ipv6_src", "ipv6_dst")
    match = protocol
    for name, (value, length) in ((source, one.source), (destination, one.destination)):
        if length:
            match += f",{name}={address(value)}/{length}"
    return [
        match + _port("tp_src", *from_port) + _port("tp_dst", *to_port)
        for from_port in port_prefixes(*one.source_ports)
        for to_port in port_prefixes(*one.destination_ports)
    ]


def _port(name: str, value: int, mask: int) -> str:
    if mask == 0:
        return ""
    return f",{name}={value}" if mask == 0xFFFF else f",{name}={value:#x}/{mask:#x}"


def rules_of(chosen: Ruleset) -> list[str]:
    """The rules for `ovs-ofctl`, the last of which denies all other packets."""
    made = [
        f"priority={one.priority},{match},actions={'drop' if one.denies else f'output:{SINK}'}"
        for one in chosen.filters
        for match in entry_matches(one, chosen.bits)
    ]
    return [*made, f"priority={LOWEST},actions=drop"]


def frames_of(packets: Numbers, bits: int) -> Bytes:
    """The packets of a rule set's traffic as frames, one row each."""
    protocols = packets[:, -1] >> np.uint64(32)
    ports = frames.be32((packets[:, -1] & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    eth_dst, eth_src = frames.mac(ROUTER_MAC), frames.mac(SENDER_MAC)
    made: Bytes | None = None
    for protocol in (TCP, UDP, ICMP):
        chosen = packets[protocols == protocol]
        if bits == 32:
            rows = frames.udp_frames(
                eth_dst=eth_dst,
                eth_src=eth_src,
                ipv4_src=chosen[:, 0].astype(np.uint32),
                ipv4_dst=chosen[:, 1].astype(np.uint32),
                protocol=protocol,
            )
        else:
            octets = chosen[:, :4].astype(">u8").view(np.uint8).reshape(-1, 32)
            rows = frames.ipv6_frames(
                eth_dst=eth_dst,
                eth_src=eth_src,
                ipv6_src=octets[:, :16],
                ipv6_dst=octets[:, 16:],
                length=frames.ETHERNET_IPV6_TCP,
                next_header=58 if protocol == ICMP else protocol,
            )
        start = 34 if bits == 32 else 54
        if protocol != UDP:
            rows[:, start:] = 0
        if protocol == TCP:
            rows[:, start + 12 : start + 14] = (0x50, 0x10)  # no options; ACK
        elif protocol == ICMP:
            rows[:, start] = 8 if bits == 32 else 128  # echo request
        if protocol != ICMP:
            rows[:, start : start + 4] = ports[protocols == protocol]
        if made is None:
            made = np.zeros((len(packets), rows.shape[1]), dtype=np.uint8)
        made[protocols == protocol] = rows
    assert made is not None
    return made


def firewall(seed: str, entries: int, *, popular: bool, bits: int = 32) -> Case:
    """A rule set whose rules are matched evenly, or some random ones much more often."""

    def rules() -> list[str]:
        return rules_of(ruleset(seed, entries, bits))

    def packets() -> Numbers:
        made = ruleset(seed, entries, bits).traffic(FLOWS)
        return made[zipf(FLOWS, POPULAR_FRAMES)] if popular else made

    def make() -> Bytes:
        return frames_of(packets(), bits)

    def classified() -> tuple[list[Filter], Numbers]:
        return ruleset(seed, entries, bits).filters, packets()

    version = "" if bits == 32 else "-ipv6"
    name = f"firewall-{seed}{version}-{short(entries)}rules-{'zipf' if popular else 'even'}"
    return Case(
        name,
        FLOWS,
        rules,
        make,
        GOAL,
        ipv6_tables=() if bits == 32 else (0,),
        filling_s=FILLING_S,
        classified=classified if bits == 32 else None,
    )


def all_cases() -> list[Case]:
    """Every seed in every size, with both kinds of traffic; and IPv6."""
    sets: list[tuple[str, int, int]] = [(seed, size, 32) for seed in SEEDS for size in SIZES]
    sets.append(("acl", 10_000, 128))
    return [
        firewall(seed, size, popular=popular, bits=bits)
        for seed, size, bits in sets
        for popular in (False, True)
    ]
