# SPDX-License-Identifier: Apache-2.0
"""What a packet costs each role: the switch, the VNFs together, the generator, the kernel.

Luizelli et al. compare placements by the cost of switching beside that of the VNFs. A stored
campaign has the counters of all of them for each trial, so each role has

* its cycles for each packet that came through the graph, at each fixed load and under overload:
  the median over the undisturbed trials. At low load these are mostly polling;
* its marginal cost (headrace/model/marginal.py), fitted to the same trials of all frame sizes:
  cycles of a packet when all bursts are full, which is what a saturated poller pays. Disturbed
  trials are used only where the others do not suffice, and the cost is marked.

Placements are compared for n chains of n VNFs on n servers, each chain with one load. Gather puts
a chain on each server: its switch takes each packet n + 1 times. Distribute puts one VNF of each
chain on each server: a packet crosses n switches, each twice, and each server sees n times a
chain's load. VNFs do the same work in both. `total` is the sum over all servers for one packet.

The kernel's cycles are softirq time, counted in ticks: `resolution` is what one tick on each core
is of a trial, as cycles of a packet.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.model.least_squares import FitError
from headrace.model.marginal import BURST, MarginalCost, Observation, fit_marginal
from headrace.results import Case, Trial
from headrace.results.store import Store

Role = Literal["switch", "VNFs", "generator", "kernel"]
ROLES: tuple[Role, ...] = ("switch", "VNFs", "generator", "kernel")
MAX_LOSS = 0.05
FULL = "full bursts"
_NEEDED = ("busy_cycles", "idle_cycles", "rounds", "busy_rounds", "bursts", "packets")


@dataclass(frozen=True)
class RoleCost:
    """One role's cost on one graph with one frame size.

    Attributes:
        case: the graph, subject and size (of several scenarios, the first).
        at_load: cycles for each packet through the graph, by intended load ("overload" without).
        marginal: cycles of a packet at full bursts; None where it could not be fitted, by `reason`.
        disturbed: other programs had the cores in some of the trials of the fit.
        resolution: of `at_load` in cycles, where they are not counted; the largest.
    """

    case: Case
    role: Role
    at_load: dict[str, float]
    marginal: float | None = None
    reason: str = ""
    disturbed: bool = False
    resolution: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Cycles of one packet of one chain of `length` VNFs, on all servers together.

    `load` is a chain's; "full bursts" are the marginal costs, which hold at any load near
    saturation.
    `gather` and `distribute` are by role: the switch's and the VNFs'.
    """

    subject: str
    size: str
    length: int
    load: str
    gather: dict[str, float]
    distribute: dict[str, float]

    @property
    def total(self) -> tuple[float, float]:
        """Switching and VNFs together, gathered and distributed."""
        return sum(self.gather.values()), sum(self.distribute.values())


@dataclass
class _Seen:
    cycles: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    disturbed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    resolution: float | None = None


@dataclass
class _Points:
    """Observations of one role in one graph, of all frame sizes."""

    calm: list[Observation] = field(default_factory=list)
    disturbed: list[Observation] = field(default_factory=list)

    def fit(self) -> tuple[MarginalCost, bool]:
        """The cost, and whether disturbed trials were needed; FitError if all do not suffice."""
        try:
            return fit_marginal(self.calm), False
        except FitError:
            return fit_marginal([*self.calm, *self.disturbed]), bool(self.disturbed)


def _label(trial: Trial) -> str:
    return "overload" if trial.intended_pps is None else f"{trial.intended_pps:.0f} pps"


def _by_role(trial: Trial) -> dict[Role, dict[str, Any]]:
    """The counters of each role; those of all VNFs are added up."""
    counters = trial.detail.get("counters") or {}
    vnfs = [of for name, of in counters.items() if name.startswith("vnf")]
    found: dict[Role, dict[str, Any]] = {}
    if trial.approximate:
        found["kernel"] = {"busy_cycles": trial.busy_cycles}
    elif "switch" in counters:
        found["switch"] = counters["switch"]
    if vnfs:
        found["VNFs"] = {
            name: None if any(of.get(name) is None for of in vnfs) else sum(of[name] for of in vnfs)
            for name in _NEEDED
        }
    if "generator" in counters:
        found["generator"] = counters["generator"]
    return found


def _observation(group: str, of: dict[str, Any], trial: Trial, size: float) -> Observation | None:
    if any(not of.get(name) for name in _NEEDED if name != "idle_cycles"):
        return None
    counted: dict[str, Any] = {
        name: float(of.get(name) or 0) for name in _NEEDED if name != "packets"
    }
    through = float(trial.received)
    return Observation(group=group, packets=through, octets=through * size, **counted)


def _trials(store: Store, campaign: int) -> Iterable[tuple[Case, Trial]]:
    for case_id, case in store.cases(campaign).items():
        for trial in store.trials(case_id):
            if trial.purpose in ("cost", "overload") and trial.received > 0:
                yield case, trial


def _graph(case: Case) -> tuple[Any, ...]:
    """What cases of all sizes have in common; one VNF is one graph, whichever shape asks for it."""
    shape = "chain" if case.vnfs == 1 else case.shape
    return (case.subject, shape, case.vnfs, case.prefixes)


def role_costs(store: Store, campaign: int) -> list[RoleCost]:
    """The cost of every role in every graph of a campaign, for frames of one size."""
    seen: dict[tuple[Any, ...], dict[Role, _Seen]] = {}
    points: dict[tuple[Any, ...], _Points] = defaultdict(_Points)
    first: dict[tuple[Any, ...], Case] = {}
    for case, trial in _trials(store, campaign):
        if not case.size.isdigit():
            continue
        key = (*_graph(case), case.size)
        first.setdefault(key, case)
        roles = seen.setdefault(key, defaultdict(_Seen))
        for role, of in _by_role(trial).items():
            if of.get("busy_cycles") is None:
                continue
            one = roles[role]
            fixed = trial.intended_pps is not None
            if not (fixed and trial.loss_ratio > MAX_LOSS):
                side = one.disturbed if trial.disturbed else one.cycles
                side[_label(trial)].append(of["busy_cycles"] / trial.received)
                group = f"{case.scenario} {case.size} {_label(trial)}"
                point = _observation(group, of, trial, float(case.size))
                both = points[*_graph(case), role]
                if point is not None:
                    (both.disturbed if trial.disturbed else both.calm).append(point)
            tick = trial.detail.get("resolution_cycles")
            if role == "kernel" and tick:
                one.resolution = max(one.resolution or 0.0, tick / trial.received)
    return [
        _cost(first[key], role, roles[role], points[*_graph(first[key]), role])
        for key, roles in seen.items()
        for role in ROLES
        if role in roles
    ]


def _cost(case: Case, role: Role, seen: _Seen, points: _Points) -> RoleCost:
    labels = dict.fromkeys([*seen.cycles, *seen.disturbed])
    at_load = {
        label: statistics.median(seen.cycles.get(label) or seen.disturbed[label])
        for label in labels
    }
    if role == "kernel":
        reason = "softirq time has no rounds and bursts"
        return RoleCost(case, role, at_load, None, reason, resolution=seen.resolution)
    queues = {"switch": case.traversals, "VNFs": max(1, case.vnfs), "generator": 2}[role]
    if case.shape == "parallel" and role == "VNFs":
        queues = 1
    try:
        cost, disturbed = points.fit()
    except FitError as error:
        return RoleCost(case, role, at_load, None, str(error))
    share = queues / BURST
    rounds = share if role == "VNFs" else 1 / BURST
    cycles = cost.cycles(float(case.size), bursts=share, rounds=rounds)
    return RoleCost(case, role, at_load, cycles, disturbed=disturbed)


def _at_server(load: str, length: int) -> str:
    """The label of the load that a server of a distribute placement sees; none for overload."""
    number, _, unit = load.partition(" ")
    if unit == "pps":
        return f"{length * float(number):.0f} pps"
    return load if load == FULL else ""


def compare_placements(costs: Sequence[RoleCost]) -> list[Comparison]:
    """Gather and distribute side by side wherever both were measured at one load.

    A parallel graph of n VNFs is one server of the distribute placement: its costs are for each of
    its packets, and each packet of a chain visits n such servers.
    """
    of: dict[tuple[str, str, str, int], dict[str, dict[str, float]]] = {}
    for cost in costs:
        case = cost.case
        if cost.role in ("generator", "kernel") or not case.vnfs:
            continue
        values = dict(cost.at_load)
        if cost.marginal is not None:
            values[FULL] = cost.marginal
        for shape in ("chain", "parallel"):
            if case.shape == shape or case.vnfs == 1:
                key = (case.subject, case.size, shape, case.vnfs)
                for load, value in values.items():
                    of.setdefault(key, {}).setdefault(load, {})[cost.role] = value
    found = []
    for (subject, size, shape, length), loads in of.items():
        other = of.get((subject, size, "parallel", length))
        if shape != "chain" or other is None or length < 2:
            continue
        for load, gathered in loads.items():
            seen = other.get(_at_server(load, length), {})
            if set(gathered) == set(seen):
                spread = {role: length * value for role, value in seen.items()}
                found.append(Comparison(subject, size, length, load, gathered, spread))
    return found
