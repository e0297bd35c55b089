# SPDX-License-Identifier: Apache-2.0
"""What a test finds: comparisons, notes, tables and charts; the evidence of its verdict.

A comparison that is not met does not end the test, so that one run shows all that is wrong;
`demand` ends it where nothing after it would make sense.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class NotApplicable(Exception):
    """The test can't be made on this node, or from here; the text is the reason."""


class Stopped(Exception):
    """A comparison that is not met makes the rest of the test pointless."""


@dataclass(frozen=True)
class Comparison:
    """What was expected, and what came."""

    what: str
    expected: str
    came: str
    met: bool


@dataclass(frozen=True)
class Table:
    """Figures by rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Line:
    """A line of a chart: points (x, y)."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """A chart of Annex C; axes are logarithmic where that is said."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass
class Findings:
    """The evidence that one test has gathered."""

    comparisons: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    @property
    def unmet(self) -> list[Comparison]:
        """The comparisons that failed."""
        return [each for each in self.comparisons if not each.met]

    def holds(self, what: str, met: bool, expected: object, came: object) -> bool:
        """Records whether something is as expected; returns it."""
        self.comparisons.append(Comparison(what, _text(expected), _text(came), bool(met)))
        return bool(met)

    def equal(self, what: str, expected: object, came: object) -> bool:
        """Records whether two values are the same."""
        return self.holds(what, expected == came, expected, came)

    def near(self, what: str, expected: float, came: object, within: float, unit: str = "") -> bool:
        """Records whether a number is the expected one to `within`, in the same unit."""
        is_number = isinstance(came, int | float) and not isinstance(came, bool)
        met = is_number and abs(float(came) - expected) <= within  # type: ignore[arg-type]
        shown = f"{came:g}" if is_number else _text(came)
        space = f" {unit}" if unit else ""
        return self.holds(what, met, f"{expected:g}{space} (± {within:g})", f"{shown}{space}")

    def demand(self, what: str, met: bool, expected: object, came: object) -> None:
        """As `holds`; ends the test if it doesn't.

        Raises:
            Stopped: it is not met.
        """
        if not self.holds(what, met, expected, came):
            raise Stopped(what)

    def note(self, text: str) -> None:
        """A sentence about how the evidence came about."""
        self.notes.append(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Figures by rows."""
        self.tables.append(Table(title, tuple(columns), tuple(tuple(row) for row in rows)))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(str, value))) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "yes" if value is True else "no" if value is False else str(value)
