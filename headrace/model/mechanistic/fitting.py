# SPDX-License-Identifier: Apache-2.0
"""Fits a role's terms to its windows, all graphs, sizes and loads together.

Weighted least squares (statsmodels) of busy cycles on the terms' amounts, weights 1 / busy^2: the
noise of a shared machine is a factor; of the repeats of a load the least disturbed one, since what
disturbs only adds. Overload that `bench terms` has measured, and that the switch limited, is in its
fit, too: all of its cycles for what came through and for what was refused. A term below zero is no
cost and is left out, as is one whose amounts are in proportion to another's; a term that is left
out is named with the reason.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.model.errors import FitError
from headrace.model.mechanistic.amounts import full_switch, round_packets_of
from headrace.model.mechanistic.distance import is_same, usual
from headrace.model.mechanistic.windows import TERMS, UNITS, Key, Window

LEAST_POINTS = 5
CONFIDENCE = 0.95
ALWAYS = 0.9
"""Busy share from which a poller is taken to be always busy."""
CALM = 0.6
BELOW_ZERO = "fitted below zero, which is no cost"


@dataclass(frozen=True)
class RoleModel:
    """A role's fitted terms.

    Attributes:
        names: the terms.
        values: TSC cycles of each.
        covariance: of the values.
        residual: relative standard deviation of the busy cycles around the fit.
        points: windows used.
        idle_round: cycles of a round that finds nothing (0: the role has no rounds).
        left_out: terms that are no part of it, with the reason.
        hz: TSC cycles per second.
        spans: the least and largest size, number of VNFs and rate that were measured.
        disturbed: disturbed trials are among the points.
        transfer_ns: how far apart the cores of switch and VNFs were; None: not known.
    """

    key: Key
    names: tuple[str, ...]
    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    residual: float
    points: int
    idle_round: float
    left_out: dict[str, str]
    hz: float
    spans: dict[str, tuple[float, float]]
    disturbed: bool = False
    transfer_ns: float | None = None

    def term(self, name: str) -> float:
        """The cycles of a term, 0 if it is left out."""
        return self.values[self.names.index(name)] if name in self.names else 0.0

    def error(self, name: str) -> float:
        """The standard error of a term."""
        if name not in self.names:
            return 0.0
        at = self.names.index(name)
        return math.sqrt(max(0.0, self.covariance[at][at]))

    def cycles(self, amounts: dict[str, float]) -> float:
        """Cycles of these amounts."""
        return sum(
            value * amounts.get(name, 0.0)
            for name, value in zip(self.names, self.values, strict=True)
        )

    def deviation(self, amounts: dict[str, float]) -> float:
        """Standard deviation of the cycles of these amounts in one window of a measurement."""
        row = np.array([amounts.get(name, 0.0) for name in self.names])
        fitted = float(row @ np.array(self.covariance) @ row) if self.names else 0.0
        return math.sqrt(max(0.0, fitted) + (self.residual * self.cycles(amounts)) ** 2)

    @property
    def student(self) -> float:
        """The factor of a standard deviation for a 95 % interval."""
        from scipy import stats  # late: the node loads this module

        freedom = max(1, self.points - len(self.names))
        return float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))

    def described(self) -> list[str]:
        """The terms as people read them: `vhost-user visit: 240 ± 6 cycles per visit`."""
        return [
            f"{name}: {value:.3g} ± {self.error(name):.2g} {UNITS[name]}"
            for name, value in zip(self.names, self.values, strict=True)
        ]


def least_disturbed(windows: Iterable[Window]) -> list[Window]:
    """Of the windows of each group the least disturbed one, those that are marked so last.

    What disturbs only adds cycles, so it is the one with the fewest for a packet. A poller that is
    busy nearly all the time (`ALWAYS`) has the same number of them however long its rounds are: of
    its windows the one with the most rounds a second counts.
    """
    groups: dict[str, list[Window]] = {}
    for one in windows:
        groups.setdefault(one.group, []).append(one)
    return [_least_disturbed(some) for some in groups.values()]


def _least_disturbed(some: Sequence[Window]) -> Window:
    by_rounds = any(one.idle_rounds > 0 and one.share > ALWAYS for one in some)

    def rank(one: Window) -> tuple[bool, float]:
        rounds = one.idle_rounds + one.terms.get("busy_rounds", 0.0)
        cost = -rounds / one.seconds if by_rounds else one.busy / one.terms["packets"]
        return one.disturbed, cost

    return min(some, key=rank)


def switch_of(key: Key) -> str:
    """The switch of a key's subject: roles behind one switch are measured together."""
    return key.subject.partition("/")[0]


def state_of(windows: Iterable[Window]) -> float | None:
    """How far apart the cores were in most windows with VNFs; None: not known.

    Of one switch's windows, those of all roles: terms of two states of the machine in one
    prediction would be of no machine at all.
    """
    return usual(one.transfer_ns for one in windows if one.vnfs)


def in_one_state(windows: Sequence[Window]) -> tuple[list[Window], dict[str, float | None]]:
    """The windows during which the cores were as far apart as in most, of each switch's.

    Without VNFs the distance does not matter.

    Returns:
        These windows, and by switch the distance in nanoseconds (None: not known).
    """
    of: dict[str, list[Window]] = {}
    for one in windows:
        of.setdefault(switch_of(one.key), []).append(one)
    states = {name: state_of(some) for name, some in of.items()}
    return [one for one in windows if _is_in(one, states[switch_of(one.key)])], states


def _is_in(one: Window, state: float | None) -> bool:
    return (
        state is None
        or one.vnfs == 0
        or (one.transfer_ns is not None and is_same(one.transfer_ns, state))
    )


def tops_of(key: Key, windows: Iterable[Window]) -> list[Window]:
    """Of each graph and size under overload that this role limited, the best window."""
    wanted = {"kernel": "switch"}.get(key.role, key.role)
    some = [one for one in windows if one.load is None and one.limiter == wanted]
    best: dict[str, Window] = {}
    calm = [one for one in some if not one.disturbed]
    for one in calm or some:
        if one.group not in best or one.through > best[one.group].through:
            best[one.group] = one
    return list(best.values())


def _full(one: Window) -> Window | None:
    """A switch's window under overload with the amounts of full bursts; None: it has its own."""
    if one.key.role != "switch" or "visits" in one.terms:
        return None
    rounds = round_packets_of(one.key.subject)
    terms = {
        name: one.through * amount
        for name, amount in full_switch(one.vnfs, one.vnfs, one.size, rounds).items()
    }
    # What a VNF's queue does not take costs the switch its entry all the same.
    for name, amount in full_switch(0, 0, one.size, rounds).items():
        terms[name] += one.refused * one.through * amount
    return replace(one, busy=one.hz, idle=0.0, seconds=1.0, terms=terms)


def points_of(windows: Sequence[Window]) -> list[Window]:
    """The fixed loads that a role is fitted to: one window of each.

    `windows` are of one state of the machine (`in_one_state`).

    A load all of whose windows were disturbed is none, unless there are many such (less than
    `CALM` of them are calm): then it keeps the best of them. Without it, graphs that are always
    disturbed (VNFs that share a core) would have no points at all.
    """
    points = least_disturbed(one for one in windows if one.busy > 0 and one.load is not None)
    calm = [one for one in points if not one.disturbed]
    return calm if len(calm) >= CALM * len(points) else points


def fit_role(windows: Sequence[Window], state: float | None = None) -> RoleModel:
    """Fits one role.

    Args:
        windows: of one key and one state of the machine (`in_one_state`).
        state: that state; None: what most of the windows are of.

    Raises:
        FitError: too few windows, with how many there are.
    """
    import statsmodels.api as sm  # late: the node loads this module, and does not fit

    if not windows:
        raise FitError("no trials with this role's counters")
    points = points_of(windows)
    key = windows[0].key
    points += [full for one in tops_of(key, windows) if (full := _full(one)) is not None]
    if len(points) < LEAST_POINTS:
        raise FitError(
            f"{key}: {len(points)} loads with counters, the fit needs at least {LEAST_POINTS}: "
            f"measure more loads, sizes or lengths"
        )
    busy = np.array([one.busy for one in points])
    has_vnfs = any(one.vnfs for one in points)
    left_out: dict[str, str] = {}
    names: list[str] = []
    for name in TERMS[key.role]:
        column = np.array([one.terms.get(name, 0.0) for one in points])
        if not column.any():
            left_out[name] = "never happened in the trials"
            continue
        design = np.array([[one.terms.get(n, 0.0) for n in (*names, name)] for one in points])
        scaled = design / busy[:, None]
        scaled = scaled / np.linalg.norm(scaled, axis=0)
        if np.linalg.cond(scaled) > 1e4:
            left_out[name] = f"in proportion to {', '.join(names)}: vary it in the trials"
            continue
        names.append(name)
    # One freedom for the residual's error at least.
    while len(names) > len(points) - 2:
        left_out[names.pop()] = "too few trials to tell it from the others"
    design = np.array([[one.terms.get(name, 0.0) for name in names] for one in points])
    for name in _below_zero(names, design / busy[:, None]):
        left_out[name] = BELOW_ZERO
    names = [name for name in names if name not in left_out]
    if not names:
        raise FitError(f"{key}: no term explains the busy cycles")
    design = np.array([[one.terms.get(name, 0.0) for name in names] for one in points])
    fitted = sm.WLS(busy, design, weights=busy**-2.0).fit()
    idle = [one.idle / one.idle_rounds for one in points if one.idle_rounds > 0 and one.idle > 0]
    spans = {
        "size": _span(one.size for one in points),
        "vnfs": _span(float(one.vnfs) for one in points),
        "pps": _span(one.through for one in windows),
    }
    return RoleModel(
        key=key,
        names=tuple(names),
        values=tuple(max(0.0, float(value)) for value in fitted.params),
        covariance=tuple(tuple(map(float, row)) for row in np.asarray(fitted.cov_params())),
        residual=float(np.sqrt(fitted.scale)),
        points=len(points),
        idle_round=float(np.median(idle)) if idle else 0.0,
        left_out=left_out,
        hz=points[0].hz,
        spans=spans,
        disturbed=any(one.disturbed for one in points),
        transfer_ns=(state if has_vnfs else None) or usual(one.transfer_ns for one in points),
    )


def _below_zero(names: Sequence[str], relative: NDArray[np.float64]) -> list[str]:
    """The terms that are zero in the best fit without negative ones (Lawson and Hanson's NNLS).

    `relative` are the amounts over the busy cycles of their window, which are then all 1.
    """
    from scipy.optimize import nnls  # late: the node loads this module, and does not fit

    scale = np.linalg.norm(relative, axis=0)
    values, _ = nnls(relative / scale, np.ones(len(relative)))
    return [name for name, value in zip(names, values, strict=True) if value <= 1e-12]


def _span(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    return min(known), max(known)


@dataclass
class Fitted:
    """All roles that could be fitted, and why others could not."""

    roles: dict[Key, RoleModel] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)

    def subjects(self) -> list[str]:
        """The subjects with a switch or a kernel."""
        return sorted({key.subject for key in self.roles if key.role in ("switch", "kernel")})

    def switching(self, subject: str) -> RoleModel | None:
        """The role that switches for a subject."""
        for role in ("switch", "kernel"):
            found = self.roles.get(Key(subject, role))
            if found is not None:
                return found
        return None


def fit_all(windows: Sequence[Window], manifest: dict[str, Any] | None = None) -> Fitted:
    """Fits every role that there are windows of, those behind one switch in one state."""
    found = Fitted(manifest=manifest or {})
    some_state, states = in_one_state(windows)
    by_key: dict[Key, list[Window]] = {one.key: [] for one in windows}
    for one in some_state:
        by_key[one.key].append(one)
    for key, some in by_key.items():
        state = states[switch_of(key)]
        try:
            if not some and state is not None:
                raise FitError(
                    f"{key}: no window with the cores {state:.0f} ns apart, as in most windows of "
                    f"{switch_of(key)}: measure it together with them"
                )
            found.roles[key] = fit_role(some, state)
        except FitError as error:
            found.failures[str(key)] = str(error)
    return found
