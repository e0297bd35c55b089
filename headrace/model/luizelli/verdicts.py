# SPDX-License-Identifier: Apache-2.0
"""Each statement of the paper, computed from Table I for every n: for which n it holds.

The text states its crossovers without naming n; the table does not give them for every n. So a
statement has, for each n, one of three states:

* it holds;
* it is excluded: it fails for all coefficients that round to the printed ones, so the paper's table
  contradicts the paper's text there, whoever computes it;
* it is open: it fails with the printed coefficients and holds with others that round to them.

A statement is **reproduced** if it holds for every n, **in part** if it holds at the n of the
figures (5) and is excluded or open elsewhere; then the n for which it holds are named. It is
**missed** if it does not hold at n = 5. `headrace model reproduce` fails if one is missed, with
`--strict` also if one is reproduced in part.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.model.cost import server_cost
from headrace.model.fit import Point, fit
from headrace.model.luizelli.claims import FIGURE_LENGTH, LENGTHS, PREFERENCES, TURNOVERS
from headrace.model.luizelli.functions import (
    PLACEMENTS,
    ROUNDING,
    SERVER_CORES,
    Interval,
    Pair,
    cheaper,
    crossover,
    decided,
    infeasible_from,
    least_cores,
    pair,
    total_throughput,
)
from headrace.results import published

State = Literal["holds", "excluded", "open"]
Outcome = Literal["reproduced", "in part", "missed"]
SWITCHES = ("ovs-kernel", "ovs-dpdk")
SIZES = (100, 1500)
BIG = 1500


@dataclass(frozen=True)
class Verdict:
    """One statement: what it says and where, its state by n, and what was computed."""

    where: str
    statement: str
    states: dict[int, State]
    computed: str

    @property
    def holds(self) -> list[int]:
        """The n for which it holds."""
        return [n for n, state in self.states.items() if state == "holds"]

    @property
    def outcome(self) -> Outcome:
        """Reproduced, in part, or missed (the text above)."""
        if len(self.holds) == len(self.states):
            return "reproduced"
        # A statement that has no n of the figures (Table I itself) holds wholly or is missed.
        return "in part" if FIGURE_LENGTH in self.holds else "missed"


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as people write them: `4 to 6, 9`; `none`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ", ".join(told) or "none"


def _rate(pps: float) -> str:
    return f"{pps / 1e6:.3g} Mpps" if pps >= 1e6 else f"{pps / 1e3:.3g} kpps"


def _table_verdict(row: published.PublishedFit) -> Verdict:
    """Fits the paper's regression to its own function: the coefficients must come back.

    The points are the function at chains of 1 to 30 VNFs and 10 kpps to 6 Mpps, so this checks the
    regression and the reading, not the paper's measurements, which are not published.
    """
    rates = np.geomspace(10e3, 6e6, 8)
    points = [
        Point(float(pps), length, server_cost(row, float(pps), length))
        for pps in rates
        for length in (1, 2, 5, 10, 20, 30)
    ]
    fitted = fit(row.switch, "gather", row.packet_bytes, points)
    pairs = [(fitted.alpha, row.alpha), (fitted.beta, row.beta), (fitted.gamma, row.gamma)]
    state: State = "holds" if all(abs(a - b) <= ROUNDING for a, b in pairs) else "excluded"
    computed = ", ".join(f"{name} {ours:.3f}" for name, (ours, _) in zip("αβγ", pairs, strict=True))
    printed = f"α {row.alpha:.3f}, β {row.beta:.3f}, γ {row.gamma:.3f}"
    statement = f"{row.switch}, {row.placement}, {row.packet_bytes} B: {printed}"
    return Verdict("Table I", statement, {0: state}, computed)


def _preference_verdicts(pairs: dict[str, Pair]) -> Iterator[Verdict]:
    for claim in PREFERENCES:
        functions = pairs[claim.switch]
        states: dict[int, State] = {}
        for n in LENGTHS:
            if cheaper(functions, claim.chain_pps, n) == claim.cheaper:
                states[n] = "holds"
            else:
                states[n] = "excluded" if decided(functions, claim.chain_pps, n) else "open"
        at = crossover(functions, FIGURE_LENGTH)
        statement = f"{claim.switch}, {BIG} B, {_rate(claim.chain_pps)}: {claim.cheaper} is cheaper"
        computed = f"n = {FIGURE_LENGTH}: equal at {_rate(at.value)}"
        yield Verdict(claim.where, statement, states, computed)


def _within(at: Interval, low: float, high: float) -> State:
    if low < at.value <= high:
        return "holds"
    return "open" if at.high > low and at.low <= high else "excluded"


def _turnover_verdicts(pairs: dict[str, Pair]) -> Iterator[Verdict]:
    for claim in TURNOVERS:
        functions = pairs[claim.switch]
        states: dict[int, State] = {}
        for n in LENGTHS:
            states[n] = _within(crossover(functions, n), claim.low, claim.high)
            # Which placement is cheaper below the crossover is part of the statement.
            if cheaper(functions, crossover(functions, n).value / 2, n) != claim.below:
                states[n] = "excluded"
        told = ", ".join(
            f"{n}: {_rate(crossover(functions, n).value)}" for n in (2, 3, 5, 10, 20, 30)
        )
        statement = (
            f"{claim.switch}, {BIG} B: {claim.below} is cheaper up to {_rate(claim.low)}, the "
            f"other from {_rate(claim.high)}"
        )
        yield Verdict(claim.where, statement, states, f"crossovers by n: {told}")


def _feasibility_verdicts(pairs: dict[str, Pair]) -> Iterator[Verdict]:
    kernel, dpdk = pairs["ovs-kernel"], pairs["ovs-dpdk"]
    bounds = {n: [infeasible_from(kernel.of(name), n) for name in PLACEMENTS] for n in LENGTHS}
    states: dict[int, State] = {
        n: "holds" if spread < gathered else "excluded" for n, (gathered, spread) in bounds.items()
    }
    gathered, spread = bounds[FIGURE_LENGTH]
    yield Verdict(
        "Section IV-B, Fig. 8 and 10(a)",
        "ovs-kernel: distribute becomes infeasible at a lower rate than gather",
        states,
        f"n = {FIGURE_LENGTH}, {SERVER_CORES} cores: distribute from {_rate(spread)}, gather from "
        f"{_rate(gathered)}; with less than {least_cores(kernel, FIGURE_LENGTH):.1f} cores for "
        f"switching it is the other way round",
    )
    both = {n: [infeasible_from(dpdk.of(name), n) for name in PLACEMENTS] for n in LENGTHS}
    apart: dict[int, State] = {
        n: "holds"
        if all(abs(math.log(a / b)) > 0.05 for a, b in (bounds[n], both[n]))
        else "excluded"
        for n in LENGTHS
    }
    gathered, spread = both[FIGURE_LENGTH]
    yield Verdict(
        "Section IV-B, Fig. 9 and 10",
        "the placements reach infeasibility at different rates, on either switch",
        apart,
        f"ovs-dpdk, n = {FIGURE_LENGTH}: gather from {_rate(gathered)}, distribute from "
        f"{_rate(spread)}",
    )


def _many_servers_verdicts(pairs: dict[str, Pair]) -> Iterator[Verdict]:
    for figure, switch in zip("ab", SWITCHES, strict=True):
        functions = pairs[switch]
        states: dict[int, State] = {}
        for n in LENGTHS:
            gathered, spread = (total_throughput(functions.of(name), n) for name in PLACEMENTS)
            # The wire bounds it if more cores would not help.
            by_wire = spread == total_throughput(functions.distribute, n, cores=math.inf)
            states[n] = "holds" if gathered > spread and by_wire else "excluded"
        told = [
            f"{name} {8 * BIG * total_throughput(functions.of(name), FIGURE_LENGTH) / 1e9:.1f}"
            for name in PLACEMENTS
        ]
        yield Verdict(
            f"Section III-C, Fig. 7({figure})",
            f"{switch}: on many servers gather has more throughput, as the wire bounds distribute",
            states,
            f"n = {FIGURE_LENGTH}: {', '.join(told)} Gbit/s in all",
        )


def all_verdicts(table: Sequence[published.PublishedFit] | None = None) -> list[Verdict]:
    """Every statement with its states.

    Raises:
        IncompleteTable: a function is missing.
    """
    rows = list(published.cost_functions() if table is None else table)
    pairs = {switch: pair(switch, BIG, rows) for switch in SWITCHES}
    for switch in SWITCHES:
        for size in SIZES:
            pair(switch, size, rows)
    found = [_table_verdict(row) for row in rows]
    found += _preference_verdicts(pairs)
    found += _turnover_verdicts(pairs)
    found += _feasibility_verdicts(pairs)
    found += _many_servers_verdicts(pairs)
    return found


def in_full(verdicts: Iterable[Verdict]) -> list[int]:
    """The n for which every statement about chains holds."""
    found = set(LENGTHS)
    for verdict in verdicts:
        if set(verdict.states) == set(LENGTHS):
            found &= set(verdict.holds)
    return sorted(found)
