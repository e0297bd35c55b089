# SPDX-License-Identifier: Apache-2.0
"""The nodes as servers of headrace.placement, and what graphs have taken of each.

Arrays are as there: S nodes x 4 resources (cores, memory, switch, link) in integers. Nodes with the
same resources, model and prices are one type.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from headrace.cluster.resources import NodeSpec
from headrace.placement.document import ServerType, SwitchCycles
from headrace.placement.problem import CORES, LINK, MEMORY, SWITCH, Bools, Ints, down

PODS = "pods/"
"""Before a node's name: what pods have taken there."""


@dataclass
class Takings:
    """What a graph takes: by node, a vector of 4, and its VNFs and ends there."""

    needs: dict[str, Ints] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)


def server_type(spec: NodeSpec) -> ServerType:
    """The type of a node, for headrace.placement."""
    tiny = 1e-6  # a node without cores for VNFs still forwards
    return ServerType(
        cores=max(tiny, spec.resources.cores),
        switch_cores=spec.resources.switch_cores,
        ghz=spec.resources.ghz,
        memory_mb=max(tiny, spec.resources.memory_mb),
        link_gbps=spec.resources.link_gbps,
        cycles=SwitchCycles(
            entry=spec.model.entry, visit=dict(spec.model.visit), per_byte=spec.model.per_byte
        ),
        max_load=spec.model.max_load,
        price=spec.prices.node,
        core_price=spec.prices.core,
        hop_us=spec.model.hop_us,
    )


def capacity_of(one: ServerType) -> Ints:
    """What a server of a type has, of 4 resources."""
    return np.array(
        [
            down(1000 * one.cores),
            down(1000 * one.memory_mb),
            down(1e6 * one.ghz * one.switch_cores * one.max_load),
            down(1e9 * one.link_gbps),
        ],
        dtype=np.int64,
    )


class Fleet:
    """All nodes; `usable` are those that may get more.

    Attributes:
        names: S, in the order of the arrays; index: the reverse.
        types, type_of: the types, and that of each node.
        capacity, free: S x 4.
        count: S, VNFs and ends on each.
        racks: S.
        tunnels: S, whether it has a tunnel address.
    """

    def __init__(self) -> None:
        """No nodes."""
        self.specs: dict[str, NodeSpec] = {}
        self._usable: dict[str, bool] = {}
        self._takings: dict[str, Takings] = {}
        self._stale = True
        self._rebuild()

    def set_node(self, name: str, spec: NodeSpec) -> None:
        """A node is new, or has other resources."""
        if self.specs.get(name) != spec:
            self.specs[name] = spec
            self._usable.setdefault(name, False)
            self._stale = True

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        if self.specs.pop(name, None) is not None:
            self._usable.pop(name)
            self._stale = True

    def set_usable(self, name: str, usable: bool) -> None:
        """Whether a node may get more."""
        if name in self.specs and self._usable[name] != usable:
            self._usable[name] = usable
            if not self._stale:
                self.down[self.index[name]] = not usable

    def usable(self, name: str) -> bool:
        """Whether a node may get more."""
        return self._usable.get(name, False)

    def take(self, uid: str, takings: Takings) -> None:
        """A graph takes this, and what it had is free."""
        self.release(uid)
        self._takings[uid] = takings
        self._add(takings, 1)

    def release(self, uid: str) -> Takings | None:
        """What a graph has taken is free; returns it."""
        takings = self._takings.pop(uid, None)
        if takings is not None:
            self._add(takings, -1)
        return takings

    def used_of(self, name: str) -> dict[str, float]:
        """What graphs have taken of a node, in the units of its specification."""
        self.refresh()
        at, spec = self.index[name], self.specs[name]
        used = (self.capacity[at] - self.free[at]).astype(float)
        pods = self._takings.get(f"{PODS}{name}")
        if pods is not None:
            used -= pods.needs[name]
        return {
            "cores": round(used[CORES] / 1000, 3),
            "switchCores": round(used[SWITCH] / (1e6 * spec.resources.ghz), 4),
            "memoryMb": round(used[MEMORY] / 1000, 1),
            "linkGbps": round(used[LINK] / 1e9, 6),
        }

    def refresh(self) -> None:
        """Makes the arrays follow the nodes; they are right afterwards until a node changes."""
        if self._stale:
            self._rebuild()

    def _add(self, takings: Takings, sign: int) -> None:
        if self._stale:
            return
        for name, needs in takings.needs.items():
            at = self.index.get(name)
            if at is not None:
                self.free[at] -= sign * needs
                self.count[at] += sign * takings.count[name]

    def _rebuild(self) -> None:
        names = list(self.specs)
        self.names = names
        self.index = {name: at for at, name in enumerate(names)}
        kinds: dict[str, int] = {}
        self.types: list[ServerType] = []
        type_of = []
        for name in names:
            one = server_type(self.specs[name])
            key = one.model_dump_json()
            if key not in kinds:
                kinds[key] = len(kinds)
                self.types.append(one)
            type_of.append(kinds[key])
        self.type_of: Ints = np.array(type_of, dtype=np.int64)
        by_type = [capacity_of(one) for one in self.types]
        self.capacity: Ints = (
            np.array([by_type[kind] for kind in type_of], dtype=np.int64)
            if names
            else np.zeros((0, 4), dtype=np.int64)
        )
        self.free: Ints = self.capacity.copy()
        self.count: Ints = np.zeros(len(names), dtype=np.int64)
        self.down: Bools = np.array([not self._usable[name] for name in names], dtype=bool)
        self.racks = [self.specs[name].rack for name in names]
        numbers: dict[str, int] = {}
        self.rack_of: Ints = np.array(
            [
                numbers.setdefault(rack or f"\0{name}", len(numbers))
                for name, rack in zip(names, self.racks, strict=True)
            ],
            dtype=np.int64,
        )
        self.tunnels: Bools = np.array(
            [bool(self.specs[name].tunnel_address) for name in names], dtype=bool
        )
        self._stale = False
        for takings in self._takings.values():
            self._add(takings, 1)

    def among(self, wanted: Iterable[str]) -> Bools:
        """S: the nodes that are named, or are in a rack that is named."""
        names = set(wanted)
        return np.array(
            [
                name in names or rack in names
                for name, rack in zip(self.names, self.racks, strict=True)
            ],
            dtype=bool,
        )

    def addresses(self) -> Mapping[str, str | None]:
        """The tunnel address of each node."""
        return {name: spec.tunnel_address for name, spec in self.specs.items()}
