# SPDX-License-Identifier: Apache-2.0
"""What the data support saying of a paper's figure and ours: trends and orders, never levels.

The machines differ by ten years, NICs and cores, so levels are not compared. What can be is how a
system's value changes over the axis, and which system is above which. A change of ours counts only
where the intervals (or ranges) of its two ends do not meet.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headrace.report.paper_pages.drawing import NAMES
from headrace.report.paper_pages.series import Point, Series
from headrace.results.bounds import AT_LEAST, AT_MOST, BELOW, NOT_DETERMINED
from headrace.results.experiment import Figure
from headrace.results.units import digits

FLAT = 0.1
"""Less than that share is no change in a paper's figure, which has no intervals."""

APART = 1.6
"""Ends of two ranges that differ by more than this factor are not the same place..."""
APART_FLOWS = 10.0
"""... except numbers of flows, which papers choose by powers of ten."""

Verdict = Literal["agrees", "disagrees", "open", "ours only"]


@dataclass(frozen=True)
class Reading:
    """One sentence, and whether it says that figure and measurement agree."""

    verdict: Verdict
    text: str


def readings(figure: Figure, series: Sequence[Series]) -> list[Reading]:
    """All that can be said of a figure."""
    their = [one for one in series if one.theirs]
    mine = [_unbounded(one) for one in series if not one.theirs]
    if not mine:
        return []
    found: list[Reading] = []
    if figure.x != "system":
        for one in their:
            partner = _partner(figure, one, mine)
            if partner is not None:
                found += _trend(figure, one, partner)
        compared = {_name(figure, one, mine) for one in their}
        found += [
            Reading("ours only", _alone(figure, one))
            for one in mine
            if one.label not in compared and len(one.points) > 1
        ]
    found += _orders(figure, their, mine)
    return found


def _unbounded(one: Series) -> Series:
    """The series with the ranges that its bounds leave: a rate that is `≥ x` has no upper end."""
    points = tuple(
        replace(
            point,
            low=0.0 if point.bound in (BELOW, AT_MOST, NOT_DETERMINED) else point.low,
            high=math.inf if point.bound in (AT_LEAST, NOT_DETERMINED) else point.high,
        )
        for point in one.points
    )
    return replace(one, points=points)


def _partner(figure: Figure, one: Series, mine: Sequence[Series]) -> Series | None:
    wanted = figure.alike.get(one.label.split(",")[0])
    if wanted is None:
        return None
    return next((each for each in mine if each.label.startswith(wanted)), None)


def _name(figure: Figure, one: Series, mine: Sequence[Series]) -> str:
    partner = _partner(figure, one, mine)
    return partner.label if partner is not None else ""


def _factor(first: Point, last: Point) -> float | None:
    return last.y / first.y if first.y > 0 else None


Direction = Literal["up", "down", "flat"]


def _their_direction(first: Point, last: Point) -> Direction:
    change = last.y / first.y - 1 if first.y > 0 else 0.0
    if abs(change) < FLAT:
        return "flat"
    return "up" if change > 0 else "down"


def _our_direction(first: Point, last: Point) -> Direction | None:
    """None where there are too few samples to tell, or a bound that leaves it open."""
    if min(first.samples, last.samples) < 2:
        return None
    if last.low > first.high:
        return "up"
    if last.high < first.low:
        return "down"
    return None if first.bound or last.bound else "flat"


def _excludes(first: Point, last: Point, factor: float | None) -> bool:
    """Whether our ends allow no change by that factor."""
    if factor is None or first.low <= 0:
        return False
    return not last.low / first.high <= factor <= last.high / first.low


def _nearest(points: Sequence[Point], x: float) -> Point:
    return min(points, key=lambda point: abs(point.x - x))


def _common_ends(their: Sequence[Point], ours: Sequence[Point]) -> tuple[Point, Point]:
    """The paper's first and last point within our range; of all, where that has fewer than two."""
    low, high = min(point.x for point in ours), max(point.x for point in ours)
    within = [point for point in their if low <= point.x <= high]
    among = within if len(within) > 1 else their
    return among[0], among[-1]


def _is_apart(figure: Figure, one: Point, other: Point) -> bool:
    """Whether two places on an axis are too far apart to be compared (64 and 100 B are not)."""
    factor = APART_FLOWS if figure.x == "flows" else APART
    return max(one.x, other.x) > factor * min(one.x, other.x)


def _told(first: Point, last: Point) -> str:
    factor = _factor(first, last)
    return f"times {digits(factor)}" if factor is not None else "from nothing"


def _trend(figure: Figure, one: Series, partner: Series) -> Iterator[Reading]:
    if len(one.points) < 2 or len(partner.points) < 2:
        return
    ends = _common_ends(one.points, partner.points)
    near = _nearest(partner.points, ends[0].x), _nearest(partner.points, ends[1].x)
    if near[0].x == near[1].x:
        return
    axis = NAMES[figure.x].split(" (")[0].split(",")[0]
    text = (
        f"From {_number(ends[0].x)} to {_number(ends[1].x)} ({axis}) the paper's {one.label} goes "
        f"{_told(*ends)}, ours ({partner.label}) from {_number(near[0].x)} to "
        f"{_number(near[1].x)} {_told(*near)}"
    )
    theirs, ours = _their_direction(*ends), _our_direction(*near)
    if any(_is_apart(figure, *pair) for pair in zip(ends, near, strict=True)):
        yield Reading("open", f"{text}; the ranges are not the same.")
    elif ours is None and (near[0].bound or near[1].bound):
        yield Reading("open", f"{text}; ours are bounds, which leave it open.")
    elif ours is None:
        yield Reading("open", f"{text}; one sample does not determine it.")
    elif ours == theirs:
        both = {"up": "both rise", "down": "both fall", "flat": "neither changes"}[ours]
        yield Reading("agrees", f"{text}: {both}.")
    elif not _excludes(*near, _factor(*ends)):
        yield Reading("open", f"{text}; our ranges allow either.")
    else:
        how = {"up": "rises", "down": "falls", "flat": "shows no change"}
        yield Reading("disagrees", f"{text}: theirs {how[theirs]}, ours {how[ours]}.")


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _alone(figure: Figure, one: Series) -> str:
    first, last = one.points[0], one.points[-1]
    direction = _our_direction(first, last)
    words = {"up": "rises", "down": "falls", "flat": "shows no change", None: "goes"}[direction]
    return (
        f"{one.label} {words} from {digits(first.y)} to {digits(last.y)} {figure.y} "
        f"({_told(first, last)}) from {_number(first.x)} to {_number(last.x)} "
        f"({NAMES[figure.x].split(' (')[0].split(',')[0]})."
    )


def _orders(figure: Figure, their: Sequence[Series], mine: Sequence[Series]) -> Iterator[Reading]:
    """For each pair of systems that both have, at the first x that all four have: which is above.

    Series of one value have one x.
    """
    pairs = [(one, partner) for one in their if (partner := _partner(figure, one, mine))]
    for at, (one, mine_one) in enumerate(pairs):
        for other, mine_other in pairs[at + 1 :]:
            if mine_one.label == mine_other.label:
                continue
            place = next(
                (
                    point.x
                    for point in one.points
                    if other.at(point.x) and mine_one.at(point.x) and mine_other.at(point.x)
                ),
                None,
            )
            if place is None:
                continue
            a, b = one.at(place), other.at(place)
            c, d = mine_one.at(place), mine_other.at(place)
            assert a and b and c and d
            yield _order(figure, place, (one, other), (mine_one, mine_other), (a, b, c, d))


def _order(
    figure: Figure,
    place: float,
    their: tuple[Series, Series],
    mine: tuple[Series, Series],
    points: tuple[Point, Point, Point, Point],
) -> Reading:
    a, b, c, d = points
    where = "" if figure.x == "system" else f"At {_number(place)}: "
    text = (
        f"{where}{their[0].label} / {their[1].label} is {digits(a.y / b.y)} in the paper, "
        f"{mine[0].label} / {mine[1].label} here {digits(c.y / d.y) if d.y > 0 else 'undefined'}"
    )
    apart = c.low > d.high or c.high < d.low
    if not apart:
        return Reading("open", f"{text}; our intervals meet, so our order is not determined.")
    if (a.y > b.y) == (c.y > d.y):
        return Reading("agrees", f"{text}: the same order.")
    return Reading("disagrees", f"{text}: the other order.")
