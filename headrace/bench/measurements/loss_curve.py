# SPDX-License-Identifier: Apache-2.0
"""Loss over offered load (RFC 2544, 26.3): trials of its own, at shares of the overload rate.

The trials of a search crowd around its answer and are short far from it: they are no curve.
"""

from collections.abc import Sequence

from headrace.bench.device import TrialRequest
from headrace.bench.measurements.context import Context
from headrace.results import Sample

CURVE_S = 0.5


async def loss_curve(context: Context, shares: Sequence[float]) -> list[Sample]:
    """The loss ratio at each share of what came back under overload, as far as can be sent.

    Raises:
        StepSkipped: nothing came back under overload.
    """
    overload = context.overload_pps or context.sustained_pps
    samples = []
    for share in context.shuffled(shares):
        load = share * overload
        if load > context.device.ceiling_pps:
            continue
        trial = await context.trial(TrialRequest(context.round, "loss", CURVE_S, load))
        point = f"{100 * share:.0f}% overload"
        samples.append(Sample("loss_ratio", point, context.round, trial.loss_ratio))
    return samples
