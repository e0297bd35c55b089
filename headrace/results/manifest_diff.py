# SPDX-License-Identifier: Apache-2.0
"""What differs between two campaigns' manifests: machine, versions, definitions, scenarios."""

from dataclasses import dataclass
from typing import Any

MEASURED = ("generator", "nodes", "interleaved_with")
"""Members that are measured or named anew in each campaign: they always differ."""
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One member by its path (`machine.kernel`, `scenarios[0].measure.width`)."""

    path: str
    old: str
    new: str


def _leaves(value: object, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(value, dict) and value:
        for key, member in value.items():
            found |= _leaves(member, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(member, dict) for member in value):
        for index, member in enumerate(value):
            found |= _leaves(member, f"{path}[{index}]")
    else:
        found[path] = str(value)
    return found


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[Difference]:
    """The members that differ, in the order of the newer manifest."""
    sides = [
        _leaves({key: value for key, value in one.items() if key not in MEASURED}, "")
        for one in (old, new)
    ]
    paths = dict.fromkeys([*sides[1], *sides[0]])
    return [
        Difference(path, before, after)
        for path in paths
        if (before := sides[0].get(path, ABSENT)) != (after := sides[1].get(path, ABSENT))
    ]
