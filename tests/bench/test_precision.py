# SPDX-License-Identifier: Apache-2.0
"""Rounds go where the width is missing, headline rows first, and end when all rows have it."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.bench.campaign import OUT_OF_TIME, Campaign, Silent, SimulatedBed
from headrace.bench.device import Device, TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.noise.quiet import QuietDevice, Watch
from headrace.bench.plan import Block, Clock, Job, blocks_of
from headrace.bench.precision import ANSWERS_GIVE_UP, ROUNDS_FROM, Answer, Precision
from headrace.bench.scenario import Headline, Scenario, load_all
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.bench.steps import Timing
from headrace.results import Case, Sample, Trial
from headrace.results.store import Store
from headrace.results.summary import ratios_of


def scenario(**more: object) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "s", "title": "t", "question": "q", "graphs": [{"shape": "p2p"}],
            "subjects": [{"switch": "headrace", "ports": "memif"},
                         {"switch": "ovs-dpdk", "ports": "memif"}],
            "traffic": {"sizes": [64, 1518], "flows": [10]},
            "headline": {"sizes": [64]},
            "measure": {"overload": True, "search": "quick"}, **more,
        }
    )  # fmt: skip


def jobs(blocks: list[object]) -> list[Job]:
    return [job for block in blocks for job in block.jobs]  # type: ignore[attr-defined]


def record(precision: Precision, wobble: float, rounds: int, size: str) -> None:
    """Rounds in which ours is between `1 - wobble` and `1 + wobble` of the peer."""
    for block in blocks_of([scenario()]):
        for job in block.jobs:
            if job.case.size != size:
                continue
            for at in range(rounds):
                factor = 1 + wobble * (-1) ** at if job.case.switch == "headrace" else 1.0
                drawn = [Sample("mrr", "overload", at, 1e6 * factor)]
                precision.record(job.case, "overload", at, drawn)
                precision.record(job.case, "search", at, [])


def test_headline_rows_go_first_then_the_others_then_medians() -> None:
    blocks = blocks_of([scenario()])
    precision = Precision(blocks)
    first = jobs(precision.next_answers())  # type: ignore[arg-type]
    assert {job.case.size for job in first} == {"64"} and len(first) == 2
    assert all([step.kind for step in job.steps] == ["overload"] for job in first)
    record(precision, 0.3, 4, "64")
    record(precision, 0.3, 4, "1518")
    assert {job.case.size for job in jobs(precision.next_answers())} == {"64"}  # type: ignore[arg-type]

    precision = Precision(blocks)
    record(precision, 0.01, 4, "64")
    record(precision, 0.3, 4, "1518")
    assert precision.next_answers() == []
    assert {job.case.size for job in jobs(precision.next())} == {"1518"}  # type: ignore[arg-type]

    precision = Precision(blocks)
    record(precision, 0.01, 2, "64")
    record(precision, 0.01, 4, "1518")
    found = jobs(precision.next())  # type: ignore[arg-type]
    assert {job.case.size for job in found} == {"64"}
    record(precision, 0.01, 3, "64")
    assert precision.next() == []


def test_a_row_that_never_narrows_is_given_up() -> None:
    precision = Precision(blocks_of([scenario()]))
    record(precision, 0.5, ANSWERS_GIVE_UP, "64")
    record(precision, 0.01, 3, "1518")
    assert precision.next_answers() == [] and precision.next() == []


def test_a_headline_row_without_a_value_is_given_up() -> None:
    """A switch that does not start must not use up the time of the other rows."""
    precision = Precision(blocks_of([scenario()]))
    for at in range(ROUNDS_FROM):
        assert precision.next_answers()
        for block in blocks_of([scenario()]):
            for job in block.jobs:
                drawn = [Sample("mrr", "overload", at, 1e6)] * (job.case.switch == "headrace")
                precision.record(job.case, "overload", at, drawn)
    assert precision.next_answers() == []
    (answer,) = precision.answers()
    assert answer.width is None and not answer.narrow


def test_the_answers_of_a_chain_are_its_cycles_at_the_highest_load() -> None:
    """The other loads are measured later, once; until then they are missing."""
    chain = scenario(
        graphs=[{"shape": "chain", "vnfs": [1, 2, 3], "placement": "gather"}],
        traffic={"sizes": [64], "flows": [10]},
        headline={"shapes": ["chain"], "vnfs": [1, 3], "metric": "cycles_per_packet"},
        measure={"overload": True, "loads_pps": [1000, 5000]},
    )
    blocks = blocks_of([chain])
    precision = Precision(blocks)
    first = jobs(precision.next_answers())  # type: ignore[arg-type]
    assert {job.case.vnfs for job in first} == {1, 3}
    assert {tuple(step.measure.loads_pps) for job in first for step in job.steps} == {(5000,)}
    for at in range(3):
        for job in first:
            value = 100.0 * job.case.vnfs * (1 if job.case.switch == "headrace" else 1 + 0.2 * at)
            drawn = [Sample("cycles_per_packet", "5000 pps", at, value)]
            precision.record(job.case, "cost", at, drawn)
    widths = {answer.name: answer.width for answer in precision.answers()}
    assert len(widths) == 4
    assert widths["s 64B @headrace: chain of 3 / 1"] == pytest.approx(0)
    assert (widths["s 64B pvp: headrace / ovs-dpdk"] or 0) > 0.2
    assert all(precision.missing(job) == {"overload", "cost"} for job in blocks[0].jobs)


async def test_what_the_time_did_not_suffice_for_is_skipped_with_the_reason(tmp_path: Path) -> None:
    """Headline rows get their share of the time; of the others what fits is measured."""
    moment = 0.0

    class SlowDevice(SimulatedDevice):
        async def trial(self, request: TrialRequest) -> Trial:
            nonlocal moment
            moment += request.duration_s
            return await super().trial(request)

    class Slow(SimulatedBed):
        async def deploy(self, block: Block, subject: str) -> None:
            nonlocal moment
            moment += 1.0

        async def device(self, case: Case) -> Device:
            model = self.models.get(case.switch, DeviceModel())
            return self._devices.setdefault(case, SlowDevice(case, model))

    answer = Headline(sizes=[100], vnfs=[1, 3], metric="cycles_per_packet")
    scenarios = [
        one.model_copy(update={"headline": answer} if one.name == "chain-cost" else {})
        for one in load_all()
    ]
    noisy = {name: DeviceModel(noise=0.5) for name in ("headrace", "ovs-dpdk")}
    told: list[Answer] = []

    class Told(Silent):
        def answered(self, answers: Sequence[Answer], rounds: int) -> None:
            told.extend(answers)
            assert rounds >= 3 and 0.5 <= moment / 120 <= 0.7

    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        campaign = Campaign(store, number, Slow(noisy), Told(), Timing())
        clock = Clock(120, Timing(), now=lambda: moment)
        await campaign.run(blocks_of(scenarios), clock)
        assert told and moment <= 125
        cases = {case: store.samples(case_id) for case_id, case in store.cases(number).items()}
        skips = store.skips(number)
    answered = [case for job in blocks_of(scenarios) for one in job.jobs
                if one.headline and (case := one.case)]  # fmt: skip
    assert answered and all(cases[case] for case in answered)
    wanted = {(scenario.name, case.name) for scenario in scenarios for case in scenario.cases()}
    had = {(case.scenario, case.name) for case, samples in cases.items() if samples}
    assert {(skip.scenario, skip.what.split(": ")[0]) for skip in skips} | had == wanted
    assert {skip.reason for skip in skips} == {OUT_OF_TIME}
    loads = [skip.what for skip in skips if "at other loads" in skip.what]
    assert loads and all(what.startswith("100B-50f-p") for what in loads)


@pytest.mark.parametrize("noise", [0.02, 0.06])
async def test_a_campaign_ends_when_its_rows_are_as_narrow_as_wanted(
    tmp_path: Path, noise: float
) -> None:
    models = {name: DeviceModel(noise=noise) for name in ("headrace", "ovs-dpdk", "linux-bridge")}
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        campaign = Campaign(store, number, SimulatedBed(models), Silent(), Timing())
        blocks = blocks_of(load_all())
        rounds = await campaign.run(blocks, Clock(1e6, Timing()), rounds=50)
        assert 3 <= rounds < 100
        widths = [ratio.ratio.width for ratio in ratios_of(store, number)
                  if ratio.metric in ("mrr", "cycles_per_packet")]  # fmt: skip
        assert widths and max(width for width in widths if width is not None) <= 0.1
        drawn: dict[Case, int] = {
            case: len({sample.round for sample in store.samples(case_id)})
            for case_id, case in store.cases(number).items()
        }
    assert min(drawn.values()) >= 3
    if noise == 0.06:
        assert max(drawn.values()) > min(drawn.values())


def test_repeats_of_a_round_alternate_and_are_one_value() -> None:
    measure = {"overload": True, "repeats": 3}
    (block,) = blocks_of([scenario(measure=measure, traffic={"sizes": [64], "flows": [10]})])
    order = [turn.job.case.switch for turn in block.turns(0)]
    ours, theirs = "headrace", "ovs-dpdk"
    assert order == [ours, theirs, theirs, ours, ours, theirs]
    assert [turn.job.case.switch for turn in block.turns(1)] == [
        theirs, ours, ours, theirs, theirs, ours]  # fmt: skip


def test_all_cases_of_a_headline_take_turns_in_one_deployment() -> None:
    """Forwards, then backwards, by subject: pairs are close, and switches change seldom."""
    sweep = scenario(
        graphs=[{"shape": "p2p", "prefixes": 8}],
        traffic={"sizes": [64], "flows": [1, 100, 1000]},
        headline={"flows": [1, 1000], "repeats": 2},
        measure={"overload": True, "repeats": 3},
    )
    (block,) = Precision(blocks_of([sweep])).next_answers()
    turns = list(block.turns(0))
    order = [(turn.job.case.switch, turn.job.case.flows) for turn in turns]
    once = [(switch, flows) for switch in ("headrace", "ovs-dpdk") for flows in (1, 1000)]
    assert order == once + once[::-1]
    assert [(t.job.case.switch, t.job.case.flows) for t in block.turns(1)] == once[::-1] + once
    assert all(turn.step.interleaved and turn.step.kind == "overload" for turn in turns)
    (later,) = Precision(blocks_of([sweep])).next()
    assert not any(turn.step.interleaved for turn in later.turns(0))


async def test_interleaved_trials_are_neither_waited_for_nor_repeated() -> None:
    class Restless(SimulatedDevice):
        async def trial(self, request: TrialRequest) -> Trial:
            trial = await super().trial(request)
            return replace(trial, waited_cycles=round(0.5 * 2e9 * request.duration_s))

    case = scenario().cases()[0]
    device = Restless(case)
    quiet = QuietDevice(device, Watch(None, []))
    await quiet.trial(TrialRequest(0, "overload", 0.1, None))
    assert len(device.trials) == 3
    await quiet.trial(TrialRequest(0, "overload", 0.1, None, interleaved=True))
    assert len(device.trials) == 4


def test_points_come_in_another_order_in_each_round() -> None:
    (block,) = blocks_of([scenario(traffic={"sizes": [64, 128, 256, 512], "flows": [10]})])
    orders = set()
    for number in range(8):
        turns = list(block.turns(number, random.Random(number)))
        sizes = [turn.job.case.size for turn in turns]
        orders.add(tuple(dict.fromkeys(sizes)))
        assert sorted(map(str, turns)) == sorted(map(str, block.turns(number)))
        # Those that are compared stay together.
        assert sum(a != b for a, b in itertools.pairwise(sizes)) == 3
    assert len(orders) > 3


def test_ratios_pair_turns_of_a_round(tmp_path: Path) -> None:
    """Two samples of ours in a round without the peer were once paired with each other."""
    ours = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1)
    peer = Case("s", "p2p", 0, "none", "ovs-dpdk", "memif", "", "", "", "64", 1)
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        a, b = store.case_id(number, ours), store.case_id(number, peer)
        store.add_samples(a, [Sample("mrr", "", at, value) for at, value in
                              ((0, 8.0), (0, 4.0), (1, 100.0), (1, 1.0))])  # fmt: skip
        store.add_samples(b, [Sample("mrr", "", 0, 2.0, turn=1)])
        (row,) = ratios_of(store, number)
        assert row.ratio.value == pytest.approx(2.0) and row.ratio.pairs == 1


async def test_a_turn_without_a_sample_leaves_its_partner_alone(tmp_path: Path) -> None:
    """Where every second trial of one switch has no value, the others keep their partners."""
    measure = {"overload": True, "repeats": 4}
    blocks = blocks_of([scenario(measure=measure, traffic={"sizes": [64], "flows": [10]})])

    class Losing(SimulatedDevice):
        async def trial(self, request: TrialRequest) -> Trial:
            trial = await super().trial(request)
            if len(self.trials) % 2 == 0:
                raise DeviceError("no answer")
            return trial

    class Bed(SimulatedBed):
        async def device(self, case: Case) -> Device:
            kind = Losing if case.switch == "headrace" else SimulatedDevice
            return self._devices.setdefault(case, kind(case, DeviceModel()))

    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        campaign = Campaign(store, number, Bed(), Silent(), Timing())
        campaign.precision = Precision(blocks)
        await campaign.round(blocks, Clock(1e6, Timing()), 0)
        turns = {
            case.switch: [s.turn for s in store.samples(case_id) if s.metric == "mrr"]
            for case_id, case in store.cases(number).items()
        }
        (row,) = [one for one in ratios_of(store, number) if one.metric == "mrr"]
    assert turns == {"headrace": [0, 2], "ovs-dpdk": [0, 1, 2, 3]}
    assert row.pairs.samples == 2
