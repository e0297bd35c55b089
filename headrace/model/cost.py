# SPDX-License-Identifier: Apache-2.0
"""The cost function of software switching (Luizelli et al., Section IV), and its interpretation.

The paper prints `log(C) = alpha log(length) + beta log(packets) + gamma`. With the values of its
Table I that formula contradicts the paper's own text and figures. The values reproduce the text
when alpha belongs to the packets and beta to the length:

    log C = alpha * log(packets per second) + beta * log(chain length) + gamma

with natural logarithms and C in percent of one core. That is the reading used everywhere in this
module (`READING`), for Table I as for our own fits; tests/model/test_reading.py shows what either
reading predicts against what Section IV-B says.

A server's traffic differs between the placements. Of n chains of n VNFs each on n servers

* gather puts a whole chain on each server: its switch sees one chain's packets, over length n;
* distribute puts one VNF of every chain on each server: its switch sees n chains' packets.

So the cost of all servers together is n * C_gather(pps, n) or n * C_distribute(n * pps, n)
(`total_cost`). Our own measurements are of one server; `pps` is what enters that server.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.results import Placement

READING = (
    "log C = α·log(packets per second) + β·log(chain length) + γ; natural logarithms, C in percent "
    "of one core. The paper prints α and β the other way round, which contradicts its own text; in "
    "a distribute placement each server sees n times one chain's packets."
)


class Coefficients(Protocol):
    """Anything with the three coefficients: a fit of ours or a row of Table I."""

    @property
    def switch(self) -> str:
        """The switch that the coefficients describe."""

    @property
    def placement(self) -> str:
        """Either gather or distribute."""

    @property
    def packet_bytes(self) -> int:
        """Frame size for which the coefficients hold."""

    @property
    def alpha(self) -> float:
        """Exponent of packets per second."""

    @property
    def beta(self) -> float:
        """Exponent of the chain's length."""

    @property
    def gamma(self) -> float:
        """Logarithm of the cost of a chain of one VNF at one packet a second."""


def server_cost(coefficients: Coefficients, pps: float, length: int) -> float:
    """Cost of the switch of one server in percent of one core.

    Args:
        coefficients: the cost function.
        pps: packets per second that enter this server.
        length: number of VNFs on this server.

    Raises:
        ValueError: pps or length is not positive.
    """
    if pps <= 0 or length < 1:
        raise ValueError("the cost function needs pps > 0 and a chain of at least one VNF")
    return math.exp(
        coefficients.alpha * math.log(pps)
        + coefficients.beta * math.log(length)
        + coefficients.gamma
    )


def total_cost(coefficients: Coefficients, chain_pps: float, length: int) -> float:
    """Cost of `length` chains of `length` VNFs on `length` servers, in percent of one core.

    `chain_pps` is one chain's packets per second (the paper's comparison in Section IV-B).
    """
    entering = chain_pps * length if coefficients.placement == "distribute" else chain_pps
    return length * server_cost(coefficients, entering, length)


@dataclass(frozen=True)
class Advice:
    """Which placement the cost functions favour for one demand."""

    chain_pps: float
    length: int
    gather_percent: float
    distribute_percent: float

    @property
    def placement(self) -> Placement:
        """The cheaper placement."""
        return "gather" if self.gather_percent <= self.distribute_percent else "distribute"


def advise(gather: Coefficients, distribute: Coefficients, chain_pps: float, length: int) -> Advice:
    """Compares both placements for `length` chains of `length` VNFs at `chain_pps` each."""
    return Advice(
        chain_pps,
        length,
        total_cost(gather, chain_pps, length),
        total_cost(distribute, chain_pps, length),
    )


def select(
    functions: Iterable[Coefficients], switch: str, placement: str, packet_bytes: int
) -> Coefficients | None:
    """The function for a switch, placement and the nearest packet size, or None."""
    found = [f for f in functions if f.switch == switch and f.placement == placement]
    return min(found, key=lambda f: abs(f.packet_bytes - packet_bytes), default=None)
