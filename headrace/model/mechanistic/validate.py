# SPDX-License-Identifier: Apache-2.0
"""How far predictions are from trials that the fit has not seen, by role.

A fold leaves out all trials of one length, one size, one load, one arrival process or one function.
A VNF's function that is left out with its ports is composed: what it costs more than another one
with other ports (or behind another switch), besides what that other one costs with these. Of each
trial that is left out:

    capacity used   the busy cycles by the terms at its own rounds and bursts, over those counted
    at the load     the busy share by the polling model, which is told the load only, over the
                    counted one
    saturation      for trials under overload that this role limited: the predicted rate over the
                    received one. Overload of the same graph and size is not in the fit; loads below
                    it are, but in the folds (length, size, function), which leave those out, too
    power law       Luizelli's form (busy share over rate, length and size; logarithms), on the same
                    folds

A graph without VNFs is no length of a chain: it tells what entry and exit cost, and is left out by
the other folds only. A trial whose size, length or load lies beyond all that remain is an
extrapolation, and counted as the others are. Where what remains can't tell a term of the graph that
is in the fit of all (one size says nothing of a byte), there is no prediction and no error: the
reason is kept. So it is with a kind of ports that a switch's fit has not seen.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.model.errors import FitError
from headrace.model.least_squares import least_squares
from headrace.model.mechanistic import polling
from headrace.model.mechanistic.amounts import BURST, round_packets_of
from headrace.model.mechanistic.distance import is_same
from headrace.model.mechanistic.fitting import (
    BELOW_ZERO,
    RoleModel,
    fit_role,
    in_one_state,
    points_of,
    tops_of,
)
from headrace.model.mechanistic.predict import (
    Path,
    switch_amounts,
    vnf_amounts,
)
from headrace.model.mechanistic.role_poller import poller_of
from headrace.model.mechanistic.windows import BY_QUEUES, POLLED, Key, Window

SINGLE = 2.0
"""Packets of a burst up to which arrivals are taken as single."""

COUNTED = (*POLLED, *BY_QUEUES, "uncached")
"""Terms by rounds and bursts, which stand for each other where they are in proportion; and what is
of overload alone, which makes the prediction of a load neither better nor worse."""

FOLDS: dict[str, Callable[[Window], object]] = {
    "length": lambda one: one.vnfs or None,
    "size": lambda one: one.size,
    "load": lambda one: one.level or one.load,
    "arrivals": lambda one: one.arrivals,
    "function": lambda one: one.function or None,
}

COMPOSED = "function with its ports"
"""The fold in which all of one function with one kind of ports is left out."""

GRAPHS = ("length", "size", "function")
"""Folds that leave out graphs, so that overload of these is predicted from other graphs alone."""


@dataclass
class Errors:
    """Relative errors of one role, by what was predicted; and why there are none."""

    key: Key
    points: int = 0
    disturbed: int = 0
    capacity: dict[str, list[float]] = field(default_factory=dict)
    at_load: list[float] = field(default_factory=list)
    saturation: list[float] = field(default_factory=list)
    saturation_of: dict[str, list[float]] = field(default_factory=dict)
    power_law: dict[str, list[float]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    no_grounds: dict[str, str] = field(default_factory=dict)

    def all_saturation(self) -> list[float]:
        """Over all folds that leave out graphs."""
        return [error for errors in self.saturation_of.values() for error in errors]

    def all_capacity(self) -> list[float]:
        """Over all folds."""
        return [error for errors in self.capacity.values() for error in errors]

    def all_power_law(self) -> list[float]:
        """Over all folds."""
        return [error for errors in self.power_law.values() for error in errors]


def median(errors: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(errors) if errors else None


def percentile95(errors: Sequence[float]) -> float | None:
    """The 95th percentile, None of nothing."""
    return float(np.percentile(errors, 95)) if errors else None


def amounts_of(key: Key, vnfs: int, size: float) -> dict[str, float]:
    """The amounts of a role's terms for a packet of a chain, all bursts full."""
    if key.role in ("VNF", "generator"):
        return vnf_amounts(size)
    return switch_amounts(Path(("",) * vnfs), size, round_packets_of(key.subject))


def held_out(windows: Iterable[Window]) -> list[Errors]:
    """The errors of every role."""
    by_key: dict[Key, list[Window]] = {}
    for one in in_one_state(list(windows))[0]:
        by_key.setdefault(one.key, []).append(one)
    found = [_role(key, some) for key, some in by_key.items()]
    models = {key: model for key, some in by_key.items() if (model := _fitted(some)) is not None}
    for errors in found:
        if errors.key.role == "VNF":
            _compose(errors, points_of(by_key[errors.key]), models)
        elif "+" in errors.key.subject:
            errors.no_grounds["kind of ports"] = (
                "a visit by one kind of ports says nothing of another's: nothing is predicted"
            )
    return found


def _fitted(windows: list[Window]) -> RoleModel | None:
    try:
        return fit_role(windows)
    except FitError:
        return None


def _in_same_state(models: Sequence[RoleModel]) -> bool:
    known = [one.transfer_ns for one in models if one.transfer_ns is not None]
    return all(is_same(one, known[0]) for one in known)


def _compose(errors: Errors, out: list[Window], models: dict[Key, RoleModel]) -> None:
    """A VNF's points, none of which is in any of the fits that they are predicted from."""
    key = errors.key
    found: list[float] = []
    for other in models:
        if other.role != "VNF" or other.subject == key.subject or other.function == key.function:
            continue
        same_ports, same_function = (
            models.get(Key(key.subject, "VNF", other.function)),
            models.get(Key(other.subject, "VNF", key.function)),
        )
        own = models.get(key)
        if own is None or same_ports is None or same_function is None:
            continue
        if not _in_same_state([own, same_ports, same_function, models[other]]):
            errors.no_grounds[COMPOSED] = "measured in another state of the machine than the others"
            continue
        for one in out:
            more = same_function.cycles(one.terms) - models[other].cycles(one.terms)
            guess = same_ports.cycles(one.terms) + more
            found.append(abs(guess / one.busy - 1))
    if found:
        errors.capacity[COMPOSED] = found
        errors.no_grounds.pop(COMPOSED, None)
    else:
        errors.no_grounds.setdefault(
            COMPOSED, "needs another function with these ports, and both with others"
        )


def _role(key: Key, windows: list[Window]) -> Errors:
    errors = Errors(key)
    points = points_of(windows)
    errors.points = len(points)
    errors.disturbed = sum(one.disturbed for one in points)
    try:
        whole: RoleModel | None = fit_role(windows)
    except FitError as error:
        whole = None
        errors.reasons.append(str(error))
    tops = tops_of(key, windows)
    for name, of in FOLDS.items():
        if name == "function" and key.role == "VNF":
            continue
        values = [value for value in dict.fromkeys(map(of, points)) if value is not None]
        if len(values) < 2:
            errors.reasons.append(f"{name}: only one value, none can be left out")
            continue
        for value in values:
            out = [one for one in points if of(one) == value]
            rest = [one for one in (*points, *tops) if of(one) != value]
            over = [one for one in tops if of(one) == value] if name in GRAPHS else []
            _fold(errors, name, (out, over), rest, whole)
    _saturations(errors, windows)
    return errors


def _untold(model: RoleModel, whole: RoleModel | None) -> list[str]:
    """Terms of the graph, in the fit of all, that what remains can't tell."""
    names = [name for name in (whole.names if whole is not None else ()) if name not in COUNTED]
    return [name for name in names if name in model.left_out and model.left_out[name] != BELOW_ZERO]


def _fold(
    errors: Errors,
    name: str,
    left_out: tuple[list[Window], list[Window]],
    rest: list[Window],
    whole: RoleModel | None,
) -> None:
    """`left_out` are points and windows under overload."""
    out, tops = left_out
    try:
        model = fit_role(rest)
        untold = _untold(model, whole)
        if untold:
            text = f"{name}: what remains can't tell {', '.join(untold)}: vary it more"
            raise FitError(text)
    except FitError as error:
        errors.reasons.append(f"{name}: {error}" if name not in str(error) else str(error))
    else:
        for one in out:
            guess = model.cycles(one.terms)
            errors.capacity.setdefault(name, []).append(abs(guess / one.busy - 1))
            share = _share(model, one)
            # The polling model is of single arrivals: it says nothing of bursts.
            if share is not None and _mean_burst(one) <= SINGLE:
                errors.at_load.append(abs(share / one.share - 1))
        for one in tops:
            errors.saturation_of.setdefault(name, []).append(_saturation_error(model, one))
    try:
        guesses = _power_law([one for one in rest if one.load is not None], out)
    except FitError as error:
        errors.reasons.append(f"{name}, power law: {error}")
    else:
        found = [abs(guess / one.share - 1) for guess, one in zip(guesses, out, strict=True)]
        errors.power_law.setdefault(name, []).extend(found)


def _mean_burst(one: Window) -> float:
    """Packets of a burst; each packet is taken from a queue at each of its hops."""
    hops = one.vnfs + 1 if one.key.role == "switch" else 1
    return hops * one.terms["packets"] / max(1.0, one.terms.get("bursts", 0.0))


def _share(model: RoleModel, one: Window) -> float | None:
    """The busy share at the window's rate, by the polling model; None for what does not poll."""
    if not model.idle_round:
        return None
    amounts = amounts_of(one.key, one.vnfs, one.size)
    rounds = BURST if one.key.role == "VNF" else round_packets_of(one.key.subject)
    return polling.at_load(poller_of(model, amounts, rounds), one.through).busy_share


def _row(one: Window) -> list[float]:
    return [1.0, np.log(one.through), np.log(one.vnfs + 1), np.log(one.size)]


def _power_law(rest: list[Window], out: list[Window]) -> list[float]:
    """Busy shares by the paper's form, the size being a third power; constant columns left out."""
    design = np.array([_row(one) for one in rest])
    varies = [0, *(c for c in range(1, 4) if np.ptp(design[:, c]) > 0)]
    target = np.log([one.share for one in rest])
    fitted = least_squares(design[:, varies], target, "vary loads, lengths and sizes")
    wanted = np.array([_row(one) for one in out])[:, varies]
    return [float(value) for value in np.exp(wanted @ fitted.coefficients)]


def _saturation_error(model: RoleModel, one: Window) -> float:
    cycles = one.sharing * model.cycles(amounts_of(one.key, one.vnfs, one.size))
    if one.refused and one.key.role == "switch":
        # What a VNF's queue does not take costs the switch its entry all the same.
        cycles += one.refused * model.cycles(amounts_of(one.key, 0, one.size))
    return abs(one.hz / cycles / one.through - 1)


def _saturations(errors: Errors, windows: list[Window]) -> None:
    tops = tops_of(errors.key, windows)
    if not tops:
        limiters = sorted({one.limiter for one in windows if one.load is None})
        told = ", ".join(limiters) or "no trial under overload"
        errors.reasons.append(f"saturation: this role limited none (limiters: {told})")
        return
    for top in tops:
        rest = [one for one in windows if one.load is not None or one.group != top.group]
        try:
            errors.saturation.append(_saturation_error(fit_role(rest), top))
        except FitError as error:
            errors.reasons.append(f"saturation: {error}")
