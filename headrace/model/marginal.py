# SPDX-License-Identifier: Apache-2.0
"""What a packet costs a poller at the margin, and at which rate the poller has no time left.

A poller's cycles are

    cycles = rounds x (fixed + ports x poll) + bursts x c1
             + packets x c2 + bytes x c3 + changes x c4

and every one of its cycles is in some round, so what polling shows as busy is not what packets
cost: at low load a round that brings one packet is busy as a whole, and costs what an empty one
costs besides. The equation is fitted in two parts, from counters that every switch gives:

* rounds that find nothing: their cycles / their number. That is fixed + ports x poll; readings with
  different numbers of ports tell these apart (`fit_polls`);
* busy rounds: a regression (statsmodels' WLS) of their cycles on their number, on bursts, packets
  and bytes, and on the busy rounds that follow an idle one (`wakes`: busy rounds x the share of
  idle rounds). These find caches and branch predictors as the idle rounds left them, which costs
  hundreds of cycles at low load and nothing at saturation. A busy round's own part is larger than
  an empty one's, as it flushes. Where every busy round brings one burst the two can't be told
  apart, and the round is taken at an empty one's cost. A coefficient below zero is no cost: it is
  left out, which makes it 0. Errors are relative (a slow phase of the machine is a factor), so each
  point has the weight 1 / cycles^2.

`saturation_pps` is where the cycles of full bursts, with the share of a round that each packet then
bears, are all that there are. It is a prediction: no reading at saturation is in the fit. Capacity
used is the packet rate over it; busy is another number, near 100 % long before.

`changes` are packets whose size differs from that of the packet before. Copies to and from guests
take other branches for other sizes, so in a random mix they are mispredicted: a mix of sizes costs
more than the sizes' mean does (`headrace bench cost` measures how much).

Held-out errors leave out all points of one intended load (`load`) at a time, whatever their
arrivals: neither repeats of a point nor the same load in other bursts predict it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import statsmodels.api as sm

from headrace.model.least_squares import FitError

BURST = 32
"""Packets of a full burst, of every DPDK poller here."""
ROUND_PACKETS = {"headrace": 4 * BURST, "ovs-dpdk": BURST}
"""Packets that a round takes from one queue at most (kBurstsPerPoll; NETDEV_MAX_BURST)."""


@dataclass(frozen=True)
class Observation:
    """What a poller counted in one window; windows of one `group` are repeats of each other.

    `load` is what was intended to be sent, of which there may be several groups, by their arrivals;
    by default each group is a load.

    `packets` are those that came through, `octets` theirs with FCS (summed), `bursts` all that it
    took from its queues: two for a packet that visits a VNF. `changes`: packets whose size is not
    that of the one before.
    """

    group: str
    busy_cycles: float
    idle_cycles: float
    rounds: float
    busy_rounds: float
    bursts: float
    packets: float
    octets: float
    changes: float = 0.0
    load: str = ""

    @property
    def intended(self) -> str:
        """The intended load, which is held out as a whole."""
        return self.load or self.group

    @property
    def wakes(self) -> float:
        """Busy rounds that follow an idle one, if idle rounds are spread evenly."""
        return self.busy_rounds * (1 - self.busy_rounds / self.rounds) if self.rounds else 0.0

    @property
    def busy_share(self) -> float:
        """What polling shows as utilisation."""
        return self.busy_cycles / (self.busy_cycles + self.idle_cycles)


@dataclass(frozen=True)
class MarginalCost:
    """A poller's cost in TSC cycles, with standard errors of the regression.

    Attributes:
        round_cycles: of a round that finds nothing.
        per_round: a busy round's own.
        per_wake: of a busy round that follows an idle one, besides.
        per_burst, per_packet, per_byte, per_change: c1, c2, c3, c4.
        r2: of the regression, weighted.
        held_out: median relative error of the busy cycles of loads left out of the fit.
        points: observations used.
    """

    round_cycles: float
    per_round: float
    per_wake: float
    per_burst: float
    per_packet: float
    per_byte: float
    per_round_se: float
    per_wake_se: float
    per_burst_se: float
    per_packet_se: float
    per_byte_se: float
    r2: float
    held_out: float
    points: int
    per_change: float = 0.0
    per_change_se: float = 0.0

    def cycles(
        self,
        size: float,
        *,
        bursts: float = 1 / BURST,
        rounds: float = 0.0,
        changes: float = 0.0,
    ) -> float:
        """Cycles of one packet of `size` bytes that bears these parts of bursts and rounds.

        `changes` is the share of packets whose size is not that of the one before.
        """
        per_packet = self.per_packet + self.per_byte * size + self.per_change * changes
        return per_packet + bursts * self.per_burst + rounds * self.per_round

    def saturation_pps(
        self,
        size: float,
        hz: float,
        *,
        bursts: float = 1 / BURST,
        rounds: float = 1 / BURST,
        changes: float = 0.0,
    ) -> float:
        """Packets per second at which no cycle is left, all bursts being full.

        Args:
            size: frame size in bytes with FCS.
            hz: TSC cycles per second.
            bursts: bursts for each packet: the number of queues that it is taken from / 32.
            rounds: rounds for each packet: 1 / packets that a round takes at most.
            changes: share of packets whose size is not that of the one before.
        """
        return hz / self.cycles(size, bursts=bursts, rounds=rounds, changes=changes)

    def capacity_used(
        self, pps: float, size: float, hz: float, *, bursts: float = 1 / BURST
    ) -> float:
        """Share of the poller's cycles that packets at this rate cost it, once bursts are full."""
        return pps * self.cycles(size, bursts=bursts) / hz


_NAMES = ("busy_rounds", "wakes", "bursts", "packets", "octets", "changes")
_LEAST_POINTS = 6


def _ratio_varies(points: Sequence[Observation], one: str, other: str) -> bool:
    ratios = np.array([getattr(point, one) / getattr(point, other) for point in points])
    return bool(ratios.max() - ratios.min() > 0.05 * ratios.max())


def _round_cycles(points: Sequence[Observation]) -> float:
    idle = [
        one.idle_cycles / (one.rounds - one.busy_rounds)
        for one in points
        if one.rounds > one.busy_rounds and one.idle_cycles > 0
    ]
    if not idle:
        raise FitError("no idle rounds, from which a round's own cycles are known: add lower loads")
    return float(np.median(idle))


def predicted_busy(cost: MarginalCost, one: Observation) -> float:
    """The busy cycles of a window by the fitted function of its counters."""
    own = one.busy_rounds * cost.per_round + one.wakes * cost.per_wake + one.bursts * cost.per_burst
    own += one.changes * cost.per_change
    return own + one.packets * cost.per_packet + one.octets * cost.per_byte


def least_disturbed(points: Sequence[Observation]) -> list[Observation]:
    """Of the repeats of each load the one with the most rounds for its time.

    What else goes on in the machine (a slow phase, the other thread of the core) makes rounds
    longer, up to 1.6 times, and may cover more than half of the repeats: then the median follows
    it, the least does not. Cycles of a packet would not tell it of a poller that is always busy,
    which has the same of them however long its rounds are.
    """
    groups: dict[str, list[Observation]] = {}
    for one in points:
        groups.setdefault(one.group, []).append(one)

    def rate(one: Observation) -> float:
        return one.rounds / (one.busy_cycles + one.idle_cycles)

    return [max(some, key=rate) for some in groups.values()]


def fit_marginal(points: Sequence[Observation]) -> MarginalCost:
    """Fits a poller's cost to one observation of each load (`least_disturbed`).

    Raises:
        FitError: too few points, or bursts are in proportion to packets, or no round was idle.
    """
    if any(one.packets <= 0 or one.busy_cycles <= 0 or one.bursts <= 0 for one in points):
        raise FitError("a window without packets or busy cycles is no point")
    points = least_disturbed(points)
    cost = _fit(points)
    errors = []
    for held in sorted({one.intended for one in points}):
        rest = [one for one in points if one.intended != held]
        try:
            without = _fit(rest)
        except FitError:
            continue
        errors += [
            abs(predicted_busy(without, one) / one.busy_cycles - 1)
            for one in points
            if one.intended == held
        ]
    held_out = float(np.median(errors)) if errors else float("nan")
    return MarginalCost(**{**vars(cost), "held_out": held_out})


def _fit(points: Sequence[Observation]) -> MarginalCost:
    if len(points) < _LEAST_POINTS:
        raise FitError(f"{len(points)} points, the fit needs at least {_LEAST_POINTS}")
    if not _ratio_varies(points, "bursts", "packets"):
        raise FitError("bursts are in proportion to packets: vary the burst size")
    round_cycles = _round_cycles(points)
    busy = np.array([one.busy_cycles for one in points])
    own = np.array([one.busy_rounds * round_cycles for one in points])
    names = list(_NAMES)
    for name in ("octets", "changes"):
        if not _ratio_varies(points, name, "packets"):
            names.remove(name)
    if not _ratio_varies(points, "bursts", "busy_rounds"):
        names.remove("busy_rounds")
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    while True:
        design = np.array([[getattr(one, name) for name in names] for one in points])
        target = busy if "busy_rounds" in names else busy - own
        fitted = sm.WLS(target, design, weights=busy**-2.0).fit()
        least = int(np.argmin(fitted.params * design.mean(axis=0)))
        if fitted.params[least] >= 0:
            break
        del names[least]
        if not names:
            raise FitError("no counter explains the busy cycles")
    values = dict(zip(names, map(float, fitted.params), strict=True))
    errors = dict(zip(names, map(float, fitted.bse), strict=True))
    return MarginalCost(
        round_cycles=round_cycles,
        per_round=values.get("busy_rounds", round_cycles),
        per_wake=values.get("wakes", 0.0),
        per_burst=values.get("bursts", 0.0),
        per_packet=values.get("packets", 0.0),
        per_byte=values.get("octets", 0.0),
        per_round_se=errors.get("busy_rounds", 0.0),
        per_wake_se=errors.get("wakes", 0.0),
        per_burst_se=errors.get("bursts", 0.0),
        per_packet_se=errors.get("packets", 0.0),
        per_byte_se=errors.get("octets", 0.0),
        r2=float(fitted.rsquared),
        held_out=float("nan"),
        points=len(points),
        per_change=values.get("changes", 0.0),
        per_change_se=errors.get("changes", 0.0),
    )


@dataclass(frozen=True)
class Polls:
    """The parts of a round that finds nothing: `fixed` + ports x `poll`, in TSC cycles."""

    fixed: float
    poll: float


def fit_polls(rounds: Sequence[tuple[int, float]]) -> Polls:
    """Fits these parts to (number of polled ports, cycles of an idle round) pairs.

    Raises:
        FitError: the number of ports does not vary.
    """
    ports = np.array([float(number) for number, _ in rounds])
    if len(set(ports)) < 2:
        raise FitError("the cost of a poll needs rounds over different numbers of ports")
    fitted = sm.OLS(np.array([cycles for _, cycles in rounds]), sm.add_constant(ports)).fit()
    return Polls(float(fitted.params[0]), float(fitted.params[1]))


@dataclass(frozen=True)
class PowerLaw:
    """Luizelli's form for one chain length, `busy = exp(gamma) pps^alpha`, on the same data."""

    alpha: float
    gamma: float
    r2: float
    held_out: float


def fit_power_law(points: Sequence[Observation], hz: float) -> PowerLaw:
    """Fits busy shares (what the paper measures) over packets per second, by OLS on logarithms.

    The form can't hold where busy saturates: a share has no value above 1, the power has. It is
    fitted to the same observations as `fit_marginal`'s.

    Args:
        points: observations of one poller.
        hz: its TSC cycles per second.

    Raises:
        FitError: fewer than four loads.
    """
    chosen = least_disturbed(points)
    if len(chosen) < 4:
        raise FitError(f"{len(chosen)} loads, the fit needs at least 4")
    shares = np.log([one.busy_share for one in chosen])
    rates = np.log([hz * one.packets / (one.busy_cycles + one.idle_cycles) for one in chosen])
    design = sm.add_constant(rates)
    errors = []
    loads = np.array([one.intended for one in chosen])
    for held in sorted(set(loads)):
        out = loads == held
        without = sm.OLS(shares[~out], design[~out]).fit()
        errors += list(np.abs(np.exp(design[out] @ without.params - shares[out]) - 1))
    fitted = sm.OLS(shares, design).fit()
    return PowerLaw(
        alpha=float(fitted.params[1]),
        gamma=float(fitted.params[0]),
        r2=float(fitted.rsquared),
        held_out=float(np.median(errors)),
    )
