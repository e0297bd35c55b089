# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a run: by group, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.conformance_openflow.suite import Case

GROUPS = ("action", "set_field", "match", "group", "meter")


@dataclass(frozen=True)
class Outcome:
    """One test's result; `error` is None if it passed."""

    group: str
    file: str
    test: str
    ok: bool
    error: str | None
    repeats: int  # because the tester switch lost the packet; see tester_app.py
    seconds: float


def read(path: Path, cases: list[Case]) -> list[Outcome]:
    """The outcomes of all `cases`; one without a record did not run, which is a failure."""
    records = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        records[record["file"], record["test"]] = record
    outcomes = []
    for case in cases:
        record = records.get((case.file, case.name))
        if record is None:
            outcomes.append(Outcome(case.group, case.file, case.name, False, "did not run", 0, 0.0))
        else:
            outcomes.append(
                Outcome(
                    case.group,
                    case.file,
                    case.name,
                    record["ok"],
                    record["error"],
                    record["repeats"],
                    record["seconds"],
                )
            )
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """Passed and all, by group."""
    lines = [f"{'group':<12}{'passed':>8}{'tests':>8}"]
    for group in (*GROUPS, "all"):
        mine = [outcome for outcome in outcomes if group in (outcome.group, "all")]
        lines.append(f"{group:<12}{sum(outcome.ok for outcome in mine):>8}{len(mine):>8}")
    return "\n".join(lines)


def failures(outcomes: list[Outcome]) -> str:
    """One line for each test that failed."""
    return "\n".join(
        f"{outcome.file}: {outcome.test}\n    {outcome.error}"
        for outcome in outcomes
        if not outcome.ok
    )


def to_json(target: str, outcomes: list[Outcome]) -> str:
    """The whole, for machines."""
    groups = {
        group: {
            "passed": sum(outcome.ok for outcome in outcomes if outcome.group == group),
            "tests": sum(outcome.group == group for outcome in outcomes),
        }
        for group in GROUPS
    }
    return json.dumps(
        {
            "target": target,
            "passed": sum(outcome.ok for outcome in outcomes),
            "tests": len(outcomes),
            "repeats": sum(outcome.repeats for outcome in outcomes),
            "groups": groups,
            "outcomes": [asdict(outcome) for outcome in outcomes],
        },
        indent=1,
    )
