# SPDX-License-Identifier: Apache-2.0
"""The comparison of two campaigns as a table and as JSON rows."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from headrace.bench.compare import Change, explained
from headrace.results.direction import MARKS
from headrace.results.units import quantity

LEGEND = (
    "ratio new/old with its 95 % interval, relative to the reference unless interleaved; ▲ better "
    "and ▼ worse are proven among all rows, ≈ the same within 5 %, ? not determined"
)


def table_of(changes: Sequence[Change], old: int, new: int) -> Table:
    """One row for each metric; narrow enough for 80 columns, names fold."""
    table = Table(title=f"campaign {new} / campaign {old}", title_justify="left")
    table.add_column("case", overflow="fold")
    table.add_column("metric", overflow="fold")
    for name in ("old", "new"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for change in changes:
        table.add_row(
            f"{change.case.scenario} {change.case.name}",
            f"{change.metric} {change.point}".strip(),
            quantity(change.old, change.unit),
            quantity(change.new, change.unit),
            _ratio(change),
            "ref" if change.how == "is the reference" else MARKS[change.judgement],
        )
    return table


def _ratio(change: Change) -> str:
    ratio = change.ratio
    if ratio is None:
        return ""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f}\n{ratio.low:.2f}..{ratio.high:.2f}"


def json_row(change: Change) -> dict[str, Any]:
    """One metric as the members that every row of a bench has."""
    ratio = change.ratio
    return {
        "name": change.name,
        "value": ratio.value if ratio else None,
        "unit": "ratio",
        "goal": None,
        "met": None,
        "samples": ratio.pairs if ratio else 0,
        "low": ratio.low if ratio else None,
        "high": ratio.high if ratio else None,
        "method": ratio.method if ratio else "none: a value is 0",
        "verdict": change.judgement,
        "proven": change.proven,
        "how": change.how,
        "old": change.old,
        "new": change.new,
        "unit_of_values": change.unit,
        "note": explained(change),
    }
