# SPDX-License-Identifier: Apache-2.0
"""Routers: longest prefix match in IPv4 and IPv6, and the access gateway.

The IPv4 pipelines are those of D5.6, Section 3.1.1 and Tables 5 to 7.
"""

import ipaddress
from collections.abc import Callable, Sequence

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import (
    ROUTER_MAC,
    SENDER_MAC,
    SINK,
    SOURCE,
    Case,
    Published,
    Route,
    random_numbers,
    short,
)
from headrace.bench.peers.frames import Bytes, Words


def slash24_routes(count: int) -> list[Route]:
    """`count` neighboring /24 prefixes under 10/8, each to its own neighbor."""
    return [Route(ipaddress.IPv4Network((0x0A000000 + (i << 8), 24)), i) for i in range(count)]


def mixed_prefixes(count: int, shortest: int) -> list[tuple[int, int]]:
    """`count` different random (address, length), lengths `shortest` to 32 about evenly."""
    random = random_numbers()
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
    random = random_numbers()
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

    name = f"l3-{prefixes}-{short(flows)}flows"
    return Case(name, flows, rules, make, goal, routes=routes, published=published)


def ipv6_routes(count: int) -> list[ipaddress.IPv6Network]:
    """`count` different random prefixes of 2001::/16, of every length from /48 to /64 alike."""
    random = random_numbers()
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        length = 48 + len(found) % 17
        bits = int(random.integers(0, 1 << 48)) << 64 | 0x2001 << 112
        found.add((bits >> (128 - length) << (128 - length), length))
    return [ipaddress.IPv6Network(prefix) for prefix in sorted(found)]


def l3_ipv6(prefixes: int, flows: int, goal: float) -> Case:
    """The same router for IPv6."""

    def rules() -> list[str]:
        router = f"table=0,priority=10,in_port={SOURCE},eth_dst={ROUTER_MAC},actions=goto_table:1"
        routes = [
            f"table=1,priority={network.prefixlen},ipv6,ipv6_dst={network},"
            f"actions=set_field:{ROUTER_MAC}->eth_src,"
            f"set_field:{frames.mac_text(0x20000 + i)}->eth_dst,dec_ttl,output:{SINK}"
            for i, network in enumerate(ipv6_routes(prefixes))
        ]
        return [router, *routes]

    def make() -> Bytes:
        random = random_numbers()
        routes = ipv6_routes(prefixes)
        picks = random.permutation(np.arange(flows) % prefixes)
        hosts = random.integers(0, 1 << 63, flows)
        ipv6_dst = np.array(
            [
                list(routes[pick][int(host) % routes[pick].num_addresses].packed)
                for pick, host in zip(picks, hosts, strict=True)
            ],
            dtype=np.uint8,
        )
        return frames.ipv6_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv6_src=np.tile(
                np.frombuffer(ipaddress.IPv6Address("2001:db8::1").packed, np.uint8), (flows, 1)
            ),
            ipv6_dst=ipv6_dst,
        )

    name = f"l3-ipv6-{short(prefixes)}prefixes-{short(flows)}flows"
    return Case(name, flows, rules, make, goal, ipv6_tables=(1,))


def access_gateway(users: int, goal: float) -> Case:
    """Four tables, a meter and counters per user: port, user, policy, routes.

    The meters are far above the offered rate: they are executed but drop nothing.
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
        chosen = random_numbers().permutation(users)
        return frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=(user(0) + chosen).astype(np.uint32),
            ipv4_dst=destinations(networks, users),
        )

    return Case(f"access-gateway-{short(users)}users", users, rules, make, goal, meters=users)


def all_cases() -> list[Case]:
    """Every router, in the order of the report."""

    def few(count: int) -> Callable[[], list[Route]]:
        return lambda: slash24_routes(count)

    def mixed() -> list[Route]:
        return mixed_routes(10_000)

    return [
        l3("1prefix", few(1), 1, 2.5, Published(77)),
        l3("100prefixes", few(100), 100, 4.0, Published(75, goal=55)),
        l3("2kprefixes", few(2000), 10_000, 6.0, Published(79)),
        l3("2kprefixes", few(2000), 500_000, 6.0, Published(89)),
        l3("10kmixed", mixed, 1, 2.5, Published(71)),
        l3("10kmixed", mixed, 100, 4.0, Published(86)),
        l3("10kmixed", mixed, 10_000, 10.0, Published(111, goal=80)),
        l3("10kmixed", mixed, 500_000, 6.0, Published(132)),
        l3_ipv6(2000, 100, 2.5),
        l3_ipv6(2000, 10_000, 2.5),
        access_gateway(10_000, 3.0),
    ]
