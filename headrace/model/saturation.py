# SPDX-License-Identifier: Apache-2.0
"""At which rate a switch has no time left: foretold from loads below it, beside what was measured.

A campaign has both for every graph that was measured at fixed loads and under overload: the
marginal cost is fitted to the fixed loads alone (headrace/model/marginal.py), of all sizes and
scenarios of the graph, and the rate at which full bursts of one size use up all cycles follows from
it. No trial under overload is in the fit. `held_out` marks sizes of which none at all is.

Graphs without a load in at least half-full bursts are left out: single packets say nothing of what
a packet of a full burst costs. Where the switch was not the limit, what was measured is no
saturation of it.
"""

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from headrace.model.least_squares import FitError
from headrace.model.marginal import BURST, ROUND_PACKETS, Observation, fit_marginal
from headrace.results import Case, Trial
from headrace.results.store import Store

MAX_LOSS = 0.05
HALF_FULL = BURST / 2
_NEEDED = ("busy_cycles", "idle_cycles", "rounds", "busy_rounds", "bursts")


@dataclass(frozen=True)
class Saturation:
    """One graph and frame size of a switch.

    Attributes:
        case: what was measured; of several scenarios the first.
        predicted, measured: packets per second; the second is the median under overload.
        limiters: who limited the overload trials.
        held_out: whether no trial with this size is in the fit.
    """

    case: Case
    predicted: float
    measured: float
    limiters: tuple[str, ...]
    held_out: bool

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1

    @property
    def of_the_switch(self) -> bool:
        """Whether the switch was the limit of what was measured, each time."""
        return set(self.limiters) == {"switch"}


def observed(case: Case, trial: Trial) -> Observation | None:
    """A trial as a point of the switch's fit; None if it lost packets or counted too little."""
    counted = (trial.detail.get("counters") or {}).get("switch") or {}
    usable = trial.received > 0 and trial.loss_ratio <= MAX_LOSS and not trial.approximate
    if not usable or any(counted.get(name) is None for name in _NEEDED):
        return None
    if not counted["busy_cycles"] or not counted["bursts"]:
        return None
    known: dict[str, Any] = {name: float(counted[name]) for name in _NEEDED}
    return Observation(
        group=f"{case.scenario} {case.size} {trial.intended_pps}",
        packets=float(trial.received),
        octets=trial.received * float(case.size),
        **known,
    )


def saturations(store: Store, campaign: int) -> list[Saturation]:
    """Every graph and size of a campaign for which both rates are known."""
    points: dict[tuple[Any, ...], list[Observation]] = defaultdict(list)
    fitted: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    overloads: dict[tuple[Any, ...], dict[str, list[tuple[Case, Trial]]]] = {}
    for case_id, case in store.cases(campaign).items():
        if not case.size.isdigit() or case.switch not in ROUND_PACKETS:
            continue
        key = (case.subject, case.shape, case.vnfs, case.prefixes, case.flows)
        for trial in store.trials(case_id):
            if trial.purpose == "cost" and (point := observed(case, trial)) is not None:
                points[key].append(point)
                fitted[key].add(case.size)
            if trial.purpose == "overload" and trial.received > 0 and trial.tsc_hz:
                overloads.setdefault(key, {}).setdefault(case.size, []).append((case, trial))
    found = []
    for key, sizes in overloads.items():
        traversals = next(iter(sizes.values()))[0][0].traversals
        fullest = max((one.packets * traversals / one.bursts for one in points[key]), default=0.0)
        if fullest < HALF_FULL:
            continue
        try:
            cost = fit_marginal(points[key])
        except FitError:
            continue
        for size, seen in sizes.items():
            case, trial = seen[0]
            assert trial.tsc_hz is not None
            predicted = cost.saturation_pps(
                float(size),
                trial.tsc_hz,
                bursts=case.traversals / BURST,
                rounds=1 / ROUND_PACKETS[case.switch],
            )
            measured = statistics.median(one.rx_pps for _, one in seen)
            limiters = tuple(dict.fromkeys(one.limiter for _, one in seen))
            found.append(Saturation(case, predicted, measured, limiters, size not in fitted[key]))
    return found
