# SPDX-License-Identifier: Apache-2.0
"""A snapshot of the node, as planning needs it: so planning has no side effects."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.node.config import NodeConfig
from headrace.node.planning.holdings import Others
from headrace.node.planning.policy import FIRST_FIT, PlacementPolicy
from headrace.node.templates import TemplateStore
from headrace.switches.base import Capabilities, PortKind, PortSpec


@dataclass(frozen=True)
class Surroundings:
    """What planning needs to know about the node."""

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

    @property
    def lsi0(self) -> str:
        """The name of the LSI with the physical ports."""
        return f"{self.prefix}-0"
