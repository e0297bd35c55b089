# SPDX-License-Identifier: Apache-2.0
"""How a poller spends its time at a load: the length of its rounds, its busy share, its delay.

A round takes what has come to its q queues since the last one (gated service). With packets at a
rate r, Poisson, a round of length T brings r T packets on average and is busy with probability
p = 1 - exp(-r T). Its length is then

    T = idle round x (1 - p) + p x (busy round + wake x (1 - p) + bursts x per burst) + r T x c

(c cycles of a packet besides, to which comes what a packet costs more the more of the time is
idle), a fixed point that exists below saturation: T grows without bound as r c reaches the clock.
A packet waits for the rest of the round in which it comes, T / 2 on average and T at most, and
leaves at the end of the next, whose work is T less an idle round's.

Rounds are limited by the burst size: beyond `BURST` packets of a queue a burst is full, and what is
left waits a round more, which the fixed point has as a longer T.
"""

import math
from dataclasses import dataclass

from headrace.model.mechanistic.amounts import BURST
from headrace.model.mechanistic.windows import singles


@dataclass(frozen=True)
class Poller:
    """A poller's own terms in cycles; `per_packet` includes bytes and visits.

    `per_single` is of packets outside of whole batches of four, `per_packet_idle` what a packet
    costs more where the poller has nothing else to do (windows.py).
    """

    hz: float
    idle_round: float
    busy_round: float
    per_wake: float
    per_burst: float
    per_packet: float
    queues: float
    round_packets: float = BURST
    per_single: float = 0.0
    per_packet_idle: float = 0.0


@dataclass(frozen=True)
class Polled:
    """A poller at a load.

    Attributes:
        round_s: mean length of a round.
        busy_share: of its time in rounds that found packets.
        burst: packets of a burst on average.
        mean_delay_s: of a packet here on average.
        max_delay_s: of one that comes at the worst time, while there is no disturbance.
        saturated: there are more packets than cycles.
    """

    round_s: float
    busy_share: float
    burst: float
    mean_delay_s: float
    max_delay_s: float
    saturated: bool


def full_cycles(poller: Poller) -> float:
    """Cycles of a packet when all bursts are full."""
    bursts = poller.queues * poller.per_burst / BURST
    bursts += poller.per_single * singles(BURST, 1) / BURST
    return poller.per_packet + bursts + poller.busy_round / poller.round_packets


def at_load(poller: Poller, pps: float) -> Polled:
    """The fixed point at a rate of packets through the graph."""
    top = poller.hz / max(full_cycles(poller), 1e-9)
    if pps >= top:
        return Polled(math.inf, 1.0, float(BURST), math.inf, math.inf, saturated=True)
    rate = pps / poller.hz
    low = max(1.0, poller.idle_round)
    length = low
    share = 0.0
    for _ in range(500):
        brought = rate * length
        busy = 1 - math.exp(-brought)
        queues = min(poller.queues, brought * poller.queues)
        bursts = max(queues, brought * poller.queues / BURST)
        # Each queue that a packet is taken from is a burst of its own, at least a full one each 32.
        work = busy * (poller.busy_round + poller.per_wake * (1 - busy)) + bursts * poller.per_burst
        work += brought * (poller.per_packet + (1 - share) * poller.per_packet_idle)
        work += poller.per_single * singles(brought, bursts)
        wanted = (1 - busy) * poller.idle_round + work
        share = min(1.0, work / max(wanted, 1e-12))
        if abs(wanted - length) <= 1e-9 * length:
            break
        length = max(low, 0.5 * length + 0.5 * wanted)
    seconds = length / poller.hz
    work_s = max(0.0, length - poller.idle_round) / poller.hz
    burst = max(1.0, min(float(BURST), rate * length))
    return Polled(
        seconds, min(1.0, share), burst, seconds / 2 + work_s, seconds + work_s, saturated=False
    )
