# SPDX-License-Identifier: Apache-2.0
"""Chains on the cores of one node: workers, cores, NUMA nodes, kinds of ports, direct links.

(UNIFY D5.6, Annex B.5: where on a node a VNF should run, and how it should be joined.)

1. **Kinds and direct links.** A VNF has one kind of ports, of those that its function has. A link
   between two VNFs of one chain may be direct if both have a kind that can be; then the switch does
   nothing for it. What each chain costs switch and VNFs together is a sum over its links, so the
   cheapest kinds are a shortest path over its VNFs: exact.
2. **Workers.** The smallest number that has the cycles, on the NUMA node of the physical ports
   first; the other cores are left to VNFs.
3. **Cores.** A VNF has a core of its own. One on another NUMA node than the workers spends `remote`
   times the cycles of its ports to the switch, and so do the workers for it; a direct link across
   NUMA nodes likewise. Without direct links that is an assignment (Hungarian method: exact, and a
   lower bound with them); with them pairs are exchanged until none helps, or all NUMA assignments
   are tried if they are few, which is exact.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy.optimize import linear_sum_assignment

from headrace.placement.document import DocumentError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MOST_TRIED = 200_000
"""Assignments to NUMA nodes up to which all are tried."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Kind(_Model):
    """TSC cycles of a packet at one port of this kind: the switch's, the VNF's, of each byte."""

    switch: NotNegative
    vnf: NotNegative = 0.0
    per_byte: NotNegative = 0.0
    direct: NotNegative | None = None


class Core(_Model):
    """A core that workers or VNFs may have."""

    core: Annotated[int, Field(ge=0)]
    numa: Annotated[int, Field(ge=0)] = 0


class NodeSpec(_Model):
    """The node.

    Attributes:
        cores: for workers and VNFs; control's are not among them.
        ports_numa: the NUMA node of the physical ports.
        entry: the switch's cycles for taking a packet from a physical port and sending it to one.
        kinds: of ports to VNFs; `direct` is what each end spends on a direct link, if it can be.
        remote: factor of the cycles at a port whose two sides are on different NUMA nodes.
        max_load: share of a core that may be used.
        workers: how many; by default as few as suffice.
    """

    ghz: Positive
    memory_mb: Positive
    cores: Annotated[list[Core], Field(min_length=2)]
    ports_numa: Annotated[int, Field(ge=0)] = 0
    entry: NotNegative
    kinds: Annotated[dict[str, Kind], Field(min_length=1)]
    remote: Annotated[float, Field(ge=1, le=10)] = 1.0
    max_load: Annotated[float, Field(gt=0, le=1)] = 0.9
    workers: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({core.core for core in self.cores}) < len(self.cores):
            raise ValueError("cores: one is there twice")
        return self


class NodeFunction(_Model):
    """A kind of VNF: cycles of a packet besides its ports', memory, kinds of ports it can have."""

    cycles: NotNegative = 0.0
    memory_mb: NotNegative = 0.0
    kinds: Annotated[list[str], Field(min_length=1)]


class NodeChain(_Model):
    """A chain on the node; `direct: false` keeps all its links in the switch."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[^\s/]+$")]
    vnfs: Annotated[list[str], Field(min_length=1, max_length=64)]
    kpps: Positive
    bytes: Annotated[float, Field(ge=64, le=65_535)] = 512.0
    direct: bool = True


class NodeDocument(_Model):
    """The file."""

    node: NodeSpec
    functions: dict[str, NodeFunction]
    chains: Annotated[list[NodeChain], Field(min_length=1)]

    @model_validator(mode="after")
    def _references(self) -> Self:
        for name, function in self.functions.items():
            for kind in function.kinds:
                if kind not in self.node.kinds:
                    known = ", ".join(self.node.kinds)
                    raise ValueError(
                        f"functions.{name}.kinds: no kind {kind!r}; there are: {known}"
                    )
        names = Counter(chain.name for chain in self.chains)
        for number, chain in enumerate(self.chains):
            if names[chain.name] > 1:
                raise ValueError(f"chains[{number}]: two have the name {chain.name}")
            for wanted in chain.vnfs:
                if wanted not in self.functions:
                    raise ValueError(f"chains[{number}] ({chain.name}): no function {wanted!r}")
        return self


def parse_node(content: Any) -> NodeDocument:
    """The document of parsed YAML.

    Raises:
        DocumentError: a field is wrong; the message names it.
    """
    try:
        return NodeDocument.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        told = first["msg"].removeprefix("Value error, ")
        raise DocumentError(f"{place + ': ' if place else ''}{told}") from error


class NodeFull(Exception):
    """The node can't carry all of it; the message says what is short."""


@dataclass(frozen=True)
class Vnf:
    """One VNF with what was chosen for it.

    Attributes:
        own: cycles per second of the function.
        ports: cycles per second at its ports to the switch, the VNF's side and the switch's side.
        links: cycles per second of each end of its direct link to the VNF after it.
    """

    name: str
    function: str
    kind: str
    own: float
    ports: tuple[float, float]
    next_direct: bool
    link: float


@dataclass
class NodePlan:
    """The plan of one node, in cores (cycles per second over the clock).

    Attributes:
        workers: cores of the switch.
        core_of: by VNF, its core.
        vnfs: in the order of the file.
        used: by core, the share used.
        cost: cores that all of it takes.
        bound: no assignment of cores costs less, with these workers and kinds.
        optimal: the assignment is proven to be the cheapest.
    """

    workers: list[int]
    core_of: dict[str, int]
    vnfs: list[Vnf]
    used: dict[int, float]
    cost: float
    bound: float
    optimal: bool
    reasons: list[str] = field(default_factory=list)

    def direct_links(self) -> list[tuple[str, str]]:
        """Pairs of VNFs that are joined without the switch."""
        return [
            (one.name, after.name)
            for one, after in itertools.pairwise(self.vnfs)
            if one.next_direct
        ]


def choose_kinds(document: NodeDocument, chain: NodeChain) -> list[Vnf]:
    """The cheapest kinds and direct links of one chain, switch and VNFs together."""
    node, pps = document.node, 1000 * chain.kpps
    last = len(chain.vnfs) - 1

    def through(kind: str) -> tuple[float, float]:
        of = node.kinds[kind]
        return of.vnf + of.per_byte * chain.bytes, of.switch + of.per_byte * chain.bytes

    def link(one: str, other: str) -> tuple[float, bool]:
        """Cycles of a link by both ends and the switch, and whether it is direct."""
        switched = sum(through(one)) + sum(through(other))
        ends = node.kinds[one].direct, node.kinds[other].direct
        if not chain.direct or one != other or ends[0] is None or ends[1] is None:
            return switched, False
        return min((switched, False), (ends[0] + ends[1], True))

    best: dict[str, tuple[float, list[str]]] = {
        kind: (sum(through(kind)), [kind]) for kind in document.functions[chain.vnfs[0]].kinds
    }
    for name in chain.vnfs[1:]:
        best = {
            kind: min(
                (cost + link(before, kind)[0], [*kinds, kind])
                for before, (cost, kinds) in best.items()
            )
            for kind in document.functions[name].kinds
        }
    _, kinds = min((cost + sum(through(kind)), kinds) for kind, (cost, kinds) in best.items())
    found = []
    for at, (name, kind) in enumerate(zip(chain.vnfs, kinds, strict=True)):
        after = at < last and link(kind, kinds[at + 1])[1]
        before = at > 0 and link(kinds[at - 1], kind)[1]
        switched = 2 - after - before
        own, switch = through(kind)
        direct = node.kinds[kind].direct or 0.0
        found.append(
            Vnf(
                f"{chain.name}/{at}",
                name,
                kind,
                pps * document.functions[name].cycles,
                (pps * switched * own, pps * switched * switch),
                after,
                pps * direct,
            )
        )
    return found


class _Assignment:
    """Costs of NUMA nodes for VNFs, once the workers are chosen."""

    def __init__(self, spec: NodeSpec, vnfs: Sequence[Vnf], workers: Sequence[Core]) -> None:
        self.spec, self.vnfs = spec, vnfs
        self.worker_numa = Counter(core.numa for core in workers).most_common(1)[0][0]
        self.more = spec.remote - 1

    def alone(self, vnf: Vnf, numa: int) -> float:
        """Cycles per second more that a VNF costs on a NUMA node, direct links not counted."""
        return self.more * sum(vnf.ports) if numa != self.worker_numa else 0.0

    def pairs(self, numas: Sequence[int]) -> float:
        """Cycles per second more of direct links between NUMA nodes."""
        return sum(
            2 * self.more * one.link
            for (one, here), (_, there) in itertools.pairwise(zip(self.vnfs, numas, strict=True))
            if one.next_direct and here != there
        )

    def total(self, numas: Sequence[int]) -> float:
        """Cycles per second more of an assignment."""
        own = sum(self.alone(vnf, numa) for vnf, numa in zip(self.vnfs, numas, strict=True))
        return own + self.pairs(numas)


def plan_node(document: NodeDocument) -> NodePlan:
    """Plans a node.

    Raises:
        NodeFull: cores, cycles or memory do not suffice; says which.
    """
    spec = document.node
    vnfs = [vnf for chain in document.chains for vnf in choose_kinds(document, chain)]
    memory = sum(document.functions[vnf.function].memory_mb for vnf in vnfs)
    if memory > spec.memory_mb:
        raise NodeFull(f"{memory:g} MB are needed, the node has {spec.memory_mb:g}")
    hz = spec.ghz * 1e9
    ordered = sorted(spec.cores, key=lambda core: (core.numa != spec.ports_numa, core.core))
    # As few workers as suffice when every VNF is where it is; remote ones need more.
    fewest = spec.workers or 1
    most = spec.workers or max(1, len(ordered) - len(vnfs))
    if len(ordered) - fewest < len(vnfs):
        raise NodeFull(
            f"{len(vnfs)} VNFs need a core each, {len(ordered) - fewest} are left beside "
            f"{fewest} worker{'s' if fewest > 1 else ''}"
        )
    short = ""
    for count in range(fewest, most + 1):
        workers, cores = ordered[:count], ordered[count:]
        plan, short = _assigned(document, vnfs, workers, cores, hz)
        if plan is not None:
            return plan
    raise NodeFull(short)


def _assigned(
    document: NodeDocument,
    vnfs: Sequence[Vnf],
    workers: Sequence[Core],
    cores: Sequence[Core],
    hz: float,
) -> tuple[NodePlan | None, str]:
    spec = document.node
    costs = _Assignment(spec, vnfs, workers)
    matrix = np.array([[costs.alone(vnf, core.numa) for core in cores] for vnf in vnfs])
    rows, columns = linear_sum_assignment(matrix)
    bound = float(matrix[rows, columns].sum())
    chosen = [cores[column] for column in columns]
    numas, optimal = _better(costs, [core.numa for core in chosen], cores, bound)
    free = {numa: [c.core for c in cores if c.numa == numa] for numa in {c.numa for c in cores}}
    core_of = {vnf.name: free[numa].pop(0) for vnf, numa in zip(vnfs, numas, strict=True)}
    base = sum(1000 * chain.kpps * spec.entry for chain in document.chains)
    switch, spent = base, {}
    for vnf, numa in zip(vnfs, numas, strict=True):
        factor = spec.remote if numa != costs.worker_numa else 1.0
        switch += factor * vnf.ports[1]
        spent[vnf.name] = vnf.own + factor * vnf.ports[0]
    for (one, here), (other, there) in itertools.pairwise(zip(vnfs, numas, strict=True)):
        if one.next_direct:
            factor = spec.remote if here != there else 1.0
            spent[one.name] += factor * one.link
            spent[other.name] += factor * one.link
    if switch > len(workers) * spec.max_load * hz:
        return None, (
            f"the switch takes {switch / hz:.2f} cores, {len(workers)} workers have "
            f"{len(workers) * spec.max_load:.2f}; fewer packets or VNFs, or more cores"
        )
    for name, cycles in spent.items():
        if cycles > spec.max_load * hz:
            return None, (
                f"{name} takes {cycles / hz:.2f} of a core, {spec.max_load:g} may be used: divide "
                f"its traffic over several VNFs"
            )
    used = {core.core: switch / hz / len(workers) for core in workers}
    used |= {core_of[name]: cycles / hz for name, cycles in spent.items()}
    fixed = (switch + sum(spent.values())) - costs.total(numas)
    plan = NodePlan(
        workers=[core.core for core in workers],
        core_of=core_of,
        vnfs=list(vnfs),
        used=used,
        cost=(switch + sum(spent.values())) / hz,
        bound=(fixed + bound) / hz,
        optimal=optimal,
    )
    plan.reasons = _reasons(spec, plan, numas, costs, switch / hz)
    return plan, ""


def _better(
    costs: _Assignment, numas: list[int], cores: Sequence[Core], bound: float
) -> tuple[list[int], bool]:
    """An assignment with direct links in mind, and whether none is cheaper."""
    room = Counter(core.numa for core in cores)
    if costs.total(numas) <= bound * (1 + 1e-12) + 1e-9:
        return numas, True
    kinds = sorted(room)
    if len(kinds) ** len(numas) <= MOST_TRIED:
        possible = (
            list(one)
            for one in itertools.product(kinds, repeat=len(numas))
            if all(count <= room[numa] for numa, count in Counter(one).items())
        )
        return min(possible, key=costs.total), True
    best = costs.total(numas)
    improved = True
    while improved:
        improved = False
        for trial in _moves(numas, room):
            cost = costs.total(trial)
            if cost < best - 1e-9:
                numas, best, improved = trial, cost, True
                break
    return numas, False


def _moves(numas: list[int], room: Mapping[int, int]) -> list[list[int]]:
    """Assignments that differ by one VNF moved or two exchanged."""
    taken = Counter(numas)
    found = []
    for at, numa in enumerate(numas):
        for other in room:
            if other != numa and taken[other] < room[other]:
                found.append([*numas[:at], other, *numas[at + 1 :]])
    for one, two in itertools.combinations(range(len(numas)), 2):
        if numas[one] != numas[two]:
            trial = list(numas)
            trial[one], trial[two] = trial[two], trial[one]
            found.append(trial)
    return found


def _reasons(
    spec: NodeSpec, plan: NodePlan, numas: Sequence[int], costs: _Assignment, switch: float
) -> list[str]:
    count = len(plan.workers)
    told = [
        f"{count} worker{'s' if count > 1 else ''} on NUMA node {costs.worker_numa}: the switch "
        f"takes {switch:.2f} cores"
    ]
    direct = plan.direct_links()
    if direct:
        saved = sum(vnf.link for vnf in plan.vnfs if vnf.next_direct) / (spec.ghz * 1e9)
        told.append(
            f"{len(direct)} direct link{'s' if len(direct) > 1 else ''}: each end spends "
            f"{saved:.3f} cores in all, the switch none"
        )
    remote = [vnf.name for vnf, n in zip(plan.vnfs, numas, strict=True) if n != costs.worker_numa]
    if remote:
        told.append(
            f"on the other NUMA node for want of cores: {', '.join(remote)}, "
            f"{costs.total(numas) / spec.ghz / 1e9:.3f} cores more"
        )
    return told


def node_document_of(plan: NodePlan) -> dict[str, Any]:
    """The plan as JSON."""
    return {
        "workers": plan.workers,
        "vnfs": {
            vnf.name: {"core": plan.core_of[vnf.name], "kind": vnf.kind, "function": vnf.function}
            for vnf in plan.vnfs
        },
        "direct_links": [list(pair) for pair in plan.direct_links()],
        "used": {str(core): round(share, 4) for core, share in sorted(plan.used.items())},
        "cost": plan.cost,
        "bound": plan.bound,
        "optimal": plan.optimal,
        "reasons": plan.reasons,
    }
