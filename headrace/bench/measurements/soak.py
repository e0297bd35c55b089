# SPDX-License-Identifier: Apache-2.0
"""Soak: one long trial below the sustained rate, for what short trials do not meet.

Timers, ageing, a control thread's work and other programs come by rarely; a load that a switch
carries for a second it may not carry for an hour.
"""

from headrace.bench.device import TrialRequest
from headrace.bench.measurements.context import Context
from headrace.bench.scenario import Soak
from headrace.results import Sample


async def soak(context: Context, how: Soak) -> list[Sample]:
    """Loss, and the latency that all but one frame in 1000 kept, of `how.seconds`.

    Raises:
        StepSkipped: no rate of the case is known.
    """
    load = min(context.device.ceiling_pps, how.at * context.sustained_pps)
    trial = await context.trial(TrialRequest(context.round, "soak", how.seconds, load))
    point = f"{100 * how.at:.0f}% soak {how.seconds:g} s"
    samples = [Sample("loss_ratio", point, context.round, trial.loss_ratio)]
    for name in ("p50", "p99_9"):
        if name in trial.latency_ns:
            value = trial.latency_ns[name]
            samples.append(Sample(f"latency_{name}", point, context.round, value))
    return samples
