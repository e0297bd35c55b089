# SPDX-License-Identifier: Apache-2.0
"""`headrace bench workers`: its cases, CPUs and rows, and one real window of each kind."""

import os
from pathlib import Path

import pytest

from headrace.bench.peers.systems import PeerError
from headrace.bench.workers import suite
from headrace.bench.workers.cases import CASES
from headrace.bench.workers.suite import OURS, OVS, Windows


def test_worker_counts_double_up_to_the_cpus() -> None:
    """One, two, four, ..., and the CPU of all other threads gets a worker last."""
    assert suite.worker_counts(1) == [1]
    assert suite.worker_counts(2) == [1, 2]
    assert suite.worker_counts(7) == [1, 2, 4]
    assert suite.worker_counts(64) == [1, 2, 4, 8]
    assert suite.worker_cpus(4) == [3, 2, 1, 0]


def test_cases_are_chosen_by_words() -> None:
    """Any of the words will do; none that fits is an error that lists them."""
    assert [case.name for case in suite.chosen_cases("meter, vhost")] == ["one-meter", "vhost-user"]
    with pytest.raises(PeerError, match="one-rule"):
        suite.chosen_cases("nonsense")


def test_rows_say_what_the_second_worker_brings_and_costs() -> None:
    """The goal is Headrace's alone, and what can't be measured has its reason."""
    taken = {OURS: Windows({1: [1e6, 1e6], 2: [1.9e6, 1.9e6]}), OVS: Windows({}, "not here")}
    rows = {row.name: row for row in suite.rows_of(CASES[0], taken, [1, 2])}
    assert rows[f"in-process {OURS} 2 workers"].value == pytest.approx(1.9)
    gained = rows[f"in-process {OURS} x2"]
    assert gained.value == pytest.approx(1.9)
    assert (gained.goal, gained.met) == (1.85, True)
    added = rows[f"in-process {OURS} added by a second worker"]
    assert added.value is not None and added.value > 0
    assert rows[f"in-process {OVS} x2"].skipped == "not here"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: workers are pinned, hugepages taken")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a second worker needs a second CPU")
@pytest.mark.skipif(
    Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").read_text().strip() == "0",
    reason="no hugepages are free",
)
def test_two_workers_carry_packets() -> None:
    """Packets come out with one worker and with two, by every kind of port."""
    plan = suite.Plan(repeats=1, window_s=0.05, settle_s=0.1)
    rows, _ = suite.run(plan, "in-process,vhost", lambda line: None)
    named = {row.name: row for row in rows}
    for case in ("in-process", "vhost-user"):
        for workers in ("1 worker", "2 workers"):
            value = named[f"{case} {OURS} {workers}"].value
            assert value is not None and value > 0
