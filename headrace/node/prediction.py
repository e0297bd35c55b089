# SPDX-License-Identifier: Apache-2.0
"""What the model predicts of each graph, beside what is measured; and what it learns from that.

`node.yaml` names the model (`model: FILE`, written by `headrace model fit`). Its prediction is part
of a graph's plan, stored with it. A graph may say its demand (`demand: {pps, bytes}` in the
forwarding-graph): if that can't be met, the plan has a warning, as it has one where the model can't
say.

Every half minute the switch's counters are one more window of the model: amounts are those of all
graphs, by what their end-points received. A window in which the workers were kept from their cores
is not learned from. The learned terms outlive the node.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.machine.waiting import processor
from headrace.model.mechanistic import nffg, stored
from headrace.model.mechanistic.fitting import Fitted
from headrace.model.mechanistic.learning import Learner
from headrace.model.mechanistic.predict import Graph, NoGrounds, Prediction, predict
from headrace.model.mechanistic.predict import Path as PathOf
from headrace.model.mechanistic.windows import Key, Window
from headrace.node.config import NodeConfig
from headrace.node.errors import ConfigError
from headrace.node.planning.nffg import parse
from headrace.node.planning.resources import Plan

log = logging.getLogger("headrace.node.prediction")

SMALLEST = 64.0
EVERY_S = 30.0
DISTURBED = 0.10
"""Share of the time that the workers waited for their cores, above which nothing is learned."""
LEAST_PACKETS = 10_000
"""Packets of a window that is learned from."""
LEARNED = "model-learned"


@dataclass(frozen=True)
class Counted:
    """One reading: the switch's workers, what each graph received, the workers' waiting.

    Attributes:
        workers: sums of busy_cycles, idle_cycles, rounds, busy_rounds and bursts; None: no counts.
        received: by graph, packets and octets from its end-points.
    """

    at: float
    hz: float
    workers: Mapping[str, float] | None
    received: Mapping[str, tuple[float, float]]
    waited_ns: float | None


class NodeModel:
    """The model of a node; without one, every question is answered by the reason."""

    def __init__(self, config: NodeConfig, switch: str, kinds: Iterable[str]) -> None:
        """Reads the file that `config` names.

        Args:
            config: the node's.
            switch: the switch's name in results.
            kinds: of the physical ports.

        Raises:
            ConfigError: the file can't be read or is no model.
        """
        self._config, self._switch = config, switch
        self._physical = sorted(set(kinds))
        self.fitted: Fitted | None = None
        self.reason = "node.yaml names no model (model: FILE, from `headrace model fit`)"
        self.learners: dict[Key, Learner] = {}
        if config.model is None:
            return
        try:
            self.fitted = stored.read(config.model)
        except stored.ModelFileError as error:
            raise ConfigError("config", f"model: {error}") from error
        differs = stored.differences(self.fitted.manifest, processor())
        if differs:
            self.fitted, self.reason = None, f"the model is of another machine: {differs[0]}"
            log.warning("%s: %s", config.model, self.reason)

    # Predicting.

    def with_prediction(self, document: Mapping[str, Any], plan: Plan) -> Plan:
        """The plan with what is predicted of it, and a warning if its demand can't be met."""
        if self._config.model is None:
            return plan
        told, warnings = self._predict(_as_read(document), plan)
        found = (*plan.warnings, *warnings)
        return plan.model_copy(update={"prediction": told, "warnings": found})

    def _predict(self, document: Mapping[str, Any], plan: Plan) -> tuple[dict[str, Any], list[str]]:
        if self.fitted is None:
            return {"reason": self.reason}, []
        demand = nffg.graph_of(document).get("demand") or {}
        pps, size = demand.get("pps"), float(demand.get("bytes", SMALLEST))
        try:
            graph, notes = self._graph(document, plan)
            told = predict(self.current(), graph, size, pps)
        except (NoGrounds, nffg.NotAGraph) as error:
            warnings = [f"whether the demand can be met is not known: {error}"] if pps else []
            return {"reason": str(error)}, warnings
        return _shown(told, notes), _warnings(told)

    def current(self) -> Fitted:
        """The terms as they are now: fitted, then learned."""
        assert self.fitted is not None
        learned = {key: learner.model for key, learner in self.learners.items()}
        return replace(self.fitted, roles={**self.fitted.roles, **learned})

    def subject(self, kind: str | None) -> tuple[str, list[str]]:
        """The results' subject that is nearest to this node's ports, and how it differs.

        Args:
            kind: of the ports to VNFs; None: no VNFs.

        Raises:
            NoGrounds: nothing was measured of this switch with such ports.
        """
        assert self.fitted is not None
        known = [one for one in self.fitted.subjects() if one.partition("/")[0] == self._switch]
        inner = {one: one.partition("/")[2].rpartition("+")[2] for one in known}
        fitting = [one for one in known if kind is None or inner[one] == kind]
        if not fitting:
            told = ", ".join(known) or f"nothing of {self._switch}"
            raise NoGrounds(f"the model has no {kind} ports on {self._switch} (it has: {told})")

        def outer(one: str) -> str:
            return one.partition("/")[2].partition("+")[0]

        best = min(fitting, key=lambda one: (outer(one) not in self._physical, one))
        if outer(best) in self._physical:
            return best, []
        ports = " and ".join(self._physical) or "no"
        return best, [f"measured with {outer(best)} ports outside, this node has {ports}"]

    def _graph(self, document: Mapping[str, Any], plan: Plan) -> tuple[Graph, list[str]]:
        specs = {spec.vnf: spec for spec in plan.vnfs()}
        kinds = {p.switch_port.kind.value for spec in specs.values() for p in spec.ports}
        subject, notes = self.subject(min(kinds) if kinds else None)
        if len(kinds) > 1:
            notes.append(f"all ports are taken to be {min(kinds)}")
        routes = nffg.routes(document)
        if any(route.guessed for route in routes):
            notes.append("traffic is taken to divide evenly over the ways")
        paths, names = [], []
        for route in routes:
            spec_of = [specs.get(vnf) for vnf in route.vnfs]
            functions = [spec.function if spec else "unknown" for spec in spec_of]
            paths.append(PathOf(tuple(functions), route.share))
            names.append(route.vnfs)
        switch = self._config.cores.switch
        cores: dict[str, object] = {"switch": switch[0] if len(switch) == 1 else "switch"}
        for vnf, spec in specs.items():
            cores[vnf] = spec.cores[0] if spec.cores else vnf
        graph = Graph(subject, tuple(paths), tuple(names), cores, max(1, len(switch)))
        return graph, notes

    # Learning.

    def learn(
        self, before: Counted, after: Counted, graphs: Mapping[str, tuple[Mapping[str, Any], Plan]]
    ) -> str:
        """Learns from what lies between two readings; returns what became of it.

        Args:
            before: a reading.
            after: a later one.
            graphs: by id, document and plan of the graphs that were there all the time.
        """
        if self.fitted is None:
            return self.reason
        window = self._window(before, after, graphs)
        if isinstance(window, str):
            return window
        role = self.current().roles.get(window.key)
        if role is None:
            return f"the model has no {window.key}"
        learner = self.learners.setdefault(window.key, Learner.of(role))
        return learner.update(window)

    def _window(
        self, before: Counted, after: Counted, graphs: Mapping[str, tuple[Mapping[str, Any], Plan]]
    ) -> Window | str:
        if before.workers is None or after.workers is None:
            return "the switch does not count rounds and bursts"
        grown = {name: after.workers[name] - before.workers[name] for name in before.workers}
        if min(grown.values()) < 0:
            return "the switch has started anew"
        amounts = dict.fromkeys(("packets", "octets", "visits", "visit_octets"), 0.0)
        subjects = set()
        for graph_id, (packets, octets) in after.received.items():
            first = before.received.get(graph_id)
            if first is None or graph_id not in graphs:
                return "a graph is new"
            through, size = packets - first[0], octets - first[1]
            if through <= 0:
                continue
            document, plan = graphs[graph_id]
            try:
                graph, _ = self._graph(_as_read(document), plan)
            except (NoGrounds, nffg.NotAGraph) as error:
                return str(error)
            subjects.add(graph.subject)
            visits = sum(path.share * len(path.functions) for path in graph.paths)
            amounts["packets"] += through
            amounts["octets"] += size
            amounts["visits"] += visits * through
            amounts["visit_octets"] += visits * size
        if amounts["packets"] < LEAST_PACKETS or len(subjects) != 1:
            return "too few packets" if len(subjects) < 2 else "several kinds of ports"
        seconds = after.at - before.at
        waited = None
        if before.waited_ns is not None and after.waited_ns is not None:
            waited = (after.waited_ns - before.waited_ns) / 1e9 / seconds
        rounds, busy = grown["rounds"], grown["busy_rounds"]
        polled = {
            "busy_rounds": busy,
            "wakes": busy * (1 - busy / rounds) if rounds > 0 else 0.0,
            "bursts": grown["bursts"],
        }
        packets = amounts["packets"]
        return Window(
            key=Key(subjects.pop(), "switch"),
            group="node",
            vnfs=round(amounts["visits"] / packets),
            size=amounts["octets"] / packets,
            load=packets / seconds,
            offered=packets / seconds,
            through=packets / seconds,
            seconds=seconds,
            hz=after.hz,
            busy=grown["busy_cycles"],
            idle=grown["idle_cycles"],
            idle_rounds=rounds - busy,
            limiter="unknown",
            # Where the kernel does not tell the waiting, nothing says that there was none.
            disturbed=waited is None or waited > DISTURBED,
            terms={**amounts, **polled},
        )

    def remember(self) -> str:
        """The learned terms, to be restored by `restore`."""
        roles = [asdict(learner.model) for learner in self.learners.values()]
        counts = {str(key): learner.counts for key, learner in self.learners.items()}
        manifest = self.fitted.manifest if self.fitted else {}
        return json.dumps({"manifest": manifest, "roles": roles, "counts": counts})

    def restore(self, text: str | None) -> None:
        """Takes up what was learned, if it is of this model; anything else is left out."""
        if text is None or self.fitted is None:
            return
        try:
            content = json.loads(text)
            if content["manifest"] != json.loads(json.dumps(self.fitted.manifest)):
                return
            for role in stored.roles_of(content["roles"]):
                if role.key in self.fitted.roles:
                    counts = content["counts"].get(str(role.key), {})
                    limit = Learner.of(self.fitted.roles[role.key]).limit
                    self.learners[role.key] = Learner(role, counts, limit=limit)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("what the model has learned can't be read: %s", error)

    def learned(self) -> dict[str, Any]:
        """How many windows were learned from, by role, and the terms now."""
        return {
            str(key): {"windows": learner.counts, "terms": learner.model.described()}
            for key, learner in self.learners.items()
        }


def _as_read(document: Mapping[str, Any]) -> dict[str, Any]:
    """The graph of a client's document in one dialect."""
    graph, _ = parse(document)
    return graph.model_dump(mode="json", by_alias=True)


def _shown(told: Prediction, notes: list[str]) -> dict[str, Any]:
    """A prediction as it is stored and shown: numbers that JSON has, cores as text."""
    body: dict[str, Any] = json.loads(json.dumps(asdict(told), default=str))
    return {**body, "partial": told.partial, "met": told.met, "notes": notes}


def _warnings(told: Prediction) -> list[str]:
    """What a client is to know of its demand."""
    if told.demand_pps is None:
        return []
    top = told.saturation_pps
    asked = f"demand of {told.demand_pps:.0f} packets per second of {told.size:g} bytes"
    if told.met is False:
        return [
            f"{asked} can't be met: {' and '.join(told.limiter)} saturate at {top.value:.0f} "
            f"[{top.low:.0f} .. {top.high:.0f}]; `headrace model explain` says what would help"
        ]
    if told.lacking:
        return [f"{asked}: not known whether it can be met: {'; '.join(told.lacking.values())}"]
    if told.met is None:
        return [f"{asked} may be too much: saturation is at {top.low:.0f} .. {top.high:.0f}"]
    return []


async def follow(
    model: NodeModel,
    read: Callable[[], Awaitable[Counted]],
    graphs: Callable[[], Mapping[str, tuple[Mapping[str, Any], Plan]]],
    save: Callable[[str], None],
    every_s: float = EVERY_S,
) -> None:
    """Learns until cancelled, if there is a model."""
    if model.fitted is None:
        return
    before: Counted | None = None
    there: Mapping[str, tuple[Mapping[str, Any], Plan]] = {}
    while True:
        try:
            now, known = await read(), graphs()
            if before is not None and known.keys() == there.keys():
                outcome = model.learn(before, now, known)
                log.debug("learning: %s", outcome)
                if outcome == "learned":
                    save(model.remember())
            before, there = now, known
        except Exception:  # a fault here must not end the learning of all others
            log.exception("learning")
            before = None
        await asyncio.sleep(every_s)
