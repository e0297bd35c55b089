# SPDX-License-Identifier: Apache-2.0
"""What a reset or a change of the configuration costs traffic (RFC 6201; CSIT's reconfiguration).

Traffic flows at a share of the sustained rate; after a quarter of the trial the event happens. The
time that traffic stood still is the frames lost over the rate (RFC 6201's method by frame loss).
If they are all frames from the event to the end, traffic did not come back: `>=`.
"""

from headrace.bench.device import EVENT_AFTER, Event, TrialRequest
from headrace.bench.measurements.context import Context
from headrace.bench.scenario import Outage
from headrace.results import Relation, Sample

NOT_BACK = 0.98
"""A loss of more than this share of what was sent after the event is taken as all of it."""


async def outage(context: Context, event: Event, how: Outage) -> list[Sample]:
    """The outage time of one event in nanoseconds.

    Raises:
        StepSkipped: no rate of the case is known.
        DeviceError: the device can't do this event.
    """
    load = min(context.device.ceiling_pps, how.at * context.sustained_pps)
    request = TrialRequest(context.round, "event", how.seconds, load, event=event)
    trial = await context.trial(request)
    lost_s = (trial.lost + trial.unsent) / load
    after_s = (1 - EVENT_AFTER) * how.seconds
    relation: Relation = ">=" if lost_s >= NOT_BACK * after_s else "="
    point = f"{event} at {100 * how.at:.0f}% pdr"
    return [Sample("outage_time", point, context.round, 1e9 * lost_s, relation=relation)]
