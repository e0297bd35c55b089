# SPDX-License-Identifier: Apache-2.0
"""The figures of a performance command: one row each, in one format for text and JSON.

With `--json` a command prints one object: `{"rows": [...], "manifest": {...}}`.
"""

import json
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table


class Row(BaseModel):
    """One figure: a median of samples, in `unit`; `goal` is null where there is none.

    `skipped` is the reason if there is no value.
    """

    name: str
    value: float | None
    unit: str
    goal: float | None = None
    met: bool | None = None
    samples: list[float] = Field(default_factory=list)
    note: str | None = None
    skipped: str | None = None


def row(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    goal: float | None = None,
    better: Literal["higher", "lower"] = "higher",
    note: str | None = None,
) -> Row:
    """The row of some samples; its value is their median, met by whether that reaches the goal."""
    value = statistics.median(samples)
    met = None
    if goal is not None:
        met = value >= goal if better == "higher" else value <= goal
    return Row(
        name=name, value=value, unit=unit, goal=goal, met=met, samples=list(samples), note=note
    )


def skipped(name: str, unit: str, reason: str, *, goal: float | None = None) -> Row:
    """The row of a figure that can't be measured here."""
    met = False if goal is not None else None
    return Row(name=name, value=None, unit=unit, goal=goal, met=met, skipped=reason)


def emit(rows: Sequence[Row], manifest: dict[str, Any], *, as_json: bool) -> None:
    """Prints the figures as JSON or as text."""
    if as_json:
        document = {"rows": [one.model_dump() for one in rows], "manifest": manifest}
        print(json.dumps(document, indent=2))
        return
    Console().print(rows_table(rows))


def rows_table(rows: Sequence[Row], title: str | None = None) -> Table:
    """The figures as a table: what was measured, its median, spread and goal, or why it was not."""
    table = Table(
        "figure", "median", "spread", "goal", "",
        title=title, title_justify="left", title_style="bold",
    )  # fmt: skip
    for one in rows:
        if one.value is None:
            table.add_row(one.name, "skipped", one.skipped or "", "", "")
            continue
        spread = f"{min(one.samples):.4g} .. {max(one.samples):.4g}" if one.samples else ""
        goal = "" if one.goal is None else f"{one.goal:g}"
        verdict = {True: "met", False: "missed", None: ""}[one.met]
        name = one.name if one.note is None else f"{one.name}\n  {one.note}"
        table.add_row(name, f"{one.value:.4g} {one.unit}", spread, goal, verdict)
    return table
