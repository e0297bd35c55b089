# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a run: by group, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.rows import Row
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
    seconds: float
    ratios: tuple[float, ...]  # throughput tests: measured rates over expected ones

    def __str__(self) -> str:
        return f"{self.file}: {self.test}\n    {self.error or 'ok'}"


class Records:
    """The file that a run's outcomes are kept in as they come, so that another can go on.

    Its first line says what was tested; each other line is one test's outcome.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        head = {"target": target}
        if not path.exists() or not path.stat().st_size:
            path.write_text(json.dumps(head) + "\n")
        elif (before := json.loads(path.read_text().splitlines()[0])) != head:
            raise ValueError(f"{path} has the outcomes of another run: {before}")

    def read(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What is recorded, by file and test. A line that is being written is left out."""
        text = self.path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()[1:]
        records = [json.loads(line) for line in lines]
        return {(record["file"], record["test"]): record for record in records}

    def forget_failures(self, cases: Sequence[Case]) -> None:
        """Drops the outcomes of those of `cases` that failed, so that they run again."""
        wanted = {(case.file, case.name) for case in cases}
        kept = [record for key, record in self.read().items() if record["ok"] or key not in wanted]
        head = self.path.read_text().splitlines()[0]
        self.path.write_text("\n".join([head, *map(json.dumps, kept)]) + "\n")

    def outcome(self, case: Case) -> Outcome | None:
        """What came of one test; None if it has not run."""
        return _outcome(case, self.read().get((case.file, case.name)))

    def outcomes(self, cases: Sequence[Case]) -> list[Outcome]:
        """What came of all that ran."""
        records = self.read()
        every = (_outcome(case, records.get((case.file, case.name))) for case in cases)
        return [one for one in every if one is not None]


def _outcome(case: Case, record: dict[str, Any] | None) -> Outcome | None:
    if record is None:
        return None
    return Outcome(
        case.group,
        case.file,
        case.name,
        record["ok"],
        record["error"],
        record["seconds"],
        tuple(record["ratios"]),
    )


def counts(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int, int]]:
    """By group that has any, and in `all`: how many passed, how many ran, how many there are."""
    table = {}
    for group in (*GROUPS, "all"):
        mine = [one for one in outcomes if group in (one.group, "all")]
        there = sum(group in (case.group, "all") for case in cases)
        if not there:
            continue
        table[group] = (sum(one.ok for one in mine), len(mine), there)
    return table


def table(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    """Passed, run and all, by group."""
    lines = [f"{'group':<12}{'passed':>8}{'run':>8}{'tests':>8}"]
    for group, (passed, ran, there) in counts(cases, outcomes).items():
        lines.append(f"{group:<12}{passed:>8}{ran:>8}{there:>8}")
    return "\n".join(lines)


def to_json(target: str, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str:
    """The whole, for machines: one row per group as of any figure, and each test's outcome."""
    rows = [
        Row(
            name=f"conformance {group}: {target}",
            value=passed,
            unit="tests",
            goal=there,
            met=passed == there,
            samples=[passed],
            note=None if ran == there else f"{there - ran} tests did not run",
        )
        for group, (passed, ran, there) in counts(cases, outcomes).items()
    ]
    return json.dumps(
        {
            "rows": [row.model_dump() for row in rows],
            "manifest": {
                "target": target,
                "tester": "Open vSwitch, userspace datapath",
                "machine": machine(),
                "versions": versions(),
            },
            "outcomes": [asdict(one) for one in outcomes],
        },
        indent=1,
    )
