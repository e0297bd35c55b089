# SPDX-License-Identifier: Apache-2.0
"""`headrace bench pvp`: its words, ratios and verdicts, and real packets through a real VNF."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.bench.pvp import figures
from headrace.bench.pvp.figures import FLOOR, OURS, OVS, SHM, Sample
from headrace.bench.pvp.readings import ImpossibleReadings, Reading, sample_of
from headrace.bench.pvp.suite import KINDS, parse_kinds
from headrace.bench.pvp.vnfs import Work
from headrace.bench.rows import Row

HEADRACE = (str(Path(sys.executable).parent / "headrace"), "bench", "pvp")
MIXES = ("64B", "IMIX", "1518B")


def test_kinds_are_read_in_their_order() -> None:
    assert parse_kinds(" testpmd-split, pass") == ["pass", "testpmd-split"]
    assert parse_kinds(",".join(KINDS)) == list(KINDS)


@pytest.mark.parametrize("text", ["", ",", "testpmd", "pass;testpmd-split"])
def test_nonsense_kinds_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--vnfs"):
        parse_kinds(text)


def taken_with(rates: dict[str, float]) -> dict[tuple[str, str], list[Sample]]:
    """Two turns of each subject, with 100 / rate cycles; the second has half the speed."""
    return {
        (subject, mix): [Sample(rate / turn, 100 * turn / rate, 50.0) for turn in (1, 2)]
        for subject, rate in rates.items()
        for mix in MIXES
    }


def row_named(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if row.name == name)


def test_ratios_are_of_neighboring_windows() -> None:
    taken = taken_with({OURS: 4.0, OVS: 2.0, SHM: 5.0})
    rows = list(figures.rows_of("pass", taken, {}, (OURS, OVS, SHM), MIXES))
    ratio = row_named(rows, f"pass 64B {OURS}/{OVS} rate")
    assert ratio.samples == [2.0, 2.0] and ratio.goal == 2.0 and ratio.met is True
    assert row_named(rows, f"pass IMIX {OURS}/{OVS} rate").goal is None
    assert row_named(rows, f"pass 1518B {OURS}/{OVS} rate").goal == 1.5
    by_shm = row_named(rows, f"pass 1518B {SHM}/{OVS} rate")
    assert by_shm.value == 2.5 and by_shm.met is False


def test_the_floor_is_of_the_least_frames_and_less_is_better() -> None:
    taken = taken_with({OURS: 4.0, OVS: 2.0, FLOOR: 5.0})
    rows = list(figures.rows_of("testpmd-split", taken, {}, (OURS, OVS, FLOOR), MIXES))
    over = row_named(rows, f"testpmd-split 64B {OURS}/{FLOOR} cycles")
    assert over.value == pytest.approx(1.25) and over.met is False
    assert not [row for row in rows if FLOOR in row.name and "64B" not in row.name]


def test_what_is_not_installed_is_skipped_with_its_reason() -> None:
    taken = taken_with({OURS: 4.0})
    failed = {OVS: "not installed", FLOOR: "no testpmd"}
    rows = list(figures.rows_of("testpmd-split", taken, failed, (OURS, OVS, FLOOR), MIXES))
    assert row_named(rows, f"testpmd-split 64B {OVS} rate").skipped == "not installed"
    assert "not installed" in (
        row_named(rows, f"testpmd-split 64B {OURS}/{OVS} rate").skipped or ""
    )
    assert row_named(rows, f"testpmd-split 64B {OURS}/{FLOOR} cycles").met is False


def test_a_counter_that_was_below_zero_gives_no_negative_cycles() -> None:
    """It reads as nearly 2^64, and the next reading is beyond its end."""
    first = Reading(1000, 2**64 - 5000, Work(0, 0), 0.0)
    last = Reading(2000, 95_000, Work(50_000, 1000), 0.5)
    assert sample_of(first, last) == Sample(0.002, 100.0, 50.0)


def test_cycles_that_no_core_has_are_no_sample() -> None:
    first = Reading(1000, 9_000_000, Work(0, 0), 0.0)
    backwards = Reading(2000, 1_000_000, Work(50_000, 1000), 0.5)
    with pytest.raises(ImpossibleReadings, match=r"in 0\.500 s"):
        sample_of(first, backwards)


def test_a_window_without_packets_is_none() -> None:
    first = Reading(1000, 0, Work(0, 0), 0.0)
    assert sample_of(first, Reading(1000, 10, Work(1, 1), 0.5)) is None


@pytest.mark.skipif(os.geteuid() != 0 or (os.cpu_count() or 1) < 2, reason="needs root, two cores")
def test_the_command_counts_real_packets() -> None:
    done = subprocess.run(
        [*HEADRACE, "--json", "--vnfs", "pass", "--repeats", "1", "--seconds", "0.1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    for mix in MIXES:
        for subject in (OURS, SHM):
            assert rows[f"pass {mix} {subject} rate"]["value"] > 0
            assert rows[f"pass {mix} {subject} switch"]["value"] > 0
