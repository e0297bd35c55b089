# SPDX-License-Identifier: Apache-2.0
"""Where the VNFs and ends of one graph go, by headrace.placement, with others in place.

The graph is placed as the chain in which packets first meet its VNFs; ends that are pinned are part
of it, as VNFs that take nothing: a run that holds only an end still enters its node's switch and
passes its link. Ends that are not pinned go with their neighbor.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.cluster.core.fleet import Fleet, Takings
from headrace.cluster.cutting.hops import neighbors, owners_of, sequence
from headrace.cluster.resources import Graph
from headrace.placement import search
from headrace.placement.document import MAX_VNFS, Chain, Document, Function, Server
from headrace.placement.policies import headrace_policy
from headrace.placement.problem import RESOURCES, Bools, Problem, build
from headrace.placement.state import State, shares

GATHER_TRIALS = 16
"""Nodes that are tried for a gathered chain, in the order of preference."""
_END = "hr-end"


class NoPlace(Exception):
    """A graph that has no place now; the message says what is short."""


@dataclass(frozen=True)
class Placed:
    """A place: the node of each owner, what that takes, what it costs, the chain's latency."""

    where: dict[str, str]
    takings: Takings
    cost: float
    latency_us: float


class PinnedState(State):
    """A state in which owners may be fixed, and every other one has nodes that are closed to it."""

    def __init__(self, problem: Problem, fixed: Mapping[int, int], closed: Bools) -> None:
        """`fixed` by VNF, its server; `closed`: servers that none of the others may use."""
        super().__init__(problem)
        self.fixed, self.closed = fixed, closed

    def forbidden(self, vnf: int, beside: dict[int, int]) -> Bools | None:
        """Servers that a VNF may not have: the closed ones, or all but its own, and by groups."""
        mask = super().forbidden(vnf, {**self.fixed, **beside})
        if vnf in self.fixed:
            own = np.ones(len(self.problem.servers), dtype=bool)
            own[self.fixed[vnf]] = False
        else:
            own = self.closed
        return own if mask is None else own | mask


def place(
    fleet: Fleet,
    graph: Graph,
    keep: Mapping[str, str] | None = None,
    avoid: Collection[str] = (),
    network_us: float = 20.0,
) -> Placed:
    """Where a graph goes that takes nothing yet.

    Args:
        fleet: the nodes, without what this graph had taken.
        graph: what is wanted.
        keep: owners that stay where they are; if that can't be, they move, too.
        avoid: nodes that only what is pinned or kept there may use.
        network_us: latency between two nodes.

    Raises:
        NoPlace: there is none.
    """
    fleet.refresh()
    pins = {pin.owner: pin.node for pin in graph.spec.constraints.pinned}
    for owner, node in pins.items():
        if node not in fleet.index:
            raise NoPlace(f"{owner} is pinned to {node}, and there is no such HeadraceNode")
    kept = {o: n for o, n in (keep or {}).items() if n in fleet.index and o not in pins}
    task = _Task(fleet, graph, avoid, network_us)
    for fixed in ([{**pins, **kept}] if kept else []) + [pins]:
        found = task.best(fixed)
        if found is not None:
            return found
    raise NoPlace(task.why_not(pins))


class _Task:
    def __init__(
        self, fleet: Fleet, graph: Graph, avoid: Collection[str], network_us: float
    ) -> None:
        self.fleet, self.graph, self.network_us = fleet, graph, network_us
        self.avoid = [fleet.index[name] for name in avoid if name in fleet.index]
        self.document = graph.spec.graph
        self.order = sequence(self.document)
        by_id = {f"vnf:{vnf['id']}": vnf for vnf in self.document.get("VNFs", [])}
        self.costs = {owner: graph.spec.cost_of(vnf) for owner, vnf in by_id.items()}

    def best(self, fixed: Mapping[str, str]) -> Placed | None:
        """The cheapest of the places that were found with these owners fixed."""
        owners = [owner for owner in self.order if owner in self.costs or owner in fixed]
        owners = owners or list(self.order)
        state = self._state(owners, fixed)
        found = [servers for servers in self._options(state, owners) if self._joined(servers)]
        if not found and fixed:
            # A VNF may have taken the room of one that is fixed: now they leave those nodes alone.
            state.closed = state.closed.copy()
            state.closed[list(state.fixed.values())] = True
            found = [servers for servers in self._options(state, owners) if self._joined(servers)]
        if not found:
            return None
        return self._placed(state, owners, min(found, key=lambda servers: cost(state, servers)))

    def why_not(self, fixed: Mapping[str, str]) -> str:
        """What is short."""
        fleet = self.fleet
        owners = [owner for owner in self.order if owner in self.costs or owner in fixed]
        owners = owners or list(self.order)
        state = self._state(owners, fixed)
        if state.closed.all():
            return "no node is ready that its VNFs may use"
        for number, owner in enumerate(owners):
            needs = state.needs(0, number, number + 1)[fleet.type_of]
            forbidden = state.forbidden(number, {})
            assert forbidden is not None
            fits = (fleet.free >= needs) & ~forbidden[:, None]
            if not fits.all(axis=1).any():
                short = [RESOURCES[k] for k in range(4) if not fits[:, k].any()]
                what = " and ".join(short) or "all of what it needs together"
                where = f"node {fixed[owner]}" if owner in fixed else "no node"
                return f"{where} has {'not ' if owner in fixed else ''}the {what} of {owner} left"
        if self.graph.spec.placement == "gather":
            return "no node has room for all of its VNFs together"
        return (
            "its constraints and what is left of the nodes leave no place; allow more nodes, more "
            "latency, or less anti-affinity"
        )

    def _state(self, owners: Sequence[str], fixed: Mapping[str, str]) -> PinnedState:
        fleet = self.fleet
        problem = self._problem(owners)
        closed = fleet.down.copy()
        closed[self.avoid] = True
        if self.graph.spec.constraints.nodes:
            closed |= ~fleet.among(self.graph.spec.constraints.nodes)
        kinds = {one.port for one in self.costs.values()}
        lacking = [k for k, one in enumerate(fleet.types) if kinds - set(one.cycles.visit)]
        if lacking:
            closed |= np.isin(fleet.type_of, lacking)
        numbers = {at: fleet.index[fixed[o]] for at, o in enumerate(owners) if o in fixed}
        state = PinnedState(problem, numbers, closed)
        state.free = fleet.free.copy()
        state.vnfs = fleet.count.copy()
        return state

    def _problem(self, owners: Sequence[str]) -> Problem:
        fleet, spec = self.fleet, self.graph.spec
        if len(owners) > MAX_VNFS:
            raise NoPlace(f"{len(owners)} VNFs and pinned ends: at most {MAX_VNFS} can be placed")
        ends = [at for at, owner in enumerate(owners) if owner not in self.costs]
        kinds = {one.port for one in self.costs.values()} | {_END}
        types = {}
        for number, one in enumerate(fleet.types):
            visit = {**dict.fromkeys(kinds, 0.0), **one.cycles.visit}
            cycles = one.cycles.model_copy(update={"visit": visit})
            types[f"t{number}"] = one.model_copy(update={"cycles": cycles})
        if not types:
            raise NoPlace("there is no HeadraceNode")
        functions = {_END: Function(port=_END)}
        names = []
        for owner in owners:
            own = self.costs.get(owner)
            name = _END
            if own is not None:
                name = f"f{len(functions)}"
                functions[name] = Function(
                    cores=own.cores,
                    cycles=own.cycles,
                    memory_mb=own.memory_mb,
                    port=own.port,
                    latency_us=own.latency_us,
                )
            names.append(name)
        chain = Chain(
            name="graph",
            vnfs=names,
            kpps=spec.demand.pps / 1000,
            bytes=spec.demand.mean_bytes,
            latency_us=spec.demand.latency_us,
        )
        document = Document(
            types=types,
            servers=[Server(name=name, type=name) for name in types],
            functions=functions,
            chains=[chain],
            network_us=self.network_us,
        )
        problem = build(document)
        problem.visit[ends] = 0  # an end takes no bytes to a VNF
        groups, by_rack = self._groups(owners)
        groups_of: dict[int, list[int]] = {at: [] for at in range(len(owners))}
        for number, group in enumerate(groups):
            for vnf in group:
                groups_of[vnf].append(number)
        return dataclasses.replace(
            problem,
            servers=fleet.names,
            capacity=fleet.capacity,
            type_of=fleet.type_of,
            rack_of=fleet.rack_of,
            groups=groups,
            by_rack=by_rack,
            groups_of=groups_of,
        )

    def _groups(self, owners: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        at = {owner: number for number, owner in enumerate(owners)}
        spec = self.graph.spec
        groups, by_rack = [], []
        for rule in spec.constraints.anti_affinity:
            groups.append([at[f"vnf:{name}"] for name in rule.vnfs if f"vnf:{name}" in at])
            by_rack.append(rule.domain == "rack")
        vnfs = [at[owner] for owner in owners if owner in self.costs]
        if spec.placement == "distribute" and len(vnfs) > 1:
            groups.append(vnfs)
            by_rack.append(False)
        return groups, by_rack

    def _options(self, state: PinnedState, owners: Sequence[str]) -> Iterator[list[int]]:
        mode, problem = self.graph.spec.placement, state.problem
        tight = search.tight_fit(shares(problem))
        found: list[list[int] | None] = []
        if mode == "gather":
            found += self._gathered(state, owners)
        elif mode == "distribute":
            found.append(search.cut(state, 0, search.least_loaded(shares(problem))))
        elif not state.fixed:
            found.append(headrace_policy(problem)(state, 0))
        else:
            among = state.used.copy()
            among[list(state.fixed.values())] = True
            found.append(search.cut(state, 0, tight, among) or search.cut(state, 0, tight))
            found += self._gathered(state, owners)
        yield from (servers for servers in found if servers is not None)

    def _gathered(self, state: PinnedState, owners: Sequence[str]) -> Iterator[list[int]]:
        """The first place in which all VNFs are on one node, whichever ends are elsewhere."""
        problem = state.problem
        vnfs = [at for at, owner in enumerate(owners) if owner in self.costs]
        if not vnfs:
            vnfs = list(range(len(owners)))
        mask = np.ones(len(problem.servers), dtype=bool)
        for vnf in vnfs:
            forbidden = state.forbidden(vnf, {})
            assert forbidden is not None
            mask &= ~forbidden
        needs = state.needs(0, 0, len(owners))
        mask &= (state.free >= needs[problem.type_of]).all(axis=1)
        preferred = np.zeros(len(mask), dtype=bool)
        preferred[list(state.fixed.values())] = True
        choose = search.tight_fit(shares(problem))
        trials = 0
        for among in (preferred, state.used & ~preferred, ~state.used & ~preferred):
            left = mask & among
            while left.any() and trials < GATHER_TRIALS:
                trials += 1
                server = choose(state, left, needs)
                left[server] = False
                servers = [
                    server if at in set(vnfs) else state.fixed[at] for at in range(len(owners))
                ]
                if state.fits(0, servers):
                    yield servers
                    return

    def _joined(self, servers: Sequence[int]) -> bool:
        """Whether all nodes of a place that is cut have tunnels."""
        nodes = sorted(set(servers))
        return len(nodes) == 1 or bool(self.fleet.tunnels[nodes].all())

    def _placed(self, state: PinnedState, owners: Sequence[str], servers: list[int]) -> Placed:
        names = self.fleet.names
        where = {owner: names[server] for owner, server in zip(owners, servers, strict=True)}
        near = neighbors(self.document)
        waiting = [owner for owner in owners_of(self.document) if owner not in where]
        while waiting:
            joined = [o for o in waiting if any(other in where for other in near[o])]
            for owner in joined or waiting[:1]:
                beside = [where[other] for other in near[owner] if other in where]
                where[owner] = beside[0] if beside else names[servers[0]]
            waiting = [owner for owner in waiting if owner not in where]
        return Placed(
            where,
            _takings(state, servers, names),
            cost(state, servers),
            state.latency(0, servers) / 1000,
        )


def _takings(state: State, servers: Sequence[int], names: Sequence[str]) -> Takings:
    takings = Takings()
    for server, first, last in state.runs(0, servers):
        name = names[server]
        needs = state.needs(0, first, last)[state.problem.type_of[server]]
        before = takings.needs.get(name)
        takings.needs[name] = needs if before is None else before + needs
        takings.count[name] = takings.count.get(name, 0) + last - first
    return takings


def cost(state: State, servers: Sequence[int]) -> float:
    """What a chain on `servers` costs more: nodes that come into use, and its share of each.

    The share is that of the resource of which it takes most; both are by the node's price, to which
    cores that it uses are added by theirs.
    """
    problem, total = state.problem, 0.0
    taken: dict[int, np.ndarray] = {}
    for server, first, last in state.runs(0, servers):
        needs = state.needs(0, first, last)[problem.type_of[server]]
        taken[server] = taken.get(server, 0) + needs
    for server, needs in taken.items():
        kind = problem.type_of[server]
        share = float((needs / np.maximum(1, problem.capacity[server])).max())
        total += problem.price[kind] * ((0.0 if state.vnfs[server] else 1.0) + share)
        total += float((needs * problem.unit_price[kind]).sum())
    return float(total)
