# SPDX-License-Identifier: Apache-2.0
"""A second opinion beside the paper's power law: cycles per packet, linear in bytes and hops.

    cycles per packet = a + b * frame bytes + c * hops

where a hop is one traversal of the switch (`Case.traversals`). Unlike the power law its
coefficients mean something by themselves: `c` is what one more traversal costs, `b` what one more
byte costs (copies). It cannot show what batching does at higher loads, which the power law's alpha
below 1 does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.fit import FitError

PARAMETERS = 3


@dataclass(frozen=True)
class CyclePoint:
    """One measured cost of a packet."""

    frame_bytes: float
    hops: int
    cycles: float


@dataclass(frozen=True)
class CycleFit:
    """The three coefficients in TSC cycles, with standard errors and R²."""

    switch: str
    per_packet: float
    per_byte: float
    per_hop: float
    per_packet_se: float
    per_byte_se: float
    per_hop_se: float
    r2: float
    points: int


def fit_cycles(switch: str, points: Sequence[CyclePoint]) -> CycleFit:
    """Fits the linear model by ordinary least squares.

    Raises:
        FitError: too few points, or sizes or hops do not vary.
    """
    if len(points) <= PARAMETERS:
        raise FitError(f"{len(points)} points, the fit needs at least {PARAMETERS + 1}")
    design = np.array([[1.0, point.frame_bytes, float(point.hops)] for point in points])
    if np.linalg.matrix_rank(design) < PARAMETERS:
        raise FitError("the fit needs at least two frame sizes and two numbers of hops")
    target = np.array([point.cycles for point in points])
    coefficients = np.linalg.lstsq(design, target, rcond=None)[0]
    residuals = target - design @ coefficients
    variance = float(residuals @ residuals) / (len(points) - PARAMETERS)
    errors = np.sqrt(np.diag(variance * np.linalg.inv(design.T @ design)))
    total = float(((target - target.mean()) ** 2).sum())
    return CycleFit(
        switch=switch,
        per_packet=float(coefficients[0]),
        per_byte=float(coefficients[1]),
        per_hop=float(coefficients[2]),
        per_packet_se=float(errors[0]),
        per_byte_se=float(errors[1]),
        per_hop_se=float(errors[2]),
        r2=1.0 - float(residuals @ residuals) / total if total > 0 else 1.0,
        points=len(points),
    )
