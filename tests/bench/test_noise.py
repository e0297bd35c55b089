# SPDX-License-Identifier: Apache-2.0
"""What disturbs a trial is seen, waited for, repeated and stored."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.bench.attached import generator_health
from headrace.bench.device import TrialRequest
from headrace.bench.noise.others import Cores, by_core, siblings, threads_of, used_ns
from headrace.bench.noise.probe import Glimpse, Probe, watch
from headrace.bench.noise.quiet import QuietDevice, Watch
from headrace.bench.noise.steal import stolen_s
from headrace.bench.simulated import SimulatedDevice
from headrace.results import Case, Purpose, Trial
from headrace.traffic import TrialResult

CASE = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1000)
CALM = Glimpse(0.002, 0, 0.0, 0.0, 1000)


def trial(purpose: Purpose, busy: float = 1.0, waited: float = 0.0, **detail: object) -> Trial:
    """A trial of a second at 1 GHz: shares of it busy and waiting."""
    return Trial(0, purpose, 1e5, 1.0, 10, 10, 0, 0, 0.0, 10.0, 10.0, 0.0, int(busy * 1e9),
                 int(waited * 1e9), tsc_hz=1e9, detail=dict(detail))  # fmt: skip


def test_disturbed_is_relative_to_what_is_measured() -> None:
    """2 % of waiting spoil a busy share of 8 %, not an overload; a rate is spoilt by 11 %."""
    assert trial("cost", busy=0.08, waited=0.02).disturbed
    assert not trial("cost", busy=0.9, waited=0.02).disturbed
    assert not trial("overload", busy=0.08, waited=0.02).disturbed
    assert trial("overload", waited=0.11).disturbed
    assert trial("overload", noise={"stolen_s": 0.2}).disturbed
    assert trial("latency", generator={"on_core_share": 0.8}).disturbed
    assert not trial("latency", generator={"on_core_share": None}).disturbed


def test_a_trial_is_disturbed_by_what_others_ran_on_its_cores() -> None:
    """2 % of the worker's core are nothing, 30 % of the VNF's core are; a sibling slows a cost."""
    calm, taken = {"1": {"others": 0.02}}, {"1": {"others": 0.02}, "0": {"others": 0.3}}
    assert not trial("overload", others=calm).disturbed
    assert trial("overload", others=taken).disturbed
    assert not trial("cost", others=taken).disturbed
    assert trial("cost", others={"1": {"others": 0.0, "siblings": 0.4}}).disturbed


def test_times_of_cores_are_read_from_either_account(tmp_path: Path) -> None:
    cpuacct, stat = tmp_path / "usage_percpu", tmp_path / "stat"
    stat.write_text("cpu 1 1 1 9 9 1 1 9 0 0\ncpu0 1 2 3 900 900 4 5 900 7 7\nintr 5\n")
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert used_ns(cpuacct, stat) == {0: 15 * tick_ns}
    cpuacct.write_text("123 456 \n")
    assert used_ns(cpuacct, stat) == {0: 123, 1: 456}
    assert used_ns(tmp_path / "no", tmp_path / "none") == {}


def test_siblings_are_the_other_threads_of_a_physical_core(tmp_path: Path) -> None:
    for core, text in ((0, "0,4-5\n"), (1, "1\n")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text)
    assert siblings(0, tmp_path) == [4, 5] and siblings(1, tmp_path) == []
    assert siblings(9, tmp_path) == []


def test_the_other_program_on_a_core_is_told_from_the_measured_one() -> None:
    """Of two busy loops on one core one is measured: the other had about half of it."""
    cpu = min(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    spins = [
        subprocess.Popen([sys.executable, "-c", loop], stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for spin in spins:
            assert spin.stdout is not None and spin.stdout.readline()
        pollers = by_core(threads_of(spins[0].pid))
        assert list(pollers) == [cpu]
        cores = Cores(pollers)
        first = cores.look()
        time.sleep(0.5)
        shares = cores.between(first, cores.look())
    finally:
        for spin in spins:
            spin.kill()
            spin.wait()
    assert 0.3 < shares[str(cpu)]["others"] <= 1.0


def test_a_watched_core_shows_the_program_that_shares_it() -> None:
    cpu = min(os.sched_getaffinity(0))
    spin = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
    )
    try:
        with Probe(cpu) as probe:
            seen = [probe.watch(0.02) for _ in range(20)]
    finally:
        spin.send_signal(signal.SIGKILL)
        spin.wait()
    found = [one for one in seen if one is not None]
    assert len(found) == 20
    assert max(one.gap_share for one in found) > 0.1
    assert max(one.longest_gap_us for one in found) > 500


def test_the_chain_takes_time_and_an_ended_probe_says_nothing() -> None:
    assert watch(0.001).chain_ns > 0
    probe = Probe(min(os.sched_getaffinity(0)))
    probe.close()
    assert probe.watch(0.001) is None


def test_stolen_time_is_of_the_cores_asked_for(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu 9 9 9 9 9 9 9 99 0 0\ncpu0 1 1 1 1 1 1 1 20 0 0\ncpu1 1 1 1 1 1 1 1 5 0 0\n"
    )
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert stolen_s([0], stat) == pytest.approx(20 * tick)
    assert stolen_s([0, 1], stat) == pytest.approx(25 * tick)
    assert stolen_s([7], stat) is None and stolen_s([0], tmp_path / "none") is None


class Scripted(Watch):
    """A watch that sees what it is told."""

    def __init__(self, *seen: Glimpse) -> None:
        super().__init__(None, [])
        self.seen = list(seen)
        self.looks = 0

    async def glimpse(self) -> Glimpse | None:
        self.looks += 1
        found = self.seen.pop(0)
        self._shares.append(found.gap_share)
        self._fastest_ns = min(self._fastest_ns or found.chain_ns, found.chain_ns)
        return found


async def test_a_trial_waits_until_its_core_is_quiet() -> None:
    noisy, slow = replace(CALM, gap_share=0.5, gaps=3), replace(CALM, chain_ns=1500)
    watched = Scripted(CALM, CALM, noisy, slow, CALM)
    device = QuietDevice(SimulatedDevice(CASE), watched)
    request = TrialRequest(0, "overload", 0.1, None)
    await device.trial(request)
    await device.trial(request)
    assert watched.looks == 2
    last = await device.trial(request)
    assert watched.looks == 5
    assert last.detail["noise"]["before"]["chain_ns"] == 1000
    assert last.detail["noise"]["waited_for_quiet_s"] > 0.03


class Disturbed(SimulatedDevice):
    """A device that is disturbed less from trial to trial."""

    shares: tuple[float, ...] = (0.5, 0.3, 0.2, 0.0)

    async def trial(self, request: TrialRequest) -> Trial:
        number = len(self.trials)
        found = await super().trial(request)
        return replace(found, waited_cycles=int(self.shares[number] * 2e9 * found.duration_s))


@pytest.mark.parametrize(("purpose", "runs"), [("overload", 3), ("search", 2), ("soak", 1)])
async def test_a_disturbed_trial_is_repeated_and_the_calmest_kept(
    purpose: Purpose, runs: int
) -> None:
    inner = Disturbed(CASE)
    kept = await QuietDevice(inner, Watch(None, [])).trial(TrialRequest(0, purpose, 0.1, 1e6))
    assert len(inner.trials) == runs
    assert kept.waited_share == pytest.approx(Disturbed.shares[runs - 1], abs=1e-6)
    assert kept.detail["noise"]["attempt"] == runs


async def test_what_is_always_disturbed_as_much_is_not_repeated() -> None:
    """Repeating each trial three times takes two thirds of a campaign and changes nothing."""
    watch = Watch(None, [])
    inner = Disturbed(CASE)
    inner.shares = (0.2,) * 40
    device = QuietDevice(inner, watch)
    for _ in range(8):
        await device.trial(TrialRequest(0, "overload", 0.1, 1e6))
    assert len(inner.trials) == 2 * 3 + 6
    inner.shares = (0.6,) * 40
    before = len(inner.trials)
    await device.trial(TrialRequest(0, "overload", 0.1, 1e6))
    assert len(inner.trials) == before + 3


def test_the_generators_health_is_kept() -> None:
    counts = dict.fromkeys(("intended", "sent", "received"), 10)
    none = dict.fromkeys(("unsent", "lost", "duplicated", "reordered", "misdelivered"), 0)
    health = {
        "busy_share": 0.5,
        "timing_error_ns": {"count": 10, "p50": 20.0, "p99": 900.0, "max": 4e6},
        "workers": [
            {"busy_share": 0.5, "on_core_share": 0.9, "preemptions": 3},
            {"busy_share": 0.5, "on_core_share": 0.99, "preemptions": 1},
        ],
    }
    rest = {"tx_pps": 1.0, "rx_pps": 1.0, "loss_ratio": 0.0, "latency_ns": {"count": 0},
            "duration_s": 1.0, "generator": health}  # fmt: skip
    found = generator_health(TrialResult.model_validate(counts | none | rest))
    assert found == {"on_core_share": 0.9, "preemptions": 4, "late_p50_ns": 20.0,
                     "late_p99_ns": 900.0, "late_max_ns": 4e6}  # fmt: skip
