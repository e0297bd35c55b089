# SPDX-License-Identifier: Apache-2.0
"""How the controller decides, and what it remembers from before it was started again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.cluster.core.health import HoldDown
from headrace.cluster.cutting.cut import Link


@dataclass(frozen=True)
class Settings:
    """How the core behaves; times in seconds.

    Attributes:
        attempts: of a part at a node in a row, before the graph goes elsewhere.
        retry_s, longest_retry_s: wait after a failure, doubled with each further one.
        most_lost: share of nodes that are lost at once above which nothing is re-placed: then it is
            likelier that the controller is cut off than that they are all gone.
        stock_s: how often a node is asked which parts it has; look_s: how often whether they work.
        network_us: latency between two nodes.
    """

    hold: HoldDown = field(default_factory=HoldDown)
    attempts: int = 3
    retry_s: float = 1.0
    longest_retry_s: float = 300.0
    most_lost: float = 0.55
    stock_s: float = 300.0
    look_s: float = 10.0
    network_us: float = 20.0
    first_vni: int = 0x100000
    last_vni: int = 0xFFFFFF


@dataclass(frozen=True)
class Recorded:
    """What the status of a graph says of an earlier placement."""

    where: Mapping[str, str]
    links: Mapping[Link, int] = field(default_factory=dict)
    migrations: int = 0
