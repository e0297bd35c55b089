# SPDX-License-Identifier: Apache-2.0
"""A simulated device: capacity, loss, latency, cost and noise from formulas.

For tests of everything above a trial and for `headrace bench run --simulate`, which shows the form
of a scenario's results without using the machine. Its results are marked as simulated.
"""

import math
import time
import zlib
from dataclasses import dataclass, field

import numpy as np

from headrace.bench.device import EVENT_AFTER, TrialRequest
from headrace.results import Case, Trial
from headrace.results.frame_sizes import mean_bytes
from headrace.results.limiter import Activity, decide

TSC_HZ = 2.0e9


@dataclass(frozen=True)
class DeviceModel:
    """Parameters of the simulated switch.

    Attributes:
        cycles: TSC cycles of one traversal at one packet a poll.
        per_byte: cycles for each byte of a frame and traversal.
        batching: exponent below 1 by which more load makes packets cheaper.
        floor_loss: share lost at any load (as on a shared machine).
        noise: standard deviation of the logarithm of the capacity, drawn for each trial.
        latency_ns: latency of an idle switch.
        stalls_hz: how often the whole machine stands still, Poisson; what arrives then is lost.
        stall_s: seconds of each.
        buffer_frames: frames that wait while more arrive than are forwarded; 0: all are lost.
        reset_s, reconfigure_s: how long nothing is forwarded at these events.
    """

    cycles: float = 150.0
    per_byte: float = 0.05
    batching: float = 0.9
    floor_loss: float = 0.0
    noise: float = 0.0
    latency_ns: float = 20_000.0
    stalls_hz: float = 0.0
    stall_s: float = 0.001
    buffer_frames: int = 0
    reset_s: float = 1.5
    reconfigure_s: float = 0.0


@dataclass
class SimulatedDevice:
    """A device whose trials take no time but its own (`elapsed_s`)."""

    case: Case
    model: DeviceModel = DeviceModel()
    ceiling_pps: float = 20e6
    seed: int = 1
    trials: list[TrialRequest] = field(default_factory=list)

    overhead_s: float = 0.1
    elapsed_s: float = 0.0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng([self.seed, zlib.crc32(repr(self.case).encode())])

    @property
    def cycles_per_packet(self) -> float:
        """Cycles of a packet through the whole graph at full load."""
        per_hop = self.model.cycles + self.model.per_byte * mean_bytes(self.case.size)
        return per_hop * self.case.traversals

    @property
    def capacity_pps(self) -> float:
        """The load up to which only `floor_loss` is lost."""
        return TSC_HZ / self.cycles_per_packet

    def _counters(self, packets: int, load: float, busy: int) -> dict[str, dict[str, int]]:
        """What its switch and VNFs would count: bursts grow with the load."""
        burst = max(1.0, 32 * load)
        hops = self.case.traversals

        def polled(cycles: float, visits: float) -> dict[str, int]:
            bursts = max(1, round(packets * visits / burst))
            idle = max(1, round(bursts * (1 - load) / max(load, 0.01)))
            return {
                "busy_cycles": round(cycles),
                "idle_cycles": round(idle * self.model.cycles / 2),
                "rounds": bursts + idle,
                "busy_rounds": bursts,
                "bursts": bursts,
                "packets": round(packets * visits),
            }

        visits = 1.0 if self.case.shape == "chain" else 1 / max(1, self.case.vnfs)
        each = polled(0.5 * busy * visits / hops, visits)
        return {"switch": polled(busy, hops)} | {
            f"vnf{number}": each for number in range(self.case.vnfs)
        }

    async def trial(self, request: TrialRequest) -> Trial:
        """One simulated trial."""
        self.trials.append(request)
        self.elapsed_s += request.duration_s + self.overhead_s
        draw = math.exp(self.model.noise * float(self._random.standard_normal()))
        capacity = self.capacity_pps * draw
        intended = request.load_pps or self.ceiling_pps
        offered = min(intended, self.ceiling_pps)
        passed = min(offered, capacity) * (1 - self.model.floor_loss)
        sent = round(offered * request.duration_s)
        received = min(sent, round(passed * request.duration_s))
        stalls = self._random.poisson(self.model.stalls_hz * request.duration_s)
        received -= min(received, round(stalls * self.model.stall_s * offered))
        received += min(sent - received, self.model.buffer_frames)
        if request.event is not None:
            outage_s = getattr(self.model, f"{request.event}_s")
            outage_s = min(outage_s, (1 - EVENT_AFTER) * request.duration_s)
            received -= min(received, round(outage_s * offered))
        unsent = max(0, round(intended * request.duration_s) - sent)
        load = min(1.0, offered / capacity)
        idle_cost = self.cycles_per_packet * (max(load, 1e-6) ** (self.model.batching - 1))
        wait = self.model.latency_ns * (1 + load / max(0.02, 1 - load))
        verdict = decide(
            [
                Activity("generator", "generator", 0.0, full_share=1.0,
                         refused_share=1.0 - min(1.0, passed / offered)),
                Activity("switch", self.case.switch, 1.0 - load, full_share=load),
            ],
            sent_all=request.load_pps is not None and received == sent and not unsent,
        )  # fmt: skip
        return Trial(
            round=request.round,
            purpose=request.purpose,
            intended_pps=request.load_pps,
            duration_s=request.duration_s,
            sent=sent,
            received=received,
            lost=sent - received,
            unsent=unsent,
            loss_ratio=(sent - received + unsent) / max(1, sent + unsent),
            tx_pps=sent / request.duration_s,
            rx_pps=received / request.duration_s,
            started=time.time(),
            busy_cycles=round(received * idle_cost),
            switch_packets=received * self.case.traversals,
            tsc_hz=TSC_HZ,
            generator_limited=verdict.lower_bound,
            detail={
                "limiter": verdict.as_dict(),
                "counters": self._counters(received, load, round(received * idle_cost)),
            },
            latency_ns={
                "count": received,
                "min": self.model.latency_ns,
                "p50": wait,
                "p90": 1.6 * wait,
                "p99": 2.5 * wait,
                "p99_9": 4 * wait,
                "max": 8 * wait,
            },
        )
