# SPDX-License-Identifier: Apache-2.0
"""A linear alternative to the paper's power law: cycles per packet, linear in bytes and hops.

    cycles per packet = a + b * frame bytes + c * hops

where a hop is one traversal of the switch (`Case.traversals`). Unlike the power law its
coefficients have a direct meaning: `c` is the cost of another traversal, `b` that of another byte
(copies). It cannot express the effect of batching at higher loads, which the power law's alpha
below 1 does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.model.least_squares import least_squares


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
    design = np.array([[1.0, point.frame_bytes, float(point.hops)] for point in points])
    target = np.array([point.cycles for point in points])
    fitted = least_squares(
        design.reshape(len(points), 3), target, "it takes two frame sizes and two numbers of hops"
    )
    per_packet, per_byte, per_hop = (float(value) for value in fitted.coefficients)
    per_packet_se, per_byte_se, per_hop_se = (float(value) for value in fitted.errors)
    return CycleFit(
        switch=switch,
        per_packet=per_packet,
        per_byte=per_byte,
        per_hop=per_hop,
        per_packet_se=per_packet_se,
        per_byte_se=per_byte_se,
        per_hop_se=per_hop_se,
        r2=fitted.r2,
        points=len(points),
    )
