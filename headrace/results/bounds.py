# SPDX-License-Identifier: Apache-2.0
"""How a rate is written that the switch did not limit: as a lower bound, and so is its ratio.

If only ours is a lower bound, so is the ratio ours / theirs; if only theirs is, the ratio is an
upper bound; if both are, the ratio of what was measured says nothing about the switches.
"""

from typing import Final, Literal

from headrace.results.records import Relation

AT_LEAST: Final = "≥"
AT_MOST: Final = "≤"
NOT_DETERMINED: Final = "not determined"

BELOW: Final = "<"

Bound = Literal["", "≥", "≤", "<", "not determined"]


def rate_bound(lower_bound: bool, relation: Relation = "=") -> Bound:
    """The sign before a rate, from who limited it and from how its search ended."""
    if relation == "<":
        return BELOW
    return AT_LEAST if lower_bound or relation == ">=" else ""


def ratio_bound(ours: bool, theirs: bool) -> Bound:
    """The sign before a ratio of two rates, from whether each is a lower bound."""
    if ours and theirs:
        return NOT_DETERMINED
    if ours:
        return AT_LEAST
    return AT_MOST if theirs else ""


def bounded(text: str, bound: Bound) -> str:
    """A number as it is printed with its bound; one that is not determined stays in brackets."""
    if bound == NOT_DETERMINED:
        return f"{NOT_DETERMINED} ({text})"
    return f"{bound} {text}" if bound else text
