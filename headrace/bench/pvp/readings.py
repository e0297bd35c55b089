# SPDX-License-Identifier: Apache-2.0
"""What two readings of a subject's counters say of the time between them.

Open vSwitch's counters of cycles are unsigned 64-bit sums of signed differences of the processor's
time-stamp counter. One that is read while it is below zero looks like nearly 2^64, so differences
are taken modulo 2^64, as the switch takes them. What no core can have spent is no measurement.
"""

from dataclasses import dataclass

from headrace.bench.pvp.figures import Sample
from headrace.bench.pvp.vnfs import Work

COUNTER = 1 << 64
MOST_HZ = 1e10
"""More than any core's time-stamp counter counts in a second."""


@dataclass(frozen=True)
class Reading:
    """Counters of a subject and when they were read.

    Attributes:
        delivered: packets at the sink; at the floor, packets forwarded.
        switch: TSC cycles that the switch spent on packets.
        vnf: the VNF's work.
        at: seconds of a monotonic clock.
    """

    delivered: int
    switch: int
    vnf: Work
    at: float


class ImpossibleReadings(Exception):
    """Two readings between which no core can have spent what they say."""


def grown(before: int, after: int) -> int:
    """By how much a counter of 64 bits has grown, also across its end."""
    return (after - before) % COUNTER


def sample_of(first: Reading, last: Reading) -> Sample | None:
    """Rate, and cycles per packet; None if no packet came through.

    Raises:
        ImpossibleReadings: more cycles than the time had.
    """
    seconds = last.at - first.at
    packets = grown(first.delivered, last.delivered)
    through_vnf = grown(first.vnf.packets, last.vnf.packets)
    if packets == 0 or through_vnf == 0:
        return None
    switch = grown(first.switch, last.switch)
    vnf = grown(first.vnf.cycles, last.vnf.cycles)
    if max(switch, vnf, packets, through_vnf) > MOST_HZ * seconds:
        raise ImpossibleReadings(
            f"in {seconds:.3f} s the switch spent {switch} cycles on {packets} packets, "
            f"the VNF {vnf} on {through_vnf}"
        )
    return Sample(packets / seconds / 1e6, switch / packets, vnf / through_vnf)
