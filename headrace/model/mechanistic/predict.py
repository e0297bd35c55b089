# SPDX-License-Identifier: Apache-2.0
"""A graph's throughput, capacity used, latency and loss, composed of the roles' terms.

Each role has cycles for a packet through the graph; roles on one core share its cycles. The rate
at which the first core has none left is the saturation, and its roles are the limit. Capacity used
at a demand is the demand over that rate. Beyond saturation what is over is lost. Intervals are 95 %
intervals of a measurement: the terms' covariance and the scatter of the windows around the fit.

Nothing is predicted without grounds: a role that has no fit makes the answer partial (`lacking`), a
demand outside of what was measured is named (`outside`), pollers that share a core have no
predicted latency, since the terms have no scheduler.

VNFs that share a core and yield it to each other (`Graph.yields`) take turns: each works until it
finds nothing, and then yields. While their core is saturated a turn has as many packets as a queue
holds (`TURN`), so that a change of the poller costs little of each. Pollers that do not give way
have the core for a slice of the scheduler's each, in which the others' queues overflow: there the
saturation is no more than a bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.model.mechanistic import polling
from headrace.model.mechanistic.amounts import (
    BURST,
    QUEUE,
    full_switch,
    full_vnf,
    round_packets_of,
)
from headrace.model.mechanistic.distance import is_same, usual
from headrace.model.mechanistic.fitting import Fitted, RoleModel
from headrace.model.mechanistic.role_poller import at_side, poller_of
from headrace.model.mechanistic.windows import FEW_FLOWS, Key, switch_queues

TURN = QUEUE
"""Packets of a turn on a shared core that is saturated: those that a VNF's queue holds."""
SWITCH_CYCLES = "context_switch_cycles"
"""Where a model's manifest has the cycles of a change of the poller on a core."""


class NoGrounds(Exception):
    """The model has nothing to predict this from; the message says what is missing."""


@dataclass(frozen=True)
class Path:
    """What packets of one direction pass.

    Attributes:
        functions: of the VNFs in order.
        share: part of the graph's packets that take this path.
        direct: links between VNFs that bypass the switch, as the number of the first VNF.
    """

    functions: tuple[str, ...]
    share: float = 1.0
    direct: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Graph:
    """A graph to predict.

    Attributes:
        subject: switch and ports, as the results name them.
        paths: whose shares add up to 1.
        vnfs: by path and place, the VNF's name; equal names are one VNF.
        cores: by role (`switch` or a VNF's name), its core; empty: each its own.
        workers: of the switch.
        flows: that packets belong to.
        queues: that the switch polls; None: two ports outside and two of each VNF.
        yields: VNFs that share a core give it to each other when they find nothing to do.
        routed: rules are prefixes of addresses.
    """

    subject: str
    paths: tuple[Path, ...]
    vnfs: tuple[tuple[str, ...], ...] = ()
    cores: Mapping[str, object] = field(default_factory=dict)
    workers: int = 1
    flows: float = FEW_FLOWS
    queues: float | None = None
    yields: bool = False
    routed: bool = False

    def polled(self) -> float:
        """Queues that the switch polls."""
        if self.queues is not None:
            return self.queues
        return float(switch_queues(len({name for names in self.names() for name in names})))

    def names(self) -> tuple[tuple[str, ...], ...]:
        """The VNFs' names, made up where there are none."""
        return self.vnfs or tuple(
            tuple(f"vnf{number}" for number in range(len(path.functions))) for path in self.paths
        )


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class RolePart:
    """One role of a prediction: cycles of a packet through the graph, by term."""

    role: str
    core: object
    cycles: Estimate
    parts: dict[str, float]
    used: float | None


@dataclass(frozen=True)
class Prediction:
    """What is predicted of a graph.

    Attributes:
        saturation_pps: packets per second at which the first core has no cycle left.
        limiter: the roles of that core.
        roles: what each spends.
        demand_pps: that was asked for.
        capacity_used: share of the limiting core's cycles, None without demand.
        busy: by role, the share that polling shows at the demand.
        latency_us: mean and worst, without disturbance; None if it can't be predicted.
        latency_mean_us: the mean with its interval, by that of the cycles; its high is infinite if
            they leave open that the demand saturates a poller. None as `latency_us`.
        loss: share of packets beyond saturation.
        lacking: roles without a fit, with the reason: the answer is partial.
        outside: what of the demand is outside the measured range.
        transfer_ns: how far the cores of switch and VNFs were apart when the roles were measured,
            which the prediction holds for; None: no VNFs, or not known.
        upper_bound: why the saturation is no more than a bound, empty if it is an estimate: pollers
            share a core and do not give way to each other, or what that costs was not measured.
    """

    subject: str
    size: float
    saturation_pps: Estimate
    limiter: list[str]
    roles: list[RolePart]
    demand_pps: float | None
    capacity_used: Estimate | None
    busy: dict[str, float]
    latency_us: tuple[float, float] | None
    latency_note: str
    loss: Estimate | None
    lacking: dict[str, str]
    outside: list[str]
    transfer_ns: float | None = None
    upper_bound: str = ""
    latency_mean_us: Estimate | None = None

    @property
    def partial(self) -> bool:
        """Whether something of the graph has no grounds."""
        return bool(self.lacking)

    @property
    def met(self) -> bool | None:
        """Whether the demand can be met; None without one, or if the interval leaves it open."""
        if self.demand_pps is None:
            return None
        if self.demand_pps <= self.saturation_pps.low:
            return None if self.lacking or self.upper_bound else True
        return False if self.demand_pps > self.saturation_pps.high else None


Amounts = dict[str, tuple[RoleModel, dict[str, float]]]
PerCore = Mapping[object, Sequence[tuple[str, RoleModel, dict[str, float]]]]


def switch_amounts(
    path: Path,
    size: float,
    round_packets: float,
    flows: float = FEW_FLOWS,
    queues: float | None = None,
) -> dict[str, float]:
    """Amounts of the switch's terms for a packet of a path, all bursts full."""
    n = len(path.functions)
    return full_switch(n, n - len(path.direct), size, round_packets, flows, queues)


def switch_terms(fitted: Fitted, subject: str) -> dict[str, object]:
    """A subject's switch as placement counts it: entry, visit by kind of port, per byte of each.

    Bursts are full. Bytes cost the same in both there, so the larger of the two counts.

    Raises:
        NoGrounds: nothing was measured of it, or no graph with a VNF.
    """
    model = fitted.switching(subject)
    if model is None or not (model.term("visits") or model.term("visit_octets")):
        known = ", ".join(fitted.subjects()) or "none"
        raise NoGrounds(f"no visits to VNFs were measured of {subject!r} (known: {known})")
    bursts = model.term("bursts") / BURST
    busy_round = model.term("busy_rounds") + switch_queues(1) * model.term("polls")
    rounds = busy_round / round_packets_of(subject)
    takes = model.term("visit_takes") / round_packets_of(subject)
    kind = subject.partition("/")[2].rpartition("+")[2]
    return {
        "entry": model.term("packets") + bursts + rounds,
        "visit": {kind: model.term("visits") + bursts + takes},
        "per_byte": max(model.term("octets"), model.term("visit_octets")),
    }


def vnf_amounts(size: float) -> dict[str, float]:
    """Amounts of a VNF's terms for a packet that visits it, all bursts full."""
    return full_vnf(size)


def _add(into: dict[str, float], amounts: dict[str, float], times: float) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0.0) + times * amount


def _estimate(model: RoleModel, amounts: dict[str, float]) -> Estimate:
    value = model.cycles(amounts)
    reach = model.student * model.deviation(amounts)
    return Estimate(value, max(0.0, value - reach), value + reach)


def predict(
    fitted: Fitted,
    graph: Graph,
    size: float,
    demand_pps: float | None = None,
    transfer_ns: float | None = None,
) -> Prediction:
    """Composes a graph's prediction.

    Args:
        fitted: the roles' terms.
        graph: what packets pass.
        size: frame size in bytes with FCS.
        demand_pps: packets per second through the graph, if one is asked about.
        transfer_ns: how far the cores of switch and VNFs are apart now, if that is known.

    Raises:
        NoGrounds: the switch has no fit, or the roles were measured with cores as far apart as they
            are not now.
    """
    model = fitted.switching(graph.subject)
    if model is None:
        known = ", ".join(fitted.subjects()) or "none"
        raise NoGrounds(
            f"nothing was measured of {graph.subject!r} (known: {known}); `headrace run` or "
            f"`headrace model fit` on results with it gives the model grounds"
        )
    if not math.isfinite(size) or size < 64:
        raise NoGrounds(f"frames of {size:g} bytes: sizes are 64 bytes or more, with FCS")
    if demand_pps is not None and not (math.isfinite(demand_pps) and demand_pps > 0):
        raise NoGrounds(f"a demand of {demand_pps:g} packets per second: it has to be positive")
    amounts, lacking = _amounts(fitted, graph, size)
    measured, mixed = _state(amounts, transfer_ns)
    roles: list[RolePart] = []
    per_core: dict[object, list[tuple[str, RoleModel, dict[str, float]]]] = {}
    for role, (of, needs) in amounts.items():
        per_core.setdefault(graph.cores.get(role, role), []).append((role, of, needs))
    changes = _changes(fitted, graph, per_core)
    for role, (of, needs) in amounts.items():
        core, more = graph.cores.get(role, role), changes.get(role, 0.0)
        parts = {name: of.term(name) * needs.get(name, 0.0) for name in of.names}
        roles.append(
            RolePart(
                role,
                core,
                _more(_estimate(of, needs), more),
                {**parts, **({"switches": more} if more else {})},
                None,
            )
        )
    saturations = {
        core: _saturation(
            some,
            graph.workers if any(r == "switch" for r, _, _ in some) else 1,
            sum(changes.get(role, 0.0) for role, _, _ in some),
        )
        for core, some in per_core.items()
    }
    first = min(saturations, key=lambda core: saturations[core].value)
    top = saturations[first]
    used = loss = None
    if demand_pps is not None:
        used = Estimate(demand_pps / top.value, demand_pps / top.high, demand_pps / max(top.low, 1))
        loss = Estimate(
            *(max(0.0, 1 - rate / demand_pps) for rate in (top.value, top.high, top.low))
        )
        roles = [
            replace(part, used=demand_pps * part.cycles.value / amounts[part.role][0].hz)
            for part in roles
        ]
    busy, latency, note = _delays(graph, amounts, per_core, demand_pps)
    if lacking:
        latency, note = None, f"{', '.join(lacking)} lack a fit"
    return Prediction(
        subject=graph.subject,
        size=size,
        saturation_pps=top,
        limiter=[role for role, _, _ in per_core[first]],
        roles=roles,
        demand_pps=demand_pps,
        capacity_used=used,
        busy=busy,
        latency_us=latency,
        latency_note=note,
        loss=loss,
        lacking=lacking,
        outside=[*_outside(model, graph, size, demand_pps), *mixed],
        transfer_ns=measured,
        upper_bound=_upper_bound(per_core, changes),
        latency_mean_us=_mean_latency(graph, amounts, per_core, demand_pps, latency),
    )


def _mean_latency(
    graph: Graph,
    amounts: Amounts,
    per_core: PerCore,
    demand_pps: float | None,
    latency: tuple[float, float] | None,
) -> Estimate | None:
    """The mean latency with an interval: all of a role's cycles at once at either end of theirs."""
    if latency is None:
        return None
    low, high = (_delays(graph, amounts, per_core, demand_pps, side)[1] for side in (-1.0, 1.0))
    return Estimate(latency[0], low[0] if low else 0.0, high[0] if high else math.inf)


def _state(amounts: Amounts, now: float | None) -> tuple[float | None, list[str]]:
    """The distance of the cores that the roles were measured at, and what is wrong with it."""
    visits = amounts["switch"][1].get("visits", 0.0)
    known: dict[str, float] = {}
    for role, (of, _) in amounts.items():
        if of.transfer_ns is not None:
            known[role] = of.transfer_ns
    measured = usual(known.values()) if visits else None
    if measured is None:
        return None, []
    if now is not None and not is_same(now, measured):
        raise NoGrounds(
            f"the cores are {now:.0f} ns apart, {measured:.0f} ns when the model was measured: a "
            f"visit to a VNF costs another number of cycles then; measure a model in this state"
        )
    if all(is_same(one, other) for one in known.values() for other in known.values()):
        return measured, []
    told = ", ".join(f"{role} {one:.0f} ns" for role, one in known.items())
    return measured, [f"roles of different states of the machine, cores apart by: {told}"]


def _amounts(fitted: Fitted, graph: Graph, size: float) -> tuple[Amounts, dict[str, str]]:
    """For each role its model and its amounts for one packet through the graph."""
    model = fitted.switching(graph.subject)
    assert model is not None
    rounds = round_packets_of(graph.subject)
    switch: dict[str, float] = {"lookups": 1.0} if graph.routed else {}
    found: Amounts = {}
    lacking: dict[str, str] = {}
    for path, names in zip(graph.paths, graph.names(), strict=True):
        _add(switch, switch_amounts(path, size, rounds, graph.flows, graph.polled()), path.share)
        if model.key.role == "kernel":
            continue  # a function of the kernel's runs in the same softirq time
        for function, name in zip(path.functions, names, strict=True):
            of = fitted.roles.get(Key(graph.subject, "VNF", function))
            if of is None:
                lacking[name] = f"no trial with the function {function!r} on {graph.subject}"
                continue
            _, needs = found.setdefault(name, (of, {}))
            _add(needs, vnf_amounts(size), path.share)
    if graph.routed and not model.term("lookups"):
        why = model.left_out.get("lookups", "it is not among the terms")
        lacking["rules"] = f"what a lookup in a table of prefixes costs is not known: {why}"
    return {"switch": (model, switch), **found}, lacking


def _pollers(some: Sequence[tuple[str, RoleModel, dict[str, float]]]) -> list[str]:
    return [role for role, of, _ in some if of.idle_round]


def _changes(fitted: Fitted, graph: Graph, per_core: PerCore) -> dict[str, float]:
    """By VNF that shares a core and yields it: cycles of changing to it, of a packet."""
    cycles = fitted.manifest.get(SWITCH_CYCLES)
    if not graph.yields or not isinstance(cycles, int | float) or not 0 < cycles < math.inf:
        return {}
    return {
        role: cycles / TURN * needs.get("packets", 0.0)
        for some in per_core.values()
        if len(pollers := _pollers(some)) > 1 and "switch" not in pollers
        for role, _, needs in some
    }


def _more(one: Estimate, cycles: float) -> Estimate:
    return Estimate(one.value + cycles, one.low + cycles, one.high + cycles)


def _upper_bound(per_core: PerCore, changes: Mapping[str, float]) -> str:
    """Which pollers share a core without giving way to each other, empty if none do."""
    shared = {
        core: pollers
        for core, some in per_core.items()
        if len(pollers := _pollers(some)) > 1 and not all(role in changes for role in pollers)
    }
    told = "; ".join(f"{', '.join(roles)} on {core}" for core, roles in shared.items())
    return (
        f"pollers share a core, whose division between them is not predicted: {told}"
        if told
        else ""
    )


def _saturation(
    some: Sequence[tuple[str, RoleModel, dict[str, float]]], workers: int, changes: float
) -> Estimate:
    hz = some[0][1].hz * workers
    cycles = sum(of.cycles(needs) for _, of, needs in some) + changes
    reach = math.sqrt(sum((of.student * of.deviation(needs)) ** 2 for _, of, needs in some))
    low = max(cycles - reach, 0.05 * cycles)
    return Estimate(hz / cycles, hz / (cycles + reach), hz / low)


def _delays(
    graph: Graph,
    amounts: Amounts,
    per_core: PerCore,
    demand_pps: float | None,
    side: float = 0.0,
) -> tuple[dict[str, float], tuple[float, float] | None, str]:
    """Busy shares, mean and worst latency, and why there is none.

    `side`: at which end of the 95 % interval of their cycles the roles are: -1, 0 or 1.
    """
    if demand_pps is None:
        return {}, None, "no demand"
    busy: dict[str, float] = {}
    delays: dict[str, polling.Polled] = {}
    for role, (model, needs) in amounts.items():
        if not model.idle_round:
            return {}, None, "the kernel is not a poller: its latency is not modelled"
        packets = round_packets_of(graph.subject) if role == "switch" else float(BURST)
        workers = graph.workers if role == "switch" else 1
        poller = poller_of(model, needs, packets)
        if side:
            poller = at_side(poller, model, needs, side)
        delays[role] = polling.at_load(poller, demand_pps / workers)
        busy[role] = delays[role].busy_share
    if any(len(some) > 1 for some in per_core.values()):
        return busy, None, "pollers share a core: how it is divided is not predicted"
    if any(one.saturated for one in delays.values()):
        return busy, None, "beyond saturation queues are full: their depth decides"
    mean = worst = 0.0
    for path, names in zip(graph.paths, graph.names(), strict=True):
        crossings = len(path.functions) + 1 - len(path.direct)
        mean += path.share * crossings * delays["switch"].mean_delay_s
        visited = [delays[name] for name in names if name in delays]
        mean += path.share * sum(one.mean_delay_s for one in visited)
        most = crossings * delays["switch"].max_delay_s
        worst = max(worst, most + sum(one.max_delay_s for one in visited))
    return busy, (1e6 * mean, 1e6 * worst), "mean and worst without disturbance"


def _outside(model: RoleModel, graph: Graph, size: float, demand_pps: float | None) -> list[str]:
    longest = float(max(len(path.functions) for path in graph.paths))
    asked = {"size": size, "vnfs": longest}
    if demand_pps is not None:
        asked["pps"] = demand_pps
    words = {"size": "bytes", "vnfs": "VNFs in a chain", "pps": "packets per second"}
    found = []
    for name, value in asked.items():
        low, high = model.spans[name]
        if not low <= value <= high:
            found.append(f"{value:g} {words[name]}, measured were {low:g} to {high:g}")
    return found
