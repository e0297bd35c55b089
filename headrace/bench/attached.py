# SPDX-License-Identifier: Apache-2.0
"""A case on a real node with a generator attached: trials, and what the counters say of each."""

import asyncio
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.bench.core_plan import CorePlan
from headrace.bench.device import EVENT_AFTER, TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.events import happen, wait_back
from headrace.bench.evidence import (
    Reading,
    counters_of,
    generator_activity,
    generator_counters,
    share,
    switch_activity,
    vnf_activity,
)
from headrace.bench.node_client import NodeClient
from headrace.bench.node_process import PORTS, NodeProcess
from headrace.bench.noise.others import Cores, by_core, threads_of
from headrace.bench.priority import raise_owned
from headrace.bench.scenario import Traffic
from headrace.bench.subject import IN_PROCESS, Subject
from headrace.bench.waiting import waited_ns, worker_threads
from headrace.results import Case, Trial
from headrace.results.limiter import Activity, Verdict, decide
from headrace.traffic import Load, TrafficClient, TrafficError, TrafficProcess, TrialResult

GRAPH = "bench"
DRAIN_S = 0.05
UNCOUNTED = ("search", "burst", "recovery", "event")
"""Purposes whose trials are too many, too close to each other or too disturbed to read cycles."""


@dataclass
class Stand:
    """A subject's node with the generator's two ports on it."""

    subject: Subject
    node: NodeProcess
    tx_port: str = ""
    rx_port: str = ""
    deployed: str = ""
    workers: list[Path] = field(default_factory=list)
    cores: list[int] = field(default_factory=list)
    vnfs: list[Path] = field(default_factory=list)

    @property
    def pollers(self) -> dict[int, list[Path]]:
        """The threads of the switch's workers and of the deployed VNFs, by core."""
        return by_core([*self.workers, *self.vnfs])


def generator_health(result: TrialResult) -> dict[str, float | int | None]:
    """How well the generator kept its times: without that, loss and latency may be its own."""
    late, workers = result.generator.timing_error_ns, result.generator.workers
    shares = [each.on_core_share for each in workers if each.on_core_share is not None]
    return {
        "on_core_share": min(shares, default=None),
        "preemptions": sum(each.preemptions for each in workers),
        "late_p50_ns": late.p50 if late else None,
        "late_p99_ns": late.p99 if late else None,
        "late_max_ns": late.max if late else None,
    }


def trial_of(
    request: TrialRequest,
    result: TrialResult,
    started: float,
    readings: tuple[Reading, Reading] | None,
    verdict: Verdict,
    waited: int = 0,
) -> Trial:
    """Combines the results of the generator and the node for one trial."""
    intended = max(1, result.sent + result.unsent)
    latency = {
        name: float(value)
        for name, value in result.latency_ns.model_dump().items()
        if value is not None
    }
    before, after = readings if readings else (None, None)
    busy = packets = None
    if before and after and after.switch.workers:
        busy = after.switch.busy - before.switch.busy
        packets = after.switch.packets - before.switch.packets
    vnf_busy = None
    if before and after and after.vnfs:
        pairs = zip(before.vnfs, after.vnfs, strict=True)
        vnf_busy = sum(last.busy_cycles - first.busy_cycles for first, last in pairs)
    return Trial(
        round=request.round,
        purpose=request.purpose,
        intended_pps=request.load_pps,
        duration_s=result.duration_s,
        sent=result.sent,
        received=result.received,
        lost=result.lost,
        unsent=result.unsent,
        loss_ratio=(result.lost + result.unsent) / intended,
        tx_pps=result.tx_pps,
        rx_pps=result.rx_pps,
        started=started,
        busy_cycles=busy,
        waited_cycles=round(waited * after.switch.tsc_hz / 1e9) if after else 0,
        switch_packets=packets,
        tsc_hz=after.switch.tsc_hz if after else None,
        vnf_busy_cycles=vnf_busy,
        approximate=bool(after and after.switch.approximate),
        generator_limited=verdict.lower_bound,
        latency_ns=latency,
        detail={
            "duplicated": result.duplicated,
            "reordered": result.reordered,
            "misdelivered": result.misdelivered,
            "generator_busy": result.generator.busy_share,
            "generator": generator_health(result),
            "limiter": verdict.as_dict(),
            "counters": (
                {**counters_of(before, after), "generator": generator_counters(result)}
                if before and after
                else {}
            ),
            "resolution_cycles": after.switch.resolution_cycles if after else None,
            "streams": [
                {"name": stream.name, "sent": stream.sent, "received": stream.received}
                for stream in result.streams
            ],
        },
    )


async def read_node(client: NodeClient, case: Case) -> Reading:
    """All counters of the switch and its VNFs."""
    # Of a kernel's function and of a VM only CPU time is known.
    polling = case.vnfs if case.engine in ("process", "container") else 0
    vnfs = await asyncio.gather(
        *(client.vnf_cycles(GRAPH, f"vnf{index}") for index in range(polling))
    )
    begun = time.monotonic()
    ports = await client.port_counters()
    at = (begun + time.monotonic()) / 2
    return Reading(await client.switch_cycles(), tuple(ports), tuple(vnfs), at)


def path_of(
    case: Case,
    generator: Activity,
    readings: tuple[Reading, Reading],
    waited: int,
    seconds: float,
    cores: CorePlan,
    sent_for: float | None = None,
) -> list[Activity]:
    """What each element did between two readings: the generator, the switch, the VNFs.

    `waited` are the nanoseconds for which the switch's workers waited for their core; `sent_for`
    the seconds for which packets came, None if they came all the time between the readings.
    """
    before, after = readings
    waiting = share(waited / 1e9, seconds)
    on_core = None if waiting is None else 1.0 - waiting
    vnf_core = cores.vnf[0] if len(cores.vnf) == 1 else None
    return [
        generator,
        switch_activity(case.switch, before, after, PORTS, on_core, cores.switch[0], sent_for),
        *(
            vnf_activity(
                f"vnf{number}", first, last, seconds, vnf_core, sent_for, after.switch.tsc_hz
            )
            for number, (first, last) in enumerate(zip(before.vnfs, after.vnfs, strict=True))
        ),
    ]


def at_sink(before: Reading, after: Reading) -> int:
    """Packets that the switch sent by the port where traffic leaves."""
    first, last = (
        sum(port.tx_packets for port in reading.ports if port.port == PORTS[1])
        for reading in (before, after)
    )
    return last - first


def counted_at_sink(result: TrialResult, received: int) -> TrialResult:
    """The result of a generator whose packets the switch counted instead of sending them back."""
    received = min(received, result.sent)
    lost = result.sent - received
    rate = received / result.duration_s if result.duration_s > 0 else 0.0
    return result.model_copy(update={"received": received, "lost": lost, "rx_pps": rate})


class AttachedDevice:
    """A case on a stand, with its streams configured.

    Args:
        case: what is measured.
        stand: its node.
        traffic: the generator.
        ceiling_pps: the highest load worth trying.
        share_core: the generator yields its core to VNFs.
        cores: of all programs.
        port_ceiling_pps: what the generator reaches over such ports, if that is known.
        sent: how it sends.
    """

    def __init__(
        self,
        case: Case,
        stand: Stand,
        traffic: TrafficClient,
        ceiling_pps: float,
        share_core: bool,
        cores: CorePlan,
        port_ceiling_pps: float | None = None,
        sent: Traffic | None = None,
    ) -> None:
        self._sent = sent or Traffic()
        self._sink = stand.subject.sink == IN_PROCESS
        self._cores = cores
        self.case = case
        self.ceiling_pps = ceiling_pps
        self._port_ceiling_pps = port_ceiling_pps
        self._stand = stand
        self._traffic = traffic
        self._share_core = share_core
        pid = traffic.pid if isinstance(traffic, TrafficProcess) else None
        generator = [] if pid is None else threads_of(pid)
        self._watched = Cores(by_core([*stand.workers, *stand.vnfs, *generator]))
        self._watched.level()

    def _verdict(
        self,
        result: TrialResult,
        readings: tuple[Reading, Reading] | None,
        waited: int,
        paced: bool,
    ) -> Verdict:
        generator = generator_activity(result, self._cores.generator[0], self._port_ceiling_pps)
        if readings is None:
            reason = "the switch's counters are not read around the trials of a search"
            return Verdict("unknown", reason, (generator,))
        path = path_of(
            self.case,
            generator,
            readings,
            waited,
            result.duration_s,
            self._cores,
            result.duration_s,
        )
        return decide(path, sent_all=paced and result.lost + result.unsent == 0)

    async def trial(self, request: TrialRequest) -> Trial:
        """Runs one trial; reads counters around it unless it is one of many of a search.

        A trial has no warm-up: all busy cycles between the two readings are for its packets, so
        they can be divided by its sending time. An event happens beside the sending; after a
        reset the switch counts from zero, so nothing is read around one.
        """
        counted = request.purpose not in UNCOUNTED
        client = self._stand.node.client
        before = await read_node(client, self.case) if counted or self._sink else None
        waited_before = waited_ns(self._stand.workers) or 0
        started = time.time()
        first = self._watched.look()
        try:
            result, _ = await asyncio.gather(
                self._traffic.trial(
                    request.duration_s,
                    self._load(request.load_pps),
                    drain_s=DRAIN_S if request.drain_s is None else request.drain_s,
                    yield_core=self._share_core,
                    late_bound_us=request.late_bound_us,
                    bare=self._sent.bare or (self._sink and self.case.shape != "parallel"),
                ),
                self._event(request),
            )
        except TrafficError as error:
            raise DeviceError(f"generator: {error}") from error
        others = self._watched.between(first, self._watched.look())
        waited = (waited_ns(self._stand.workers) or 0) - waited_before
        readings = (before, await read_node(client, self.case)) if before else None
        if self._sink and readings is not None:
            result = counted_at_sink(result, at_sink(*readings))
        if not counted:
            readings = None
        verdict = self._verdict(result, readings, waited, request.load_pps is not None)
        trial = trial_of(request, result, started, readings, verdict, waited)
        told = {"others": others, **self._watched.sessions()}
        return replace(trial, detail={**trial.detail, **told})

    def _load(self, pps: float | None) -> Load | float | None:
        burst = self._sent.burst if self._sent.burst > 1 else None
        if pps is None or not (burst or self._sent.poisson):
            return pps
        return Load(pps=pps, burst=burst, poisson=self._sent.poisson or None)

    async def _event(self, request: TrialRequest) -> None:
        """What the request wants to happen to the switch, at its time."""
        if request.event is None:
            return
        await asyncio.sleep(EVENT_AFTER * request.duration_s)
        node = self._stand.node
        await happen(request.event, node.client, node.rundir, self.case, GRAPH)
        if request.event == "reset":
            await wait_back(node.client)
            raise_owned(node.rundir)
            self._stand.workers = worker_threads(node.rundir, self._stand.cores)
