# SPDX-License-Identifier: Apache-2.0
"""The headline ratios of a campaign: what was to be compared, and what came of it.

What a campaign had to answer stands in its manifest (`headline`), so that a case without a result
is known, too. A campaign without that member (an imported or an older one) is asked what its rows
allow.
"""

from dataclasses import dataclass

from headrace.report.view import View
from headrace.results import Case
from headrace.results.contrasts import Contrast, contrasts_of
from headrace.results.statistics import Paired, Ratio, paired
from headrace.results.summary import Row

WIDTH = 0.1
SMALLEST = "64"


@dataclass(frozen=True)
class Compared:
    """A headline ratio.

    Attributes:
        contrast: the two cases.
        metric: what of them is compared.
        over, under: their rows; None if there is no result.
        missing: why not, "" if there are both.
        pairs: the values of both and their ratio, of the same pairs; None if no round has both.
        width: the half width that was wanted, as a share.
    """

    contrast: Contrast
    metric: str
    over: Row | None
    under: Row | None
    missing: str
    pairs: Paired | None
    width: float

    @property
    def ratio(self) -> Ratio | None:
        """Of `over` to `under`."""
        return None if self.pairs is None else self.pairs.ratio


@dataclass(frozen=True)
class _Asked:
    contrast: Contrast
    metric: str
    point: str
    width: float = WIDTH


def compared(view: View) -> list[Compared]:
    """All headline ratios, in the order of the questions' scenarios."""
    rows = {(row.case, row.metric, row.point): row for row in view.rows}
    found = []
    for asked in _asked(view):
        cases = (asked.contrast.over, asked.contrast.under)
        over, under = (rows.get((case, asked.metric, asked.point)) for case in cases)
        lost = [case for case, row in zip(cases, (over, under), strict=True) if row is None]
        missing = "; ".join(f"{case.name} has no result: {_reason(view, case)}" for case in lost)
        pairs = paired(over.by_round, under.by_round) if over and under else None
        metric, width = asked.metric, asked.width
        found.append(Compared(asked.contrast, metric, over, under, missing, pairs, width))
    return found


def _reason(view: View, case: Case) -> str:
    for skip in view.skips:
        if skip.scenario == case.scenario and skip.what.split(": ")[0] == case.name:
            return skip.reason
    return "not measured"


def _asked(view: View) -> list[_Asked]:
    stored = view.campaign.manifest.get("headline")
    if stored:
        return [
            _Asked(
                Contrast(one["by"], Case(**one["over"]), Case(**one["under"])),
                one["metric"],
                one["point"],
                one["width"],
            )
            for one in stored
        ]
    rates = [row.case for row in view.select("mrr") if row.case.size == SMALLEST]
    # Where the generator can't be the limit there is an answer, else perhaps a bound.
    rates = [case for case in rates if case.ports == "in-process"] or rates
    asked = [
        _Asked(contrast, "mrr", "overload")
        for contrast in contrasts_of(rates)
        if contrast.by != "vnfs"
    ]
    costs = [
        row
        for row in view.select("cycles_per_packet")
        if row.case.shape == "chain" and row.point.endswith(" pps") and row.case.size.isdigit()
    ]
    if costs:
        size = min((row.case.size for row in costs), key=int)
        costs = [row for row in costs if row.case.size == size]
        point = max((row.point for row in costs), key=lambda text: float(text.split()[0]))
        cases = [row.case for row in costs if row.point == point]
        asked += [_Asked(one, "cycles_per_packet", point) for one in contrasts_of(cases)]
    return asked
