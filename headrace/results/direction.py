# SPDX-License-Identifier: Apache-2.0
"""Which way is better for each metric, so that a difference can be called better or worse."""

from typing import Literal

from headrace.results.records import UNITS
from headrace.results.statistics import NOT_DETERMINED

Judgement = Literal["better", "worse", "same", "not determined"]

HIGHER_IS_BETTER = {
    *(metric for metric, unit in UNITS.items() if unit in ("pps", "bit/s")),
    "burst_frames",
    "buffer_time",
}
MARKS: dict[Judgement, str] = {"better": "▲", "worse": "▼", "same": "≈", "not determined": "?"}


def judged(metric: str, verdict: str) -> Judgement:
    """A ratio's verdict (`higher`, `lower`, `same`, `not determined`) as better or worse."""
    if verdict == "same":
        return "same"
    if verdict == NOT_DETERMINED:
        return "not determined"
    return "better" if (verdict == "higher") == (metric in HIGHER_IS_BETTER) else "worse"
