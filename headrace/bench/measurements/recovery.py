# SPDX-License-Identifier: Apache-2.0
"""System recovery (RFC 2544, 26.5): how long after an overload a switch still loses frames.

The overload is 110 % of the sustained rate; it ends by a second trial at 50 %, whose losses are of
the time right after the change. The generator starts the second after the first has stopped, so
the time between them is part of the result and its resolution: without a loss in the second trial
the switch had recovered earlier, `<`.
"""

import time

from headrace.bench.device import TrialRequest
from headrace.bench.measurements.context import Context, StepSkipped
from headrace.bench.scenario import Recovery
from headrace.results import Relation, Sample

OVERLOAD, AFTER = 1.1, 0.5
AFTER_S = 2.0


async def recovery(context: Context, how: Recovery) -> list[Sample]:
    """The time from the end of the overload to the last loss, in nanoseconds.

    Raises:
        StepSkipped: no rate of the case is known, or the generator can't send the overload.
    """
    sustained = context.sustained_pps
    if OVERLOAD * sustained > context.device.ceiling_pps:
        raise StepSkipped(
            f"recovery: the generator can't send {OVERLOAD:.0%} of what the switch carries"
        )
    before = TrialRequest(
        context.round, "recovery", how.overload_s, OVERLOAD * sustained, drain_s=0.0
    )
    begun = time.monotonic()
    await context.trial(before)
    gap_s = max(0.0, time.monotonic() - begun - how.overload_s)
    load = AFTER * sustained
    trial = await context.trial(TrialRequest(context.round, "recovery", AFTER_S, load))
    lost_s = (trial.lost + trial.unsent) / load
    relation: Relation = "=" if lost_s > 0 else "<"
    return [Sample("recovery_time", "", context.round, 1e9 * (gap_s + lost_s), relation=relation)]
