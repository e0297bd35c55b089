# SPDX-License-Identifier: Apache-2.0
"""The named sets of goals of a search: loss ratios, durations, width, and a budget of time each.

What NDR and PDR mean differs from tool to tool, so `GoalSet.definition` is stored and printed with
every result. The quick set is no NDR by any standard (half of 0.45 s of trials), so its metrics
have names of their own, `ndr-quick` and `pdr-quick`. The standards' trials of a minute may be made
shorter; then their answers are stored apart, with the length of the trials, and no standard's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from MLRsearch import SearchGoal

GoalName = Literal["quick", "csit", "rfc2544", "tst009"]
SearchBy = Literal["mlrsearch", "bisection"]

NDR_LOSS = 0.0
PDR_LOSS = 0.005
BOTH = (NDR_LOSS, PDR_LOSS)

BUDGET_TIMES = 20.0
"""A search is given up after this many times what it takes on a steady device; noise makes it
repeat loads."""
LEAST_BUDGET_S = 60.0


@dataclass(frozen=True)
class GoalKey:
    """How a goal's samples are stored: `metric` names the rate, `point` an unusual loss ratio."""

    metric: str
    point: str


@dataclass(frozen=True)
class Confirmation:
    """How a quick answer is confirmed: the better of `trials` trials of `seconds`, or lower."""

    seconds: float
    trials: int
    steps: int


@dataclass(frozen=True)
class GoalSet:
    """A named set of goals with search parameters.

    Attributes:
        goals: what to find, by the name under which it is stored.
        trials_expected: trials that a search takes on a steady device, for the first estimate.
        confirmation: None where the set's own trials are long enough.
    """

    name: GoalName
    definition: str
    goals: dict[GoalKey, SearchGoal]
    trials_expected: int
    confirmation: Confirmation | None = None

    @property
    def budget_s(self) -> float:
        """Seconds after which a search is given up; it follows from the definition."""
        return max(LEAST_BUDGET_S, BUDGET_TIMES * self.expected_s)

    @property
    def expected_s(self) -> float:
        """Seconds of trials that a search is expected to take on a steady device."""
        goal = next(iter(self.goals.values()))
        few_long = goal.initial_trial_duration < goal.final_trial_duration
        long_trials = 3 if few_long else self.trials_expected
        seconds = float(long_trials * goal.final_trial_duration)
        seconds += (self.trials_expected - long_trials) * goal.initial_trial_duration
        return float(seconds + (self.confirmation.seconds if self.confirmation else 0.0))


@dataclass(frozen=True)
class _Parameters:
    """What a set's goals have in common, as MLRsearch calls it."""

    initial_s: float
    final_s: float
    sum_s: float
    exceed: float
    width: float
    preceding: int = 2
    expansion: int = 2

    def with_trials_of(self, seconds: float | None) -> "_Parameters":
        """The same with final trials of another length, as many of them."""
        if seconds is None:
            return self
        factor = seconds / self.final_s
        initial_s = min(self.initial_s, seconds)
        return replace(self, initial_s=initial_s, final_s=seconds, sum_s=self.sum_s * factor)

    def goal(self, loss_ratio: float) -> SearchGoal:
        return SearchGoal(
            loss_ratio=loss_ratio,
            exceed_ratio=self.exceed,
            relative_width=self.width,
            initial_trial_duration=self.initial_s,
            final_trial_duration=self.final_s,
            duration_sum=self.sum_s,
            preceding_targets=self.preceding,
            expansion_coefficient=self.expansion,
            # A minimum load that loses too much is an answer ("<"), not an error.
            fail_fast=False,
        )


def _key(loss_ratio: float, quick: bool, trials_of: float | None = None) -> GoalKey:
    suffix = "-quick" if quick else ""
    length = "" if trials_of is None else f"{trials_of:g} s trials"
    if loss_ratio == NDR_LOSS:
        return GoalKey("ndr" + suffix, length)
    loss = "" if loss_ratio == PDR_LOSS else f"{100 * loss_ratio:g}% loss"
    return GoalKey("pdr" + suffix, ", ".join(part for part in (loss, length) if part))


def _lost(ratios: Sequence[float]) -> str:
    return " and ".join("no loss" if not r else f"at most {100 * r:g} % lost" for r in ratios)


def goal_set(
    name: GoalName,
    loss_ratios: Sequence[float] | None = None,
    trial_s: float = 0.15,
    trials_of: float | None = None,
) -> GoalSet:
    """A goal set by name.

    Args:
        name: `quick` (for `headrace run`), `csit`, `rfc2544` or `tst009`.
        loss_ratios: shares of packets that may be lost, one goal each; None for the set's own: 0
            and 0.005 for `quick` and `csit`, 0 for the standards.
        trial_s: seconds of one trial of `quick`; the others have their standards' durations.
        trials_of: seconds of the final trials of a set instead of its standard's; its answers are
            then stored with that length. `quick` has `trial_s`.
    """
    own = BOTH if name in ("quick", "csit") else (NDR_LOSS,)
    ratios = tuple(sorted(set(own if loss_ratios is None else loss_ratios)))
    if name == "quick":
        return _quick(ratios, trial_s)
    build = {"csit": _csit, "rfc2544": _rfc2544, "tst009": _tst009}[name]
    return build(ratios, trials_of)


def _standard(
    name: GoalName,
    definition: str,
    ratios: Sequence[float],
    parameters: _Parameters,
    trials: int,
    trials_of: float | None,
) -> GoalSet:
    if trials_of is not None:
        definition += f"; but with final trials of {trials_of:g} s, so not the standard's"
    chosen = parameters.with_trials_of(trials_of)
    goals = {_key(ratio, quick=False, trials_of=trials_of): chosen.goal(ratio) for ratio in ratios}
    return GoalSet(name, definition, goals, trials)


def _quick(ratios: Sequence[float], trial_s: float) -> GoalSet:
    total = 3 * trial_s
    confirmation = Confirmation(seconds=max(1.0, 2 * total), trials=2, steps=3)
    parameters = _Parameters(trial_s, trial_s, total, 0.5, 0.04, preceding=1, expansion=4)
    return GoalSet(
        "quick",
        f"{_lost(ratios)} in at least half of {total:g} s of trials of {trial_s:g} s, width 4 %; "
        f"confirmed by a trial of {confirmation.seconds:g} s (the better of "
        f"{confirmation.trials}), else lowered by 4, 8, 16 %; unsent frames count as lost",
        {_key(ratio, quick=True): parameters.goal(ratio) for ratio in ratios},
        14,
        confirmation=confirmation,
    )


def _csit(ratios: Sequence[float], trials_of: float | None) -> GoalSet:
    return _standard(
        "csit",
        f"as FD.io CSIT: {_lost(ratios)}, trials of 1 s, 21 s a load, half may exceed, width 0.5 %",
        ratios,
        _Parameters(1.0, 1.0, 21.0, 0.5, 0.005),
        45,
        trials_of,
    )


def _rfc2544(ratios: Sequence[float], trials_of: float | None) -> GoalSet:
    return _standard(
        "rfc2544",
        f"RFC 2544 throughput: {_lost(ratios)} in one trial of 60 s, width 0.5 %",
        ratios,
        _Parameters(1.0, 60.0, 60.0, 0.0, 0.005),
        10,
        trials_of,
    )


def _tst009(ratios: Sequence[float], trials_of: float | None) -> GoalSet:
    return _standard(
        "tst009",
        f"ETSI NFV-TST 009 binary search with loss verification, r = 2: {_lost(ratios)} in one of "
        "two trials of 60 s, width 0.5 %",
        ratios,
        _Parameters(1.0, 60.0, 120.0, 0.5, 0.005),
        12,
        trials_of,
    )
