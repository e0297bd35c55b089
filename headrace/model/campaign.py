# SPDX-License-Identifier: Apache-2.0
"""Fits a stored campaign's cost functions: selects the trials that are points of each.

A point is a fixed-load trial (purpose `cost`) with busy cycles, at most `MAX_LOSS` lost, and
counted cycles, not derived ones. Disturbed trials are used only where the others do not suffice,
and the fit is marked. Trials with more loss are left out because packets lost before a
traversal cost nothing there: they would make long chains look cheap. A chain of one VNF is the
same graph in both placements, so its trials are points of both functions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headrace.model.cycles import CycleFit, CyclePoint, fit_cycles
from headrace.model.fit import Point, fit
from headrace.model.least_squares import FitError
from headrace.results import Case, Fit, Placement, Trial
from headrace.results.store import Store

LOADS_FROM = 2
"""Fewer loads of a case are no points of a function over the load."""
MAX_LOSS = 0.05
PLACEMENTS: tuple[Placement, ...] = ("gather", "distribute")

Key = tuple[str, Placement, int]


@dataclass
class CampaignModel:
    """The model's results for one campaign.

    Attributes:
        fits: the cost functions.
        cycle_fits: the linear model of each switch, for comparison.
        points: what each cost function was fitted to.
        left_out: number of trials with more than `MAX_LOSS` lost, by function.
        disturbed: points of disturbed trials, by function.
        failures: functions that could not be fitted, with the reason.
    """

    fits: list[Fit] = field(default_factory=list)
    cycle_fits: list[CycleFit] = field(default_factory=list)
    points: dict[Key, list[Point]] = field(default_factory=dict)
    left_out: dict[Key, int] = field(default_factory=dict)
    disturbed: dict[Key, list[Point]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def _placements(case: Case) -> tuple[Placement, ...]:
    if case.shape == "p2p":
        return ()
    if case.vnfs == 1:
        return PLACEMENTS
    return ("distribute",) if case.shape == "parallel" else ("gather",)


def _cost_trials(store: Store, campaign: int) -> Iterable[tuple[Case, Trial]]:
    for case_id, case in store.cases(campaign).items():
        found = [trial for trial in store.trials(case_id) if trial.purpose == "cost"]
        # A case measured at one load says nothing of the load (and may have been sent in bursts).
        if len({trial.intended_pps for trial in found}) < LOADS_FROM:
            continue
        for trial in found:
            if trial.cpu_percent and not trial.approximate:
                yield case, trial


def model_of(store: Store, campaign: int) -> CampaignModel:
    """Fits every function for which the campaign holds points."""
    model = CampaignModel()
    cycle_points: dict[str, list[CyclePoint]] = {}
    for case, trial in _cost_trials(store, campaign):
        if not case.size.isdigit():
            continue
        keys: list[Key] = [(case.subject, name, int(case.size)) for name in _placements(case)]
        if not keys:
            continue
        if trial.loss_ratio > MAX_LOSS or trial.received <= 0:
            for key in keys:
                model.left_out[key] = model.left_out.get(key, 0) + 1
            continue
        cost, cycles = trial.cpu_percent, trial.cycles_per_packet
        assert cost is not None and cycles is not None
        for key in keys:
            side = model.disturbed if trial.disturbed else model.points
            side.setdefault(key, []).append(
                Point(trial.tx_pps, case.vnfs, cost, trial.intended_pps or 0.0)
            )
        cycle_points.setdefault(case.subject, []).append(
            CyclePoint(float(case.size), case.traversals, cycles)
        )
    for key in dict.fromkeys([*model.points, *model.disturbed]):
        _fit_one(model, key)
    for switch, cycle_list in cycle_points.items():
        try:
            model.cycle_fits.append(fit_cycles(switch, cycle_list))
        except FitError as error:
            model.failures[f"{switch} cycles per packet"] = str(error)
    return model


def _fit_one(model: CampaignModel, key: Key) -> None:
    """Fits the undisturbed points; all, and marks the fit, if those do not suffice."""
    calm = model.points.get(key, [])
    everything = [*calm, *model.disturbed.get(key, [])]
    try:
        model.fits.append(fit(*key, calm))
    except FitError:
        model.points[key] = everything
        try:
            marked = replace(fit(*key, everything), disturbed=len(everything) > len(calm))
            model.fits.append(marked)
        except FitError as error:
            model.failures[f"{key[0]} {key[1]} {key[2]} B"] = str(error)
