# SPDX-License-Identifier: Apache-2.0
"""Firewall rule sets with the statistics of ClassBench's seeds, and traffic that matches them.

A seed gives the distribution of prefix lengths, of combinations of port ranges, and of protocols:
approximations of the seed families acl, fw and ipc as published. Addresses come from trees with few
branches, as in networks, so that rules overlap. Rules are ordered from narrow to wide, with noise:
a rule mostly precedes the rules that contain it. One in eight priorities denies; no packet of the
traffic matches such a rule.

OpenFlow has masks where filters have port ranges, so a filter is expanded to as many entries as its
ranges have prefixes. Sizes are numbers of entries. There are more entries than priorities, so
neighbors in the order share one; all rules of one priority have the same action, since OpenFlow
does not specify which of them a packet matches.

Source: Taylor and Turner, "ClassBench: A Packet Classification Benchmark", IEEE/ACM ToN 15(3).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

TCP, UDP, ICMP = 6, 17, 1
ANY_PORT, HIGH_PORTS, LOW_PORTS = (0, 65535), (1024, 65535), (0, 1023)
SERVICES = (20, 21, 22, 23, 25, 53, 80, 110, 119, 123, 135, 139, 143, 161, 389, 443, 445, 993)
HIGHEST_PRIORITY, LOWEST_PRIORITY = 60_000, 10
DENIED = 8  # one in this many priorities denies
RANDOM_SEED = 20160704
NOISE_BITS = 16  # how far a wider rule may precede a narrower one

Numbers = npt.NDArray[np.uint64]
Kinds = dict[tuple[str, str], float]
Lengths = dict[tuple[int, int], float]


@dataclass(frozen=True)
class Seed:
    """Shares of (source, destination) prefix lengths, of kinds of ports, of protocols.

    Lengths are those of IPv4; kinds of ports are any, high, low, range and one.
    """

    lengths: Lengths
    ports: Kinds
    protocols: dict[int | None, float]


SEEDS = {
    "acl": Seed(
        lengths={
            (0, 32): 10, (0, 24): 5, (8, 32): 5, (16, 32): 8, (16, 24): 7, (21, 32): 5,
            (24, 32): 15, (24, 24): 10, (27, 32): 5, (32, 32): 20, (32, 24): 5, (32, 16): 5,
        },
        ports={("any", "one"): 62, ("any", "any"): 20, ("any", "range"): 13, ("any", "high"): 5},
        protocols={TCP: 75, UDP: 15, ICMP: 2, None: 8},
    ),
    "fw": Seed(
        lengths={
            (0, 32): 28, (0, 24): 8, (0, 16): 4, (32, 0): 15, (24, 0): 6, (16, 32): 6,
            (24, 32): 8, (32, 32): 14, (32, 24): 5, (24, 24): 4, (0, 28): 2,
        },
        ports={
            ("any", "one"): 36, ("any", "any"): 28, ("high", "one"): 10, ("one", "any"): 8,
            ("one", "high"): 5, ("any", "range"): 6, ("high", "high"): 2, ("any", "high"): 3,
            ("any", "low"): 2,
        },
        protocols={TCP: 60, UDP: 24, ICMP: 5, None: 11},
    ),
    "ipc": Seed(
        lengths={
            (32, 32): 34, (24, 32): 12, (32, 24): 8, (24, 24): 8, (16, 32): 6, (16, 16): 4,
            (0, 32): 12, (32, 0): 6, (21, 27): 4, (28, 32): 6,
        },
        ports={
            ("any", "any"): 34, ("any", "one"): 36, ("one", "any"): 9, ("one", "one"): 8,
            ("high", "one"): 4, ("any", "range"): 5, ("range", "any"): 2, ("any", "high"): 2,
        },
        protocols={TCP: 52, UDP: 30, ICMP: 4, None: 14},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Filter:
    """A rule before its ranges are expanded to masks: prefixes, ranges, a protocol or any."""

    source: tuple[int, int]
    destination: tuple[int, int]
    source_ports: tuple[int, int]
    destination_ports: tuple[int, int]
    protocol: int | None
    priority: int = 0

    @property
    def denies(self) -> bool:
        """Whether it drops matching packets."""
        return self.priority % DENIED == 0


def port_prefixes(first: int, last: int) -> list[tuple[int, int]]:
    """The minimal set of (value, mask) that covers a range of 16-bit numbers."""
    found = []
    while first <= last:
        size = first & -first if first else 1 << 16
        while size > last - first + 1:
            size >>= 1
        found.append((first, 0x10000 - size))
        first += size
    return found


class Addresses:
    """Addresses of `bits` bits from a tree: few branches near the root, more below."""

    def __init__(self, bits: int, salt: int) -> None:
        """IPv4's levels have 8 bits, IPv6's 16."""
        self.bits = bits
        self.step = bits // 4 if bits == 32 else 16
        self.branches = (8, 16, 64, 200) if bits == 32 else (1, 8, 16, 64, 4, 1, 4, 200)
        self.salt = salt

    def prefix(self, length: int, random: np.random.Generator) -> tuple[int, int]:
        """A prefix; `length` is for IPv4 and is mapped to IPv6: /24 to /64, a host to a host."""
        address = self.salt
        for branches in self.branches:
            branch = int(random.integers(0, branches))
            digits = (address * 0x9E3779B97F4A7C15 + branch * 0xD1B54A32D192ED03) >> 29
            address = address << self.step | digits & (1 << self.step) - 1
        address &= (1 << self.bits) - 1
        if self.bits == 32:
            address = address % (222 << 24) + (1 << 24)
        else:
            address = address & (1 << 125) - 1 | 1 << 125  # 2000::/3
            length = {0: 0, 32: 128}.get(length, 16 + 2 * length)
        return address >> (self.bits - length) << (self.bits - length), length


def _ports(kind: str, random: np.random.Generator) -> tuple[int, int]:
    if kind == "one":
        known = random.random() < 0.7
        port = int(SERVICES[random.integers(len(SERVICES))] if known else random.integers(1, 49152))
        return port, port
    if kind == "range":
        first = int(random.integers(1024, 60_000))
        return first, first + int(random.integers(1, 200))
    return {"any": ANY_PORT, "high": HIGH_PORTS, "low": LOW_PORTS}[kind]


def _filters(seed: Seed, entries: int, bits: int) -> list[Filter]:
    """Different filters, in order, with exactly this number of entries."""
    random = np.random.default_rng(RANDOM_SEED)
    sources, destinations = Addresses(bits, 0xA), Addresses(bits, 0xB)

    def drawn(shares: dict, count: int) -> list:  # type: ignore[type-arg]
        weights = np.array(list(shares.values()), dtype=float)
        picks = random.choice(len(shares), count, p=weights / weights.sum())
        keys = list(shares)
        return [keys[pick] for pick in picks]

    found: dict[Filter, float] = {}
    left = entries
    while left:
        batch = 4096
        for lengths, kinds, protocol in zip(
            drawn(seed.lengths, batch),
            drawn(seed.ports, batch),
            drawn(seed.protocols, batch),
            strict=True,
        ):
            with_ports = protocol in (TCP, UDP)
            made = Filter(
                sources.prefix(lengths[0], random),
                destinations.prefix(lengths[1], random),
                _ports(kinds[0], random) if with_ports else ANY_PORT,
                _ports(kinds[1], random) if with_ports else ANY_PORT,
                protocol,
            )
            size = len(port_prefixes(*made.source_ports)) * len(
                port_prefixes(*made.destination_ports)
            )
            if size <= left and made not in found:
                found[made] = _width(made) + random.uniform(0, NOISE_BITS)
                left -= size
    ordered = sorted(found, key=lambda one: found[one])
    span = HIGHEST_PRIORITY - LOWEST_PRIORITY
    return [
        Filter(
            *(one.source, one.destination, one.source_ports, one.destination_ports, one.protocol),
            HIGHEST_PRIORITY - rank * span // max(span, len(ordered)),
        )
        for rank, one in enumerate(ordered)
    ]


def _width(one: Filter) -> float:
    """How many bits a filter wildcards, of IPv4's 32 for each address."""
    ports = [np.log2(high - low + 1) for low, high in (one.source_ports, one.destination_ports)]
    scale = 4 if max(one.source[1], one.destination[1]) > 32 else 1
    addresses = 64 - (one.source[1] + one.destination[1]) / scale
    return float(addresses + sum(ports) + (8 if one.protocol is None else 0))


@dataclass(frozen=True)
class Ruleset:
    """Filters and their entries.

    An entry's words are the source address, the destination address (each of one or two words, the
    upper one first), and one word of protocol, source and destination port; its masks likewise.
    """

    bits: int
    filters: list[Filter]
    values: Numbers
    masks: Numbers
    priorities: npt.NDArray[np.int64]

    def winners(self, packets: Numbers) -> npt.NDArray[np.int64]:
        """The priority of the rule that each packet matches; -1 for none."""
        best = np.full(len(packets), -1, dtype=np.int64)
        kinds, kind_of = np.unique(self.masks, axis=0, return_inverse=True)
        for kind, mask in enumerate(kinds):
            entries = np.flatnonzero(kind_of.reshape(-1) == kind)
            # Of entries that are equal under this mask, the one with the highest priority is last.
            entries = entries[np.argsort(self.priorities[entries], kind="stable")]
            keys = _digest(self.values[entries])
            order = np.argsort(keys, kind="stable")
            keys, entries = keys[order], entries[order]
            masked = packets & mask
            found = np.searchsorted(keys, _digest(masked), side="right") - 1
            candidates = entries[np.maximum(found, 0)]
            takes = (self.values[candidates] == masked).all(axis=1) & (found >= 0)
            best = np.where(takes, np.maximum(best, self.priorities[candidates]), best)
        return best

    def traffic(self, flows: int) -> Numbers:
        """Allowed packets, each a flow, spread evenly over the entries.

        With fewer flows than entries, the entries that get one are drawn at random.
        """
        random = np.random.default_rng(RANDOM_SEED)
        found: list[Numbers] = []
        while sum(map(len, found)) < flows:
            entries = len(self.values)
            picks = random.permutation(np.arange(max(flows, entries)) % entries)[:flows]
            shape = (flows, self.values.shape[1])
            noise = random.integers(0, 1 << min(self.bits, 64), shape, dtype=np.uint64)
            packets = self.values[picks] | noise & ~self.masks[picks]
            # For any protocol, use one of the two that have ports.
            any_protocol = self.masks[picks, -1] >> np.uint64(32) == 0
            ports = packets[:, -1] & np.uint64(0xFFFFFFFF)
            chosen = random.choice(np.array([TCP, UDP], dtype=np.uint64), flows)
            protocols = np.where(any_protocol, chosen, self.values[picks, -1] >> np.uint64(32))
            packets[:, -1] = protocols << np.uint64(32) | ports
            found.append(packets[self.winners(packets) % DENIED != 0])
        return np.concatenate(found)[:flows]


def _digest(words: Numbers) -> Numbers:
    """One number of each row's words."""
    digest = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        digest = (digest ^ column) * np.uint64(0x9E3779B97F4A7C15)
        digest ^= digest >> np.uint64(29)
    return digest


def _words(address: int, bits: int) -> list[int]:
    return [address] if bits == 32 else [address >> 64, address & (1 << 64) - 1]


def _prefix_mask(length: int, bits: int) -> int:
    return ((1 << length) - 1) << (bits - length)


@lru_cache(maxsize=4)
def ruleset(seed: str, entries: int, bits: int = 32) -> Ruleset:
    """The rule set of a seed with exactly this number of entries; `bits` is 32 or 128."""
    filters = _filters(SEEDS[seed], entries, bits)
    values: list[list[int]] = []
    masks: list[list[int]] = []
    priorities: list[int] = []
    for one in filters:
        addresses = [*_words(one.source[0], bits), *_words(one.destination[0], bits)]
        address_masks = [
            *_words(_prefix_mask(one.source[1], bits), bits),
            *_words(_prefix_mask(one.destination[1], bits), bits),
        ]
        protocol, protocol_mask = (0, 0) if one.protocol is None else (one.protocol, 0xFF)
        for source, source_mask in port_prefixes(*one.source_ports):
            for destination, destination_mask in port_prefixes(*one.destination_ports):
                values.append([*addresses, protocol << 32 | source << 16 | destination])
                masks.append(
                    [*address_masks, protocol_mask << 32 | source_mask << 16 | destination_mask]
                )
                priorities.append(one.priority)
    return Ruleset(
        bits,
        filters,
        np.array(values, dtype=np.uint64),
        np.array(masks, dtype=np.uint64),
        np.array(priorities, dtype=np.int64),
    )


def zipf(flows: int, packets: int) -> npt.NDArray[np.int64]:
    """The flow of each packet, the r-th most popular with a share proportional to 1 / r."""
    random = np.random.default_rng(RANDOM_SEED)
    shares = 1 / np.arange(1, flows + 1)
    ranks = random.choice(flows, packets, p=shares / shares.sum())
    return random.permutation(flows)[ranks]
