# SPDX-License-Identifier: Apache-2.0
"""The real bed: a node for each subject, one generator attached to all of them, trials on demand.

Only the node that is being measured runs; the others are stopped (`PUT /node/paused`), so that
polling switches do not compete for a core, and alternating (A/B/A/B) needs no restart.

    subject's node        generator                 trial
    in0  <----------- port <subject>.a   ---->  sends streams
    out0 -----------> port <subject>.b   ---->  receives, counts, takes times
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headrace.bench.core_plan import CorePlan
from headrace.bench.device import EVENT_AFTER, Device, TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.events import happen, wait_back
from headrace.bench.evidence import (
    Reading,
    counters_of,
    generator_activity,
    share,
    switch_activity,
    vnf_activity,
)
from headrace.bench.graph import build, streams
from headrace.bench.node_client import NodePort
from headrace.bench.node_process import PORTS, NodeProcess
from headrace.bench.noise.probe import Probe
from headrace.bench.noise.quiet import QuietDevice, Watch
from headrace.bench.plan import Block
from headrace.bench.port_ceilings import Kind, PortCeiling, calibrate
from headrace.bench.priority import raise_owned
from headrace.bench.scenario import Subject
from headrace.bench.simulated import mean_bytes
from headrace.bench.waiting import waited_ns, worker_threads
from headrace.results import Case, Trial
from headrace.results.limiter import Verdict, decide
from headrace.traffic import (
    Calibration,
    StreamSpec,
    TrafficClient,
    TrafficError,
    TrafficProcess,
    TrialResult,
)

GRAPH = "bench"
LINK_S = 20.0
SETTLE_S = 0.03
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
        busy_cycles=after.switch.busy - before.switch.busy if before and after else None,
        waited_cycles=round(waited * after.switch.tsc_hz / 1e9) if after else 0,
        switch_packets=after.switch.packets - before.switch.packets if before and after else None,
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
            "counters": counters_of(before, after) if before and after else {},
            "streams": [
                {"name": stream.name, "sent": stream.sent, "received": stream.received}
                for stream in result.streams
            ],
        },
    )


class AttachedDevice:
    """A case on a stand, with its streams configured."""

    def __init__(
        self,
        case: Case,
        stand: Stand,
        traffic: TrafficClient,
        ceiling_pps: float,
        share_core: bool,
        cores: CorePlan,
        port_ceiling_pps: float | None = None,
    ) -> None:
        self._cores = cores
        self.case = case
        self.ceiling_pps = ceiling_pps
        self._port_ceiling_pps = port_ceiling_pps
        self._stand = stand
        self._traffic = traffic
        self._share_core = share_core

    async def _read(self) -> Reading:
        client = self._stand.node.client
        polling = self.case.vnfs if self.case.engine != "native" else 0
        vnfs = [await client.vnf_cycles(GRAPH, f"vnf{index}") for index in range(polling)]
        ports = await client.port_counters()
        return Reading(await client.switch_cycles(), tuple(ports), tuple(vnfs))

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
        before, after = readings
        waiting = share(waited / 1e9, result.duration_s)
        path = [
            generator,
            switch_activity(
                self.case.switch,
                before,
                after,
                PORTS,
                None if waiting is None else 1.0 - waiting,
                self._cores.switch[0],
            ),
            *(
                vnf_activity(f"vnf{number}", first, last, result.duration_s, self._vnf_core())
                for number, (first, last) in enumerate(zip(before.vnfs, after.vnfs, strict=True))
            ),
        ]
        return decide(path, sent_all=paced and result.lost + result.unsent == 0)

    def _vnf_core(self) -> int | None:
        """The core of every VNF, if they have only one."""
        return self._cores.vnf[0] if len(self._cores.vnf) == 1 else None

    async def trial(self, request: TrialRequest) -> Trial:
        """Runs one trial; reads counters around it unless it is one of many of a search.

        A trial has no warm-up: all busy cycles between the two readings are for its packets, so
        they can be divided by its sending time. An event happens beside the sending; after a
        reset the switch counts from zero, so nothing is read around one.
        """
        counted = request.purpose not in UNCOUNTED
        before = await self._read() if counted else None
        waited_before = waited_ns(self._stand.workers) or 0
        started = time.time()
        try:
            result, _ = await asyncio.gather(
                self._traffic.trial(
                    request.duration_s,
                    request.load_pps,
                    drain_s=DRAIN_S if request.drain_s is None else request.drain_s,
                    yield_core=self._share_core,
                    late_bound_us=request.late_bound_us,
                ),
                self._event(request),
            )
        except TrafficError as error:
            raise DeviceError(f"generator: {error}") from error
        waited = (waited_ns(self._stand.workers) or 0) - waited_before
        readings = (before, await self._read()) if before else None
        verdict = self._verdict(result, readings, waited, request.load_pps is not None)
        return trial_of(request, result, started, readings, verdict, waited)

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


class Testbed:
    """The nodes and the generator of a campaign.

    Args:
        subjects: what will be measured; one node each.
        plan: the core of each program.
        quick: shorten the calibration.
    """

    __test__ = False  # pytest: not a test

    def __init__(self, subjects: Sequence[Subject], plan: CorePlan, quick: bool = False) -> None:
        self._plan = plan
        self._quick = quick
        self._stands = {self._key(subject): subject for subject in subjects}
        self._up: dict[str, Stand] = {}
        self._lost: dict[str, str] = {}
        self._traffic: TrafficProcess | None = None
        self._running: Stand | None = None
        self._configured: Case | None = None
        self._vdevs = 0
        self._watch = Watch(None, [])
        self.calibration: Calibration | None = None
        self.port_ceilings: dict[str, PortCeiling] = {}
        self.not_calibrated: dict[str, str] = {}
        self.information: dict[str, dict[str, object]] = {}

    @staticmethod
    def _key(subject: Subject) -> str:
        return f"{subject.switch}/{subject.ports}/{subject.inner_ports}"

    @staticmethod
    def _case_key(case: Case) -> str:
        return f"{case.switch}/{case.ports}/{case.vnf_ports or case.ports}"

    async def up(self) -> None:
        """Starts and calibrates the generator, then starts, attaches and pauses every node.

        If a node does not start, only its own cases are skipped.

        Raises:
            DeviceError: there is no generator.
        """
        traffic = TrafficProcess(cpu=self._plan.generator)
        try:
            await traffic.connect()
            self._traffic = traffic
            self.calibration = await traffic.calibrate(duration_s=0.1 if self._quick else 0.3)
        except TrafficError as error:
            raise DeviceError(f"generator: {error}") from error
        for kind in dict.fromkeys(subject.ports for subject in self._stands.values()):
            await self._calibrate(traffic, kind)
        measured = {*self._plan.switch, *self._plan.generator, *self._plan.vnf}
        self._watch = Watch(Probe(self._plan.generator[0]), sorted(measured))
        for key, subject in self._stands.items():
            stand = Stand(subject, NodeProcess(subject, self._plan), cores=self._plan.switch)
            self._up[key] = stand
            try:
                self.information[key] = await stand.node.up()
                raise_owned(stand.node.rundir)
                await self._attach(stand)
                stand.workers = worker_threads(stand.node.rundir, self._plan.switch)
                await stand.node.client.pause(True)
            except (DeviceError, TrafficError) as error:
                self._lost[key] = str(error)
                del self._up[key]
                await self._dismantle(stand)

    async def _calibrate(self, traffic: TrafficClient, kind: Kind) -> None:
        seconds = 0.05 if self._quick else 0.1
        core = self._plan.switch[0]
        try:
            self.port_ceilings[kind] = await calibrate(traffic, kind, core=core, seconds=seconds)
        except DeviceError as error:
            self.not_calibrated[kind] = str(error)

    async def _attach(self, stand: Stand) -> None:
        assert self._traffic is not None
        ports = {port.name: port for port in await stand.node.client.ports()}
        missing = [name for name in PORTS if name not in ports]
        if missing:
            raise DeviceError(f"node {stand.subject.node} has no port {', '.join(missing)}")
        names = [f"{stand.subject.node}.{end}" for end in ("a", "b")]
        stand.tx_port, stand.rx_port = names
        for name, port in zip(names, PORTS, strict=True):
            await self._traffic.add_port(name, self._devargs(ports[port]))
        await self._traffic.wait_links(names, LINK_S)

    def _devargs(self, port: NodePort) -> str:
        number, self._vdevs = self._vdevs, self._vdevs + 1
        if port.attach.devargs:
            return port.attach.devargs.replace("{n}", str(number))
        if port.attach.iface:
            return f"net_af_packet{number},iface={port.attach.iface},qdisc_bypass=1"
        raise DeviceError(f"port {port.name} ({port.kind}) does not say how to attach to it")

    async def _run_only(self, stand: Stand) -> None:
        """Stops the running node and continues `stand`'s."""
        if self._running is stand:
            return
        if self._running is not None:
            parked, self._running = self._running, None
            await parked.node.client.pause(True)
        await stand.node.client.pause(False)
        self._running = stand
        await asyncio.sleep(SETTLE_S)

    def _stand(self, key: str) -> Stand:
        if key in self._lost:
            raise DeviceError(self._lost[key])
        return self._up[key]

    async def deploy(self, block: Block, subject: str) -> None:
        """Deploys the block's graph on the subject's node."""
        case = next(job.case for job in block.jobs if job.case.subject == subject)
        stand = self._stand(self._case_key(case))
        await self._run_only(stand)
        self._configured = None
        stand.deployed = GRAPH
        graph = build(block.shape, block.vnfs, case.function, *PORTS, prefixes=block.prefixes)
        await stand.node.client.deploy(GRAPH, graph)
        if case.engine == "process":
            names = [f"vnf{index}" for index in range(block.vnfs)]
            raise_owned(stand.node.rundir)
            await stand.node.client.wait_forwarding(GRAPH, names, LINK_S)

    async def withdraw(self, block: Block, subject: str) -> None:
        """Deletes the block's graph on the subject's node, if it is there."""
        case = next(job.case for job in block.jobs if job.case.subject == subject)
        stand = self._up.get(self._case_key(case))
        if stand is None or not stand.deployed:
            return
        stand.deployed = ""
        self._configured = None
        with contextlib.suppress(DeviceError):
            await self._run_only(stand)
            await stand.node.client.delete(GRAPH)

    async def device(self, case: Case) -> Device:
        """The case's device, alone on its cores, with its streams configured."""
        stand = self._stand(self._case_key(case))
        assert self._traffic is not None
        await self._run_only(stand)
        if self._configured != case:
            made = streams(
                case.shape, case.vnfs, case.size, case.flows, stand.tx_port, stand.rx_port
            )
            try:
                await self._traffic.configure([StreamSpec.model_validate(row) for row in made])
            except TrafficError as error:
                raise DeviceError(f"generator: {error}") from error
            self._configured = case
        # yield costs a time slice whenever another thread is runnable: used only if VNFs poll on
        # this core.
        shared = case.engine == "process" and bool(set(self._plan.generator) & set(self._plan.vnf))
        device = AttachedDevice(
            case,
            stand,
            self._traffic,
            self.ceiling(case.size),
            shared,
            self._plan,
            None if shared else self.port_ceiling(case),
        )
        return QuietDevice(device, self._watch)

    def port_ceiling(self, case: Case) -> float | None:
        """The generator's ceiling over the case's kind of port; None if that is not known."""
        found = self.port_ceilings.get(case.ports)
        return None if found is None else found.at(mean_bytes(case.size))

    def ceiling(self, size: str) -> float:
        """The highest load worth trying: what the generator sends over a ring of its own memory."""
        assert self.calibration is not None
        rows = sorted(self.calibration.ceilings, key=lambda row: row.size)
        return float(
            np.interp(
                mean_bytes(size), [row.size for row in rows], [row.ceiling_pps for row in rows]
            )
        )

    async def _dismantle(self, stand: Stand) -> None:
        if self._running is stand:
            self._running = None
        with contextlib.suppress(TrafficError):
            there = {port.name for port in await self._traffic.ports()} if self._traffic else set()
            for name in {stand.tx_port, stand.rx_port} & there:
                assert self._traffic is not None
                await self._traffic.remove_port(name)
        await stand.node.down()

    async def down(self) -> None:
        """Stops everything, in any state."""
        self._watch.close()
        if self._traffic is not None:
            await self._traffic.close()
            self._traffic = None
        stands, self._up = list(self._up.values()), {}
        await asyncio.gather(*(stand.node.down() for stand in stands), return_exceptions=True)
