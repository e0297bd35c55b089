# SPDX-License-Identifier: Apache-2.0
"""Two campaigns compared: by reference, in turn, or refused; units, loss, exit codes, A/A."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headrace.bench.campaign import Campaign, Silent, SimulatedBed
from headrace.bench.compare import Change, campaign_effect, compare
from headrace.bench.plan import Clock, blocks_of
from headrace.bench.same_build import judge, run_twice
from headrace.bench.scenario import Scenario, find, load_all
from headrace.bench.session import quickened
from headrace.bench.simulated import DeviceModel
from headrace.bench.steps import Timing
from headrace.cli import app
from headrace.results import Case, Sample
from headrace.results.emulation import EMULATED
from headrace.results.store import Store, StoreError

OURS = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)
PEER = Case("s", "p2p", 0, "none", "ovs-dpdk", "memif", "", "", "", "64", 1000)
ALONE = Case("t", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)


def campaign(
    store: Store,
    seed: int,
    phase: float,
    factor: dict[str, float],
    rounds: int = 6,
    loss: float = 0,
) -> int:
    """A campaign in a phase of the machine: ours over the peer is `factor` by metric."""
    generator = np.random.default_rng(seed)
    number = store.begin({})
    ids = {case: store.case_id(number, case) for case in (OURS, PEER, ALONE)}
    base = {"mrr": 1e7, "cycles_per_packet": 200.0, "latency_p99": 5e4}
    for at in range(rounds):
        moment = phase * float(np.exp(generator.normal(0, 0.05)))
        for case, case_id in ids.items():
            samples = [
                Sample(
                    metric,
                    "",
                    at,
                    value
                    * (1 / moment if metric != "mrr" else moment)
                    * (factor.get(metric, 1.0) if case.switch == "headrace" else 1.0)
                    * float(np.exp(generator.normal(0, 0.005))),
                )
                for metric, value in base.items()
            ]
            ours = case.switch == "headrace"
            lost = abs(generator.normal(loss if ours else 0, 1e-5)) if loss else 0.0
            samples.append(Sample("loss_ratio", "50% pdr", at, lost))
            store.add_samples(case_id, samples)
    return number


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "r.sqlite")


def by_name(changes: list[Change]) -> dict[str, Change]:
    return {f"{change.case.scenario} {change.case.switch} {change.metric}": change
            for change in changes}  # fmt: skip


def test_a_slow_phase_is_no_regression_and_a_regression_is_one(store: Store) -> None:
    """The second campaign ran on half a machine; ours needs 10 % more cycles there."""
    old = campaign(store, 1, 1.0, {})
    new = campaign(store, 2, 0.5, {"cycles_per_packet": 1.1})
    found = by_name(compare(store, old, new))
    assert found["s headrace mrr"].judgement in ("same", "not determined")
    worse = found["s headrace cycles_per_packet"]
    assert worse.regression and worse.how == "reference"
    assert worse.ratio is not None and worse.ratio.value == pytest.approx(1.1, rel=0.02)
    # Without a reference nothing can be said: everything there is twice as slow.
    alone = found["t headrace mrr"]
    assert alone.how == "refused" and alone.judgement == "not determined"
    effect = {change.metric: change.ratio.value
              for change in campaign_effect(compare(store, old, new)) if change.ratio}  # fmt: skip
    assert effect["mrr"] == pytest.approx(0.5, rel=0.1)
    assert found["s ovs-dpdk mrr"].judgement == "not determined"


def test_an_emulated_machine_s_campaign_is_not_put_beside_a_real_one_s(store: Store) -> None:
    real, slow, other = (campaign(store, seed, 1.0, {}) for seed in (1, 2, 3))
    for number in (slow, other):
        store.set_manifest(number, {"machine": {EMULATED: True}})
    for pair in ((real, slow), (slow, real)):
        with pytest.raises(StoreError, match=f"campaign {slow} is of an emulated machine"):
            compare(store, *pair)
    assert compare(store, slow, other)


def test_loss_that_appears_is_a_regression(store: Store) -> None:
    old, new = campaign(store, 1, 1.0, {}), campaign(store, 2, 1.0, {}, loss=0.01)
    found = by_name(compare(store, old, new))["s headrace loss_ratio"]
    assert found.regression and found.new == pytest.approx(0.01, rel=0.01) and found.old == 0


def test_better_and_worse_follow_the_metric(store: Store) -> None:
    old = campaign(store, 1, 1.0, {})
    new = campaign(store, 2, 1.0, {"mrr": 1.2, "cycles_per_packet": 0.8, "latency_p99": 1.3})
    found = by_name(compare(store, old, new))
    assert found["s headrace mrr"].judgement == "better"
    assert found["s headrace cycles_per_packet"].judgement == "better"
    assert found["s headrace latency_p99"].judgement == "worse"


def command(store: Store, *arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(
        app, ["bench", "compare", "1", "2", "--results", str(store.path), *arguments]
    )
    return outcome.exit_code, outcome.output


def test_the_command_exits_1_on_a_regression_and_prints_units_right(store: Store) -> None:
    campaign(store, 1, 1.0, {})
    campaign(store, 2, 1.0, {"cycles_per_packet": 1.2}, loss=0.01)
    code, output = command(store)
    assert code == 1
    assert "TSC" in output and "worse: s/64B-1000f-p2p@headrace/memif cycles_per_packet" in output
    assert "1 %" in output and "200 %" not in output
    code, output = command(store, "--json")
    rows = {row["name"]: row for row in json.loads(output)["rows"]}
    row = rows["s/64B-1000f-p2p@headrace/memif cycles_per_packet"]
    assert code == 1 and row["verdict"] == "worse" and row["unit_of_values"] == "TSC cycles"


def test_the_command_exits_0_without_one(store: Store) -> None:
    campaign(store, 1, 1.0, {})
    campaign(store, 2, 0.7, {"mrr": 1.1})
    code, output = command(store)
    assert code == 0, output
    assert "not determined" in output  # the rows without a reference


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_same_build_twice_differs_in_at_most_1_row_in_20(
    tmp_path: Path, seed: int
) -> None:
    """All scenarios on noisy simulated devices: some 100 rows without a difference."""
    scenarios: list[Scenario] = [quickened(scenario) for scenario in load_all()]
    models = {name: DeviceModel(noise=0.08) for name in ("headrace", "ovs-dpdk", "linux-bridge")}
    with Store(tmp_path / "aa.sqlite") as store:
        first, second = store.begin({}), store.begin({})
        for number, other in ((first, second), (second, first)):
            store.set_manifest(number, {"interleaved_with": other})
        rounds = await run_twice(
            store, (first, second), SimulatedBed(models, seed), blocks_of(scenarios), Silent(),
            Timing(), Clock(600, Timing()), rounds=6,
        )  # fmt: skip
        found = judge(store, first, second, rounds)
    assert rounds == 6 and len(found.changes) > 100
    assert all(change.how == "interleaved" for change in found.changes)
    assert found.met and found.share <= 0.05


async def test_a_difference_between_interleaved_campaigns_is_found(store: Store) -> None:
    blocks = blocks_of([quickened(one) for one in find(["flow-sweep"])])
    numbers = (store.begin({}), store.begin({}))
    for number, other in (numbers, numbers[::-1]):
        store.set_manifest(number, {"interleaved_with": other})
    slow = SimulatedBed({"headrace": DeviceModel(cycles=170, noise=0.01)}, 2)
    fast = SimulatedBed({"headrace": DeviceModel(cycles=150, noise=0.01)}, 2)
    for number, bed in zip(numbers, (fast, slow), strict=True):
        one = Campaign(store, number, bed, Silent(), Timing())
        await one.run(blocks, Clock(600, Timing()), rounds=5)
    found = judge(store, *numbers, 5)
    assert not found.met
    ours = [c for c in found.changes if c.case.switch == "headrace" and c.metric == "mrr"]
    assert ours and all(change.regression for change in ours)
