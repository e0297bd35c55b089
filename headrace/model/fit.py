# SPDX-License-Identifier: Apache-2.0
"""Fits the cost function to measured points, by least squares on logarithms.

The noise of a shared machine is a factor, so it is additive on log C and ordinary least squares is
the right estimator there. Errors are told in three ways: standard errors of the coefficients, R²,
and the error of predictions for points that the fit has not seen (`cv_error`), left out by
operating point, not by trial: repeats of one point would otherwise vouch for each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from headrace.model.cost import server_cost
from headrace.results import Fit, Placement

PARAMETERS = 3


class FitError(Exception):
    """The points cannot carry the fit; says what is missing."""


@dataclass(frozen=True)
class Point:
    """One measured cost: what entered the server, over how many VNFs, for how much of a core."""

    pps: float
    length: int
    cpu_percent: float


@dataclass(frozen=True)
class Prediction:
    """A predicted cost in percent of one core with its 95 % prediction interval."""

    cpu_percent: float
    low: float
    high: float
    extrapolated: bool


def _design(points: Sequence[Point]) -> NDArray[np.float64]:
    return np.column_stack(
        [
            np.log([point.pps for point in points]),
            np.log([float(point.length) for point in points]),
            np.ones(len(points)),
        ]
    )


def _solve(points: Sequence[Point]) -> NDArray[np.float64]:
    design = _design(points)
    if np.linalg.matrix_rank(design) < PARAMETERS:
        raise FitError(
            "the points do not tell packets from length: the fit needs at least two loads and two "
            "chain lengths"
        )
    target = np.log([point.cpu_percent for point in points])
    return np.asarray(np.linalg.lstsq(design, target, rcond=None)[0], dtype=np.float64)


def _cross_validated(points: Sequence[Point]) -> float:
    """Median relative error of predictions for operating points left out of the fit (nan: none)."""
    errors: list[float] = []
    for held in sorted({(point.pps, point.length) for point in points}):
        rest = [point for point in points if (point.pps, point.length) != held]
        try:
            alpha, beta, gamma = _solve(rest)
        except (FitError, np.linalg.LinAlgError):
            continue
        for point in points:
            if (point.pps, point.length) == held:
                log_cost = alpha * np.log(point.pps) + beta * np.log(point.length) + gamma
                errors.append(abs(float(np.exp(log_cost)) / point.cpu_percent - 1.0))
    return float(np.median(errors)) if errors else float("nan")


def fit(switch: str, placement: Placement, packet_bytes: int, points: Sequence[Point]) -> Fit:
    """Fits one cost function.

    Raises:
        FitError: fewer than four points, loads or lengths do not vary, or a cost is not positive.
    """
    if len(points) <= PARAMETERS:
        raise FitError(f"{len(points)} points, the fit needs at least {PARAMETERS + 1}")
    if any(point.cpu_percent <= 0 or point.pps <= 0 for point in points):
        raise FitError("a point with no packets or no cost has no logarithm")
    coefficients = _solve(points)
    design = _design(points)
    target = np.log([point.cpu_percent for point in points])
    residuals = target - design @ coefficients
    freedom = len(points) - PARAMETERS
    variance = float(residuals @ residuals) / freedom
    covariance = variance * np.linalg.inv(design.T @ design)
    total = float(((target - target.mean()) ** 2).sum())
    r2 = 1.0 - float(residuals @ residuals) / total if total > 0 else 1.0
    errors = np.sqrt(np.diag(covariance))
    return Fit(
        switch=switch,
        placement=placement,
        packet_bytes=packet_bytes,
        alpha=float(coefficients[0]),
        beta=float(coefficients[1]),
        gamma=float(coefficients[2]),
        alpha_se=float(errors[0]),
        beta_se=float(errors[1]),
        gamma_se=float(errors[2]),
        r2=r2,
        cv_error=_cross_validated(points),
        residual_s=float(np.sqrt(variance)),
        points=len(points),
        covariance=[[float(value) for value in row] for row in covariance],
    )


def predict(fitted: Fit, pps: float, length: int, measured: Sequence[Point] = ()) -> Prediction:
    """Predicts one server's cost with a 95 % prediction interval (Student's t).

    `measured` tells whether the demand lies outside what was measured (`extrapolated`).
    """
    cost = server_cost(fitted, pps, length)
    row = np.array([np.log(pps), np.log(length), 1.0])
    freedom = max(1, fitted.points - PARAMETERS)
    variance = fitted.residual_s**2 + float(row @ np.array(fitted.covariance) @ row)
    factor = float(np.exp(float(stats.t.ppf(0.975, freedom)) * np.sqrt(variance)))
    outside = bool(measured) and not (
        min(point.pps for point in measured) <= pps <= max(point.pps for point in measured)
        and min(point.length for point in measured)
        <= length
        <= max(point.length for point in measured)
    )
    return Prediction(cost, cost / factor, cost * factor, outside)
