# SPDX-License-Identifier: Apache-2.0
"""What a conformance run keeps, so that another can go on with it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tests.conformance_openflow.results import Records, counts
from tests.conformance_openflow.run import conclude
from tests.conformance_openflow.suite import Case

CASES = [
    Case(group, f"{group}: x", name, throughput=False)
    for group in ("match", "meter")
    for name in ("first", "second")
]


def write(records: Records, case: Case, *, ok: bool) -> None:
    """Appends an outcome, as the tester does."""
    line = {"file": case.file, "test": case.name, "ok": ok, "error": None if ok else "no"}
    with records.path.open("a") as output:
        output.write(json.dumps({**line, "seconds": 1.0, "ratios": []}) + "\n")


def test_failures_can_be_forgotten_in_some_groups(tmp_path: Path) -> None:
    records = Records(tmp_path / "records", "headrace")
    for case, ok in zip(CASES, (True, False, False, True), strict=True):
        write(records, case, ok=ok)
    records.forget_failures(CASES[2:])
    assert [records.outcome(case) is None for case in CASES] == [False, False, True, False]
    assert counts(CASES, records.outcomes(CASES)) == {
        "match": (1, 2, 2),
        "meter": (1, 1, 2),
        "all": (2, 3, 4),
    }
    # The file is still that of this target, and of no other.
    assert Records(records.path, "headrace").read() == records.read()
    with pytest.raises(ValueError, match="another run"):
        Records(records.path, "ovs")


def test_the_exit_status_says_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(json=None, target="headrace")
    records = Records(tmp_path / "records", "headrace")
    assert conclude(options, CASES, records, 0) == 2  # nothing was measured
    for case in CASES[:3]:
        write(records, case, ok=True)
    assert conclude(options, CASES, records, 0) == 3
    assert conclude(options, CASES, records, 1) == 2
    write(records, CASES[3], ok=False)
    assert conclude(options, CASES, records, 0) == 1
    records.forget_failures(CASES)
    write(records, CASES[3], ok=True)
    assert conclude(options, CASES, records, 0) == 0
    assert "FAILED meter: x: second" in capsys.readouterr().out
