# SPDX-License-Identifier: Apache-2.0
"""What the model predicts of each graph, beside what is measured; and what it learns from that.

`node.yaml` names the model (`model: FILE`, written by `headrace model fit`). Its prediction is part
of a graph's plan, stored with it. A graph may say its demand (`demand: {pps, bytes}` in the
forwarding-graph): if that can't be met, the plan has a warning, as it has one where the model can't
say.

What a visit to a VNF costs depends on how far apart the cores of VNF and switch are, which a
hypervisor changes unseen (machine/core_distance.py). The node measures that when it plans a graph
with VNFs. Of a model that was measured in another state the prediction is marked as partial and
says so, and whether a demand can be met is not known.

Readings of the node make windows from which the terms are learned (learning.py), the switch's and
the VNFs'. Terms of VNFs are learned by template; of one that was never measured they count from
`ENOUGH` windows on. The learned terms outlive the node.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from headrace.engines.base import VnfSpec
from headrace.engines.confinement import give_way
from headrace.machine.core_distance import CoreDistances
from headrace.machine.waiting import processor
from headrace.model.finite import finite
from headrace.model.mechanistic import nffg, stored
from headrace.model.mechanistic.distance import is_same
from headrace.model.mechanistic.fitting import Fitted, RoleModel
from headrace.model.mechanistic.learning import Learner, plain, unknown
from headrace.model.mechanistic.predict import Graph, NoGrounds, Prediction, predict
from headrace.model.mechanistic.predict import Path as PathOf
from headrace.model.mechanistic.windows import Key, Window
from headrace.node.config import NodeConfig
from headrace.node.errors import ConfigError
from headrace.node.planning.nffg import parse
from headrace.node.planning.resources import Plan

log = logging.getLogger("headrace.node.prediction")

SMALLEST = 64.0
ENOUGH = 5
"""Windows from which a template's terms count that were not fitted before."""
LEARNED = "model-learned"

Distance = Callable[[int, int], float | None]
"""Nanoseconds of a cache line from one core to another and back; None: not measured."""


class NodeModel:
    """The model of a node; without one, every question is answered by the reason.

    `ports` is the number of physical ports.
    """

    def __init__(
        self,
        config: NodeConfig,
        switch: str,
        kinds: Iterable[str],
        distance: Distance | None = None,
    ) -> None:
        """Reads the file that `config` names.

        Args:
            config: the node's.
            switch: the switch's name in results.
            kinds: of the physical ports.
            distance: between two cores, instead of the one that is measured.

        Raises:
            ConfigError: the file can't be read or is no model.
        """
        self._config, self._switch = config, switch
        self._distances = CoreDistances()
        self._distance = distance or self._distances.between
        self._apart: dict[tuple[int, int], float | None] = {}
        physical = list(kinds)
        self.ports = len(physical)
        self._physical = sorted(set(physical))
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
        self._measure(plan)
        told, warnings = self._predict(as_read(document), plan)
        found = (*plan.warnings, *warnings)
        return plan.model_copy(update={"prediction": told, "warnings": found})

    def _predict(self, document: Mapping[str, Any], plan: Plan) -> tuple[dict[str, Any], list[str]]:
        if self.fitted is None:
            return {"reason": self.reason}, []
        demand = nffg.graph_of(document).get("demand") or {}
        pps, size = demand.get("pps"), float(demand.get("bytes", SMALLEST))
        try:
            graph, notes = self.graph_of(document, plan)
            told = predict(self.current(), graph, size, pps)
        except (NoGrounds, nffg.NotAGraph) as error:
            warnings = [f"whether the demand can be met is not known: {error}"] if pps else []
            return {"reason": str(error)}, warnings
        apart, other = self._cores(told, plan)
        if told.transfer_ns is not None and apart is None:
            notes.append("how far apart the cores are now was not measured")
        return _shown(told, notes, apart, other), _warnings(told, other)

    def _pairs(self, plan: Plan) -> list[tuple[int, int]]:
        """The cores of the plan's VNFs, each with that of the switch's first worker."""
        switch = self._config.cores.switch
        cores = {spec.cores[0] for spec in plan.vnfs() if spec.cores}
        return [(core, switch[0]) for core in sorted(cores) if switch and core != switch[0]]

    def _measure(self, plan: Plan) -> None:
        """Measures how far apart the plan's cores are, if the model says at what it holds."""
        if self.fitted is None:
            return
        if all(role.transfer_ns is None for role in self.fitted.roles.values()):
            return
        for pair in self._pairs(plan):
            self._apart[pair] = self._distance(*pair)

    def _cores(self, told: Prediction, plan: Plan) -> tuple[float | None, str]:
        """How far apart the plan's cores were last, and what that means for the prediction.

        Of several VNFs' cores the one counts that is least like the model's. The text is empty if
        the state is the model's, or nothing is known of it.
        """
        known = [one for pair in self._pairs(plan) if (one := self._apart.get(pair)) is not None]
        measured = told.transfer_ns
        if measured is None or not known:
            return None, ""
        apart = max(known, key=lambda one: max(one / measured, measured / one))
        if is_same(apart, measured):
            return apart, ""
        return apart, (
            f"the cores of VNFs and switch are {apart:.0f} ns apart (measured when a graph was "
            f"last planned on them), {measured:.0f} ns when the model was measured: a visit to a "
            f"VNF costs another number of cycles then; measure a model in this state"
        )

    def close(self) -> None:
        """Ends the processes that measured how far apart cores are."""
        self._distances.close()

    def terms(self) -> Fitted | None:
        """The terms as they are now; None without a model of this machine."""
        return None if self.fitted is None else self.current()

    @property
    def switch_cores(self) -> list[int]:
        """The cores of the switch's workers."""
        return self._config.cores.switch

    def current(self) -> Fitted:
        """The terms as they are now: fitted, then learned."""
        assert self.fitted is not None
        learned = {
            key: learner.model
            for key, learner in self.learners.items()
            if key in self.fitted.roles or learner.counts.get("learned", 0) >= ENOUGH
        }
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

    def graph_of(self, document: Mapping[str, Any], plan: Plan) -> tuple[Graph, list[str]]:
        """A graph as the model knows it, and what is taken for granted of it.

        Raises:
            NoGrounds: nothing was measured of this switch with such ports.
            NotAGraph: no packet comes through.
        """
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
            functions = [self._cost_name(subject, spec) for spec in spec_of]
            paths.append(PathOf(tuple(functions), route.share))
            names.append(route.vnfs)
        switch = self._config.cores.switch
        cores: dict[str, object] = {"switch": switch[0] if len(switch) == 1 else "switch"}
        for vnf, spec in specs.items():
            cores[vnf] = spec.cores[0] if spec.cores else vnf
        yields = give_way() and all(spec.idle == "yield" for spec in specs.values())
        workers = max(1, len(switch))
        routed = nffg.routed(document)
        graph = Graph(
            subject, tuple(paths), tuple(names), cores, workers, yields=yields, routed=routed
        )
        return graph, notes

    def _cost_name(self, subject: str, spec: VnfSpec | None) -> str:
        """Under what a VNF's terms are: its template, once they are known, else its function."""
        if spec is None:
            return "unknown"
        known = Key(subject, "VNF", spec.template) in self.current().roles
        return spec.template if known else spec.function

    # Learning.

    def learn(self, window: Window) -> str:
        """Learns from one window of a role; returns what became of it."""
        if self.fitted is None:
            return self.reason
        role = self.fitted.roles.get(window.key)
        learner = self.learners.get(window.key)
        if learner is None and role is None and window.key.role != "VNF":
            return f"the model has no {window.key}"
        if learner is None:
            if role is None and window.disturbed:
                return "disturbed"
            learner = self._learner(window, role)
            self.learners[window.key] = learner
        return learner.update(window)

    def _learner(self, window: Window, role: RoleModel | None) -> Learner:
        """Begins with the fitted terms; of a template that has none, with a guess that says so."""
        if role is not None:
            return Learner.of(role)
        assert self.fitted is not None
        return Learner.of(unknown(window, self.fitted.roles.get(plain(window.key))))

    def warnings(self, document: Mapping[str, Any], plan: Plan) -> list[str]:
        """What there is to say of a graph's demand by the terms as they are now."""
        if self.fitted is None:
            return []
        return self._predict(as_read(document), plan)[1]

    def remember(self) -> str:
        """The learned terms, to be restored by `restore`."""
        roles = [asdict(learner.model) for learner in self.learners.values()]
        counts = {str(key): learner.counts for key, learner in self.learners.items()}
        manifest = self.fitted.manifest if self.fitted else {}
        limits = {str(key): learner.limit for key, learner in self.learners.items()}
        text = {"manifest": manifest, "roles": roles, "counts": counts, "limits": limits}
        return json.dumps(text)

    def restore(self, text: str | None) -> None:
        """Takes up what was learned, if it is of this model; anything else is left out."""
        if text is None or self.fitted is None:
            return
        try:
            content = json.loads(text)
            if content["manifest"] != json.loads(json.dumps(self.fitted.manifest)):
                return
            for role in stored.roles_of(content["roles"]):
                counts = content["counts"].get(str(role.key), {})
                if role.key in self.fitted.roles:
                    limit = Learner.of(self.fitted.roles[role.key]).limit
                    self.learners[role.key] = Learner(role, counts, limit=limit)
                elif role.key.role == "VNF":
                    limit = content["limits"][str(role.key)]
                    self.learners[role.key] = Learner(role, counts, limit=limit)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("what the model has learned can't be read: %s", error)

    def learned(self) -> dict[str, Any]:
        """How many windows were learned from, by role, the terms now, and whether they count."""
        used = self.current().roles if self.fitted is not None else {}
        return {
            str(key): {
                "windows": learner.counts,
                "terms": learner.model.described(),
                "used": key in used,
            }
            for key, learner in self.learners.items()
        }


def as_read(document: Mapping[str, Any]) -> dict[str, Any]:
    """The graph of a client's document in one dialect."""
    graph, _ = parse(document)
    return graph.model_dump(mode="json", by_alias=True)


def _shown(told: Prediction, notes: list[str], apart: float | None, other: str) -> dict[str, Any]:
    """A prediction as it is stored and shown: numbers that JSON has, cores as text.

    Args:
        told: the prediction.
        notes: what was taken for granted.
        apart: nanoseconds between the cores now; None: not known.
        other: why the model is of another state of the cores, empty if it is not.
    """
    body: dict[str, Any] = json.loads(json.dumps(finite(asdict(told)), default=str))
    return {
        **body,
        "partial": told.partial or bool(other),
        "met": None if other else told.met,
        "notes": [*notes, *([other] if other else [])],
        "cores_apart_ns": apart,
        "other_state": other,
    }


def _warnings(told: Prediction, other: str) -> list[str]:
    """What a client is to know of its demand; `other` as of `_shown`."""
    if told.demand_pps is None:
        return []
    top = told.saturation_pps
    asked = f"demand of {told.demand_pps:.0f} packets per second of {told.size:g} bytes"
    if other:
        return [f"{asked}: not known whether it can be met: {other}"]
    if told.met is False:
        return [
            f"{asked} can't be met: {' and '.join(told.limiter)} saturate at {top.value:.0f} "
            f"[{top.low:.0f} .. {top.high:.0f}]; `headrace model explain` says what would help"
        ]
    if told.lacking:
        return [f"{asked}: not known whether it can be met: {'; '.join(told.lacking.values())}"]
    if told.upper_bound and told.demand_pps <= top.low:
        return [f"{asked}: not known whether it can be met: {told.upper_bound}"]
    if told.met is None:
        return [f"{asked} may be too much: saturation is at {top.low:.0f} .. {top.high:.0f}"]
    return []
