# SPDX-License-Identifier: Apache-2.0
"""How a rate is written that is only a bound, and the ratio of two such rates.

A rate is a lower bound (`≥`) if the generator limited it, or may have, or if a search ended at the
highest load that can be sent; it is an upper bound (`<`) if a search found nothing at its lowest
load. A ratio inherits the bounds of its two rates.
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


def ratio_bound(ours: Bound, theirs: Bound) -> Bound:
    """The sign before a ratio of two rates with these signs.

    Bounds that point apart leave nothing known of the ratio.
    """
    may_be_more = ours == AT_LEAST or theirs == BELOW
    may_be_less = ours == BELOW or theirs == AT_LEAST
    if may_be_more and may_be_less:
        return NOT_DETERMINED
    if may_be_more:
        return AT_LEAST
    return AT_MOST if may_be_less else ""


def bounded(text: str, bound: Bound) -> str:
    """A number as it is printed with its bound; one that is not determined stays in brackets."""
    if bound == NOT_DETERMINED:
        return f"{NOT_DETERMINED} ({text})"
    return f"{bound} {text}" if bound else text
