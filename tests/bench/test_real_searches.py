# SPDX-License-Identifier: Apache-2.0
"""One search by each set of goals on a real switch, source and sink in it, to its end."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.machine.programs import ProgramMissing, find_program
from headrace.results import Trial
from headrace.results.store import Store

pytestmark = [pytest.mark.root, pytest.mark.dpdk, pytest.mark.timeout(300)]
SHORT = ("rfc2544", "--trials-of", "0.2")


def searched(results: Path, *words: str) -> tuple[list[dict[str, Any]], list[Trial]]:
    """The rows of one search of Headrace port to port, and all its trials."""
    if os.geteuid() != 0:
        pytest.skip("needs root: pinned processes")
    try:
        find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(f"not built: {error}")
    done = CliRunner().invoke(app, ["bench", "search", *words, "--json", "--results", str(results)])
    assert done.exit_code == 0, done.output
    with Store(results) as store:
        trials = [trial for case in store.cases(1) for trial in store.trials(case)]
    return json.loads(done.stdout)["rows"], trials


def rate(rows: list[dict[str, Any]], metric: str) -> float:
    """The searched rate of the row whose name has the metric; it has to be an answer, no bound."""
    (found,) = [row for row in rows if f" {metric}" in row["name"]]
    assert found["unit"] == "pps" and found["relation"] == "=", found
    return float(found["value"])


@pytest.mark.parametrize("words", [("quick",), SHORT, (*SHORT, "--by", "bisection")])
def test_a_short_search_ends_with_an_answer(tmp_path: Path, words: tuple[str, ...]) -> None:
    rows, trials = searched(tmp_path / "r.sqlite", *words, "--loss", "0.1")
    assert rate(rows, "pdr") > 1e5
    assert any(trial.purpose == "search" for trial in trials)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("goal", "final_s"), [("csit", 1.0), ("rfc2544", 60.0), ("tst009", 60.0)])
def test_a_search_of_the_standards_length_ends_with_an_answer(
    tmp_path: Path, goal: str, final_s: float
) -> None:
    rows, trials = searched(tmp_path / "r.sqlite", goal)
    assert rate(rows, "ndr") > 1e5
    longest = max(trial.duration_s for trial in trials if trial.purpose == "search")
    # A trial that may lose nothing ends at its first loss.
    assert longest == pytest.approx(final_s, rel=0.05)
    if goal == "csit":
        assert rate(rows, "mrr") >= 0.5 * rate(rows, "ndr")
        ten = [trial for trial in trials if trial.purpose == "overload"][:10]
        assert len(ten) == 10 and all(t.duration_s == pytest.approx(1.0, rel=0.2) for t in ten)
