# SPDX-License-Identifier: Apache-2.0
"""Ordinary least squares with the quality of the fit: errors, covariance, R²."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class FitError(Exception):
    """The points do not suffice for the fit; the message says what is missing."""


@dataclass(frozen=True)
class LeastSquares:
    """A linear fit; `variance` is that of the residuals, over points less coefficients."""

    coefficients: Vector
    covariance: Vector
    variance: float
    r2: float

    @property
    def errors(self) -> Vector:
        """The standard error of each coefficient."""
        return np.asarray(np.sqrt(np.diag(self.covariance)), dtype=np.float64)


def solve(design: Vector, target: Vector, needed: str) -> Vector:
    """The coefficients alone.

    Raises:
        FitError: the points do not determine the coefficients; the message says what is `needed`.
    """
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise FitError(f"the points do not determine the coefficients: {needed}")
    return np.asarray(np.linalg.lstsq(design, target, rcond=None)[0], dtype=np.float64)


def least_squares(design: Vector, target: Vector, needed: str) -> LeastSquares:
    """Fits `target` (one row a point) to the columns of `design`.

    Raises:
        FitError: no more points than coefficients, or they do not determine them.
    """
    points, parameters = design.shape
    if points <= parameters:
        raise FitError(f"{points} points, the fit needs at least {parameters + 1}")
    coefficients = solve(design, target, needed)
    residuals = target - design @ coefficients
    unexplained = float(residuals @ residuals)
    variance = unexplained / (points - parameters)
    total = float(((target - target.mean()) ** 2).sum())
    return LeastSquares(
        coefficients=coefficients,
        covariance=np.asarray(variance * np.linalg.inv(design.T @ design), dtype=np.float64),
        variance=variance,
        r2=1.0 - unexplained / total if total > 0 else 1.0,
    )
