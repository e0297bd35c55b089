# SPDX-License-Identifier: Apache-2.0
"""The series of a figure: the paper's numbers and ours, in the figure's axes."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.report.view import View
from headrace.results import Case, published
from headrace.results.bounds import Bound
from headrace.results.experiment import Figure
from headrace.results.frame_sizes import mean_bytes
from headrace.results.published import PublishedValue
from headrace.results.summary import Row

IMIX_BYTES = 387.0
"""ICPE 2018's mix: 19.01 Gbit/s are 6.14 Mpps there."""
RATES = {"pps": 1.0, "kpps": 1e3, "Mpps": 1e6}
BITS = {"bit/s": 1.0, "Mbit/s": 1e6, "Gbit/s": 1e9}
TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6}
FAMILIES = (RATES, BITS, TIMES)


@dataclass(frozen=True)
class Point:
    """One value: `x` a number, or the place of a word; `low` and `high` are its interval or range.

    `bound` says that the value is one.
    """

    x: float
    y: float
    low: float
    high: float
    bound: Bound = ""
    samples: int = 1


@dataclass(frozen=True)
class Series:
    """A line of a figure: the paper's (`theirs`) or ours."""

    label: str
    theirs: bool
    points: tuple[Point, ...]

    def at(self, x: float) -> Point | None:
        """The point at x."""
        return next((point for point in self.points if point.x == x), None)


def converted(value: float, unit: str, wanted: str, size: float | None = None) -> float | None:
    """A value in another unit of its family, or a packet rate as bits; None if it can't be."""
    unit = unit.removesuffix("/core")
    if unit == wanted or (unit, wanted) == ("", "ratio"):
        return value
    for family in FAMILIES:
        if unit in family and wanted in family:
            return value * family[unit] / family[wanted]
    if unit in RATES and wanted in BITS and size is not None and math.isfinite(size):
        return value * RATES[unit] * 8 * size / BITS[wanted]
    if unit == "" and wanted == "% lost":
        return 100 * value
    if unit == "TSC cycles" and wanted in ("cycles", "cycles/packet"):
        return value
    return None


def _accepted(filters: dict[str, list[str | int]], thing: object) -> bool:
    return all(
        str(getattr(thing, name)) in {str(one) for one in allowed}
        for name, allowed in filters.items()
    )


def _their_x(figure: Figure, value: PublishedValue) -> float | None:
    if figure.x == "size":
        return float(value.packet_bytes) if value.packet_bytes.isdigit() else IMIX_BYTES
    found = {
        "vnfs": value.vnfs,
        "flows": value.flows,
        "workers": value.threads,
        "nodes": value.vnfs,
        "system": 0,
    }.get(figure.x)
    return None if found is None else float(found)


def theirs(figure: Figure, paper: str) -> list[Series]:
    """The paper's numbers that belong into the figure; empty if its text has none."""
    if not figure.published:
        return []
    found: dict[str, list[Point]] = defaultdict(list)
    chosen = [
        one for one in published.values() if one.paper == paper and _accepted(figure.published, one)
    ]
    functions = {one.function for one in chosen}
    experiments = {one.experiment for one in chosen}
    for one in chosen:
        size = float(one.packet_bytes) if one.packet_bytes.isdigit() else None
        y, x = converted(one.value, one.unit, figure.y, size), _their_x(figure, one)
        if y is None or x is None:
            continue
        label = one.system
        if figure.x == "system":
            label += f", {one.function}" if len(functions) > 1 and one.function else ""
            label += f", {one.experiment}" if len(experiments) > 1 else ""
        if figure.x == "vnfs" and "threads" in one.experiment and one.threads:
            label += f", {one.threads} thread{'s' if one.threads > 1 else ''}"
        found[label].append(Point(x, y, y, y))
    return [Series(name, True, _sorted(points)) for name, points in found.items()]


def _sorted(points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple(sorted(points, key=lambda point: point.x))


def _our_x(figure: Figure, row: Row) -> float | None:
    case = row.case
    if figure.x == "load":
        found = re.match(r"([\d.]+)% ", row.point)
        return float(found[1]) if found else None
    return {
        "vnfs": float(case.vnfs),
        "size": mean_bytes(case.size),
        "flows": float(case.flows),
        "workers": float(case.varied("workers", "1")),
        "taken": float(case.varied("taken", "0")),
        "nodes": float(case.varied("nodes", "1")),
        "system": 0.0,
    }[figure.x]


_WORDS = {"workers": "workers", "taken": "taken", "nodes": "nodes"}


def _label(figure: Figure, case: Case, sizes: set[str], graphs: set[str]) -> str:
    """The series of a case: its deployment, and what else differs but the axis."""
    word = _WORDS.get(figure.x)
    kept = [part for part in case.deployment.split() if not word or not part.startswith(word + "=")]
    if figure.x != "size" and len(sizes) > 1:
        kept.append(case.frames)
    if figure.x != "vnfs" and len(graphs) > 1:
        kept.append(case.graph)
    return " ".join(kept)


def _rows(figure: Figure, view: View, experiment: str) -> list[Row]:
    return [
        row
        for row in view.rows
        if row.case.scenario == experiment
        and figure.metric in (row.metric, row.kind)
        and (not figure.point or row.point == figure.point)
        and _accepted(figure.select, row.case)
    ]


def ours(figure: Figure, view: View, experiment: str) -> list[Series]:
    """What the campaign has of the figure; empty if nothing was measured."""
    if figure.rows:
        return _of_command(figure, view, experiment)
    rows = _rows(figure, view, experiment)
    if figure.select.get("shape") == ["parallel", "chain"]:
        rows = [row for row in rows if row.case.shape == "parallel" or row.case.vnfs == 1]
    kept = [row for row in rows if not figure.subtract or row.case.graph != figure.subtract]
    base = {
        (row.case.subject.split("+")[0], row.case.size, row.point): row.summary.median
        for row in rows
        if figure.subtract and row.case.graph == figure.subtract
    }
    sizes, graphs = {row.case.size for row in kept}, {row.case.graph for row in kept}
    found: dict[str, list[Point]] = defaultdict(list)
    for row in kept:
        x = _our_x(figure, row)
        less = 0.0
        if figure.subtract:
            key = (row.case.subject.split("+")[0], row.case.size, row.point)
            if key not in base:
                continue
            less = base[key]
        point = _point(figure, row, x, less)
        if point is not None:
            found[_label(figure, row.case, sizes, graphs)].append(point)
    if figure.x == "nodes":
        found = _with_one_node(found)
    made = [Series(name, False, _sorted(points)) for name, points in found.items()]
    return _relative(figure, made) if figure.relative_to else made


def _with_one_node(found: dict[str, list[Point]]) -> dict[str, list[Point]]:
    """A single node is joined by nothing: it begins each series of its switch."""
    rows = {name: points for name, points in found.items() if " joined=" in name}
    for name, points in found.items():
        if name in rows:
            continue
        begun = [other for other in rows if other.startswith(f"{name} joined=")]
        for other in begun:
            rows[other] = [*points, *rows[other]]
        if not begun:
            rows[name] = points
    return rows


def _point(figure: Figure, row: Row, x: float | None, less: float) -> Point | None:
    summary = row.summary
    low = summary.low if summary.low is not None else summary.minimum
    high = summary.high if summary.high is not None else summary.maximum
    unit = row.unit
    wanted = "Mpps" if figure.relative_to else figure.y
    size = mean_bytes(row.case.size)
    values = [converted(value - less, unit, wanted, size) for value in (summary.median, low, high)]
    if x is None or any(value is None for value in values):
        return None
    middle, least, most = (value or 0.0 for value in values)
    return Point(x, middle, min(least, middle), max(most, middle), row.bound, summary.count)


def _relative(figure: Figure, made: Sequence[Series]) -> list[Series]:
    """In percent below one series, at the same x."""
    base = next((one for one in made if one.label == figure.relative_to), None)
    if base is None:
        return []
    found = []
    for one in made:
        if one is base:
            continue
        points = []
        for point in one.points:
            at = base.at(point.x)
            if at is None or at.y <= 0:
                continue
            below = [100 * (1 - value / at.y) for value in (point.y, point.high, point.low)]
            points.append(replace(point, y=below[0], low=min(below), high=max(below)))
        found.append(replace(one, points=tuple(points)))
    return [one for one in found if one.points]


def _of_command(figure: Figure, view: View, experiment: str) -> list[Series]:
    pattern = re.compile(figure.rows)
    found: dict[str, list[Point]] = defaultdict(list)
    for name, row in view.command_rows:
        match = pattern.search(str(row.get("name", ""))) if name == experiment else None
        if match is None or row.get("value") is None:
            continue
        values: list[float] = [float(row["value"]), *map(float, row.get("samples") or [])]
        drawn = [converted(value, str(row.get("unit", "")), figure.y) for value in values]
        if any(value is None for value in drawn):
            continue
        numbers = [value or 0.0 for value in drawn]
        x = float(match["x"]) if "x" in match.groupdict() else 0.0
        point = Point(x, numbers[0], min(numbers), max(numbers), "", max(1, len(numbers) - 1))
        found[match["series"]].append(point)
    return [Series(name, False, _sorted(points)) for name, points in found.items()]


def statements(view: View, experiment: str) -> list[dict[str, Any]]:
    """Rows of a command that are statements with an outcome, not figures."""
    return [row for name, row in view.command_rows if name == experiment and "outcome" in row]
