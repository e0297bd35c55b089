# SPDX-License-Identifier: Apache-2.0
"""A stored campaign as rows to print: medians, intervals, side-by-side ratios.

The table of `headrace run`, its `--json` and the report are made from these rows, so they cannot
differ.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.results.bounds import AT_MOST, NOT_DETERMINED, Bound, rate_bound, ratio_bound
from headrace.results.calm import calm, rounds_of
from headrace.results.censored import limited_median, relation_of_median
from headrace.results.contrasts import OURS, PEER
from headrace.results.records import UNITS, Case, Relation, Sample
from headrace.results.statistics import (
    Paired,
    Ratio,
    Rounds,
    Side,
    Summary,
    paired,
    summarise,
)
from headrace.results.store import Store


@dataclass(frozen=True)
class Row:
    """One metric of one case over all rounds; `by_round` has the positive samples by turn."""

    case: Case
    metric: str
    point: str
    summary: Summary
    samples: tuple[float, ...]
    generator_limited: bool
    relation: Relation = "="
    by_round: Rounds = field(default_factory=dict, compare=False)

    @property
    def bound(self) -> Bound:
        """`≥` if the generator limited the rate, or may have; `<` if the search ended below."""
        return rate_bound(self.generator_limited, self.relation)

    @property
    def name(self) -> str:
        """`scenario/case metric@point`."""
        at = f" at {self.point}" if self.point else ""
        return f"{self.case.scenario}/{self.case.name} {self.metric}{at}"

    @property
    def kind(self) -> str:
        """The metric whatever the length of its trials: `ndr` for `ndr-quick`."""
        return kind_of(self.metric)

    @property
    def unit(self) -> str:
        """Unit of the metric."""
        return UNITS.get(self.metric, "")


@dataclass(frozen=True)
class RatioRow:
    """Headrace over OVS-DPDK on the same ports, from samples that were taken side by side.

    `pairs` has the values of both that the ratio is of; a table shows these beside it.
    `our_bound` and `their_bound` are the signs before them.
    """

    ours: Case
    theirs: Case
    metric: str
    point: str
    pairs: Paired
    our_bound: Bound = ""
    their_bound: Bound = ""

    @property
    def ratio(self) -> Ratio:
        """The ratio with its interval."""
        return self.pairs.ratio

    @property
    def bound(self) -> Bound:
        """The sign before the ratio."""
        return ratio_bound(self.our_bound, self.their_bound)

    @property
    def met(self) -> bool | None:
        """Whether the ratio reaches 1; None if its bound leaves that open."""
        if self.bound == NOT_DETERMINED:
            return None
        reached = self.ratio.value >= 1.0
        if self.bound == AT_MOST:
            return None if reached else False
        return reached if not self.bound or reached else None

    @property
    def name(self) -> str:
        """`scenario/size-flows-graph metric: ours / theirs`."""
        case = self.ours
        at = f" at {self.point}" if self.point else ""
        return (
            f"{case.scenario}/{case.frames}-{case.flows}f-{case.graph} {self.metric}{at}: "
            f"{self.ours.subject} / {self.theirs.subject}"
        )


def kind_of(metric: str) -> str:
    """A metric whatever the length of its trials: `ndr` for `ndr-quick`."""
    return metric.removesuffix("-quick")


def rows_of(store: Store, campaign: int) -> list[Row]:
    """Every metric of every case, in the order of measuring."""
    rows = []
    for case_id, case in store.cases(campaign).items():
        grouped: dict[tuple[str, str], list[Sample]] = defaultdict(list)
        for sample in store.samples(case_id):
            grouped[(sample.metric, sample.point)].append(sample)
        for (metric, point), drawn in grouped.items():
            samples = calm(drawn)
            numbers = tuple(sample.value for sample in samples)
            limited = limited_median([(s.value, s.generator_limited) for s in samples])
            relation = relation_of_median([(s.value, s.relation) for s in samples])
            rounds = rounds_of(drawn)
            summary = summarise(numbers)
            rows.append(Row(case, metric, point, summary, numbers, limited, relation, rounds))
    return rows


def _point_of(case: Case) -> tuple[Any, ...]:
    return (
        case.scenario,
        case.shape,
        case.vnfs,
        case.placement,
        case.ports,
        case.vnf_ports,
        case.size,
        case.flows,
        case.prefixes,
        case.function,
        case.engine,
        case.variant,
    )


def ratios_of(store: Store, campaign: int, ours: str = OURS, theirs: str = PEER) -> list[RatioRow]:
    """Ratios of two switches wherever both were measured on the same graph, ports and traffic."""
    sides: dict[tuple[Any, ...], dict[str, tuple[int, Case]]] = defaultdict(dict)
    for case_id, case in store.cases(campaign).items():
        sides[_point_of(case)][case.switch] = (case_id, case)
    found = []
    for pair in sides.values():
        if ours not in pair or theirs not in pair:
            continue
        (our_id, our_case), (their_id, their_case) = pair[ours], pair[theirs]
        drawn = [store.samples(one) for one in (our_id, their_id)]
        ours_by, theirs_by = (_by_round(samples) for samples in drawn)
        our_bounds, their_bounds = (_bounds(samples) for samples in drawn)
        for (metric, point), rounds in ours_by.items():
            other = theirs_by.get((metric, point), {})
            pairs = paired(rounds, other)
            if metric == "loss_ratio" or pairs is None:
                continue
            bounds = (our_bounds[metric, point], their_bounds[metric, point])
            found.append(RatioRow(our_case, their_case, metric, point, pairs, *bounds))
    return found


def _bounds(samples: Iterable[Sample]) -> dict[tuple[str, str], Bound]:
    """How each metric's median is bounded."""
    grouped: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        grouped[(sample.metric, sample.point)].append(sample)
    return {
        key: rate_bound(
            limited_median([(sample.value, sample.generator_limited) for sample in drawn]),
            relation_of_median([(sample.value, sample.relation) for sample in drawn]),
        )
        for key, all_drawn in grouped.items()
        for drawn in [calm(all_drawn)]
    }


def _by_round(samples: Iterable[Sample]) -> dict[tuple[str, str], Rounds]:
    """Each metric's calm, positive samples by round and turn."""
    drawn: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        drawn[(sample.metric, sample.point)].append(sample)
    return {key: rounds for key, found in drawn.items() if (rounds := rounds_of(found))}


def _named(store: Store, campaign: int) -> list[tuple[str, dict[str, Any]]]:
    """What commands measured, with the name of their scenario."""
    return [(name, row) for name, row in store.command_rows(campaign) if "name" in row]


RATE_METRICS = ("ndr", "ndr-quick", "pdr", "pdr-quick", "mrr")


def _json_side(side: Side, bound: Bound) -> dict[str, Any]:
    return {"value": side.value, "low": side.low, "high": side.high, "bound": bound}


def json_rows(store: Store, campaign: int) -> dict[str, Any]:
    """The campaign as `{"rows": [...], "skipped": [...], "manifest": {...}}`.

    A ratio of rates has the goal 1 (no slower than the peer), which is not met or missed where the
    bound of the ratio leaves that open; other rows have no goal. `over` and `under` are the values
    of both that it is of: the pairs only, while a case's own row is the median of all samples.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": row.name,
            "value": row.summary.median,
            "unit": row.unit,
            "goal": None,
            "met": None,
            "samples": list(row.samples),
            "low": row.summary.low,
            "high": row.summary.high,
            "method": row.summary.method,
            "generator_limited": row.generator_limited,
            "relation": row.relation,
            "bound": row.bound,
        }
        for row in rows_of(store, campaign)
    ]
    for entry in ratios_of(store, campaign):
        if entry.metric in RATE_METRICS:
            rows.append(
                {
                    "name": entry.name,
                    "value": entry.ratio.value,
                    "unit": "ratio",
                    "goal": 1.0,
                    "met": entry.met,
                    "samples": entry.ratio.pairs,
                    "low": entry.ratio.low,
                    "high": entry.ratio.high,
                    "method": entry.ratio.method,
                    "generator_limited": entry.bound != "",
                    "bound": entry.bound,
                    "over": _json_side(entry.pairs.over, entry.our_bound),
                    "under": _json_side(entry.pairs.under, entry.their_bound),
                }
            )
    rows += [{**row, "name": f"{name}: {row['name']}"} for name, row in _named(store, campaign)]
    return {
        "rows": rows,
        "skipped": [vars(skip) for skip in store.skips(campaign)],
        "manifest": store.campaign(campaign).manifest,
    }
