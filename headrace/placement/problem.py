# SPDX-License-Identifier: Apache-2.0
"""A document as arrays of integers, so that sums are exact and a plan is feasible or it is not.

A server has four resources (`RESOURCES`): cores for VNFs in thousandths, memory in KB, cycles of
its switch in thousands per second, its link in bits per second of one direction. Needs are rounded
up, capacities down, so what fits here fits in the document's own numbers.

The VNFs of all chains are numbered in one row; chain c has `first[c]` to `first[c + 1]`. A run is a
maximal sequence of VNFs of a chain on one server. A run of k VNFs takes of its server

    cores, memory   the sums of its VNFs'
    switch          entry + the sum of its VNFs' visits
    link            the chain's rate, in and out

so cutting a chain costs one more entry and one more passage of a link, nothing else.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.placement.document import Document, DocumentError, ServerType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RESOURCES = ("cores", "memory", "switch", "link")
CORES, MEMORY, SWITCH, LINK = range(4)
UNPLACED = -1
MAX_CELLS = 200_000_000
"""VNFs x server types at most, which bounds the memory of the arrays."""


def up(value: float) -> int:
    """Rounded up, but for the error of floating point."""
    return math.ceil(value - 1e-9 * max(1.0, abs(value)))


def down(value: float) -> int:
    """Rounded down, likewise."""
    return math.floor(value + 1e-9 * max(1.0, abs(value)))


@dataclass(frozen=True)
class Problem:
    """All of the document that placing needs.

    Shapes: S servers, T types, C chains, V VNFs, 4 resources.

    Attributes:
        capacity: S x 4.
        type_of, rack_of: S; a server without a rack is a rack of its own.
        need: V x T x 2, cores and memory.
        visit: V x T, the switch's work for one VNF.
        entry: C x T, for a run.
        rate: C, bits per second.
        latency: V, ns, of the VNF itself.
        budget: C, ns (-1: none).
        hop: T, ns of an entry or visit.
        allowed: by chain, a mask of S, for the chains that have one.
        groups: VNFs of which no two may share a server (or rack: `by_rack`).
        groups_of: by VNF, its groups.
        price: T, of a used server; unit_price: T x 4, of each unit of a resource.
        unit_cycles: T, the part of a core that a unit of the switch is.
    """

    servers: list[str]
    chains: list[str]
    functions: list[str]
    modes: list[str]
    type_names: list[str]
    capacity: Ints
    type_of: Ints
    rack_of: Ints
    first: Ints
    chain_of: Ints
    need: Ints
    visit: Ints
    entry: Ints
    rate: Ints
    latency: Ints
    budget: Ints
    hop: Ints
    network: int
    price: Floats
    unit_price: Floats
    unit_cycles: Floats
    headroom: int
    allowed: dict[int, Bools] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)
    by_rack: list[bool] = field(default_factory=list)
    groups_of: dict[int, list[int]] = field(default_factory=dict)

    def vnfs(self, chain: int) -> range:
        """The numbers of a chain's VNFs."""
        return range(int(self.first[chain]), int(self.first[chain + 1]))

    def length(self, chain: int) -> int:
        """VNFs of a chain."""
        return int(self.first[chain + 1] - self.first[chain])

    def name(self, vnf: int) -> str:
        """A VNF as `chain/number`."""
        chain = int(self.chain_of[vnf])
        return f"{self.chains[chain]}/{vnf - int(self.first[chain])}"


def _type_arrays(types: list[ServerType]) -> tuple[Ints, Floats, Floats]:
    capacity = np.array(
        [
            [
                down(1000 * one.cores),
                down(1000 * one.memory_mb),
                down(1e6 * one.ghz * one.switch_cores * one.max_load),
                down(1e9 * one.link_gbps),
            ]
            for one in types
        ],
        dtype=np.int64,
    )
    price = np.array([one.price for one in types])
    unit = np.array(
        [[one.core_price / 1000, 0.0, one.core_price / (1e6 * one.ghz), 0.0] for one in types]
    )
    return capacity, price, unit


def build(document: Document) -> Problem:
    """The arrays of a document.

    Raises:
        DocumentError: it is too large for memory.
    """
    names = list(document.types)
    types = [document.types[name] for name in names]
    servers, chains = document.all_servers(), document.all_chains()
    count = sum(len(chain.vnfs) for chain in chains)
    if count * len(types) > MAX_CELLS:
        raise DocumentError(f"{count} VNFs on {len(types)} types are too many for one plan")
    type_of = np.array([names.index(server.type) for server in servers], dtype=np.int64)
    racks: dict[str, int] = {}
    rack_of = np.array(
        [racks.setdefault(s.rack or f"\0{s.name}", len(racks)) for s in servers], dtype=np.int64
    )
    capacity, price, unit = _type_arrays(types)
    first = np.zeros(len(chains) + 1, dtype=np.int64)
    np.cumsum([len(chain.vnfs) for chain in chains], out=first[1:])
    need = np.zeros((count, len(types), 2), dtype=np.int64)
    visit = np.zeros((count, len(types)), dtype=np.int64)
    entry = np.zeros((len(chains), len(types)), dtype=np.int64)
    hz = np.array([one.ghz * 1e9 for one in types])
    per_byte = np.array([one.cycles.per_byte for one in types])
    enter = np.array([one.cycles.entry for one in types])
    kinds = {
        kind: np.array([one.cycles.visit.get(kind, 0.0) for one in types])
        for kind in {function.port for function in document.functions.values()}
    }
    memory = {name: up(1000 * one.memory_mb) for name, one in document.functions.items()}
    functions: list[str] = []
    for number, chain in enumerate(chains):
        pps = 1000 * chain.kpps
        entry[number] = _up(pps * (enter + per_byte * chain.bytes) / 1000)
        for place, name in enumerate(chain.vnfs, int(first[number])):
            function = document.functions[name]
            functions.append(name)
            need[place, :, 0] = _up(1000 * (function.cores + pps * function.cycles / hz))
            need[place, :, 1] = memory[name]
            visit[place] = _up(pps * (kinds[function.port] + per_byte * chain.bytes) / 1000)
    groups, by_rack = _groups(document, first)
    groups_of: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        for vnf in group:
            groups_of.setdefault(vnf, []).append(number)
    racked = [server.rack for server in servers]
    allowed = {
        number: np.array(
            [
                server.name in chain.servers
                or server.type in chain.servers
                or rack in chain.servers
                for server, rack in zip(servers, racked, strict=True)
            ]
        )
        for number, chain in enumerate(chains)
        if chain.servers
    }
    latencies = [up(1000 * document.functions[name].latency_us) for name in functions]
    budgets = [-1 if c.latency_us is None else down(1000 * c.latency_us) for c in chains]
    return Problem(
        servers=[server.name for server in servers],
        chains=[chain.name for chain in chains],
        functions=functions,
        modes=[chain.placement for chain in chains],
        type_names=names,
        capacity=capacity[type_of],
        type_of=type_of,
        rack_of=rack_of,
        first=first,
        chain_of=np.repeat(np.arange(len(chains)), np.diff(first)),
        need=need,
        visit=visit,
        entry=entry,
        rate=np.array([up(8000 * chain.kpps * chain.bytes) for chain in chains], dtype=np.int64),
        latency=np.array(latencies, dtype=np.int64),
        budget=np.array(budgets, dtype=np.int64),
        hop=np.array([up(1000 * one.hop_us) for one in types], dtype=np.int64),
        network=up(1000 * document.network_us),
        price=price,
        unit_price=unit,
        unit_cycles=np.array([1e-6 / one.ghz for one in types]),
        headroom=document.headroom,
        allowed=allowed,
        groups=groups,
        by_rack=by_rack,
        groups_of=groups_of,
    )


def _up(values: Floats) -> Ints:
    return np.ceil(values - 1e-9 * np.maximum(1.0, np.abs(values))).astype(np.int64)


def _groups(document: Document, first: Ints) -> tuple[list[list[int]], list[bool]]:
    """What must be apart: the chains' own sets, distribute as one set, and the document's."""
    groups: list[list[int]] = []
    by_rack: list[bool] = []
    number_of: dict[str, int] = {}
    for number, chain in enumerate(document.all_chains()):
        number_of[chain.name] = number
        sets = [list(one) for one in chain.apart]
        if chain.placement == "distribute" and len(chain.vnfs) > 1:
            sets.append(list(range(len(chain.vnfs))))
        for one in sets:
            groups.append([int(first[number]) + vnf for vnf in one])
            by_rack.append(False)
    for rule in document.apart:
        members = []
        for vnf in rule.vnfs:
            name, _, place = vnf.rpartition("/")
            members.append(int(first[number_of[name]]) + int(place))
        groups.append(members)
        by_rack.append(rule.domain == "rack")
    return groups, by_rack
