# SPDX-License-Identifier: Apache-2.0
"""What the paper's text says of its cost functions; n = 5 reproduces it (docs/model.md).

Rates are packets per second of one chain. The paper measured 1 to 30 VNFs (Section III-A), and
compares n chains of n VNFs, so n is 2 to 30: a chain of one VNF is the same in both placements.
"""

from dataclasses import dataclass

from headrace.results import Placement

LENGTHS = range(2, 31)
FIGURE_LENGTH = 5


@dataclass(frozen=True)
class Preference:
    """Which placement the paper says is cheaper for a switch at a rate, 1500-byte packets."""

    switch: str
    chain_pps: float
    cheaper: Placement
    where: str


PREFERENCES: tuple[Preference, ...] = (
    Preference("ovs-kernel", 10e3, "distribute", "Section IV-B, Fig. 8"),
    Preference("ovs-kernel", 50e3, "distribute", "Section IV-B, Fig. 8"),
    Preference("ovs-kernel", 100e3, "gather", "Section IV-B, Fig. 8"),
    Preference("ovs-kernel", 1.5e6, "gather", "Section IV-B, Fig. 8"),
    Preference("ovs-dpdk", 10e3, "gather", "Section IV-B, Fig. 9"),
    Preference("ovs-dpdk", 50e3, "gather", "Section IV-B, Fig. 9"),
    Preference("ovs-dpdk", 1e6, "distribute", "Section IV-B, Fig. 9"),
    Preference("ovs-dpdk", 6e6, "distribute", "Section IV-B, Fig. 9"),
)


@dataclass(frozen=True)
class Turnover:
    """The crossover of a switch: `below` is cheaper up to `low` pps, the other from `high` pps."""

    switch: str
    below: Placement
    low: float
    high: float
    where: str


TURNOVERS: tuple[Turnover, ...] = (
    Turnover("ovs-kernel", "distribute", 50e3, 100e3, "Section IV-B, Fig. 8"),
    Turnover("ovs-dpdk", "gather", 50e3, 1e6, "Section IV-B, Fig. 9"),
)
