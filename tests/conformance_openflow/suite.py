# SPDX-License-Identifier: Apache-2.0
"""The test suite that os-ken ships: its files, its tests, and a part of it for quick runs."""

import json
from dataclasses import dataclass
from pathlib import Path

import os_ken

DIRECTORY = Path(os_ken.__file__).parent / "tests" / "switch" / "of13"


@dataclass(frozen=True)
class Case:
    """One test. `file` is the description in the file's head, such as `match: 10_IP_PROTO`."""

    group: str
    file: str
    name: str
    throughput: bool


def group_of(path: Path) -> str:
    """The row of the published tables: set_field is counted apart from the other actions."""
    parts = path.relative_to(DIRECTORY).parts
    return "set_field" if "25_SET_FIELD" in parts else parts[0]


def load() -> list[Case]:
    """All tests in the order in which they run."""
    cases = []
    for path in sorted(DIRECTORY.rglob("*.json")):
        content = json.loads(path.read_text())
        file = next(entry for entry in content if isinstance(entry, str))
        for entry in content:
            if isinstance(entry, dict):
                throughput = any("packets" in test["ingress"] for test in entry["tests"])
                cases.append(Case(group_of(path), file, entry["description"], throughput))
    return cases


def representative(cases: list[Case]) -> list[Case]:
    """A part that takes about two minutes: each file's first test and its last, no throughput."""
    by_file: dict[str, list[Case]] = {}
    for case in cases:
        if not case.throughput:
            by_file.setdefault(case.file, []).append(case)
    kept = []
    for group in by_file.values():
        kept += group[:1] + (group[-1:] if len(group) > 1 else [])
    return kept
