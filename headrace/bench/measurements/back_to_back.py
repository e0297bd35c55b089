# SPDX-License-Identifier: Apache-2.0
"""Back-to-back frames by RFC 9004: the longest burst at the highest rate that loses nothing.

A burst is a trial at the generator's ceiling. Its length is doubled until frames are lost, then
bisected to 5 %; that is repeated, and the mean, as the RFC says, is the result of a round. From it
comes the buffer time: a device that forwards while the burst arrives stores only the rest, so

    corrected = burst / ceiling x (1 - throughput / ceiling)

A generator that can't send faster than the device forwards fills no buffer: the case is skipped.
"""

import statistics
from collections.abc import Awaitable, Callable

from headrace.bench.device import TrialRequest
from headrace.bench.measurements.context import Context, StepSkipped
from headrace.bench.scenario import BackToBack
from headrace.results import Relation, Sample

FIRST_FRAMES = 64
WIDTH = 0.05
FASTER = 1.1
"""The ceiling has to be this many times the throughput for a burst to fill a buffer."""
LATE_US = 200.0
"""A frame that the port refuses for longer counts as lost: it did not fit the first queue."""


async def back_to_back(context: Context, how: BackToBack) -> list[Sample]:
    """The burst length in frames and the corrected buffer time.

    Raises:
        StepSkipped: the generator is no faster than the device, or even the first burst lost some.
    """
    throughput, ceiling = context.sustained_pps, context.device.ceiling_pps
    if ceiling < FASTER * throughput:
        raise StepSkipped(
            f"back-to-back: the generator's {ceiling:.0f} pps are less than {FASTER:g} times what "
            f"the switch carries ({throughput:.0f} pps), so a burst fills no buffer"
        )
    longest = int(how.longest_s * ceiling)

    async def whole(frames: int) -> bool:
        seconds = frames / ceiling
        request = TrialRequest(
            context.round, "burst", seconds, ceiling, late_bound_us=LATE_US, drain_s=0.02
        )
        return (await context.trial(request)).loss_ratio == 0

    bursts = [await _longest(whole, longest) for _ in range(how.repeats)]
    if max(bursts) == 0:
        raise StepSkipped(f"back-to-back: even bursts of {FIRST_FRAMES} frames lost some")
    frames = statistics.fmean(bursts)
    relation: Relation = ">=" if min(bursts) >= longest else "="
    buffer_ns = 1e9 * frames / ceiling * (1 - throughput / ceiling)
    return [
        Sample("burst_frames", "", context.round, frames, relation=relation),
        Sample("buffer_time", "", context.round, buffer_ns, relation=relation),
    ]


async def _longest(whole: Callable[[int], Awaitable[bool]], longest: int) -> int:
    """The longest burst that arrives whole; 0 if not even the first does."""
    good, frames = 0, min(FIRST_FRAMES, longest)
    while await whole(frames):
        good = frames
        if frames >= longest:
            return good
        frames = min(longest, 2 * frames)
    bad = frames
    while good and (bad - good) / bad > WIDTH:
        middle = (good + bad) // 2
        if await whole(middle):
            good = middle
        else:
            bad = middle
    return good
