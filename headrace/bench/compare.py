# SPDX-License-Identifier: Apache-2.0
"""Do two campaigns differ? Ratios of the same metric of the same case, with intervals.

The two campaigns did not run side by side, so a slow phase of the machine can look like a change.
So a verdict needs three rounds on both sides and an interval entirely on one side of 1.
"""

from dataclasses import dataclass

from headrace.results import Case
from headrace.results.statistics import Ratio, ratio_of_groups
from headrace.results.store import Store
from headrace.results.summary import rows_of


@dataclass(frozen=True)
class Change:
    """One metric of one case in two campaigns: new over old."""

    case: Case
    metric: str
    point: str
    old: float
    new: float
    ratio: Ratio


def compare(store: Store, old: int, new: int) -> list[Change]:
    """All metrics that both campaigns measured."""
    before = {(row.case, row.metric, row.point): row for row in rows_of(store, old)}
    changes = []
    for row in rows_of(store, new):
        earlier = before.get((row.case, row.metric, row.point))
        if earlier is None or min(*row.samples, *earlier.samples) <= 0:
            continue
        changes.append(
            Change(
                row.case,
                row.metric,
                row.point,
                earlier.summary.median,
                row.summary.median,
                ratio_of_groups(row.samples, earlier.samples),
            )
        )
    return changes
