# SPDX-License-Identifier: Apache-2.0
"""A whole campaign on simulated devices, and what the store keeps of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.bench.campaign import OUT_OF_TIME, Campaign, Silent, SimulatedBed
from headrace.bench.device import Device
from headrace.bench.errors import DeviceError
from headrace.bench.plan import Block, Clock, blocks_of
from headrace.bench.scenario import load_all
from headrace.bench.simulated import DeviceModel
from headrace.bench.steps import Timing
from headrace.model.campaign import model_of
from headrace.results import Case, Fit, Sample, Skip, Trial
from headrace.results.statistics import summarise
from headrace.results.store import Store, StoreError

LAWS = {
    "headrace": DeviceModel(cycles=120, noise=0.02),
    "ovs-dpdk": DeviceModel(cycles=240, noise=0.02),
    "linux-bridge": DeviceModel(cycles=3000, noise=0.02),
}


class Flaky(SimulatedBed):
    """A bed on which the Linux bridge cannot be deployed."""

    def __init__(self) -> None:
        super().__init__(LAWS)
        self.deployed: set[tuple[int, str]] = set()

    async def deploy(self, block: Block, subject: str) -> None:
        if subject.startswith("linux-bridge"):
            raise DeviceError("no bridges here")
        self.deployed.add((id(block), subject))

    async def device(self, case: Case) -> Device:
        assert case.subject in {subject for _, subject in self.deployed}
        return await super().device(case)

    async def withdraw(self, block: Block, subject: str) -> None:
        self.deployed.discard((id(block), subject))


async def test_a_campaign_measures_skips_withdraws_and_fits(tmp_path: Path) -> None:
    bed = Flaky()
    with Store(tmp_path / "results.sqlite") as store:
        number = store.begin({"simulated": True})
        campaign = Campaign(store, number, bed, Silent(), Timing())
        assert 3 <= await campaign.run(blocks_of(load_all()), Clock(600, Timing()), rounds=20) < 20
        assert not bed.deployed
        skips = store.skips(number)
        assert skips and all(skip.switch == "linux-bridge/veth" for skip in skips)
        assert {skip.reason for skip in skips} == {"no bridges here"}
        cases = store.cases(number)
        wanted = [case for scenario in load_all() for case in scenario.cases()]
        assert set(cases.values()) == {case for case in wanted if case.switch != "linux-bridge"}
        for case_id, case in cases.items():
            samples = store.samples(case_id)
            assert len({sample.round for sample in samples}) >= 3, case.name
        model = model_of(store, number)
        assert not model.failures
        found = {(entry.switch, entry.placement, entry.packet_bytes) for entry in model.fits}
        assert found == {
            (switch, placement, size)
            for switch in ("headrace/in-process+vhost-user", "ovs-dpdk/in-process+vhost-user")
            for placement in ("gather", "distribute")
            for size in (100, 1500)
        }
        for entry in model.fits:
            # The law is cycles * load^-0.1 a packet, n + 1 (gather) or 2 (distribute) traversals.
            assert entry.alpha == pytest.approx(0.9, abs=0.03)
            assert (entry.beta > 0.3) == (entry.placement == "gather")
            assert entry.cv_error < 0.1


async def test_out_of_time_is_a_reason(tmp_path: Path) -> None:
    moment = 0.0

    def now() -> float:
        nonlocal moment
        moment += 1.0
        return moment

    with Store(tmp_path / "results.sqlite") as store:
        number = store.begin({})
        campaign = Campaign(store, number, SimulatedBed(LAWS), Silent(), Timing())
        await campaign.run(blocks_of(load_all()), Clock(25, Timing(), now))
        skips = store.skips(number)
        assert skips and {skip.reason for skip in skips} == {OUT_OF_TIME}
        measured = [case for case_id, case in store.cases(number).items() if store.samples(case_id)]
        names = {(case.scenario, case.name) for case in measured}
        assert names and not names & {(skip.scenario, skip.what) for skip in skips}


def test_the_store_gives_back_what_it_got(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.sqlite"
    case = Case("s", "chain", 2, "gather", "headrace", "memif", "memif", "pass", "process", "64", 9)
    trial = Trial(1, "cost", 1e5, 0.4, 40_000, 39_000, 1000, 2, 0.025, 1e5, 97_500.0, 12.5,
                  busy_cycles=8_000_000, switch_packets=120_000, tsc_hz=2e9, vnf_busy_cycles=5,
                  latency_ns={"p50": 9.5}, detail={"a": [1]})  # fmt: skip
    fit = Fit("s", "gather", 64, 1, 2, 3, 0.1, 0.2, 0.3, 0.9, 0.05, 0.1, 12, True, [[1.0]])
    with Store(path) as store:
        number = store.begin({"cores": 2})
        case_id = store.case_id(number, case)
        assert store.case_id(number, case) == case_id
        assert store.case_id(number, replace(case, flows=10)) != case_id
        store.add_trial(case_id, trial)
        store.add_samples(case_id, [Sample("ndr", "", 1, 5.0, True)])
        store.add_skip(number, Skip("s", "w", "x", "r"))
        store.add_skip(number, Skip("s", "w", "x", "r"))
        store.set_fits(number, [fit])
        store.set_fits(number, [fit])
        store.finish(number, "complete")
    with Store(path) as store:
        assert store.campaign().status == "complete"
        assert store.campaign(number).manifest == {"cores": 2}
        assert list(store.trials(case_id)) == [trial]
        assert trial.cpu_percent == pytest.approx(1.0)
        assert store.samples(case_id) == [Sample("ndr", "", 1, 5.0, True)]
        assert store.skips(number) == [Skip("s", "w", "x", "r")]
        assert store.fits(number) == [fit]
        with pytest.raises(StoreError, match="no campaign 99"):
            store.campaign(99)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text("these are not results, however long the text may be" * 20)
    with pytest.raises(StoreError, match="not a results database"):
        Store(path)


def test_interleaved_samples_summarise(tmp_path: Path) -> None:
    summary = summarise([8.0, 9.0, 10.0, 10.0, 11.0, 12.0])
    assert summary.median == 10 and summary.low == 8 and summary.high == 12
