# SPDX-License-Identifier: Apache-2.0
"""Rounds go where the width is missing, headline rows first, and end when all rows have it."""

from pathlib import Path

import pytest

from headrace.bench.campaign import Campaign, Silent, SimulatedBed
from headrace.bench.plan import Clock, Job, blocks_of
from headrace.bench.precision import GIVE_UP, Precision
from headrace.bench.scenario import Scenario, load_all
from headrace.bench.simulated import DeviceModel
from headrace.bench.steps import Timing
from headrace.results import Case, Sample
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
    record(precision, 0.3, 4, "64")
    record(precision, 0.3, 4, "1518")
    wanted = jobs(precision.next())  # type: ignore[arg-type]
    assert {job.case.size for job in wanted} == {"64"} and len(wanted) == 2
    assert all(job.kinds == frozenset(("overload",)) for job in wanted)

    precision = Precision(blocks)
    record(precision, 0.01, 4, "64")
    record(precision, 0.3, 4, "1518")
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
    record(precision, 0.5, GIVE_UP, "64")
    record(precision, 0.01, 3, "1518")
    assert precision.next() == []


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
        assert 3 <= rounds < 50
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


def test_ratios_pair_rounds_not_samples(tmp_path: Path) -> None:
    """Two samples of ours in a round without the peer were once paired with each other."""
    ours = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1)
    peer = Case("s", "p2p", 0, "none", "ovs-dpdk", "memif", "", "", "", "64", 1)
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        a, b = store.case_id(number, ours), store.case_id(number, peer)
        store.add_samples(a, [Sample("mrr", "", at, value) for at, value in
                              ((0, 8.0), (0, 2.0), (1, 100.0), (1, 1.0))])  # fmt: skip
        store.add_samples(b, [Sample("mrr", "", 0, 2.0)])
        (row,) = ratios_of(store, number)
        assert row.ratio.value == pytest.approx(2.0) and row.ratio.pairs == 1
