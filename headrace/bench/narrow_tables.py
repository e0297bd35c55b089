# SPDX-License-Identifier: Apache-2.0
"""A campaign's tables for a terminal of 80 columns: a line for each subject under its metric.

The wide form (tables.py) has a column for each subject, which four subjects with their intervals
make 120 columns wide.
"""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

Key = tuple[str, str, str]


def narrow_table(
    title: str,
    order: Sequence[Key],
    cells: Mapping[Key, Mapping[str, str]],
    metrics: Mapping[Key, str],
    ratios: Mapping[Key, tuple[str, str]],
) -> Table:
    """One scenario's table.

    Args:
        title: the scenario.
        order: the keys (case, metric, point) in the order of printing.
        cells: for each key the values by subject, each with its interval.
        metrics: for each key its metric with its unit.
        ratios: for each key the subject that is compared and its ratio.
    """
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("case, metric, subject", overflow="fold", ratio=3)
    table.add_column("value", overflow="fold", justify="right", ratio=2)
    table.add_column("ratio", overflow="fold", justify="right", ratio=2)
    case = ""
    for key in order:
        if key[0] != case:
            if case:
                table.add_section()
            case = key[0]
            table.add_row(f"[bold]{case}", "", "")
        rows = cells[key]
        table.add_row(f" {metrics[key]}", "", "")
        compared, ratio = ratios.get(key, ("", ""))
        for subject, value in rows.items():
            table.add_row(f"   {subject}", value, ratio if subject == compared else "")
    return table
