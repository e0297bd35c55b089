# SPDX-License-Identifier: Apache-2.0
"""What the peers are compared on: rules, frames and goals of each case.

The pipelines are those of D5.6, Section 3.1.1 and Tables 5 to 7. Rules are OpenFlow 1.3 in the
words of `ovs-ofctl`, the same text for Headrace and OVS. The source is port 1, the sink port 2.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.frames import Bytes, Words

SOURCE, SINK = 1, 2
ROUTER_MAC = "02:00:00:00:00:01"
SENDER_MAC = "02:00:00:00:00:02"
SEED = 20160704


@dataclass(frozen=True)
class Route:
    """One prefix and the number of its neighbor."""

    network: ipaddress.IPv4Network
    neighbor: int


@dataclass(frozen=True)
class Overlay:
    """A tunnel as OVS does it: a port of the bridge, terminated by a bridge below with an address.

    `rules_below` are that bridge's; `groups` are alternatives, by name, of which the best is taken.
    """

    address: str
    mac: str
    neighbors: list[tuple[str, str]]  # IP and MAC addresses of the far ends
    tunnel: int  # the tunnel port's number
    source_below: bool  # the source is a port of the bridge below, the sink of the bridge; or not
    rules: Callable[[], list[str]]
    rules_below: Callable[[], list[str]]
    groups: dict[str, Callable[[], list[str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """What VPP 23.06 needs for the same on one worker core of a machine of this kind.

    In TSC cycles per packet of a 2.0 GHz counter, source and sink included. `goal`: TSC cycles
    that Headrace is to need at most; None where none is stated.
    """

    vpp_cycles: float
    goal: float | None = None


@dataclass(frozen=True)
class Case:
    """One comparison.

    `goal` is the ratio to OVS-DPDK's best cache setting that Headrace is to reach; `routes` lets
    l3fwd take part.
    """

    name: str
    flows: int
    rules: Callable[[], list[str]]
    make_frames: Callable[[], Bytes]
    goal: float | None
    meters: int = 0  # how many, numbered from 1, each far above the offered rate
    routes: Callable[[], list[Route]] | None = None
    groups: Callable[[], list[str]] | None = None
    overlay: Overlay | None = None  # what OVS is told instead, where it has no such actions
    published: Published | None = None

    @property
    def device(self) -> str:
        """The source's device name; its frames file is named after it."""
        return f"net_null_{self.name.replace('-', '_')}"


def _random() -> np.random.Generator:
    return np.random.default_rng(SEED)


def l2(macs: int, flows: int, goal: float, published: Published) -> Case:
    """A MAC table: `macs` exact destinations, flows spread over them."""

    def rules() -> list[str]:
        return [
            f"priority=10,eth_dst={frames.mac_text(0x10000 + i)},actions=output:{SINK}"
            for i in range(macs)
        ]

    def make() -> Bytes:
        addresses = np.array(
            [list(frames.mac(frames.mac_text(0x10000 + i))) for i in range(macs)], dtype=np.uint8
        )
        return frames.udp_frames(
            eth_dst=addresses[np.arange(flows) % macs],
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=np.full(flows, 0xC0A80001, dtype=np.uint32),
            ipv4_dst=(0x0A000000 + np.arange(flows)).astype(np.uint32),
        )

    name = f"l2-{macs}macs-{_short(flows)}flows"
    return Case(name, flows, rules, make, goal, published=published)


def slash24_routes(count: int) -> list[Route]:
    """`count` neighboring /24 prefixes under 10/8, each to its own neighbor."""
    return [Route(ipaddress.IPv4Network((0x0A000000 + (i << 8), 24)), i) for i in range(count)]


def mixed_prefixes(count: int, shortest: int) -> list[tuple[int, int]]:
    """`count` different random (address, length), lengths `shortest` to 32 about evenly."""
    random = _random()
    seen: set[tuple[int, int]] = set()
    while len(seen) < count:
        length = int(random.integers(shortest, 33))
        address = int(random.integers(1 << 24, 223 << 24)) >> (32 - length) << (32 - length)
        seen.add((address, length))
    return sorted(seen)


def mixed_routes(count: int) -> list[Route]:
    """`count` random prefixes of mixed lengths, /8 to /32, to 2000 neighbors."""
    return [
        Route(ipaddress.IPv4Network(prefix), i % 2000)
        for i, prefix in enumerate(mixed_prefixes(count, 8))
    ]


def destinations(routes: Sequence[Route], flows: int) -> Words:
    """`flows` destinations, each a random address in a prefix of the table, all prefixes used."""
    random = _random()
    picks = np.arange(flows) % len(routes)
    base = np.array([int(r.network.network_address) for r in routes], dtype=np.uint64)[picks]
    size = np.array([r.network.num_addresses for r in routes], dtype=np.uint64)[picks]
    offset = random.integers(0, 1 << 32, flows, dtype=np.uint64) % size
    found = (base + offset).astype(np.uint32)
    random.shuffle(found)
    return found


def routing_rules(routes: Sequence[Route], table: int) -> list[str]:
    """Longest prefix match with MAC rewrite and TTL: priority is the prefix length."""
    return [
        f"table={table},priority={route.network.prefixlen},ip,nw_dst={route.network},"
        f"actions=set_field:{ROUTER_MAC}->eth_src,"
        f"set_field:{frames.mac_text(0x20000 + route.neighbor)}->eth_dst,dec_ttl,output:{SINK}"
        for route in routes
    ]


def l3(
    prefixes: str,
    routes: Callable[[], list[Route]],
    flows: int,
    goal: float,
    published: Published,
) -> Case:
    """The router: table 0 the router's MAC, table 1 longest prefix match (D5.6, Table 5)."""

    def rules() -> list[str]:
        router = f"table=0,priority=10,in_port={SOURCE},eth_dst={ROUTER_MAC},actions=goto_table:1"
        return [router, *routing_rules(routes(), 1)]

    def make() -> Bytes:
        return frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=np.full(flows, 0xC0A80001, dtype=np.uint32),
            ipv4_dst=destinations(routes(), flows),
        )

    name = f"l3-{prefixes}-{_short(flows)}flows"
    return Case(name, flows, rules, make, goal, routes=routes, published=published)


def access_gateway(users: int, goal: float) -> Case:
    """Four tables, a meter and counters per user: port, user, policy, routes.

    The meters are far above the offered rate: they are worked through and drop nothing.
    """
    networks = slash24_routes(100)

    def user(i: int) -> int:
        return 0x64400000 + i

    def rules() -> list[str]:
        entry = f"table=0,priority=10,in_port={SOURCE},eth_dst={ROUTER_MAC},actions=goto_table:1"
        per_user = [
            f"table=1,priority=10,ip,nw_src={ipaddress.IPv4Address(user(i))},"
            f"actions=meter:{i + 1},goto_table:2"
            for i in range(users)
        ]
        policy = [
            "table=2,priority=20,tcp,tcp_dst=25,actions=drop",
            "table=2,priority=20,udp,udp_dst=19,actions=drop",
            "table=2,priority=1,actions=goto_table:3",
        ]
        return [entry, *per_user, *policy, *routing_rules(networks, 3)]

    def make() -> Bytes:
        chosen = _random().permutation(users)
        return frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=(user(0) + chosen).astype(np.uint32),
            ipv4_dst=destinations(networks, users),
        )

    return Case(f"access-gateway-{_short(users)}users", users, rules, make, goal, meters=users)


def _short(number: int) -> str:
    return f"{number // 1000}k" if number >= 1000 else str(number)


def all_cases() -> list[Case]:
    """Every case without a tunnel, in the order of the report."""

    def few(count: int) -> Callable[[], list[Route]]:
        return lambda: slash24_routes(count)

    def mixed() -> list[Route]:
        return mixed_routes(10_000)

    return [
        l2(100, 100, 2.5, Published(82)),
        l2(100, 10_000, 2.5, Published(80)),
        l3("1prefix", few(1), 1, 2.5, Published(77)),
        l3("100prefixes", few(100), 100, 4.0, Published(75, goal=55)),
        l3("2kprefixes", few(2000), 10_000, 6.0, Published(79)),
        l3("2kprefixes", few(2000), 500_000, 6.0, Published(89)),
        l3("10kmixed", mixed, 1, 2.5, Published(71)),
        l3("10kmixed", mixed, 100, 4.0, Published(86)),
        l3("10kmixed", mixed, 10_000, 10.0, Published(111, goal=80)),
        l3("10kmixed", mixed, 500_000, 6.0, Published(132)),
        access_gateway(10_000, 3.0),
    ]


def toggle() -> Case:
    """One rule for everything, which a test opens and closes."""

    def rules() -> list[str]:
        return [f"priority=1,actions=output:{SINK}"]

    def make() -> Bytes:
        return frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=np.full(100, 0xC0A80001, dtype=np.uint32),
            ipv4_dst=(0x0A000000 + np.arange(100)).astype(np.uint32),
        )

    return Case("toggle", 100, rules, make, None)
