# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.switches.table`: the contract's table, switches by what was tried and passed.

Runs the contract's tests, those marked `full` included (`-k` and other words go on to pytest), and
prints Markdown.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.switches.beds import BEDS

_GROUPS = {
    "matches": "test_match[",
    "masks": "test_match_of_single_bits",
    "sets": "test_set_field",
    "actions": "push|pop|copies|one_tag|select|normal|drops|timeout",
    "counters": "count",
    "ports and links": "link|port_goes|missing",
    "restart, repeat": "repeated|restart|replaced|refused",
    "forwarding": "",
}
"""What each column counts, by words in the names of tests; the first that fits."""


def switch_of(parameters: str) -> str | None:
    """The switch of a test's parameters, `ovs-dpdk-eth_dst`: its name may have hyphens."""
    names = [name for name in BEDS if parameters == name or parameters.startswith(f"{name}-")]
    return max(names, key=len, default=None)


class Results:
    """Outcomes of all tests by switch and group."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes one outcome."""
        found = re.search(r"::(test_\w+\[)([\w:-]+)\]$", report.nodeid)
        switch = switch_of(found[2]) if found is not None else None
        if found is None or switch is None:
            return
        if report.when == "call" or report.skipped or report.failed:
            group = next(
                name
                for name, words in _GROUPS.items()
                if any(word in found[1] for word in words.split("|"))
            )
            self.of[switch][group][report.outcome] += 1


def main(words: list[str]) -> int:
    """Runs the tests and prints the table; pytest's exit code."""
    results = Results()
    here = str(Path(__file__).with_name("test_contract.py"))
    code = pytest.main(["-q", "-m", "full or not full", here, *words], plugins=[results])
    print(f"\n| switch | {' | '.join(_GROUPS)} |\n|---{'|---' * len(_GROUPS)}|")
    for switch, groups in results.of.items():
        cells = []
        for name in _GROUPS:
            count = groups[name]
            text = f"{count['passed']} of {count['passed'] + count['failed']}"
            skipped = f" ({count['skipped']} skipped)" if count["skipped"] else ""
            cells.append(text + skipped)
        print(f"| {switch} | {' | '.join(cells)} |")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
