# SPDX-License-Identifier: Apache-2.0
"""`headrace bench builds`: which programs it takes, and what becomes of pairs."""

from pathlib import Path

import pytest

from headrace.bench.peers import builds
from headrace.bench.peers.builds import Build
from headrace.bench.peers.cases import switching
from headrace.bench.peers.compare import Outcome
from headrace.bench.peers.systems import PeerError
from headrace.bench.rows import Row


def _ratio(before: list[float], after: list[float]) -> Row:
    outcomes = Outcome("before", "", before), Outcome("after", "", after)
    *_, last = builds.rows_of(switching.toggle(), *outcomes, goal=0.98)
    return last


def test_the_ratio_is_the_median_of_the_pairs_with_its_interval() -> None:
    """Both sides of a pair share the machine's phase, so pairs are divided before the median."""
    ratio = _ratio([10.0, 20.0, 10.0, 20.0, 10.0, 20.0], [9.9, 19.8, 9.9, 19.8, 9.9, 40.0])
    assert ratio.name == "toggle after/before"
    assert ratio.value == pytest.approx(0.99)
    assert ratio.met is True
    assert ratio.note == "95 %: 0.990 to 2.000, 6 pairs"


def test_a_slower_build_misses_the_goal() -> None:
    """Few pairs have no interval, and the row says so."""
    ratio = _ratio([10.0, 10.0], [9.0, 9.0])
    assert ratio.met is False
    assert ratio.note == "2 pairs: too few for an interval"


def test_a_build_that_fails_has_no_ratio() -> None:
    """The row is there, with the reason."""
    outcomes = Outcome("before", "", [1e6]), Outcome("after", "", [], "no packets came out")
    *_, last = builds.rows_of(switching.toggle(), *outcomes, goal=0.98)
    assert (last.value, last.met, last.skipped) == (None, False, "after: no packets came out")


def test_a_folder_of_programs_or_of_a_build_will_do(tmp_path: Path) -> None:
    """An error names the folder."""
    apps = tmp_path / "dataplane" / "apps"
    apps.mkdir(parents=True)
    with pytest.raises(PeerError, match=str(tmp_path)):
        Build(tmp_path).program()
    program = apps / "headrace-switch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert Build(tmp_path).program() == Build(apps).program() == program
