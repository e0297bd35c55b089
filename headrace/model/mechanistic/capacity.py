# SPDX-License-Identifier: Apache-2.0
"""How many VNFs of a kind fit on a node before the rate per VNF falls (Pitaev et al., ICPE 2018).

n VNFs side by side, each with a core and traffic of its own, share the switch's workers. One VNF
carries the least of what its core and what the workers can; n of them carry n times that until the
workers have no cycle left, and from there on the rate per VNF falls as 1 / n. Workers take cores
that VNFs can't have, so there is a best split of a node's cores.

The decline of the total that the paper sees beyond that point is of its two sockets; nothing of it
is in the model of one.
"""

import math
from dataclasses import dataclass

from headrace.model.mechanistic.amounts import round_packets_of
from headrace.model.mechanistic.fitting import Fitted
from headrace.model.mechanistic.predict import (
    NoGrounds,
    Path,
    switch_amounts,
    vnf_amounts,
)
from headrace.model.mechanistic.windows import Key


@dataclass(frozen=True)
class Row:
    """What n VNFs get with w workers: rate of all and of each, and the limit."""

    workers: int
    vnfs: int
    total_pps: float
    each_pps: float
    limiter: str


@dataclass(frozen=True)
class Capacity:
    """A node's capacity for VNFs of one kind.

    Attributes:
        fit: by number of workers, VNFs before the rate of each falls.
        rows: all numbers of VNFs that the cores allow, by workers.
        best: the split with the highest total (the fewest cores of equals).
        alone_pps: of one VNF.
        relative_error: half of the 95 % interval over the value, of the switch's cycles.
        demand_pps: of each VNF; None: as much as it can carry.
    """

    subject: str
    function: str
    size: float
    cores: int
    fit: dict[int, int]
    rows: list[Row]
    best: Row
    alone_pps: float
    relative_error: float
    demand_pps: float | None = None


def capacity(
    fitted: Fitted,
    subject: str,
    function: str,
    size: float,
    cores: int,
    demand_pps: float | None = None,
) -> Capacity:
    """Tabulates a node with `cores` cores for workers and VNFs.

    Args:
        fitted: the roles' terms.
        subject: switch and ports.
        function: of each VNF.
        size: frame size in bytes with FCS.
        cores: for workers and VNFs together, control's not counted.
        demand_pps: of each VNF; None: as much as it can carry.

    Raises:
        NoGrounds: the switch or the function has no fit, or there are fewer than two cores.
    """
    model = fitted.roles.get(Key(subject, "switch"))
    vnf = fitted.roles.get(Key(subject, "VNF", function))
    if model is None or vnf is None:
        pairs = sorted(f"{k.subject} {k.function}" for k in fitted.roles if k.role == "VNF")
        raise NoGrounds(
            f"no polling switch and VNF were measured as {subject!r} with {function!r} "
            f"(known: {', '.join(pairs) or 'none'})"
        )
    if cores < 2:
        raise NoGrounds("a worker and a VNF need two cores")
    amounts = switch_amounts(Path((function,)), size, round_packets_of(subject))
    per_packet = model.cycles(amounts)
    by_worker = model.hz / per_packet
    by_vnf = vnf.hz / vnf.cycles(vnf_amounts(size))
    alone = min(by_vnf, math.inf if demand_pps is None else demand_pps)
    rows: list[Row] = []
    fit: dict[int, int] = {}
    for workers in range(1, cores):
        for vnfs in range(1, cores - workers + 1):
            # One VNF's two queues can be on two workers at most.
            by_workers = min(workers, 2 * vnfs) * by_worker
            total = min(vnfs * alone, by_workers)
            limiter = "VNFs" if vnfs * by_vnf <= by_workers else "switch"
            if demand_pps is not None and total >= vnfs * demand_pps:
                limiter = "demand"
            rows.append(Row(workers, vnfs, total, total / vnfs, limiter))
        first = min(alone, min(workers, 2) * by_worker)
        fitting = [
            row.vnfs
            for row in rows
            if row.workers == workers and row.each_pps >= first * (1 - 1e-9)
        ]
        fit[workers] = max(fitting, default=0)
    best = max(rows, key=lambda row: (round(row.total_pps), -(row.workers + row.vnfs)))
    error = model.student * model.deviation(amounts) / per_packet
    return Capacity(
        subject, function, size, cores, fit, rows, best, rows[0].each_pps, error, demand_pps
    )
