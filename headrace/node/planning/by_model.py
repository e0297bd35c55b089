# SPDX-License-Identifier: Apache-2.0
"""The policy `model`: kinds of ports, templates, direct links and cores by what packets then cost.

(UNIFY D5.6, Annex B.5.) Of the candidates of each VNF that take no more memory and cores than the
first, those are chosen with which a packet through the graph costs the fewest cycles of switch and
VNFs together: exactly where there are few combinations, else VNF by VNF until nothing improves,
from each kind in turn. Between two VNFs in shared memory whose rules leave nothing else, the switch
will make a direct link; that it then saves a visit is counted. Candidates whose cost is not known
are chosen only if there are no others. At equal cost the node's own preference decides.

VNFs get the cores with the fewest pollers; of these, the ones that cost the switch the most
take those on the NUMA node of its workers, and where VNFs have to share, cores are filled evenly by
cycles.

Costs are the node's own terms, fitted and learned, if they know every kind that the node offers and
the reference knows; else the reference's (model/mechanistic/visits.py).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.mechanistic import nffg
from headrace.model.mechanistic.fitting import Fitted
from headrace.model.mechanistic.visits import Visit, reference, visits_of
from headrace.node.planning.flow_rule_model import FlowRuleModel
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.planning.policy import (
    Candidate,
    Choice,
    CoreUse,
    Decision,
    PlacementQuestion,
    PolicyError,
)
from headrace.switches.base import PortKind

SMALLEST = 64.0
MOST_TRIED = 4096
"""Combinations up to which all are tried."""
MEASURED = ("process", "container")
"""Engines that run the program whose cycles the terms have."""


@dataclass(frozen=True)
class Way:
    """How a VNF is or may be placed: function, engine, kind of ports."""

    function: str
    engine: str
    kind: PortKind


class ByModel:
    """Chooses by the marginal cycles of a packet; `own` gives the node's terms, if it has any."""

    name = "model"

    def __init__(self, own: Callable[[], Fitted | None]) -> None:
        self._own = own

    def decide(self, question: PlacementQuestion) -> Decision:
        """See PlacementPolicy."""
        offered = {c.kind.value for found in question.candidates.values() for c in found}
        demand = question.graph.demand
        size = SMALLEST if demand is None else demand.bytes
        visits, source = self._visits(question.switch, offered, size)
        costs = _Costs(question.graph, visits, _staying(question))
        sets = {vnf: costs.comparable(found) for vnf, found in question.candidates.items()}
        chosen = _cheapest(sets, costs)
        first = {vnf: found[0] for vnf, found in question.candidates.items()}
        details: dict[str, Any] = {
            "terms": source,
            "bytes": size,
            "cycles-per-packet": _rounded(costs.of(chosen)),
            "first-fit-cycles-per-packet": _rounded(costs.of(first)),
            "direct-links": [list(pair) for pair in costs.direct(chosen)],
            "reasons": _reasons(chosen, visits),
        }
        cores = _cores(question, chosen, costs)
        return Decision(
            {vnf: Choice(candidate, cores[vnf]) for vnf, candidate in chosen.items()}, details
        )

    def _visits(self, switch: str, offered: set[str], size: float) -> tuple[dict[str, Visit], str]:
        known = visits_of(reference(), switch, size)
        own = self._own()
        mine = visits_of(own, switch, size) if own is not None else {}
        if mine and (offered & known.keys()) <= mine.keys():
            return mine, "the node's model"
        if not offered & known.keys():
            raise PolicyError(
                f"neither the node's model nor the reference has visits to VNFs on {switch} by "
                f"{', '.join(sorted(offered)) or 'no ports'}"
            )
        processor = (reference().manifest.get("machine") or {}).get("processor", "another machine")
        lacks = sorted((offered & known.keys()) - mine.keys())
        why = f"the node's model has no {', '.join(lacks)}" if mine else "the node has no model"
        return known, f"the reference's ({processor}): {why}"


def _rounded(cycles: float | None) -> float | None:
    return None if cycles is None else round(cycles, 1)


def _way(candidate: Candidate) -> Way:
    template = candidate.template
    return Way(template.function, template.engine, candidate.kind)


def _staying(question: PlacementQuestion) -> dict[str, Way]:
    return {
        name: Way(vnf.function, vnf.engine, vnf.ports[0].switch_port.kind)
        for name, vnf in question.staying.items()
        if vnf.ports
    }


class _Costs:
    """Cycles of a packet through the graph, by how its VNFs are placed."""

    def __init__(
        self, graph: ForwardingGraph, visits: Mapping[str, Visit], staying: Mapping[str, Way]
    ) -> None:
        self._visits, self._staying = visits, staying
        self._pairs = direct_pairs(graph)
        self._shares: dict[str, float] = defaultdict(float)
        self._followed: dict[tuple[str, str], float] = defaultdict(float)
        try:
            routes = nffg.routes(graph.model_dump(mode="json", by_alias=True))
        except nffg.NotAGraph:
            routes = []  # no packet comes through: every VNF counts alike
        for route in routes:
            for vnf in route.vnfs:
                self._shares[vnf] += route.share
            for pair in itertools.pairwise(route.vnfs):
                self._followed[pair] += route.share

    def share(self, vnf: str) -> float:
        """Visits of a packet of the graph to a VNF; 1 where the rules do not tell."""
        return self._shares.get(vnf) or 1.0

    def cycles(self, way: Way) -> float | None:
        """Switch and VNF together for one visit; None: not known."""
        visit = self._visits.get(way.kind.value)
        own = visit.own(way.function) if visit is not None else None
        return None if visit is None or own is None else visit.switch + own

    def comparable(self, found: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """The candidates that can be chosen by their cost, in the node's order; at least one.

        They run on the first one's engine, and take no more memory and cores: what an engine costs
        besides its ports is not in the terms. A kind of ports is free to choose only where the VNF
        is the program that was measured; images bring their own drivers.
        """
        first = found[0].template
        if first.engine not in MEASURED:
            return (found[0],)
        fitting = tuple(
            one
            for one in found
            if one.template.engine == first.engine
            and one.template.function == first.function
            and one.template.memory_mb <= first.memory_mb
            and one.template.cores <= first.cores
            and self.cycles(_way(one)) is not None
        )
        return fitting or (found[0],)

    def _ways(self, chosen: Mapping[str, Candidate]) -> dict[str, Way]:
        return {**self._staying, **{vnf: _way(one) for vnf, one in chosen.items()}}

    def direct(self, chosen: Mapping[str, Candidate]) -> list[tuple[str, str]]:
        """Pairs of VNFs that will be joined without the switch."""
        ways = self._ways(chosen)
        return [
            (one, other)
            for one, other in self._pairs
            if all(vnf in ways and ways[vnf].kind is PortKind.SHM for vnf in (one, other))
        ]

    def of(self, chosen: Mapping[str, Candidate]) -> float | None:
        """Cycles of a packet for all its visits; None if one is not known."""
        total = 0.0
        for vnf, way in self._ways(chosen).items():
            cycles = self.cycles(way)
            if cycles is None:
                return None
            total += self.share(vnf) * cycles
        return total - self._saved(chosen)

    def ranked(self, chosen: Mapping[str, Candidate]) -> float:
        """As `of`, of the visits that are known: what is not known can't be chosen anyway."""
        ways = self._ways(chosen).items()
        total = sum(self.share(vnf) * (self.cycles(way) or 0.0) for vnf, way in ways)
        return total - self._saved(chosen)

    def _saved(self, chosen: Mapping[str, Candidate]) -> float:
        visit = self._visits.get(PortKind.SHM.value)
        if visit is None:
            return 0.0
        return sum(self._followed.get(pair, 0.0) * visit.switch for pair in self.direct(chosen))

    def switch_cycles(self, vnf: str, candidate: Candidate) -> float:
        """The switch's cycles at the VNF's ports, for a packet of the graph."""
        visit = self._visits.get(candidate.kind.value)
        return self.share(vnf) * (visit.switch if visit is not None else 0.0)


def direct_pairs(graph: ForwardingGraph) -> list[tuple[str, str]]:
    """Pairs of VNFs between which the rules leave room for a direct link.

    One rule matches all that leaves a port of the first and sends it, unchanged, to a port of the
    second, to which nothing else leads.
    """
    leaving: dict[str, list[FlowRuleModel]] = defaultdict(list)
    into: Counter[str] = Counter()
    for rule in graph.big_switch.flow_rules:
        leaving[rule.match["port_in"]].append(rule)
        into.update(target for _, target in rule.outputs)
    found = []
    for port, rules in leaving.items():
        if len(rules) != 1 or set(rules[0].match) != {"port_in"} or len(rules[0].actions) != 1:
            continue
        targets = rules[0].outputs
        if len(targets) != 1 or into[targets[0][1]] != 1:
            continue
        target = targets[0][1]
        if port.startswith("vnf:") and target.startswith("vnf:"):
            found.append((port.split(":")[1], target.split(":")[1]))
    return found


def _cheapest(sets: Mapping[str, Sequence[Candidate]], costs: _Costs) -> dict[str, Candidate]:
    vnfs = list(sets)
    combinations = 1
    for vnf in vnfs:
        combinations *= len(sets[vnf])
    if combinations <= MOST_TRIED:
        # The first of equal ones: products come in the node's order of preference.
        tried = (dict(zip(vnfs, one, strict=True)) for one in itertools.product(*sets.values()))
        return min(tried, key=costs.ranked)
    kinds = list(dict.fromkeys(one.kind for found in sets.values() for one in found))
    starts = [
        {vnf: next((c for c in found if c.kind is kind), found[0]) for vnf, found in sets.items()}
        for kind in kinds
    ]
    return min((_improved(start, sets, costs) for start in starts), key=costs.ranked)


def _improved(
    chosen: dict[str, Candidate], sets: Mapping[str, Sequence[Candidate]], costs: _Costs
) -> dict[str, Candidate]:
    best, better = costs.ranked(chosen), True
    while better:
        better = False
        for vnf, found in sets.items():
            for one in found:
                cost = costs.ranked({**chosen, vnf: one})
                if cost < best - 1e-9:
                    chosen, best, better = {**chosen, vnf: one}, cost, True
    return chosen


def _cores(
    question: PlacementQuestion, chosen: Mapping[str, Candidate], costs: _Costs
) -> dict[str, tuple[int, ...]]:
    """The cores of each VNF; none where there are too few, so that the node says so."""
    near = {use.numa for use in question.switch_cores}
    pollers = {use.core: use.pollers for use in question.cores}
    load: dict[int, float] = dict.fromkeys(pollers, 0.0)
    order = {use.core: at for at, use in enumerate(question.cores)}

    def rank(use: CoreUse) -> tuple[int, bool, float, int]:
        return pollers[use.core], use.numa not in near, load[use.core], order[use.core]

    found: dict[str, tuple[int, ...]] = {}
    heavy = sorted(chosen, key=lambda vnf: -costs.switch_cycles(vnf, chosen[vnf]))
    for vnf in heavy:
        wanted = chosen[vnf].template.cores
        taken = [use.core for use in sorted(question.cores, key=rank)[:wanted]]
        found[vnf] = tuple(taken) if len(taken) == wanted else ()
        for core in taken:
            pollers[core] += 1
            load[core] += costs.share(vnf) * (costs.cycles(_way(chosen[vnf])) or 0.0)
    return found


def _reasons(chosen: Mapping[str, Candidate], visits: Mapping[str, Visit]) -> list[str]:
    """What each kind costs, the cheapest first, and which VNFs have it."""
    used: dict[str, list[str]] = defaultdict(list)
    for vnf, candidate in chosen.items():
        used[candidate.kind.value].append(vnf)

    def cycles(kind: str) -> float:
        visit = visits.get(kind)
        return float("inf") if visit is None else visit.switch

    return [_reason(kind, visits.get(kind), used.get(kind, ())) for kind in sorted(
        {*visits, *used}, key=cycles
    )]  # fmt: skip


def _reason(kind: str, visit: Visit | None, vnfs: Iterable[str]) -> str:
    cost = "not measured" if visit is None else f"{visit.switch:.0f} cycles of the switch a visit"
    who = ", ".join(vnfs)
    return f"{kind}: {cost}" + (f"; of {who}" if who else "")
