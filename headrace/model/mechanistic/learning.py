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
stay at zero or above.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from headrace.model.mechanistic.fitting import RoleModel
from headrace.model.mechanistic.windows import Window

FORGETTING = 0.98
OUTLIER = 6.0
LEAST_RESIDUAL = 0.05
GROWTH = 10.0
LEAST_ERROR = 0.05
"""Relative error that each term is taken to have at least when learning begins."""

Outcome = Literal["learned", "disturbed", "empty", "outlier", "other role"]


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
        self.model = replace(
            model,
            values=tuple(float(value) for value in theta),
            covariance=tuple(tuple(float(v) for v in row) for row in updated * residual**2),
        )
        return "learned"
