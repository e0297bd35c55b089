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

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.bench.errors import ScenarioError
from headrace.bench.searching.goals import GoalName
from headrace.bench.settings import SCENARIOS
from headrace.results import Case, Placement, Shape

Switch = Literal["headrace", "ovs-dpdk", "linux-bridge"]
PortKind = Literal["memif", "vhost-user", "veth", "shm"]
IN_PROCESS = "in-process"
OF_DPDK: tuple[Switch, ...] = ("headrace", "ovs-dpdk")
"""Switches that can load the in-process source, which is a DPDK plugin."""
Mix = Literal["imix-csit", "imix-nfvbench"]


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


class Subject(_Strict):
    """What is measured: a switch, the kinds of its ports, and how VNFs run on it.

    With `ports: in-process` source and sink are in the switch's own worker
    (dataplane/flowsource): there is no generator that could be the limit or take a core. With
    `sink: in-process` a generator sends by `ports`, and the switch counts what it would send back.
    """

    switch: Switch
    ports: PortKind | Literal["in-process"]
    vnf_ports: PortKind | None = None
    engine: Literal["process", "native"] = "process"
    function: str = "pass"
    sink: Literal["generator", "in-process"] = "generator"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        inside = IN_PROCESS in (self.ports, self.sink)
        if "shm" in (self.ports, self.vnf_ports) and self.switch != "headrace":
            raise ValueError(f"{self.switch} has no ports by shared memory: they are headrace's")
        if inside and self.switch not in OF_DPDK:
            raise ValueError(f"{self.switch} has no in-process source and sink: they are DPDK's")
        return self

    @property
    def inner_ports(self) -> PortKind:
        """Kind of the ports towards VNFs; by default that of the physical ports."""
        if self.vnf_ports is not None:
            return self.vnf_ports
        return "vhost-user" if self.ports == "in-process" else self.ports

    @property
    def outer_ports(self) -> str:
        """Where packets come from and go to: a kind of port, or `vhost-user>in-process`."""
        if self.ports != IN_PROCESS and self.sink == IN_PROCESS:
            return f"{self.ports}>{IN_PROCESS}"
        return self.ports

    @property
    def node(self) -> str:
        """Name of the node that runs it: one node for each switch and set of port kinds."""
        inner = f"-{self.inner_ports}" if self.inner_ports != self.ports else ""
        return f"{self.switch}-{self.outer_ports.replace('>', '-to-')}{inner}"


class Traffic(_Strict):
    """What is sent.

    Attributes:
        sizes: bytes with FCS, or the name of a mix.
        flows: numbers of flows.
        bare: the generator's packets have neither sequence number nor time stamp, which costs it
            less: losses are counted; order, copies and latency are not.
        burst: packets with one scheduled time, at the same mean rate.
        poisson: exponential gaps between these times, instead of even ones.
    """

    sizes: list[Annotated[int, Field(ge=64, le=1518)] | Mix] = [64]
    flows: list[Annotated[int, Field(ge=1, le=1_000_000)]] = [1000]
    bare: bool = False
    burst: Annotated[int, Field(ge=1, le=4096)] = 1
    poisson: bool = False


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


class Scenario(_Strict):
    """One experiment."""

    name: str
    title: str
    question: str
    papers: list[str] = []
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
                        for subject in self.subjects:
                            found.append(self._case(graph, vnfs, flows, str(size), subject))
        return found

    def _case(self, graph: GraphSpec, vnfs: int, flows: int, size: str, subject: Subject) -> Case:
        bare = graph.shape == "p2p"
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
        )


def load(path: Path) -> Scenario:
    """Reads one scenario file.

    Raises:
        ScenarioError: the file cannot be read or is invalid.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ScenarioError(f"{path}: not a scenario (a mapping with graphs, subjects, measure)")
    try:
        return Scenario.model_validate({"name": path.stem, **content})
    except ValidationError as error:
        places = "; ".join(
            f"{'.'.join(str(part) for part in entry['loc']) or 'scenario'}: {entry['msg']}"
            for entry in error.errors()
        )
        raise ScenarioError(f"{path}: {places}") from error


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
