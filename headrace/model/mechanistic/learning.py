# SPDX-License-Identifier: Apache-2.0
"""Follows a machine that changes: recursive least squares with forgetting, on the fitted terms.

Each new window y = x . theta + noise (x: amounts of the terms, y: busy cycles, both over y's own
scale, so that errors are relative) updates

    gain  k = P x / (forgetting + x P x)
    theta = theta + k (y - x theta),    P = (P - k x P) / forgetting

with `forgetting` just below 1: a window that is n windows old counts forgetting^n. P is kept from
growing without bound where nothing new is seen: its trace is at most `GROWTH` times its first.
Disturbed windows are never learned from, nor ones without packets, nor ones so far from the
prediction that they are of something else (`OUTLIER` standard deviations); these are counted. Terms
stay at zero or above. A VNF that was never measured begins with its ports' terms, if these are
known, and a packet's and a byte's cycles so uncertain that the first windows decide (`unknown`).
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from headrace.model.mechanistic.fitting import RoleModel
from headrace.model.mechanistic.windows import POLLED, Key, Window

FORGETTING = 0.98
OUTLIER = 6.0
LEAST_RESIDUAL = 0.05
GROWTH = 10.0
LEAST_ERROR = 0.05
"""Relative error that each term is taken to have at least when learning begins."""

PLAIN = "pass"
"""The function whose cycles are those of its ports alone."""
UNKNOWN_TIMES = 10.0
"""Standard deviation of the cycles of a packet of an unknown function, over those first seen."""
UNKNOWN_BYTE = 1.0
"""The same of a byte, in cycles."""

Outcome = Literal["learned", "disturbed", "empty", "outlier", "other role"]


def plain(key: Key) -> Key:
    """The role of a VNF with the same ports that does nothing to packets."""
    return replace(key, function=PLAIN)


def unknown(window: Window, ports: RoleModel | None) -> RoleModel:
    """Terms of a VNF that was never measured, to begin with.

    Args:
        window: the first that was seen.
        ports: terms of a VNF with the same ports that does nothing else; None: not known.
    """
    further = ("singles", *POLLED)
    names = ("packets", "octets", *(name for name in further if ports and ports.term(name)))
    first = window.busy / max(1.0, window.terms["packets"])
    of = {name: ports.term(name) if ports else 0.0 for name in names}
    of["packets"] = max(of["packets"], first / 2)
    deviations = {
        name: ports.error(name) + LEAST_ERROR * value if ports else 0.0
        for name, value in of.items()
    }
    deviations |= {"packets": UNKNOWN_TIMES * first, "octets": UNKNOWN_BYTE}
    covariance = np.diag([deviations[name] ** 2 for name in names])
    idle = window.idle / window.idle_rounds if window.idle_rounds > 0 else 0.0
    return RoleModel(
        key=window.key,
        names=names,
        values=tuple(of[name] for name in names),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        residual=LEAST_RESIDUAL,
        points=len(names) + 1,
        idle_round=idle,
        left_out={},
        hz=window.hz,
        spans={
            "size": (window.size, window.size),
            "vnfs": (1.0, 1.0),
            "pps": (window.through, window.through),
        },
    )


@dataclass
class Learner:
    """One role's terms, updated window by window.

    Attributes:
        model: with the terms as they are now.
        counts: windows by outcome.
        limit: of the trace of P.
    """

    model: RoleModel
    counts: dict[str, int]
    forgetting: float = FORGETTING
    limit: float = math.inf

    @classmethod
    def of(cls, model: RoleModel, forgetting: float = FORGETTING) -> "Learner":
        """Starts from a fit."""
        if not 0.5 < forgetting <= 1:
            raise ValueError("forgetting is a factor between 0.5 and 1")
        residual = max(model.residual, LEAST_RESIDUAL)
        values, covariance = np.array(model.values), np.array(model.covariance)
        # A fit that knows its terms exactly would never learn: the machine may have changed since.
        covariance = covariance + np.diag((LEAST_ERROR * values) ** 2)
        rows = tuple(tuple(float(value) for value in row) for row in covariance)
        trace = float(np.trace(covariance)) / residual**2
        return cls(replace(model, covariance=rows), {}, forgetting, GROWTH * trace)

    def update(self, one: Window) -> Outcome:
        """Learns from a window, or says why not."""
        outcome = self._update(one)
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        return outcome

    def _update(self, one: Window) -> Outcome:
        model = self.model
        if one.key != model.key:
            return "other role"
        if one.disturbed:
            return "disturbed"
        amounts = np.array([one.terms.get(name, 0.0) for name in model.names])
        if one.busy <= 0 or not amounts.any() or not np.isfinite(amounts).all():
            return "empty"
        x = amounts / one.busy
        theta, covariance = np.array(model.values), np.array(model.covariance)
        residual = max(model.residual, LEAST_RESIDUAL)
        p = covariance / residual**2
        error = 1.0 - float(x @ theta)
        spread = residual * math.sqrt(1.0 + float(x @ p @ x))
        if abs(error) > OUTLIER * spread:
            return "outlier"
        gain = p @ x / (self.forgetting + float(x @ p @ x))
        theta = np.maximum(0.0, theta + gain * error)
        updated = (p - np.outer(gain, x @ p)) / self.forgetting
        updated = (updated + updated.T) / 2
        if np.trace(updated) > self.limit:
            updated *= self.limit / np.trace(updated)
        if not theta.any() or not np.isfinite(theta).all():
            return "empty"
        # So many windows count at one time, by forgetting.
        most = math.inf if self.forgetting == 1 else 1 / (1 - self.forgetting)
        self.model = replace(
            model,
            points=model.points + 1 if model.points < most else model.points,
            values=tuple(float(value) for value in theta),
            covariance=tuple(tuple(float(v) for v in row) for row in updated * residual**2),
        )
        return "learned"
