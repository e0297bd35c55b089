# SPDX-License-Identifier: Apache-2.0
"""A snapshot of the node, as planning needs it: so planning has no side effects."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.node.config import NodeConfig
from headrace.node.errors import GraphRefused
from headrace.node.planning.holdings import Others
from headrace.node.planning.inventory import Reserved
from headrace.node.planning.policy import FIRST_FIT, PlacementPolicy
from headrace.node.templates import TemplateStore
from headrace.switches.base import TUNNELS, Capabilities, PortKind, PortSpec

_ON_LSI0 = ("interface", "vlan", "internal")
"""End-points whose ports are on the node's first switch, whatever the graph's is."""


@dataclass(frozen=True)
class Further:
    """A switch beside the node's first: the letter of its LSIs, and what it can carry."""

    letter: str
    capabilities: Capabilities


@dataclass(frozen=True)
class Surroundings:
    """What planning needs to know about the node.

    `switch` and `capabilities` are those of the graph's own LSI, `letter` ends its name; `first`
    are those of LSI-0, if that is another switch's.
    """

    config: NodeConfig
    capabilities: Capabilities
    switch: str
    rundir: Path
    prefix: str
    templates: TemplateStore
    engine_kinds: Mapping[str, tuple[PortKind, ...]]
    ports: Mapping[str, PortSpec]
    others: Others
    policy: PlacementPolicy = FIRST_FIT
    further: Mapping[str, Further] = field(default_factory=dict)
    reserved: tuple[Reserved, ...] = ()
    letter: str = ""
    first: Capabilities | None = None

    def on(self, switch: str | None) -> "Surroundings":
        """The same for a graph that names a switch.

        Raises:
            GraphRefused: the node has no such switch.
        """
        if switch in (None, self.switch):
            return self
        if switch not in self.further:
            known = ", ".join([self.switch, *self.further])
            raise GraphRefused("nffg", f"switch: there is no switch {switch!r}; there are: {known}")
        found = self.further[switch]
        # Shared memory is made in the first switch's place; tunnels end at LSI-0's addresses.
        has = found.capabilities
        kinds = tuple(kind for kind in has.vnf_kinds if kind is not PortKind.SHM)
        shared = {*_ON_LSI0} & {*self.capabilities.end_points}
        own = [kind for kind in has.end_points if kind not in {*_ON_LSI0, *TUNNELS}]
        carried = has.model_copy(update={"vnf_kinds": kinds, "end_points": (*sorted(shared), *own)})
        return replace(
            self,
            switch=switch,
            capabilities=carried,
            letter=found.letter,
            first=self.capabilities,
        )

    def same_but_for_graphs(self, other: "Surroundings") -> bool:
        """Whether two snapshots differ in nothing but what other graphs hold, if in that."""
        return (
            self.config is other.config
            and self.capabilities is other.capabilities
            and self.templates is other.templates
            and self.policy is other.policy
            and self.ports == other.ports
            and self.further == other.further
            and self.reserved == other.reserved
        )

    def carrier(self, lsi: str) -> Capabilities:
        """What the switch of an LSI can carry."""
        on_first = lsi == self.lsi0 or lsi.startswith(f"{self.prefix}-i")
        return self.first if on_first and self.first is not None else self.capabilities

    @property
    def lsi0(self) -> str:
        """The name of the LSI with the physical ports."""
        return f"{self.prefix}-0"
