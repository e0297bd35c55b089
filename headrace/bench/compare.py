# SPDX-License-Identifier: Apache-2.0
"""Do two campaigns differ? Each metric of each case with its interval, and a verdict if proven.

Two campaigns did not run side by side, so a slow phase of the machine looks like a change of
everything. Three ways out, the first that a row allows:

* `interleaved`: both campaigns were measured round by round in turn on one bed
  (same_build.py; their manifests name each other): samples are paired by round.
* `reference`: both measured the same reference switch on the same graph and traffic, in each round
  in turn with the row: its ratio to the reference is compared, and the phase cancels.
* otherwise the comparison is refused: the row is shown, and not determined.

Reference rows have no change of their own; their ratio new/old is the campaign's own effect.

One row in twenty differs by chance, so a row counts as different only by p-values that are adjusted
over all rows of the comparison (false-discovery rate of 5 %).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headrace.results import UNITS, Case
from headrace.results.contrasts import PEER
from headrace.results.direction import Judgement, judged
from headrace.results.emulation import is_emulated
from headrace.results.statistics import (
    NOT_DETERMINED,
    Ratio,
    geometric_mean,
    proven,
    ratio_of_groups,
    ratio_of_pairs,
)
from headrace.results.store import Store, StoreError

How = Literal["interleaved", "reference", "is the reference", "refused"]
ARRIVED = "throughput"
"""A loss ratio of 0 has no logarithm: the share that arrived is compared, and more is better."""
Metric = tuple[str, str]
"""A metric and its point."""


@dataclass(frozen=True)
class Change:
    """One metric of one case in two campaigns.

    Attributes:
        old, new: geometric means of the samples (loss ratios: arithmetic).
        ratio: new over old, as `how` says; of a loss ratio that of what arrived. None where a value
            is 0.
        how: what the ratio is taken from.
        proven: whether the difference stands among all rows of the comparison.
    """

    case: Case
    metric: str
    point: str
    old: float
    new: float
    ratio: Ratio | None
    how: How
    proven: bool = False

    @property
    def name(self) -> str:
        """`scenario/case metric at point`."""
        at = f" at {self.point}" if self.point else ""
        return f"{self.case.scenario}/{self.case.name} {self.metric}{at}"

    @property
    def unit(self) -> str:
        """Unit of `old` and `new`."""
        return UNITS.get(self.metric, "")

    @property
    def judgement(self) -> Judgement:
        """Better or worse where that is proven, the same within 5 %, or not determined."""
        if self.ratio is None or self.how in ("refused", "is the reference"):
            return "not determined"
        metric = ARRIVED if self.metric == "loss_ratio" else self.metric
        found = judged(metric, self.ratio.verdict)
        if found in ("better", "worse") and not self.proven:
            # Its own interval may exclude 1 by chance; within 5 % it is the same all the same.
            return "not determined"
        return found

    @property
    def regression(self) -> bool:
        """Whether it is proven to be worse."""
        return self.judgement == "worse"


Rounds = dict[int, float]


def _samples(store: Store, campaign: int) -> dict[Case, dict[Metric, Rounds]]:
    found: dict[Case, dict[Metric, Rounds]] = {}
    for case_id, case in store.cases(campaign).items():
        drawn: dict[Metric, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for sample in store.samples(case_id):
            drawn[(sample.metric, sample.point)][sample.round].append(sample.value)
        found[case] = {
            key: {at: _mean(key[0], values) for at, values in rounds.items()}
            for key, rounds in drawn.items()
        }
    return found


def _mean(metric: str, values: Sequence[float]) -> float:
    if metric == "loss_ratio" or min(values) <= 0:
        return math.fsum(values) / len(values)
    return geometric_mean(values)


def interleaved(store: Store, old: int, new: int) -> bool:
    """Whether the two campaigns were measured in turn, round by round."""
    other = store.campaign(new).manifest.get("interleaved_with")
    return bool(other == old and store.campaign(old).manifest.get("interleaved_with") == new)


def reference_of(
    case: Case, metrics: Mapping[Case, dict[Metric, Rounds]], switch: str
) -> Case | None:
    """The case of the reference switch on the same graph and traffic, if need be on other ports."""
    same = replace(case, switch=switch)
    if same in metrics:
        return same

    def traffic(one: Case) -> tuple[object, ...]:
        return (one.scenario, one.graph, one.placement, one.size, one.flows)

    for other in metrics:
        if other.switch == switch and traffic(other) == traffic(case):
            return other
    return None


def _relative(values: Rounds, reference: Rounds) -> list[float]:
    both = [(values[at], reference[at]) for at in values if at in reference]
    return [a / b for a, b in both if a > 0 and b > 0]


def compare(store: Store, old: int, new: int, reference: str = PEER) -> list[Change]:
    """All metrics that both campaigns measured.

    Args:
        store: where both are.
        old: number of the earlier campaign.
        new: number of the later one.
        reference: the switch whose build is the same in both.

    Raises:
        StoreError: one is of an emulated machine and the other is not.
    """
    kinds = [is_emulated(store.campaign(number).manifest) for number in (old, new)]
    if kinds[0] != kinds[1]:
        which = old if kinds[0] else new
        raise StoreError(
            f"campaign {which} is of an emulated machine: not beside one of a real one"
        )
    before, after = _samples(store, old), _samples(store, new)
    in_turn = interleaved(store, old, new)
    changes = []
    for case, metrics in after.items():
        for (metric, point), values in metrics.items():
            earlier = before.get(case, {}).get((metric, point))
            if not earlier:
                continue
            key = (metric, point)
            ratio, how = _ratio(case, key, before, after, reference, in_turn)
            was, now = (_mean(metric, list(one.values())) for one in (earlier, values))
            changes.append(Change(case, metric, point, was, now, ratio, how))
    judged_rows = [change.how in ("interleaved", "reference") for change in changes]
    verdicts = proven(
        [
            change.ratio.p if taken and change.ratio else None
            for change, taken in zip(changes, judged_rows, strict=True)
        ]
    )
    return [replace(change, proven=yes) for change, yes in zip(changes, verdicts, strict=True)]


def _ratio(
    case: Case,
    key: Metric,
    before: Mapping[Case, dict[Metric, Rounds]],
    after: Mapping[Case, dict[Metric, Rounds]],
    reference: str,
    in_turn: bool,
) -> tuple[Ratio | None, How]:
    def values(side: Mapping[Case, dict[Metric, Rounds]], one: Case) -> Rounds:
        found = side[one].get(key, {})
        return {at: 1 - loss for at, loss in found.items()} if key[0] == "loss_ratio" else found

    old, new = values(before, case), values(after, case)
    how: How = "refused"
    if in_turn:
        pairs = [(new[at], old[at]) for at in new if at in old]
        pairs = [pair for pair in pairs if min(pair) > 0]
        if pairs:
            return ratio_of_pairs([a for a, _ in pairs], [b for _, b in pairs]), "interleaved"
        how = "interleaved"
    elif case.switch == reference:
        how = "is the reference"
    else:
        other = reference_of(case, before, reference)
        if other is not None and other in after:
            olds = _relative(old, values(before, other))
            news = _relative(new, values(after, other))
            if olds and news:
                return ratio_of_groups(news, olds), "reference"
    if min(*old.values(), *new.values()) <= 0:
        return None, how
    return ratio_of_groups(list(new.values()), list(old.values())), how


def campaign_effect(changes: Sequence[Change]) -> list[Change]:
    """The reference's rows: what the campaigns themselves changed."""
    return [change for change in changes if change.how == "is the reference"]


def share_different(changes: Sequence[Change]) -> float:
    """The share of the judged rows that are proven to differ; 0 if none could be judged."""
    rows = [change for change in changes if change.how in ("interleaved", "reference")]
    different = sum(change.judgement in ("better", "worse") for change in rows)
    return different / len(rows) if rows else 0.0


def explained(change: Change) -> str:
    """Why a row has no verdict, or "" if it has one."""
    if change.how == "is the reference":
        return "the reference: the campaigns' own effect"
    if change.how == "refused":
        return f"{NOT_DETERMINED}: no reference on the same graph and ports in both campaigns"
    return ""
