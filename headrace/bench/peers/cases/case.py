# SPDX-License-Identifier: Apache-2.0
"""A case of the comparison: rules, frames, and the expected output.

Rules are OpenFlow 1.3 in the syntax of `ovs-ofctl`, the same text for Headrace and OVS. The source
is port 1, the sink port 2; further sinks and bystanders, where a case has some, are ports 3 and up.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headrace.bench.peers.frames import Bytes
from headrace.bench.peers.rulesets import Filter, Numbers

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
    """A tunnel in OVS: a tunnel port, terminated by an underlay bridge that has an address.

    `rules_below` are that bridge's; the best of the alternatives `groups` (by name) is used.
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
    """The published cost of VPP 23.06 for the same on one worker core of such a machine.

    In TSC cycles per packet of a 2.0 GHz counter, source and sink included. `goal`: the maximum of
    Headrace's TSC cycles; None if none is stated.
    """

    vpp_cycles: float
    goal: float | None = None


@dataclass(frozen=True)
class Case:
    """One comparison.

    `goal` is the ratio to OVS-DPDK's best cache setting that Headrace should reach; `routes`
    enables l3fwd. Every packet of `make_frames` should reach every sink.
    """

    name: str
    flows: int
    rules: Callable[[], list[str]]
    make_frames: Callable[[], Bytes]
    goal: float | None
    meters: int = 0  # how many, numbered from 1, each far above the offered rate
    routes: Callable[[], list[Route]] | None = None
    groups: Callable[[], list[str]] | None = None
    overlay: Overlay | None = None  # replaces the rules in OVS, where it lacks the actions
    published: Published | None = None
    sinks: int = 1
    bystanders: int = 0  # ports after the sinks that no packet should reach
    # Frames that the sink's side sends by NORMAL before the measurement.
    learned: Callable[[], Bytes] | None = None
    # Tables of IPv6 prefixes: by default OVS tracks IPv4 prefixes only.
    ipv6_tables: tuple[int, ...] = ()
    # Time limit for OVS to fill its caches before it is probed, seconds.
    filling_s: float = 0.0
    # Filters and packets for a peer that only classifies.
    classified: Callable[[], tuple[list[Filter], Numbers]] | None = None

    @property
    def device(self) -> str:
        """The source's device name; its frames file is named after it."""
        return f"net_null_{self.name.replace('-', '_')}"


def random_numbers() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(SEED)


def short(number: int) -> str:
    """A number abbreviated for names: 10000 is 10k."""
    return f"{number // 1000}k" if number >= 1000 else str(number)
