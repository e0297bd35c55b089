# SPDX-License-Identifier: Apache-2.0
"""Ordinary least squares by statsmodels, and the error of predictions for groups left out of it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from statsmodels.regression.linear_model import OLS

from headrace.model.errors import FitError as FitError

Vector = NDArray[np.float64]


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


def least_squares(design: Vector, target: Vector, needed: str) -> LeastSquares:
    """Fits `target` (one row a point) to the columns of `design`, one of which is constant.

    Raises:
        FitError: no more points than coefficients, or they do not determine them; the message says
            what is `needed`.
    """
    points, parameters = design.shape
    if points <= parameters:
        raise FitError(f"{points} points, the fit needs at least {parameters + 1}")
    if np.linalg.matrix_rank(design) < parameters:
        raise FitError(f"the points do not determine the coefficients: {needed}")
    fitted = OLS(target, design).fit()
    return LeastSquares(
        coefficients=np.asarray(fitted.params, dtype=np.float64),
        covariance=np.asarray(fitted.cov_params(), dtype=np.float64),
        variance=float(fitted.scale),
        r2=float(fitted.rsquared) if float(np.ptp(target)) > 0 else 1.0,
    )


def held_out(
    design: Vector, target: Vector, groups: Sequence[Hashable], needed: str
) -> tuple[Vector, Vector]:
    """Predictions of each group by a fit to all others, with their targets.

    A group that the others can't predict (too few are left) is missing from both.
    """
    predicted: list[float] = []
    actual: list[float] = []
    for group in dict.fromkeys(groups):
        out = np.array([other == group for other in groups])
        try:
            fitted = least_squares(design[~out], target[~out], needed)
        except FitError:
            continue
        predicted += (design[out] @ fitted.coefficients).tolist()
        actual += target[out].tolist()
    return np.array(predicted), np.array(actual)
