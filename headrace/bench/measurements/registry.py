# SPDX-License-Identifier: Apache-2.0
"""The measurements by the name that a scenario gives them, with the seconds that each takes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from headrace.bench.measurements.back_to_back import back_to_back
from headrace.bench.measurements.context import Context
from headrace.bench.measurements.loss_curve import CURVE_S, loss_curve
from headrace.bench.measurements.outage import outage
from headrace.bench.measurements.recovery import AFTER_S, recovery
from headrace.bench.measurements.soak import soak
from headrace.bench.scenario import BackToBack, Measure, Outage, Recovery, Soak
from headrace.results import Sample

ExtraKind = Literal["loss_curve", "back_to_back", "soak", "recovery", "reconfiguration", "reset"]
BURSTS = 16
"""Bursts that one search of the longest one takes, about."""


@dataclass(frozen=True)
class Extra:
    """A measurement: how to run it, and the seconds that it is expected to take."""

    run: Callable[[Context, Measure], Awaitable[list[Sample]]]
    expected_s: Callable[[Measure, float], float]


async def _loss_curve(context: Context, measure: Measure) -> list[Sample]:
    return await loss_curve(context, measure.loss_curve)


async def _back_to_back(context: Context, measure: Measure) -> list[Sample]:
    return await back_to_back(context, measure.back_to_back or BackToBack())


async def _soak(context: Context, measure: Measure) -> list[Sample]:
    return await soak(context, measure.soak or Soak())


async def _recovery(context: Context, measure: Measure) -> list[Sample]:
    return await recovery(context, measure.recovery or Recovery())


async def _reconfiguration(context: Context, measure: Measure) -> list[Sample]:
    return await outage(context, "reconfigure", measure.reconfiguration or Outage())


async def _reset(context: Context, measure: Measure) -> list[Sample]:
    return await outage(context, "reset", measure.reset or Outage())


EXTRA: dict[ExtraKind, Extra] = {
    "loss_curve": Extra(_loss_curve, lambda m, gap: len(m.loss_curve) * (CURVE_S + gap)),
    "back_to_back": Extra(
        _back_to_back, lambda m, gap: (m.back_to_back or BackToBack()).repeats * BURSTS * gap
    ),
    "soak": Extra(_soak, lambda m, gap: (m.soak or Soak()).seconds + gap),
    "recovery": Extra(
        _recovery, lambda m, gap: (m.recovery or Recovery()).overload_s + AFTER_S + 2 * gap
    ),
    "reconfiguration": Extra(
        _reconfiguration, lambda m, gap: (m.reconfiguration or Outage()).seconds + gap
    ),
    "reset": Extra(_reset, lambda m, gap: (m.reset or Outage()).seconds + gap),
}
