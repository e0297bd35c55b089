# SPDX-License-Identifier: Apache-2.0
"""Fits the cost function to measured points, by least squares on logarithms.

The noise of a shared machine is a factor, so it is additive on log C and ordinary least squares is
the right estimator there. Errors are given in three forms: standard errors of the coefficients, R²,
and the error of predictions for points that the fit has not seen (`cv_error`). All trials of one
intended load are left out together: otherwise repeats of a load would be predicted from each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from headrace.model.cost import server_cost
from headrace.model.least_squares import FitError, held_out, least_squares
from headrace.results import Fit, Placement

_PARAMETERS = 3
_NEEDED = "the fit needs at least two loads and two chain lengths"


@dataclass(frozen=True)
class Point:
    """One measured cost: packet rate into the server, number of VNFs, share of a core.

    `intended_pps` is the load that was asked for, 0 where only the rate is known: trials of one
    intended load are repeats, whatever rates they reached.
    """

    pps: float
    length: int
    cpu_percent: float
    intended_pps: float = 0.0

    @property
    def load(self) -> float:
        """What repeats of this point have in common."""
        return self.intended_pps or self.pps


@dataclass(frozen=True)
class Prediction:
    """A predicted cost in percent of one core with its 95 % prediction interval."""

    cpu_percent: float
    low: float
    high: float
    extrapolated: bool


def _rows(points: Sequence[Point]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The logarithms that the fit is linear in: of packets, length and one; of the cost."""
    columns = [
        np.log([point.pps for point in points]),
        np.log([float(point.length) for point in points]),
        np.ones(len(points)),
    ]
    return np.column_stack(columns), np.log([point.cpu_percent for point in points])


def _cross_validated(points: Sequence[Point]) -> float:
    """Median relative error of predictions for loads left out of the fit (nan: none)."""
    predicted, actual = held_out(*_rows(points), [point.load for point in points], _NEEDED)
    if not len(predicted):
        return float("nan")
    return float(np.median(np.abs(np.exp(predicted - actual) - 1.0)))


def fit(switch: str, placement: Placement, packet_bytes: int, points: Sequence[Point]) -> Fit:
    """Fits one cost function.

    Raises:
        FitError: fewer than four points, loads or lengths do not vary, or a cost is not positive.
    """
    if any(point.cpu_percent <= 0 or point.pps <= 0 for point in points):
        raise FitError("a point with no packets or no cost has no logarithm")
    fitted = least_squares(*_rows(points), _NEEDED)
    alpha, beta, gamma = (float(value) for value in fitted.coefficients)
    alpha_se, beta_se, gamma_se = (float(value) for value in fitted.errors)
    return Fit(
        switch=switch,
        placement=placement,
        packet_bytes=packet_bytes,
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        alpha_se=alpha_se,
        beta_se=beta_se,
        gamma_se=gamma_se,
        r2=fitted.r2,
        cv_error=_cross_validated(points),
        residual_s=float(np.sqrt(fitted.variance)),
        points=len(points),
        covariance=[[float(value) for value in row] for row in fitted.covariance],
    )


def predict(fitted: Fit, pps: float, length: int, measured: Sequence[Point] = ()) -> Prediction:
    """Predicts one server's cost with a 95 % prediction interval (Student's t).

    The interval is computed from the stored fit as statsmodels computes that of a new observation.

    `measured` determines whether the demand is outside the measured range (`extrapolated`).
    """
    cost = server_cost(fitted, pps, length)
    row = np.array([np.log(pps), np.log(length), 1.0])
    freedom = max(1, fitted.points - _PARAMETERS)
    variance = fitted.residual_s**2 + float(row @ np.array(fitted.covariance) @ row)
    factor = float(np.exp(float(stats.t.ppf(0.975, freedom)) * np.sqrt(variance)))
    outside = bool(measured) and not (
        min(point.pps for point in measured) <= pps <= max(point.pps for point in measured)
        and min(point.length for point in measured)
        <= length
        <= max(point.length for point in measured)
    )
    return Prediction(cost, cost / factor, cost * factor, outside)
