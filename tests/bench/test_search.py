# SPDX-License-Identifier: Apache-2.0
"""The search logic on simulated devices whose true capacity is known."""

import asyncio
from dataclasses import replace

import pytest

from headrace.bench.device import TrialRequest
from headrace.bench.scenario import Measure
from headrace.bench.search import SearchError, goal_set, search
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.bench.steps import CaseState, Step, StepRunner, StepSkipped, Timing, steps_of
from headrace.results import Case, Trial

CASE = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)
EVEN = DeviceModel()


def device(model: DeviceModel = EVEN, ceiling: float = 20e6) -> SimulatedDevice:
    return SimulatedDevice(CASE, model, ceiling_pps=ceiling)


async def find(
    simulated: SimulatedDevice, low: float = 1e5, high: float = 15e6
) -> dict[str, float | None]:
    async def run(seconds: float, load: float) -> Trial:
        return await simulated.trial(TrialRequest(0, "search", seconds, load))

    return await search(goal_set("short"), run, low, high, limit_s=30)


async def test_a_steady_device_is_found_within_the_width() -> None:
    simulated = device()
    found = await find(simulated)
    assert found["ndr"] == pytest.approx(simulated.capacity_pps, rel=0.045)
    assert found["pdr"] == pytest.approx(simulated.capacity_pps, rel=0.045)
    assert found["ndr"] is not None and found["ndr"] <= simulated.capacity_pps
    assert len(simulated.trials) < 40


async def test_a_floor_of_loss_leaves_no_ndr_but_a_pdr() -> None:
    simulated = device(DeviceModel(floor_loss=0.002))
    found = await find(simulated)
    assert found["ndr"] is None
    assert found["pdr"] == pytest.approx(simulated.capacity_pps, rel=0.05)


async def test_a_noisy_device_is_found_near_its_capacity() -> None:
    simulated = device(DeviceModel(noise=0.05))
    found = await find(simulated)
    assert found["ndr"] == pytest.approx(simulated.capacity_pps, rel=0.2)


async def test_a_device_faster_than_the_highest_load_gives_the_highest_load() -> None:
    found = await find(device(DeviceModel(cycles=10)), high=15e6)
    assert found["ndr"] == pytest.approx(15e6, rel=0.001)


async def test_unsent_frames_count_as_lost() -> None:
    """A generator that cannot send above 1 Mpps never makes the device look faster."""
    found = await find(device(DeviceModel(cycles=10), ceiling=1e6))
    assert found["ndr"] is not None and found["ndr"] <= 1e6


async def test_a_search_that_takes_too_long_says_so() -> None:
    simulated = device()

    async def slow(seconds: float, load: float) -> Trial:
        await asyncio.sleep(0.2)
        return await simulated.trial(TrialRequest(0, "search", seconds, load))

    with pytest.raises(SearchError, match="no answer within"):
        await search(goal_set("short"), slow, 1e5, 15e6, limit_s=0.3)


async def test_a_failing_trial_ends_the_search_with_its_own_error() -> None:
    async def broken(seconds: float, load: float) -> Trial:
        raise OSError("the generator is gone")

    with pytest.raises(OSError, match="generator is gone"):
        await search(goal_set("short"), broken, 1e5, 15e6, limit_s=5)


def runner(seen: list[Trial]) -> StepRunner:
    return StepRunner(Timing(), seed=3, record=seen.append)


async def test_all_steps_of_a_case_draw_their_samples() -> None:
    measure = Measure(
        search="short", overload=True, latency_at=[0.1, 0.9], loads_pps=[50e3, 100e3, 30e6]
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

    measure = Measure(search="short", latency_at=[0.5])
    dead, state = Dead(CASE), CaseState()
    overload, find_rate, latency = steps_of(measure)
    assert await runner([]).run(overload, dead, state, 0) == []
    with pytest.raises(StepSkipped, match="no packets came back"):
        await runner([]).run(find_rate, dead, state, 0)
    with pytest.raises(StepSkipped, match="no PDR"):
        await runner([]).run(latency, dead, state, 0)


@pytest.mark.parametrize("name", ["short", "csit", "rfc2544", "tst009"])
def test_every_goal_set_says_what_it_means(name: str) -> None:
    goals = goal_set(name)  # type: ignore[arg-type]
    assert "loss" in goals.definition or "lost" in goals.definition
    step = Step("search", Measure(search=goals.name))
    assert step.expected_s(Timing()) > 0


async def test_a_worker_with_time_left_was_not_the_limit() -> None:
    """A ceiling of the generator below the device's capacity marks the overload rate."""
    measure = Measure(overload=True)
    (step,) = steps_of(measure)
    for ceiling, limited in ((20e6, False), (2e6, True)):
        simulated = device(DeviceModel(batching=1.0), ceiling)
        samples = await runner([]).run(step, simulated, CaseState(), 0)
        rates = [sample for sample in samples if sample.metric == "mrr"]
        assert [sample.generator_limited for sample in rates] == [limited]
