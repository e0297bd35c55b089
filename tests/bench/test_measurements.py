# SPDX-License-Identifier: Apache-2.0
"""Loss curve, back-to-back, soak, recovery, events: on simulated devices of known behavior."""

import pytest
from pydantic import ValidationError

from headrace.bench.graph import build, with_unused_rules
from headrace.bench.measurements.context import StepSkipped
from headrace.bench.scenario import Measure
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.bench.steps import CaseState, StepRunner, Timing, steps_of
from headrace.results import Case, Sample, Trial

CASE = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)


async def drawn(
    text: dict[str, object], model: DeviceModel, ceiling: float = 20e6
) -> tuple[dict[tuple[str, str], Sample], list[Trial]]:
    """The samples of one round by metric and point, and the trials."""
    measure = Measure.model_validate(text)
    device, state, seen = SimulatedDevice(CASE, model, ceiling), CaseState(), list[Trial]()
    found = {}
    for step in steps_of(measure):
        assert step.expected_s(Timing()) > 0
        for sample in await StepRunner(Timing(), 3, seen.append).run(step, device, state, 0):
            found[(sample.metric, sample.point)] = sample
    return found, seen


async def test_a_loss_curve_has_trials_of_its_own_at_its_points() -> None:
    shares = [0.5, 0.8, 1.0, 1.25, 1.5]
    found, seen = await drawn({"loss_curve": shares}, DeviceModel(cycles=400, per_byte=0))
    curve = {point: sample.value for (_, point), sample in found.items()}
    assert curve["50% overload"] == curve["80% overload"] == 0
    assert curve["125% overload"] == pytest.approx(0.2) and curve["150% overload"] > 0.3
    order = [trial.intended_pps for trial in seen if trial.purpose == "loss"]
    assert len(order) == 5 and order != sorted(order, key=float)  # type: ignore[arg-type]


async def test_back_to_back_finds_the_buffer() -> None:
    """5 Mpps out, 20 Mpps in, 3000 frames of buffer: bursts of 4000, 150 us of buffer."""
    model = DeviceModel(cycles=400, per_byte=0, buffer_frames=3000)
    found, seen = await drawn({"back_to_back": {"repeats": 3}}, model)
    assert found[("burst_frames", "")].value == pytest.approx(4000, rel=0.05)
    assert found[("buffer_time", "")].value == pytest.approx(150e3, rel=0.05)
    assert all(trial.tx_pps == pytest.approx(20e6, rel=0.01)
               for trial in seen if trial.purpose == "burst")  # fmt: skip


async def test_back_to_back_needs_a_generator_that_is_faster() -> None:
    with pytest.raises(StepSkipped, match="fills no buffer"):
        await drawn({"back_to_back": {"repeats": 1}}, DeviceModel(cycles=400), ceiling=5e6)


async def test_a_soak_meets_what_short_trials_do_not() -> None:
    found, seen = await drawn({"soak": {"seconds": 100, "at": 0.9}}, DeviceModel(stalls_hz=0.1))
    assert found[("loss_ratio", "90% soak 100 s")].value > 0
    assert ("latency_p99_9", "90% soak 100 s") in found
    assert next(t for t in seen if t.purpose == "soak").duration_s == 100


async def test_recovery_without_a_loss_is_below_its_resolution() -> None:
    found, seen = await drawn({"recovery": {"overload_s": 2}}, DeviceModel())
    assert found[("recovery_time", "")].relation == "<"
    over, after = (trial for trial in seen if trial.purpose == "recovery")
    assert over.loss_ratio > 0 and after.loss_ratio == 0


@pytest.mark.parametrize(("reset_s", "relation"), [(1.5, "="), (60.0, ">=")])
async def test_an_outage_is_what_was_lost_over_the_rate(reset_s: float, relation: str) -> None:
    model = DeviceModel(reset_s=reset_s, reconfigure_s=0.0)
    wanted = {"reset": {"seconds": 10, "at": 0.1}, "reconfiguration": {"seconds": 4}}
    found, _ = await drawn(wanted, model)
    reset = found[("outage_time", "reset at 10% pdr")]
    assert reset.value == pytest.approx(1e9 * min(reset_s, 7.5), rel=0.01)
    assert reset.relation == relation
    assert found[("outage_time", "reconfigure at 10% pdr")].value == 0


def test_rules_of_a_reconfiguration_are_all_different_and_match_no_stream() -> None:
    graph = build("p2p", 0, "", "in0", "out0")
    more = with_unused_rules(graph, 300)["forwarding-graph"]["big-switch"]["flow-rules"]
    assert len(more) == 302 and len({str(rule["match"]) for rule in more}) == 302
    assert len({rule["id"] for rule in more}) == 302
    assert len(graph["forwarding-graph"]["big-switch"]["flow-rules"]) == 2


def test_a_scenario_may_ask_for_extras_alone() -> None:
    assert Measure.model_validate({"soak": {}}).extras == ["soak"]
    with pytest.raises(ValidationError, match="nothing to measure"):
        Measure()
