# SPDX-License-Identifier: Apache-2.0
"""The 26 tests by their numbers."""

import re

from headrace.conformance.case import Case
from headrace.conformance.suite import (
    discovery,
    engines,
    external,
    graph_primitives,
    life_cycle,
    load_sweep,
    monitoring,
    node_resources,
    placement,
    repository,
    request_rate,
    rule_setup,
    scaling,
    switches,
)

_MODULES = (
    discovery,
    engines,
    external,
    graph_primitives,
    life_cycle,
    load_sweep,
    monitoring,
    node_resources,
    placement,
    repository,
    request_rate,
    rule_setup,
    scaling,
    switches,
)

CASES: dict[int, Case] = {
    case.number: case
    for case in sorted((c for module in _MODULES for c in module.CASES), key=lambda c: c.number)
}


def chosen(text: str) -> list[Case]:
    """The tests of a list such as `1-10,22`; all if it is empty.

    Raises:
        ValueError: it is no such list, or names a test that there is not.
    """
    if not text.strip():
        return list(CASES.values())
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})(?:\s*-\s*(\d{1,3}))?\s*", part)
        if found is None:
            raise ValueError(f"--only: {part.strip()!r} is no number or range, as in 1-10,22")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 1 <= first <= last <= len(CASES):
            raise ValueError(f"--only: there are tests 1 to {len(CASES)}, not {part.strip()}")
        numbers.update(range(first, last + 1))
    return [CASES[number] for number in sorted(numbers)]
