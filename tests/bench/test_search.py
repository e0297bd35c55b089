# SPDX-License-Identifier: Apache-2.0
"""The search logic on simulated devices whose true capacity is known."""

import asyncio
from dataclasses import replace

import pytest

from headrace.bench.device import TrialRequest
from headrace.bench.searching.answer import Answer, SearchError
from headrace.bench.searching.confirmation import confirm
from headrace.bench.searching.goals import Confirmation, GoalKey, GoalName, goal_set
from headrace.bench.searching.mlr import search
from headrace.bench.searching.rate_search import Limits, search_case
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.results import Case, Trial

CASE = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)
EVEN = DeviceModel()
NDR, PDR = GoalKey("ndr-quick", ""), GoalKey("pdr-quick", "")


def device(model: DeviceModel = EVEN, ceiling: float = 20e6, seed: int = 1) -> SimulatedDevice:
    return SimulatedDevice(CASE, model, ceiling_pps=ceiling, seed=seed)


async def find(
    simulated: SimulatedDevice, low: float = 1e5, high: float = 15e6
) -> dict[GoalKey, Answer]:
    async def run(seconds: float, load: float) -> Trial:
        return await simulated.trial(TrialRequest(0, "search", seconds, load))

    return await search(goal_set("quick"), run, low, high)


async def find_case(
    simulated: SimulatedDevice, name: GoalName = "quick", overload: float | None = None
) -> dict[GoalKey, Answer]:
    async def run(seconds: float, load: float) -> Trial:
        return await simulated.trial(TrialRequest(0, "search", seconds, load))

    limits = Limits(overload or simulated.capacity_pps, simulated.ceiling_pps)
    return await search_case(goal_set(name), run, limits, 0.1, now=lambda: simulated.elapsed_s)


async def test_a_steady_device_is_found_within_the_width() -> None:
    simulated = device()
    found = await find(simulated)
    for key in (NDR, PDR):
        assert found[key].pps == pytest.approx(simulated.capacity_pps, rel=0.045)
        assert found[key].relation == "="
    assert found[NDR].pps <= simulated.capacity_pps
    assert len(simulated.trials) < 40


async def test_a_floor_of_loss_is_an_upper_bound_of_the_ndr_and_leaves_a_pdr() -> None:
    simulated = device(DeviceModel(floor_loss=0.002))
    found = await find(simulated)
    assert found[NDR] == Answer(1e5, "<")
    assert found[PDR].pps == pytest.approx(simulated.capacity_pps, rel=0.05)


async def test_a_noisy_device_is_found_near_its_capacity() -> None:
    simulated = device(DeviceModel(noise=0.05))
    found = await find(simulated)
    assert found[NDR].pps == pytest.approx(simulated.capacity_pps, rel=0.2)


async def test_a_device_faster_than_the_highest_load_gives_that_load_as_a_lower_bound() -> None:
    found = await find(device(DeviceModel(cycles=10)), high=15e6)
    assert found[NDR].relation == ">=" and found[NDR].pps == pytest.approx(15e6, rel=0.001)


async def test_unsent_frames_count_as_lost() -> None:
    """A generator that cannot send above 1 Mpps never makes the device look faster."""
    found = await find(device(DeviceModel(cycles=10), ceiling=1e6))
    assert found[NDR].pps <= 1e6


async def test_a_search_that_takes_too_long_says_so_and_what_it_found() -> None:
    simulated = device()

    async def run(seconds: float, load: float) -> Trial:
        return await simulated.trial(TrialRequest(0, "search", seconds, load))

    with pytest.raises(SearchError, match=r"within its 0.5 s, after 2 trials.*lowest with loss"):
        await search(
            goal_set("quick"), run, 1e5, 15e6, budget_s=0.5, now=lambda: simulated.elapsed_s
        )


async def test_a_failing_trial_ends_the_search_with_its_own_error() -> None:
    async def broken(seconds: float, load: float) -> Trial:
        raise OSError("the generator is gone")

    with pytest.raises(OSError, match="generator is gone"):
        await search(goal_set("quick"), broken, 1e5, 15e6)


@pytest.mark.parametrize("name", ["quick", "csit", "rfc2544", "tst009"])
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_goal_set_ends_within_its_budget_and_is_right(
    name: GoalName, seed: int
) -> None:
    """0.2 % of noise from trial to trial; in the device's own time, minutes for the standards."""
    simulated = device(DeviceModel(noise=0.002), seed=seed)
    found = await find_case(simulated, name)
    goals = goal_set(name)
    assert simulated.elapsed_s < goals.budget_s
    for key in goals.goals:
        assert found[key].relation == "="
        # Quick goals are 4 % wide, the others 0.5 %; noise counts for the longest trials, too.
        assert found[key].pps == pytest.approx(
            simulated.capacity_pps, rel=0.045 if name == "quick" else 0.012
        )


async def test_one_slow_overload_trial_does_not_bound_the_search() -> None:
    """Overload brought back a third: the search goes on above its first bound."""
    simulated = device()
    found = await find_case(simulated, overload=simulated.capacity_pps / 3)
    assert found[NDR].relation == "="
    assert found[NDR].pps == pytest.approx(simulated.capacity_pps, rel=0.045)


async def test_only_the_generators_ceiling_leaves_a_lower_bound() -> None:
    simulated = device(DeviceModel(cycles=10), ceiling=2e6)
    found = await find_case(simulated, overload=1e6)
    assert found[NDR].relation == ">=" and found[NDR].pps == pytest.approx(2e6, rel=0.001)


async def test_no_single_disturbed_trial_is_an_upper_bound() -> None:
    """Every tenth trial loses half, whatever its load."""
    simulated = device()
    count = 0

    async def run(seconds: float, load: float) -> Trial:
        nonlocal count
        count += 1
        trial = await simulated.trial(TrialRequest(0, "search", seconds, load))
        if count % 10 == 6:
            half = trial.received // 2
            return replace(trial, received=half, lost=trial.sent - half, loss_ratio=0.5)
        return trial

    limits = Limits(simulated.capacity_pps, simulated.ceiling_pps)
    for name in ("quick", "csit"):
        goals = goal_set(name)
        found = await search_case(goals, run, limits, 0.1)
        for answer in found.values():
            assert answer.pps == pytest.approx(simulated.capacity_pps, rel=0.045), name


async def test_a_longer_trial_lowers_an_answer_that_only_short_ones_met() -> None:
    """A queue of 0.3 s hides any overload of 10 % from trials shorter than 3 s of it."""
    capacity, queue = 1e6, 0.03e6

    async def run(seconds: float, load: float) -> Trial:
        trial = await device(DeviceModel(cycles=10)).trial(TrialRequest(0, "search", seconds, load))
        lost = max(0, round((load - capacity) * seconds - queue))
        return replace(trial, received=trial.sent - lost, lost=lost, loss_ratio=lost / trial.sent)

    found = await search(goal_set("quick"), run, 1e5, 2e6)
    assert found[NDR].pps > 1.1 * capacity
    how = Confirmation(seconds=1.0, trials=2, steps=3)
    confirmed = await confirm(found[NDR], 0.0, how, run, 1e5)
    assert confirmed.relation == "=" and confirmed.pps <= capacity + queue
    never = await confirm(found[NDR], 0.0, Confirmation(1.0, 2, 0), run, 1e5)
    assert never == Answer(found[NDR].pps, "<")
    assert await confirm(Answer(5.0, "<"), 0.0, how, run, 1.0) == Answer(5.0, "<")


async def test_the_event_loop_stays_free_during_a_search() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    task = asyncio.create_task(tick())
    await find(device())
    task.cancel()
    assert ticks > 10


def test_loss_ratios_are_data() -> None:
    goals = goal_set("csit", [0.0001, 0.0, 0.005])
    assert {(key.metric, key.point): goal.loss_ratio for key, goal in goals.goals.items()} == {
        ("ndr", ""): 0.0, ("pdr", ""): 0.005, ("pdr", "0.01% loss"): 0.0001,
    }  # fmt: skip
    assert "at most 0.01 % lost" in goals.definition


@pytest.mark.parametrize("name", ["csit", "rfc2544", "tst009"])
async def test_a_standards_search_with_shorter_trials_is_named_so_and_ends(name: GoalName) -> None:
    goals = goal_set(name, [0.0], trials_of=0.5)
    (key,) = goals.goals
    assert key == GoalKey("ndr", "0.5 s trials") and "not the standard's" in goals.definition
    assert goal_set(name, [0.001], trials_of=0.5).goals.keys() == {
        GoalKey("pdr", "0.1% loss, 0.5 s trials")
    }
    assert goals.budget_s < goal_set(name).budget_s
    simulated = device(DeviceModel(noise=0.002))

    async def run(seconds: float, load: float) -> Trial:
        return await simulated.trial(TrialRequest(0, "search", seconds, load))

    limits = Limits(simulated.capacity_pps, simulated.ceiling_pps)
    found = await search_case(goals, run, limits, 0.1, now=lambda: simulated.elapsed_s)
    assert found[key].relation == "=" and simulated.elapsed_s < goals.budget_s
    assert found[key].pps == pytest.approx(simulated.capacity_pps, rel=0.012)
    assert max(request.duration_s for request in simulated.trials) == 0.5


@pytest.mark.parametrize("name", ["quick", "csit", "rfc2544", "tst009"])
def test_every_goal_set_says_what_it_means(name: GoalName) -> None:
    goals = goal_set(name)
    assert "loss" in goals.definition or "lost" in goals.definition
    assert 0 < goals.expected_s < goals.budget_s
