# SPDX-License-Identifier: Apache-2.0
"""The node's predictions: stored with a plan, warned by, learned from; and told by the API."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.commands.graph_prediction import shown
from headrace.machine.waiting import processor
from headrace.model.mechanistic import stored
from headrace.model.mechanistic.fitting import fit_all
from headrace.model.mechanistic.predict import vnf_amounts
from headrace.model.mechanistic.windows import Key, Window
from headrace.node.config import from_dict, usable_cores
from headrace.node.errors import ConfigError, GraphRefused
from headrace.node.learning import Counted, VnfCounted, learn
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import Plan
from headrace.node.prediction import ENOUGH, NodeModel
from tests.node import graphs
from tests.node.api import api_of
from tests.node.surroundings import surroundings

SUBJECT = "fake/memif"
HZ = 2e9
CORES = usable_cores()


def windows() -> list[Window]:
    """A switch of 200 cycles and 300 for each visit, VNFs of 100; each busy round brings one."""
    made = []
    for role, function in (("switch", ""), ("VNF", "pass")):
        for vnfs in (0, 1, 2):
            for size in (64.0, 1518.0):
                for pps in (2e4, 1e5):
                    cycles = 200 + 300 * vnfs if role == "switch" else 100
                    amounts = {"packets": pps, "octets": pps * size, "visits": pps * vnfs}
                    amounts |= {"visit_octets": pps * vnfs * size, "bursts": pps / 2}
                    amounts |= {"busy_rounds": pps / 3, "wakes": pps / 3.3}
                    made.append(
                        Window(
                            Key(SUBJECT, role, function), f"{vnfs} {size} {pps}", vnfs, size, pps,
                            pps, pps, 1.0, HZ, pps * cycles, HZ - pps * cycles, 1e7, "generator",
                            False, amounts,
                        )
                    )  # fmt: skip
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    stored.write(fit_all(windows(), {"machine": processor()}), path)
    return path


def planned(model: NodeModel, length: int = 1, demand: Any = None) -> tuple[dict[str, Any], Plan]:
    document = graphs.chain("pass", length)
    if demand is not None:
        document["forwarding-graph"]["demand"] = demand
    graph, _ = parse(document)
    plan = make_plan(graph, "g", 1, surroundings())
    return document, model.with_prediction(document, plan)


def model_of(path: Path | None, **settings: Any) -> NodeModel:
    values = {"model": str(path), **settings} if path else settings
    return NodeModel(from_dict(values), "fake", ["memif"])


def test_a_prediction_is_stored_with_the_plan(file: Path) -> None:
    _, plan = planned(model_of(file), 2, {"pps": 1e5, "bytes": 512})
    told = plan.prediction
    assert told is not None
    switch = next(part for part in told["roles"] if part["role"] == "switch")
    assert switch["cycles"]["value"] == pytest.approx(800, rel=0.1)
    # Both VNFs are on one core, whose division between them is not predicted.
    assert told["met"] is None and "share a core" in told["upper_bound"]
    assert any("not known whether it can be met: pollers" in text for text in plan.warnings)
    assert Plan.model_validate_json(plan.model_dump_json()).prediction == told


def test_a_demand_that_cores_of_their_own_can_meet_is_no_warning(file: Path) -> None:
    _, plan = planned(model_of(file), 1, {"pps": 1e5, "bytes": 512})
    assert plan.prediction is not None and plan.prediction["met"] is True
    assert plan.prediction["upper_bound"] == "" and plan.prediction["demand_pps"] == 1e5
    assert not [text for text in plan.warnings if "demand" in text]


def test_a_demand_that_cannot_be_met_is_a_warning(file: Path) -> None:
    _, plan = planned(model_of(file), 2, {"pps": 1e9})
    assert any("can't be met" in text and "saturate" in text for text in plan.warnings)


@pytest.mark.skipif(len(CORES) < 2, reason="VNF and switch need a core each")
def test_a_model_of_another_state_of_the_cores_is_told(tmp_path: Path) -> None:
    file = tmp_path / "apart.json"
    apart = [replace(one, transfer_ns=200.0) for one in windows()]
    stored.write(fit_all(apart, {"machine": processor()}), file)
    cores = {"control": [CORES[0]], "switch": [CORES[-1]], "vnf": [CORES[0]]}
    config = from_dict({"model": str(file), "cores": cores})
    found: dict[tuple[int, int], float | None] = {}
    model = NodeModel(config, "fake", ["memif"], lambda *pair: found.get(pair))
    pair = (CORES[0], CORES[-1])

    def told(pps: float) -> tuple[dict[str, Any], str]:
        document = graphs.chain("pass", 1)
        document["forwarding-graph"]["demand"] = {"pps": pps}
        plan = make_plan(parse(document)[0], "g", 1, surroundings(cores=cores))
        plan = model.with_prediction(document, plan)
        assert plan.prediction is not None
        return plan.prediction, " ".join(text for text in plan.warnings if "demand" in text)

    prediction, warning = told(1e5)  # not measured: the prediction says so, and holds
    assert prediction["met"] is True and prediction["cores_apart_ns"] is None and not warning
    assert any("was not measured" in note for note in prediction["notes"])
    found[pair] = 210.0
    prediction, warning = told(1e5)
    assert prediction["met"] is True and prediction["cores_apart_ns"] == 210 and not warning
    assert not prediction["other_state"] and not prediction["partial"]
    found[pair] = 600.0
    for pps in (1e5, 1e9):  # neither that it can be met, nor that it can't
        prediction, warning = told(pps)
        assert prediction["met"] is None and prediction["partial"]
        assert "600 ns apart" in prediction["other_state"] and "200 ns" in warning
        assert "not known whether it can be met" in warning
        assert prediction["other_state"] in prediction["notes"]


def test_without_a_model_plans_are_as_before(file: Path, tmp_path: Path) -> None:
    _, plan = planned(model_of(None), 1, {"pps": 1e9})
    assert plan.prediction is None and not plan.warnings
    with pytest.raises(ConfigError, match="model: "):
        model_of(tmp_path / "none.json")
    elsewhere = fit_all(windows(), {"machine": {**processor(), "processor": "another"}})
    stored.write(elsewhere, file)
    _, plan = planned(model_of(file), 1, {"pps": 1e9})
    assert plan.prediction is not None and "another machine" in plan.prediction["reason"]


def test_what_was_not_measured_is_not_predicted(file: Path) -> None:
    other = NodeModel(from_dict({"model": str(file)}), "unmeasured", ["memif"])
    _, plan = planned(other, 1, {"pps": 1e5})
    assert plan.prediction is not None and "unmeasured" in plan.prediction["reason"]
    assert any("not known" in text for text in plan.warnings)


@pytest.mark.parametrize("demand", [{"pps": 0}, {"pps": -1}, {"bytes": 10}, {"pps": "many"}])
def test_a_wrong_demand_is_refused(demand: Any) -> None:
    document = graphs.chain("pass", 1)
    document["forwarding-graph"]["demand"] = demand
    with pytest.raises(GraphRefused, match="demand"):
        parse(document)


def reading(at: float, packets: float, waited_ns: float | None = 0.0, factor: float = 1) -> Counted:
    """What one graph of one VNF makes of its packets, `factor` times as dear as measured."""
    workers = {
        "busy_cycles": factor * 500 * packets,
        "idle_cycles": HZ * at - factor * 500 * packets,
        "rounds": 1e6 * at,
        "busy_rounds": packets / 3,
        "bursts": packets / 2,
    }
    return Counted(at, HZ, workers, {"g": (packets, 64 * packets)}, waited_ns)


def of_switch(model: NodeModel, first: Counted, last: Counted, known: Any) -> str:
    return learn(model, first, last, known)["switch"]


def test_it_learns_from_undisturbed_windows_only_and_remembers(file: Path) -> None:
    model = model_of(file)
    known = {"g": planned(model)}
    before = planned(model)[1].prediction
    for number in range(40):
        first, last = reading(number, 1e6 * number), reading(number + 1, 1e6 * (number + 1))
        slow = {name: 1.2 * value for name, value in (last.workers or {}).items()}
        assert last.workers is not None and first.workers is not None
        grown = {n: first.workers[n] + (slow[n] - 1.2 * first.workers[n]) for n in slow}
        grown |= {n: last.workers[n] for n in ("rounds", "busy_rounds", "bursts")}
        assert of_switch(model, first, replace(last, workers=grown), known) == "learned"
        waited = replace(last, waited_ns=0.5e9)
        assert of_switch(model, first, waited, known) == "disturbed"
        assert of_switch(model, first, replace(last, waited_ns=None), known) == "disturbed"
    after = planned(model)[1].prediction
    assert before is not None and after is not None
    ratio = after["saturation_pps"]["value"] / before["saturation_pps"]["value"]
    assert ratio == pytest.approx(1 / 1.2, rel=0.05)
    again = model_of(file)
    again.restore(model.remember())
    assert planned(again)[1].prediction == after
    again.restore("{")  # what can't be read is left out
    counts = model.learned()[f"{SUBJECT} switch"]["windows"]
    assert counts == {"learned": 40, "disturbed": 80}


def test_windows_that_say_nothing_are_left_out(file: Path) -> None:
    model = model_of(file)
    known = {"g": planned(model)}
    assert of_switch(model, reading(0, 0), reading(1, 10), known) == "too few packets"
    assert "anew" in of_switch(model, reading(1, 1e6), reading(2, 0), known)
    blank = replace(reading(0, 0), received={})
    assert "new" in of_switch(model, blank, reading(1, 1e6), known)
    blind = replace(reading(1, 1e6), workers=None)
    assert "does not count" in of_switch(model, reading(0, 0), blind, known)
    without = of_switch(model_of(None), reading(0, 0), reading(1, 1e6), known)
    assert without.startswith("node.yaml")


def with_vnf(at: float, packets: float, size: float, waited_ns: float | None = 0.0) -> Counted:
    """One VNF that spends 700 cycles and 0.5 a byte on each packet, alone on its core."""
    busy = packets * (700 + 0.5 * size)
    counted = VnfCounted(busy, HZ * at - busy, 1e6 * at, packets / 4, packets / 4, packets,
                         waited_ns)  # fmt: skip
    one = Counted(at, HZ, None, {"g": (packets, size * packets)}, 0.0)
    return replace(one, vnfs={("g", "v0"): counted})


def of_cpu_vnf(model: NodeModel) -> dict[str, tuple[dict[str, Any], Plan]]:
    """A graph of one VNF of the template cpu, which no trial measured; it has its own core."""
    document = graphs.chain("cpu", 1)
    document["forwarding-graph"]["VNFs"][0]["id"] = "v0"
    text = json.dumps(graphs.chain("cpu", 1))
    name = graphs.chain("cpu", 1)["forwarding-graph"]["VNFs"][0]["id"]
    document = json.loads(text.replace(f'"{name}"', '"v0"').replace(f"vnf:{name}:", "vnf:v0:"))
    graph, _ = parse(document)
    cores = {"control": [CORES[0]], "switch": [CORES[-1]], "vnf": [CORES[0]]}
    plan = make_plan(graph, "g", 1, surroundings(cores=cores))
    return {"g": (document, model.with_prediction(document, plan))}


def learned_from(model: NodeModel, windows: int) -> dict[str, tuple[dict[str, Any], Plan]]:
    known = of_cpu_vnf(model)
    for number in range(windows):
        size = 64.0 if number % 2 else 1024.0
        first, last = with_vnf(0, 0, size), with_vnf(1, 1e5, size)
        assert learn(model, first, last, known)["g/v0"] == "learned"
    return known


@pytest.fixture
def alone(file: Path) -> NodeModel:
    """A node's model whose VNFs have a core of their own."""
    return model_of(file, cores={"control": [CORES[0]], "switch": [CORES[-1]], "vnf": [CORES[0]]})


def test_terms_of_a_template_that_was_never_measured_are_learned(alone: NodeModel) -> None:
    before = of_cpu_vnf(alone)["g"][1].prediction
    assert before is not None and "v0" in before["lacking"]
    learned_from(alone, ENOUGH - 1)
    assert "v0" in (of_cpu_vnf(alone)["g"][1].prediction or {})["lacking"]
    known = learned_from(alone, 20)
    role = alone.current().roles[Key(SUBJECT, "VNF", "cpu")]
    for size in (64.0, 1024.0):
        assert role.cycles(vnf_amounts(size)) == pytest.approx(700 + 0.5 * size, rel=0.1)
    told = of_cpu_vnf(alone)["g"][1].prediction
    assert told is not None and not told["lacking"]
    assert told["limiter"] == ["v0"]
    shown_of = alone.learned()[f"{SUBJECT} VNF cpu"]
    assert shown_of["used"] and shown_of["windows"] == {"learned": ENOUGH - 1 + 20}
    again = replace_model(alone)
    assert again.current().roles[Key(SUBJECT, "VNF", "cpu")] == role
    # What the graph is to carry is checked against what was learned.
    document = {**known["g"][0]}
    document["forwarding-graph"] = {**document["forwarding-graph"], "demand": {"pps": 4e6}}
    assert not alone.warnings(known["g"][0], known["g"][1])
    (text,) = alone.warnings(document, known["g"][1])
    assert "can't be met: v0 saturate" in text


def replace_model(model: NodeModel) -> NodeModel:
    """The same after a restart of the node."""
    assert model.fitted is not None
    again = NodeModel(model._config, "fake", ["memif"])
    again.restore(model.remember())
    return again


def test_disturbed_vnfs_and_those_that_share_a_core_teach_nothing(alone: NodeModel) -> None:
    known = of_cpu_vnf(alone)
    for waited in (0.5e9, None):
        last = with_vnf(1, 1e5, 64, waited)
        assert learn(alone, with_vnf(0, 0, 64), last, known)["g/v0"] == "disturbed"
    few = learn(alone, with_vnf(0, 0, 64), with_vnf(1, 100, 64), known)
    assert few["g/v0"] == "too few packets"
    backwards = learn(alone, with_vnf(0, 1e6, 64), with_vnf(1, 2e6, 64), known)
    assert backwards["g/v0"] == "learned"
    anew = replace(with_vnf(1, 1e5, 64), received={"g": (1e7, 1e9)})
    assert "anew" in learn(alone, with_vnf(0, 1e6, 64), anew, known)["g/v0"]
    twice = {**known, "h": known["g"]}
    shared = learn(alone, with_vnf(0, 0, 64), with_vnf(1, 1e5, 64), twice)
    assert shared["g/v0"] == "it shares a core"


async def test_the_api_tells_the_prediction_beside_what_is_measured(tmp_path: Path) -> None:
    async for api in api_of(tmp_path / "plain"):
        assert (await api("PUT", "/NF-FG/g", graphs.chain("pass", 1))).status_code == 201
        told = (await api("GET", "/NF-FG/g/prediction?seconds=0.01")).json()
        assert told["predicted"] is None and "names no model" in told["reason"]
        assert told["measured"]["seconds"] > 0
        assert (await api("GET", "/NF-FG/none/prediction")).status_code == 404
        known = (await api("GET", "/node/model")).json()
        assert known["terms"] is None and "names no model" in known["reason"]
        name = api.node.driver.name
        kinds = [port.kind.value for port in api.node.ports.values()]
    made = [replace(one, key=replace(one.key, subject=f"{name}/{kinds[0]}")) for one in windows()]
    file = tmp_path / "model.json"
    stored.write(fit_all(made, {"machine": processor()}), file)
    async for api in api_of(tmp_path / "with", model=str(file)):
        document = graphs.chain("pass", 1)
        document["forwarding-graph"]["demand"] = {"pps": 1e10}
        assert (await api("PUT", "/NF-FG/g", document)).status_code == 201
        told = (await api("GET", "/NF-FG/g/prediction?seconds=0.01")).json()
        words = {what: (ours, now) for what, ours, now in shown(told)}
        assert words["packets per second"][0] == "10000000000 (the demand)"
        assert words["packets per second at most"][0] and "capacity used at the demand" in words
        told = (await api("GET", "/NF-FG/g/prediction?seconds=0")).json()
        assert told["predicted"]["met"] is False and told["measured"] is None
        assert any("can't be met" in text for text in told["warnings"])
        known = (await api("GET", "/node/model")).json()
        assert stored.parse(known["terms"]).roles == api.node.model.current().roles
        status = (await api("GET", "/NF-FG/status/g")).json()
        assert any("can't be met" in text for text in status["warnings"])
