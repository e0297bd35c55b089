# SPDX-License-Identifier: Apache-2.0
"""The published cost functions in closed form, with the rounding of the printed coefficients.

Of n chains of n VNFs on n servers all servers together cost (headrace/model/cost.py)

    gather      n exp(gamma_g) p^alpha_g n^beta_g
    distribute  n exp(gamma_d) (n p)^alpha_d n^beta_d

with p packets per second of one chain. They are equal at

    ln p* = (gamma_d - gamma_g + (alpha_d + beta_d - beta_g) ln n) / (alpha_g - alpha_d).

Table I prints three decimals, so a coefficient is known to half of the last one. `crossover` gives
the interval of p* over all coefficients that round to the printed ones: a statement that fails in
the whole interval contradicts the table, one that fails in a part of it is not decided by it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.cost import Coefficients, total_cost
from headrace.results import Placement, published

ROUNDING = 0.0005
"""Half of the last decimal that Table I prints."""
SERVER_CORES = 24
"""Cores of the paper's server (Section III-A: two processors of 12)."""
WIRE_BPS = 10e9
"""Its network interface (Section III-A: an 82599ES of 10 Gbit/s)."""
FRAMING_BYTES = 38
"""Ethernet header, FCS, preamble and gap, which a packet of N bytes has on the wire besides."""

PLACEMENTS: tuple[Placement, ...] = ("gather", "distribute")


class IncompleteTable(Exception):
    """A function of Table I is missing from the data."""


@dataclass(frozen=True)
class Pair:
    """Both placements of one switch and packet size."""

    gather: Coefficients
    distribute: Coefficients

    def of(self, placement: Placement) -> Coefficients:
        """One of the two."""
        return self.gather if placement == "gather" else self.distribute


@dataclass(frozen=True)
class Interval:
    """A value with its bounds over the rounding of the coefficients."""

    value: float
    low: float
    high: float


def pair(
    switch: str, packet_bytes: int, table: Sequence[published.PublishedFit] | None = None
) -> Pair:
    """The published functions of a switch and packet size.

    Raises:
        IncompleteTable: one of them is not in the table.
    """
    rows = published.cost_functions() if table is None else table
    found: dict[str, published.PublishedFit] = {}
    for row in rows:
        if row.switch == switch and row.packet_bytes == packet_bytes:
            found[row.placement] = row
    missing = [name for name in PLACEMENTS if name not in found]
    if missing:
        raise IncompleteTable(
            f"Table I has no function of {switch}, {packet_bytes} B, {' and '.join(missing)}; "
            f"published/cost-function.csv has to have all eight"
        )
    return Pair(found["gather"], found["distribute"])


def _log_crossover(terms: Sequence[float], length: int) -> float:
    alpha_g, beta_g, gamma_g, alpha_d, beta_d, gamma_d = terms
    over = gamma_d - gamma_g + (alpha_d + beta_d - beta_g) * math.log(length)
    return over / (alpha_g - alpha_d)


def crossover(functions: Pair, length: int) -> Interval:
    """Packets per second of a chain at which both placements cost the same."""
    terms = [
        getattr(side, name)
        for side in (functions.gather, functions.distribute)
        for name in ("alpha", "beta", "gamma")
    ]
    corners = [
        _log_crossover(
            [term + sign * ROUNDING for term, sign in zip(terms, signs, strict=True)], length
        )
        for signs in itertools.product((-1, 1), repeat=len(terms))
    ]
    value = _log_crossover(terms, length)
    return Interval(math.exp(value), math.exp(min(corners)), math.exp(max(corners)))


def cheaper(functions: Pair, chain_pps: float, length: int) -> Placement:
    """The placement that costs less."""
    costs = {name: total_cost(functions.of(name), chain_pps, length) for name in PLACEMENTS}
    return min(PLACEMENTS, key=costs.__getitem__)


def decided(functions: Pair, chain_pps: float, length: int) -> bool:
    """Whether the rounding of the coefficients leaves no doubt about which costs less."""
    at = crossover(functions, length)
    return not at.low <= chain_pps <= at.high


def infeasible_from(function: Coefficients, length: int, cores: float = SERVER_CORES) -> float:
    """Packets per second of a chain from which a server has no cycle left (Section II).

    A server has a whole chain (gather), or one VNF of each of `length` chains (distribute).
    """
    if math.isinf(cores):
        return math.inf
    budget = math.log(100.0 * cores)
    entering = (budget - function.gamma - function.beta * math.log(length)) / function.alpha
    return math.exp(entering) / (length if function.placement == "distribute" else 1)


def wire_pps(packet_bytes: int, bps: float = WIRE_BPS) -> float:
    """Packets per second that a server's link carries in one direction."""
    return bps / (8.0 * (packet_bytes + FRAMING_BYTES))


def total_throughput(
    function: Coefficients, length: int, cores: float = SERVER_CORES, bps: float = WIRE_BPS
) -> float:
    """Packets per second of `length` chains together on `length` servers (Figure 7).

    A chain is bound by the cores and by the link of the servers that it visits. Gathered, each has
    a link of its own; distributed, all of them share each server's.
    """
    by_cores = infeasible_from(function, length, cores)
    by_wire = wire_pps(function.packet_bytes, bps)
    if function.placement == "distribute":
        by_wire /= length
    return length * min(by_cores, by_wire)


def normalised(function: Coefficients, chain_pps: float, length: int) -> float:
    """Cost as Figures 8 to 10 have it: percent of all cores of all servers."""
    return total_cost(function, chain_pps, length) / (length * SERVER_CORES)


def least_cores(functions: Pair, length: int) -> float:
    """Cores per server at which both placements become infeasible at the same rate.

    With more the one with the smaller growth over the rate is feasible longer. nan: never.
    """

    def difference(log_percent: float) -> float:
        cores = math.exp(log_percent) / 100.0
        gather = infeasible_from(functions.gather, length, cores)
        return math.log(gather / infeasible_from(functions.distribute, length, cores))

    at_one, at_e = difference(0.0), difference(1.0)
    slope = at_e - at_one
    return math.exp(-at_one / slope) / 100.0 if slope else math.nan
