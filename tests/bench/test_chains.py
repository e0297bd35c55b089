# SPDX-License-Identifier: Apache-2.0
"""`headrace bench chains`: its rules, slopes and verdicts, and real packets through real chains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.chains import figures
from headrace.bench.chains.figures import DIRECT, OVS, SUBJECTS, THROUGH, Sample
from headrace.bench.chains.rules import ENTRY, EXIT, hops, parse_lengths, port_in, port_out, rules
from headrace.bench.chains.suite import DIRECT_CROSSINGS
from headrace.bench.rows import Row
from headrace.protocols.pmd import parse_pmd

HEADRACE = (str(Path(sys.executable).parent / "headrace"), "bench", "chains")


@given(st.integers(min_value=1, max_value=30))
def test_a_chain_visits_every_vnf_once_in_order(length: int) -> None:
    way = hops(length)
    assert way[0][0] == ENTRY and way[-1][1] == EXIT
    assert [target for _, target in way[:-1]] == [port_in(vnf) for vnf in range(length)]
    assert [source for source, _ in way[1:]] == [port_out(vnf) for vnf in range(length)]
    assert len({port for hop in way for port in hop}) == 2 * length + 2
    assert rules(length)[0] == f"in_port=1,actions=output:{port_in(0)}"
    assert rules(length, match="dl_type=0x0800")[-1].endswith(",dl_type=0x0800,actions=output:2")


@given(st.sets(st.integers(min_value=1, max_value=30), min_size=1))
def test_lengths_are_read_as_they_are_written(lengths: set[int]) -> None:
    assert parse_lengths(", ".join(map(str, lengths))) == sorted(lengths)


@pytest.mark.parametrize("text", ["", "0", "31", "two", "1;2", "-1"])
def test_nonsense_lengths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--lengths"):
        parse_lengths(text)


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=6, unique=True),
    st.floats(-1000, 1000),
    st.floats(0, 5000),
)
def test_the_slope_of_a_line_is_its_own(lengths: list[int], grows: float, base: float) -> None:
    found = figures.slope(lengths, [base + grows * length for length in lengths])
    assert found == pytest.approx(grows, abs=1e-6)


def test_only_pmd_threads_count() -> None:
    text = """pmd thread numa_id 0 core_id 1:
  packets received: 120
  processing cycles: 6000 (10.00%)
  idle cycles: 54000 (90.00%)
main thread:
  packets received: 7
  processing cycles: 99 (1.00%)
"""
    (thread,) = parse_pmd(text)
    assert (thread.busy_cycles, thread.packets) == (6000, 120)


LENGTHS = (1, 2, 5)


def taken_with(grows: float, noise: float = 0.0) -> dict[tuple[str, int], list[Sample]]:
    """Three rounds in which cycles grow by `grows` for each VNF, give or take `noise`."""
    return {
        (subject, length): [
            Sample(100.0 + (grows + wobble) * length, 2.0, 1.0) for wobble in (-noise, 0.0, noise)
        ]
        for subject in SUBJECTS
        for length in LENGTHS
    }


def row_named(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if row.name == name)


SLOPE = f"{DIRECT} cycles for each VNF more"


def test_cycles_that_grow_beyond_the_spread_miss_the_goal() -> None:
    def slope_with(grows: float, noise: float) -> Row:
        return row_named(list(figures.rows_of(taken_with(grows, noise), {}, LENGTHS, 2)), SLOPE)

    assert slope_with(0.0, 1.0).met is True
    assert slope_with(0.5, 1.0).met is True
    assert slope_with(50.0, 1.0).met is False
    assert slope_with(-3.0, 0.1).met is True
    hidden = slope_with(0.0, 500.0)
    assert hidden.met is False
    assert "differ too much" in (hidden.note or "")
    assert "95 % interval" in (slope_with(50.0, 1.0).note or "")
    growing = row_named(
        list(figures.rows_of(taken_with(50.0), {}, LENGTHS, 2)),
        f"{THROUGH} cycles for each VNF more",
    )
    assert growing.value == pytest.approx(50.0) and growing.goal is None


def test_a_rate_by_too_few_cores_is_no_figure_of_the_links() -> None:
    name = f"{DIRECT} rate at 5 / at 1"
    few = row_named(list(figures.rows_of(taken_with(0.0), {}, LENGTHS, 2)), name)
    assert few.value is None and "2 cores for 8 programs" in (few.skipped or "")
    enough = row_named(list(figures.rows_of(taken_with(0.0), {}, LENGTHS, 8)), name)
    assert enough.value == 1.0 and enough.met is True


def test_a_subject_that_failed_is_skipped_with_its_reason() -> None:
    taken = {key: samples for key, samples in taken_with(0.0).items() if key[0] != OVS}
    rows = list(figures.rows_of(taken, {OVS: "not installed"}, LENGTHS, 2))
    skipped = [row for row in rows if row.name.startswith(OVS)]
    assert len(skipped) == 2 * len(LENGTHS) + 1
    assert all(row.skipped == "not installed" for row in skipped)


@pytest.mark.skipif(os.geteuid() != 0 or (os.cpu_count() or 1) < 2, reason="needs root, two cores")
def test_the_command_counts_real_packets() -> None:
    done = subprocess.run(
        [*HEADRACE, "--json", "--lengths", "1,2", "--repeats", "1", "--seconds", "0.1"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    for length in ("1 VNF", "2 VNFs"):
        for what in ("cycles", "rate"):
            assert rows[f"{THROUGH} {length} {what}"]["value"] > 0
            theirs = rows[f"{OVS} {length} {what}"]
            assert theirs["skipped"] or theirs["value"] > 0
    # Three crossings, give or take the packets under way when the window opens and closes.
    through = rows[f"{THROUGH} 2 VNFs cycles"]["note"]
    assert float(through.removesuffix(" times at the switch")) > DIRECT_CROSSINGS
    links = rows[f"{DIRECT} 2 VNFs cycles"]
    assert links["skipped"] or links["value"] > 0


def test_bad_options_are_clear_errors() -> None:
    for words, told in (
        (["--lengths", "0"], "'0' is not a number from 1 to 30"),
        (["--repeats", "0"], "--repeats"),
    ):
        done = subprocess.run(
            [*HEADRACE, *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode != 0
        assert told in done.stderr
