# SPDX-License-Identifier: Apache-2.0
"""`headrace bench builds`: which programs it takes, and what becomes of pairs."""

from pathlib import Path

import pytest

from headrace.bench.peers import builds
from headrace.bench.peers.account import Account, Counters
from headrace.bench.peers.builds import Build
from headrace.bench.peers.cases import switching
from headrace.bench.peers.compare import Outcome
from headrace.bench.peers.systems import PeerError
from headrace.bench.rows import Row


def _outcomes(system: str, starts: list[list[float]]) -> list[Outcome]:
    return [Outcome(system, "", pps) for pps in starts]


def _ratio(before: list[list[float]], after: list[list[float]]) -> Row:
    sides = _outcomes("before", before), _outcomes("after", after)
    *_, last = builds.rows_of(switching.toggle(), *sides, goal=0.98)
    return last


def test_the_ratio_is_the_median_of_the_starts_with_its_interval() -> None:
    """Both sides of a pair share the machine's phase, so pairs are divided before the median."""
    ratio = _ratio([[10.0, 20.0, 10.0]] * 6, [[9.9, 19.8, 40.0]] * 4 + [[9.8, 19.6, 9.8]] * 2)
    assert ratio.name == "toggle after/before"
    assert ratio.value == pytest.approx(0.99)
    assert ratio.met is True
    assert ratio.note == "95 %: 0.980 to 0.990, 18 pairs in 6 starts"


def test_what_differs_between_starts_is_in_the_interval() -> None:
    """However well the pairs of a start agree."""
    starts = [0.95, 0.97, 0.99, 1.01, 1.03, 1.05]
    ratio = _ratio([[10.0] * 6] * 6, [[10 * one] * 6 for one in starts])
    assert ratio.value == pytest.approx(1.0)
    assert ratio.note == "95 %: 0.950 to 1.050, 36 pairs in 6 starts"


def test_a_slower_build_misses_the_goal() -> None:
    """One start has no interval, and the row says so."""
    ratio = _ratio([[10.0] * 8], [[9.0] * 8])
    assert ratio.met is False
    assert ratio.note == "8 pairs in 1 starts: too few starts for an interval"


def test_a_build_that_fails_in_one_start_has_no_ratio() -> None:
    """The row is there, with the reason."""
    before = _outcomes("before", [[1e6], [1e6]])
    after = [Outcome("after", "", [1e6]), Outcome("after", "", [], "no packets came out")]
    *_, last = builds.rows_of(switching.toggle(), before, after, goal=0.98)
    assert (last.value, last.met, last.skipped) == (None, False, "after: no packets came out")


def test_the_start_that_lost_packets_is_the_one_that_is_shown() -> None:
    """A loss in one of many starts is a row that misses its goal."""

    def account(sent: int) -> Account:
        return Account(Counters(0, 0, (0,)), Counters(100, 100, (sent,)), 0.1)

    before = _outcomes("before", [[1e6]] * 3)
    after = [Outcome("after", "", [1e6], account=account(sent)) for sent in (100, 93, 100)]
    rows = {one.name: one for one in builds.rows_of(switching.toggle(), before, after, goal=0.98)}
    lost = rows["toggle after lost"]
    assert (lost.value, lost.met) == (7, False)


def test_each_start_has_a_pair() -> None:
    """Pairs are dealt over the starts, rounded up."""
    assert builds.pairs_of_a_start(36, 6) == 6
    assert builds.pairs_of_a_start(20, 6) == 4
    with pytest.raises(PeerError, match="--starts 6 is more than --pairs 5"):
        builds.pairs_of_a_start(5, 6)


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
