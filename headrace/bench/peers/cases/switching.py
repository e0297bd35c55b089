# SPDX-License-Identifier: Apache-2.0
"""Switches of Ethernet frames: MAC tables, a learning bridge, VLAN tags, groups of all ports.

The MAC table is that of D5.6, Section 3.1.1 and Table 5.
"""

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import (
    ROUTER_MAC,
    SENDER_MAC,
    SINK,
    SOURCE,
    Case,
    Published,
    random_numbers,
    short,
)
from headrace.bench.peers.frames import Bytes

VLANS = 100
FIRST_VID = 100
VID_PRESENT = 0x1000  # OpenFlow's vlan_vid of a tagged frame
FIRST_STATION = 0x10000  # of a MAC table
STATION_BEHIND_SOURCE, STATION_BEHIND_SINK = 0x50000, 0x60000  # of the learning bridge


def _stations(first: int, count: int) -> Bytes:
    """`count` MAC addresses, numbered from `first`, one row each."""
    texts = (frames.mac_text(first + i) for i in range(count))
    return np.array([list(frames.mac(text)) for text in texts], dtype=np.uint8)


def _to_stations(eth_dst: Bytes, eth_src: Bytes | bytes) -> Bytes:
    """Frames to the given addresses, each a separate flow."""
    count = len(eth_dst)
    return frames.udp_frames(
        eth_dst=eth_dst,
        eth_src=eth_src,
        ipv4_src=np.full(count, 0xC0A80001, dtype=np.uint32),
        ipv4_dst=(0x0A000000 + np.arange(count)).astype(np.uint32),
    )


def l2(macs: int, flows: int, goal: float, published: Published) -> Case:
    """A MAC table: `macs` exact destinations, flows spread over them."""

    def rules() -> list[str]:
        return [
            f"priority=10,eth_dst={frames.mac_text(FIRST_STATION + i)},actions=output:{SINK}"
            for i in range(macs)
        ]

    def make() -> Bytes:
        addresses = _stations(FIRST_STATION, macs)
        return _to_stations(addresses[np.arange(flows) % macs], frames.mac(SENDER_MAC))

    name = f"l2-{macs}macs-{short(flows)}flows"
    return Case(name, flows, rules, make, goal, published=published)


def normal(macs: int, goal: float) -> Case:
    """A learning bridge of `macs` stations, half of them behind each of two ports.

    Packets to unknown addresses would be flooded to a third port, which counts them.
    """
    half = macs // 2

    def rules() -> list[str]:
        return ["priority=0,actions=NORMAL"]

    def make() -> Bytes:
        random = random_numbers()
        behind_sink = _stations(STATION_BEHIND_SINK, half)
        behind_source = _stations(STATION_BEHIND_SOURCE, half)
        # Each station sends to two others: as many flows as there are stations.
        receivers = np.concatenate([random.permutation(half), random.permutation(half)])
        senders = np.concatenate([random.permutation(half), random.permutation(half)])
        return _to_stations(behind_sink[receivers], behind_source[senders])

    def learned() -> Bytes:
        behind_sink = _stations(STATION_BEHIND_SINK, half)
        receiver = np.tile(_stations(STATION_BEHIND_SOURCE, 1), (half, 1))
        return _to_stations(receiver, behind_sink)

    return Case(f"normal-{short(macs)}macs", macs, rules, make, goal, learned=learned, bystanders=1)


def vlan_push(flows: int, goal: float) -> Case:
    """A tag for each station: 100 rules push one and set its VLAN."""

    def rules() -> list[str]:
        return [
            f"priority=10,in_port={SOURCE},eth_dst={frames.mac_text(FIRST_STATION + i)},"
            f"actions=push_vlan:0x8100,set_field:{VID_PRESENT + FIRST_VID + i}->vlan_vid,"
            f"output:{SINK}"
            for i in range(VLANS)
        ]

    def make() -> Bytes:
        addresses = _stations(FIRST_STATION, VLANS)
        return _to_stations(addresses[np.arange(flows) % VLANS], frames.mac(SENDER_MAC))

    return Case(f"vlan-push-{VLANS}rules-{short(flows)}flows", flows, rules, make, goal)


def vlan_pop(flows: int, goal: float) -> Case:
    """Removes the tags of 100 VLANs."""

    def rules() -> list[str]:
        return [
            f"priority=10,in_port={SOURCE},vlan_vid={VID_PRESENT + FIRST_VID + i},"
            f"actions=pop_vlan,output:{SINK}"
            for i in range(VLANS)
        ]

    def make() -> Bytes:
        addresses = np.tile(np.frombuffer(frames.mac(ROUTER_MAC), np.uint8), (flows, 1))
        untagged = _to_stations(addresses, frames.mac(SENDER_MAC))
        return frames.vlan_tagged(
            untagged, (FIRST_VID + np.arange(flows) % VLANS).astype(np.uint32)
        )

    return Case(f"vlan-pop-{VLANS}rules-{short(flows)}flows", flows, rules, make, goal)


def group_all(ports: int, flows: int, goal: float) -> Case:
    """Every packet is sent to each of `ports` sinks by a group of type all."""

    def rules() -> list[str]:
        return [f"priority=10,in_port={SOURCE},actions=group:1"]

    def groups() -> list[str]:
        buckets = ",".join(f"bucket=actions=output:{SINK + i}" for i in range(ports))
        return [f"group_id=1,type=all,{buckets}"]

    def make() -> Bytes:
        multicast = np.tile(np.frombuffer(frames.mac("01:00:5e:01:02:03"), np.uint8), (flows, 1))
        return _to_stations(multicast, frames.mac(SENDER_MAC))

    name = f"group-all-{ports}ports-{short(flows)}flows"
    return Case(name, flows, rules, make, goal, groups=groups, sinks=ports)


def toggle() -> Case:
    """One rule for all packets, which a test adds and removes."""

    def rules() -> list[str]:
        return [f"priority=1,actions=output:{SINK}"]

    def make() -> Bytes:
        addresses = np.tile(np.frombuffer(frames.mac(ROUTER_MAC), np.uint8), (100, 1))
        return _to_stations(addresses, frames.mac(SENDER_MAC))

    return Case("toggle", 100, rules, make, None)


def mac_tables() -> list[Case]:
    """The MAC table, with few and many flows."""
    return [l2(100, 100, 2.5, Published(82)), l2(100, 10_000, 2.5, Published(80))]


def all_cases() -> list[Case]:
    """The others: the learning bridge, VLANs, groups."""
    return [
        normal(100, 2.5),
        normal(10_000, 2.5),
        vlan_push(10_000, 2.5),
        vlan_pop(10_000, 2.5),
        group_all(4, 100, 2.5),
    ]
