# SPDX-License-Identifier: Apache-2.0
"""Scenarios: what to measure, as data. One YAML file in `scenarios/` for each experiment.

A scenario names graph shapes, subjects (a switch with its port kinds), traffic and what to measure
of it. `cases()` multiplies that out; how a case is run is defined elsewhere.

The shapes, in the terms of RFC 8204 and of Luizelli et al.:

* `p2p`: from one physical port through the switch to the other, no VNF;
* `chain` of n, placement `gather`: one chain, all its VNFs on this machine, n + 1 traversals of the
  switch for each packet (the paper's Fig. 2a);
* `parallel` n, placement `distribute`: n VNFs side by side, the generator spreads the traffic over
  them, each packet visits one VNF and crosses the switch twice. That is how the paper measures a
  distribute placement on one server (Fig. 2b): each VNF belongs to another chain, whose other VNFs
  are on other servers.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.bench.errors import ScenarioError
from headrace.bench.profiles import read
from headrace.bench.searching.goals import GoalName, SearchBy
from headrace.bench.settings import SCENARIOS
from headrace.bench.subject import IN_PROCESS, PortKind, Subject, Switch
from headrace.results import Case, Placement, Shape
from headrace.results.experiment import Figure
from headrace.results.frame_sizes import CAPTURE

Mix = Literal["imix-csit", "imix-nfvbench"]
Capture = Annotated[str, Field(pattern=r"^pcap:.+")]
"""`pcap:` with the name of a mix, of which a capture is made, or with the path of one."""


EXTRAS = ("loss_curve", "back_to_back", "soak", "recovery", "reconfiguration", "reset")
"""The last leaves a switch that was started again, so it comes last."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GraphSpec(_Strict):
    """A family of graphs: one for each number of VNFs."""

    shape: Shape
    vnfs: list[Annotated[int, Field(ge=1, le=30)]] = []
    placement: Placement = "none"
    prefixes: Annotated[int, Field(ge=0, le=512)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.shape == "p2p" and (self.vnfs or self.placement != "none"):
            raise ValueError("p2p has no VNFs and no placement")
        if self.shape != "p2p" and self.prefixes:
            raise ValueError("prefixes are rules between two ports: only p2p has them")
        if self.shape != "p2p" and not self.vnfs:
            raise ValueError(f"{self.shape} needs vnfs, a list such as [1, 2, 3]")
        if self.placement == "gather" and self.shape != "chain":
            raise ValueError("gather is measured as a chain on one machine")
        if self.placement == "distribute" and self.shape != "parallel":
            raise ValueError("distribute is measured as parallel VNFs (Luizelli, Fig. 2b)")
        return self


class Traffic(_Strict):
    """What is sent.

    Attributes:
        sizes: bytes with FCS, the name of a mix, or a capture (docs/papers.md).
        flows: numbers of flows.
        bare: the generator's packets have neither sequence number nor time stamp, which costs it
            less: losses are counted; order, copies and latency are not.
        burst: packets with one scheduled time, at the same mean rate.
        poisson: exponential gaps between these times, instead of even ones.
        both_ways: the same traffic from the other end, too; loads and rates are of both together.
        layers: headers of the generator's packets from the outside in, as it knows them
            (docs/traffic.md); by default Ethernet, IPv4, UDP.
        src_ip: the first source address; by default 198.18.0.1.
        taken_cycles: TSC cycles that each frame costs the switch's worker besides: what a slower
            core would take (in-process sources).
    """

    sizes: list[Annotated[int, Field(ge=64, le=1518)] | Mix | Capture] = [64]
    flows: list[Annotated[int, Field(ge=1, le=1_000_000)]] = [1000]
    bare: bool = False
    burst: Annotated[int, Field(ge=1, le=4096)] = 1
    poisson: bool = False
    both_ways: bool = False
    layers: list[str | dict[str, dict[str, str | int]]] | None = None
    src_ip: str | None = None
    taken_cycles: list[Annotated[int, Field(ge=0, le=100_000)]] = [0]


class BackToBack(_Strict):
    """RFC 9004: how often a burst is searched in a round, and the longest in seconds."""

    repeats: Annotated[int, Field(ge=1, le=1000)] = 50
    longest_s: Annotated[float, Field(gt=0, le=2)] = 2.0


class Soak(_Strict):
    """One long trial at a share of the sustained rate."""

    seconds: Annotated[float, Field(gt=0)] = 60.0
    at: Annotated[float, Field(gt=0, le=1)] = 0.9


class Recovery(_Strict):
    """RFC 2544 26.5: seconds of overload before the load is halved."""

    overload_s: Annotated[float, Field(gt=0)] = 60.0


class Outage(_Strict):
    """An event during a trial at a share of the sustained rate."""

    seconds: Annotated[float, Field(gt=0)] = 10.0
    at: Annotated[float, Field(gt=0, le=1)] = 0.1


class Measure(_Strict):
    """What to measure of each case in each round.

    Attributes:
        width: rounds go to rows whose interval is wider than this share of the value, to each side.
        repeats: how often overload and fixed loads are taken in one round; their mean counts.
        search: the goals to search for, by name.
        loss_ratios: shares of packets that a search may lose; None for those of the named goals.
        search_trial_s: seconds of the final trials of a standard's search, instead of its own.
        search_by: `bisection` searches each goal by halving, for comparison.
        overload: the rate received while sending as fast as possible; `csit` for ten trials of 1 s.
        latency_at: latency at these fractions of the PDR.
        loads_pps: fixed loads, with the switch's cycles.
        loss_curve: loss at these shares of the overload rate.
        back_to_back, soak, recovery: see there.
        reset, reconfiguration: what the event costs traffic.
    """

    width: Annotated[float, Field(gt=0, lt=1)] = 0.1
    repeats: Annotated[int, Field(ge=1, le=20)] = 1
    search: GoalName | None = None
    loss_ratios: list[Annotated[float, Field(ge=0, lt=1)]] | None = None
    search_trial_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    search_by: SearchBy = "mlrsearch"
    overload: bool | Literal["csit"] = False
    latency_at: list[Annotated[float, Field(gt=0, le=1)]] = []
    loads_pps: list[Annotated[float, Field(gt=0)]] = []
    loss_curve: list[Annotated[float, Field(gt=0, le=2)]] = []
    back_to_back: BackToBack | None = None
    soak: Soak | None = None
    recovery: Recovery | None = None
    reset: Outage | None = None
    reconfiguration: Outage | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.latency_at and self.search is None:
            raise ValueError("latency_at takes fractions of the PDR: it needs a search")
        if self.loss_ratios is not None and (self.search is None or not self.loss_ratios):
            raise ValueError("loss_ratios are those of a search: name a search and one ratio")
        if self.search_trial_s is not None and self.search in (None, "quick"):
            raise ValueError("search_trial_s is for csit, rfc2544 and tst009")
        if self.search is None and self.search_by != "mlrsearch":
            raise ValueError("search_by says how a search is made: name one")
        if not (self.search or self.overload or self.loads_pps or self.extras):
            raise ValueError("nothing to measure: name search, overload or loads_pps")
        return self

    @property
    def extras(self) -> list[str]:
        """The measurements beside rates, latency and cost, in the order in which they run."""
        return [name for name in EXTRAS if getattr(self, name)]


class Headline(_Strict):
    """The cases that answer the scenario's question; a member that is missing selects all.

    Attributes:
        metric: what of them answers it: the overload rate, or the switch's cycles for each packet
            at the highest fixed load.
        repeats: how often that is taken in one deployment; deploying takes longer than a trial.
    """

    metric: Literal["mrr", "cycles_per_packet"] = "mrr"
    repeats: Annotated[int, Field(ge=1, le=20)] = 2
    shapes: list[Shape] | None = None
    sizes: list[int | Mix] | None = None
    flows: list[int] | None = None
    vnfs: list[int] | None = None
    switches: list[Switch] | None = None
    ports: list[PortKind | Literal["in-process"]] | None = None


class Need(_Strict):
    """A row of a paper that only a machine with something particular can fill.

    `what` is the row, `needs` a word of `headrace/bench/lacking.py`. The cases that fill it there
    are the scenario's own.
    """

    what: str
    needs: str


class About(_Strict):
    """What every experiment has, whether it is made of cases or is a command.

    Attributes:
        name: of the file, with its folder in `scenarios/`.
        profile: which of the file's profiles was read ("" if it has none).
        minutes: how long measuring takes, by the file's own word.
        rounds: at most that many rounds over all cases.
        figures: of the paper, that this measures anew.
        needs: rows of the paper that need what not every machine has.
    """

    name: str
    title: str
    question: str
    papers: list[str] = []
    profile: str = ""
    minutes: Annotated[float, Field(gt=0)] | None = None
    rounds: Annotated[int, Field(ge=1)] = 1000
    figures: list[Figure] = []
    needs: list[Need] = []


class Scenario(About):
    """One experiment made of cases."""

    graphs: list[GraphSpec]
    subjects: list[Subject]
    traffic: Traffic = Traffic()
    measure: Measure
    headline: Headline | None = None

    @model_validator(mode="after")
    def _measurable(self) -> Self:
        stamped = not self.traffic.bare and all(
            subject.ports != IN_PROCESS and subject.sink == "generator" for subject in self.subjects
        )
        if self.measure.latency_at and not stamped:
            raise ValueError("latency_at needs packets with stamps that come back to the generator")
        inside = any(IN_PROCESS in (one.ports, one.sink) for one in self.subjects)
        if inside and self.measure.extras:
            raise ValueError(f"{', '.join(self.measure.extras)}: not with an in-process sink")
        if self.traffic.taken_cycles != [0] and any(
            IN_PROCESS not in (one.ports, one.sink) for one in self.subjects
        ):
            raise ValueError("taken_cycles: only an in-process source takes cycles from a switch")
        rows = any(one.nodes > 1 for one in self.subjects)
        if rows and any(graph.shape != "p2p" for graph in self.graphs):
            raise ValueError("nodes in a row forward from port to port: they have no VNFs")
        captures = [size for size in self.traffic.sizes if str(size).startswith(CAPTURE)]
        if captures and (inside or any(graph.shape == "parallel" for graph in self.graphs)):
            raise ValueError(
                f"{captures[0]}: a capture is sent by a generator, to one VNF or chain: it has its "
                "own addresses"
            )
        if (self.traffic.layers or self.traffic.src_ip) and inside:
            raise ValueError("layers, src_ip: an in-process source has frames of its own")
        if self.traffic.both_ways and inside:
            raise ValueError("both_ways: an in-process source sends one way")
        made = [(one.node, one.engine, one.function) for one in self.subjects]
        if len(set(made)) < len(made):
            raise ValueError("two subjects differ in their configuration only: one file for each")
        several = any(graph.shape == "parallel" and max(graph.vnfs) > 1 for graph in self.graphs)
        if self.traffic.bare and several:
            raise ValueError("bare packets don't say which of several parallel streams is theirs")
        if self.headline is not None:
            needed = "overload" if self.headline.metric == "mrr" else "loads_pps"
            if not getattr(self.measure, needed):
                raise ValueError(f"headline: {self.headline.metric} needs {needed} in measure")
        return self

    def answer(self, case: Case) -> Measure | None:
        """What of a case answers the question; None if it is none of the headline's cases."""
        if self.headline is None or not self._is_headline(case, self.headline):
            return None
        width, repeats = self.measure.width, self.headline.repeats
        if self.headline.metric == "mrr":
            return Measure(width=width, repeats=repeats, overload=self.measure.overload)
        return Measure(width=width, repeats=repeats, loads_pps=[max(self.measure.loads_pps)])

    @staticmethod
    def _is_headline(case: Case, headline: Headline) -> bool:
        wanted = (
            (headline.shapes, case.shape),
            (headline.sizes, case.size),
            (headline.flows, case.flows),
            (headline.vnfs, case.vnfs),
            (headline.switches, case.switch),
            (headline.ports, case.ports),
        )
        return all(
            allowed is None or str(value) in {str(one) for one in allowed}
            for allowed, value in wanted
        )

    def cases(self) -> list[Case]:
        """Every point of the scenario, in the order of the file."""
        found = []
        for graph in self.graphs:
            for vnfs in graph.vnfs or [0]:
                for flows in self.traffic.flows:
                    for size in self.traffic.sizes:
                        for taken in self.traffic.taken_cycles:
                            for subject in self.subjects:
                                made = self._case(graph, vnfs, flows, str(size), subject, taken)
                                found.append(made)
        # Subjects that differ in their VNFs only are the same without VNFs.
        return list(dict.fromkeys(found))

    def _case(
        self, graph: GraphSpec, vnfs: int, flows: int, size: str, subject: Subject, taken: int
    ) -> Case:
        bare = graph.shape == "p2p"
        words = ["both-ways"] if self.traffic.both_ways else []
        words += subject.words + ([f"taken={taken}"] if taken else [])
        return Case(
            scenario=self.name,
            shape=graph.shape,
            vnfs=vnfs,
            placement=graph.placement,
            switch=subject.switch,
            ports=subject.outer_ports,
            vnf_ports="" if bare else subject.inner_ports,
            function="" if bare else subject.function,
            engine="" if bare else subject.engine,
            size=size,
            flows=flows,
            prefixes=graph.prefixes,
            variant=" ".join(words),
        )


def load(path: Path, profile: str | None = None) -> Scenario:
    """Reads one scenario file; `profile` as for `headrace.bench.profiles.read`.

    Raises:
        ScenarioError: the file cannot be read or is invalid, or has no such profile.
    """
    return scenario_of(path, read(path, profile))


def scenario_of(path: Path, content: dict[str, object]) -> Scenario:
    """A scenario of a file's content.

    Raises:
        ScenarioError: it is invalid; names the file and each place.
    """
    try:
        return Scenario.model_validate({"name": path.stem, **content})
    except ValidationError as error:
        raise ScenarioError(f"{path}: {places(error)}") from error


def places(error: ValidationError) -> str:
    """Where a file is wrong, and what is wrong there."""
    return "; ".join(
        f"{'.'.join(str(part) for part in entry['loc']) or 'scenario'}: {entry['msg']}"
        for entry in error.errors()
    )


def load_all(folder: Path = SCENARIOS) -> list[Scenario]:
    """All scenarios of a folder in the order of their file names."""
    return [load(path) for path in sorted(folder.glob("*.yaml"))]


def find(names: list[str], folder: Path = SCENARIOS) -> list[Scenario]:
    """The named scenarios (names or paths of files), all if none is named.

    Raises:
        ScenarioError: the name is unknown; the message lists the known ones.
    """
    if not names:
        return load_all(folder)
    found = []
    for name in names:
        path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(entry.stem for entry in folder.glob("*.yaml")))
            raise ScenarioError(f"no scenario {name!r}; known: {known}")
        found.append(load(path))
    return found
