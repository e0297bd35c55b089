# SPDX-License-Identifier: Apache-2.0
"""The steps of a case on simulated devices: the samples that each draws."""

from dataclasses import replace
from typing import ClassVar

import pytest

from headrace.bench.device import TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.measurements.context import StepSkipped
from headrace.bench.scenario import Measure
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.bench.steps import CaseState, StepRunner, Timing, steps_of
from headrace.results import Case, Sample, Trial

CASE = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)
EVEN = DeviceModel()


def device(model: DeviceModel = EVEN, ceiling: float = 20e6) -> SimulatedDevice:
    return SimulatedDevice(CASE, model, ceiling_pps=ceiling)


def runner(seen: list[Trial]) -> StepRunner:
    return StepRunner(Timing(), seed=3, record=seen.append)


async def test_all_steps_of_a_case_draw_their_samples() -> None:
    measure = Measure(
        search="quick", overload=True, latency_at=[0.1, 0.9], loads_pps=[50e3, 100e3, 30e6]
    )
    simulated, state, seen = device(), CaseState(), list[Trial]()
    drawn = {}
    for step in steps_of(measure):
        for sample in await runner(seen).run(step, simulated, state, 0):
            drawn[(sample.metric, sample.point)] = sample
    assert drawn[("mrr", "overload")].value == pytest.approx(simulated.capacity_pps, rel=0.01)
    assert drawn[("mrr", "overload")].generator_limited is False
    low, high = drawn[("latency_p99", "10% pdr")].value, drawn[("latency_p99", "90% pdr")].value
    assert high > low > 0
    assert drawn[("cpu_percent", "100000 pps")].value > drawn[("cpu_percent", "50000 pps")].value
    assert ("cpu_percent", "30000000 pps") not in drawn  # above what the generator can send
    assert {trial.purpose for trial in seen} == {"overload", "search", "latency", "cost"}


async def test_a_dead_device_is_skipped_with_a_reason() -> None:
    class Dead(SimulatedDevice):
        async def trial(self, request: TrialRequest) -> Trial:
            trial = await super().trial(request)
            return replace(trial, received=0, lost=trial.sent, rx_pps=0.0, loss_ratio=1.0)

    measure = Measure(search="quick", latency_at=[0.5])
    dead, state = Dead(CASE), CaseState()
    overload, find_rate, latency = steps_of(measure)
    assert await runner([]).run(overload, dead, state, 0) == []
    with pytest.raises(StepSkipped, match="no packets came back"):
        await runner([]).run(find_rate, dead, state, 0)
    with pytest.raises(StepSkipped, match="no PDR"):
        await runner([]).run(latency, dead, state, 0)


async def test_a_worker_with_time_left_was_not_the_limit() -> None:
    """A ceiling of the generator below the device's capacity marks the overload rate."""
    measure = Measure(overload=True)
    (step,) = steps_of(measure)
    for ceiling, limited in ((20e6, False), (2e6, True)):
        simulated = device(DeviceModel(batching=1.0), ceiling)
        samples = await runner([]).run(step, simulated, CaseState(), 0)
        rates = [sample for sample in samples if sample.metric == "mrr"]
        assert [sample.generator_limited for sample in rates] == [limited]


async def test_mrr_of_csit_is_the_mean_of_ten_seconds() -> None:
    (step,) = steps_of(Measure(overload="csit"))
    seen: list[Trial] = []
    [mrr, *_] = await runner(seen).run(step, device(DeviceModel(noise=0.1)), CaseState(), 0)
    assert [trial.duration_s for trial in seen] == [1.0] * 10
    assert mrr.value == pytest.approx(sum(trial.rx_pps for trial in seen) / 10)
    assert step.expected_s(Timing()) > 10


async def test_a_search_below_its_lowest_load_is_a_sample() -> None:
    """Loss at any load: the NDR is below the lowest load that was tried, and that is a result."""
    simulated, state = device(DeviceModel(floor_loss=0.002)), CaseState()
    drawn: dict[str, Sample] = {}
    for step in steps_of(Measure(search="quick")):
        for sample in await runner([]).run(step, simulated, state, 0):
            drawn[sample.metric] = sample
    assert drawn["ndr-quick"].relation == "<" and drawn["pdr-quick"].relation == "="
    assert state.pdr_pps == drawn["pdr-quick"].value


async def test_the_bound_of_a_search_comes_from_three_overload_trials() -> None:
    seen: list[Trial] = []
    state = CaseState()
    for step in steps_of(Measure(search="quick", overload=True)):
        await runner(seen).run(step, device(DeviceModel(noise=0.3)), state, 0)
    rates = [trial.rx_pps for trial in seen if trial.purpose == "overload"]
    assert len(rates) == 3 and state.overload_pps == max(rates)


async def test_only_long_trials_of_goals_without_loss_end_at_the_first_loss() -> None:
    class Noted(SimulatedDevice):
        asked: ClassVar[list[TrialRequest]] = []

        async def trial(self, request: TrialRequest) -> Trial:
            self.asked.append(request)
            return await super().trial(request)

    for goal, ratios in (("rfc2544", None), ("rfc2544", [0.0, 0.001]), ("csit", None)):
        Noted.asked.clear()
        (_, search) = steps_of(Measure(overload=False, search=goal, loss_ratios=ratios))
        await runner([]).run(search, Noted(CASE), CaseState(), 0)
        may_end = {one.until_loss for one in Noted.asked if one.duration_s >= 5}
        assert may_end == ({True} if ratios is None else {False}) or goal == "csit"
        assert not any(one.until_loss for one in Noted.asked if one.duration_s < 5)


async def test_turns_while_the_cores_were_in_another_state_draw_no_cycles() -> None:
    class Moved(SimulatedDevice):
        distances: ClassVar[list[float | None]] = [300.0, 310.0, 600.0, 305.0, None]

        async def trial(self, request: TrialRequest) -> Trial:
            noise = {"transfer_ns": self.distances[request.round]}
            return replace(await super().trial(request), detail={"noise": noise})

    measure = Measure(loads_pps=[1e5])
    turn = replace(steps_of(measure)[0], interleaved=True)
    for vnfs, expected in ((1, [0, 1, 3, 4]), (0, [0, 1, 2, 3, 4])):
        case = replace(CASE, shape="chain" if vnfs else "p2p", vnfs=vnfs)
        one, drawn = runner([]), list[int]()
        for number in range(5):
            found = await one.run(turn, Moved(case), CaseState(), number)
            assert any(sample.metric == "loss_ratio" for sample in found)
            drawn += [s.round for s in found if s.metric == "cycles_per_packet"]
        assert drawn == expected


@pytest.mark.parametrize("times", [1, 2])
async def test_a_counter_that_went_backwards_is_not_stored(times: int) -> None:
    """Such a count does not fit into the database, and ended the campaign."""

    class Backwards(SimulatedDevice):
        left = times

        async def trial(self, request: TrialRequest) -> Trial:
            trial = await super().trial(request)
            self.left -= 1
            return replace(trial, busy_cycles=(1 << 64) - 7) if self.left >= 0 else trial

    (step,) = steps_of(Measure(overload=True))
    seen: list[Trial] = []
    if times == 1:
        assert await runner(seen).run(step, Backwards(CASE), CaseState(), 0)
        assert len(seen) == 1
    else:
        with pytest.raises(DeviceError, match="busy_cycles is 18446744073709551609 twice"):
            await runner(seen).run(step, Backwards(CASE), CaseState(), 0)
        assert seen == []
