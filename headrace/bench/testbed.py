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
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from headrace.bench.attached import GRAPH, AttachedDevice, Stand
from headrace.bench.core_plan import CorePlan
from headrace.bench.device import Device
from headrace.bench.errors import DeviceError
from headrace.bench.graph import build, streams
from headrace.bench.in_process import InProcessDevice, Source
from headrace.bench.lab import Lab
from headrace.bench.lab_generator import LabTrex
from headrace.bench.mix_capture import write
from headrace.bench.node_client import NodePort
from headrace.bench.node_process import PORTS, NodeProcess
from headrace.bench.node_row import NodeRow
from headrace.bench.noise.probe import Probe
from headrace.bench.noise.quiet import QuietDevice, Watch
from headrace.bench.plan import Block
from headrace.bench.port_ceilings import Kind, PortCeiling, calibrate
from headrace.bench.priority import raise_owned
from headrace.bench.running_node import RunningNode
from headrace.bench.scenario import Traffic
from headrace.bench.subject import IN_PROCESS, Subject
from headrace.bench.templates import template_name
from headrace.bench.waiting import vnf_threads, worker_threads
from headrace.machine.core_distance import Transfer
from headrace.machine.patience import patient
from headrace.results import Case
from headrace.results.frame_sizes import CAPTURE, MIXES, mean_bytes
from headrace.traffic import (
    Calibration,
    ReplaySpec,
    StreamSpec,
    TrafficClient,
    TrafficError,
    TrafficProcess,
)

LINK_S = 20.0
UNADDRESSED = ("pass", "bridge", "cpu", "memory")
"""Functions that take frames whatever address they have."""
SETTLE_S = 0.03
DISTANCE_S = 2.0
"""After so long the distance of the cores is measured again."""


def _headers(sent: Traffic) -> dict[str, Any]:
    """What a scenario's streams have beside the usual headers."""
    found = {"layers": sent.layers, "src_ip": sent.src_ip}
    return {name: value for name, value in found.items() if value is not None}


class Testbed:
    """The nodes and the generator of a campaign.

    Args:
        subjects: what will be measured; one node for each switch and set of port kinds.
        plan: the core of each program.
        quick: shorten the calibration.
        sent: how each scenario sends, by its name; by default evenly, with stamps.
        settings: keys of every node's node.yaml besides.
        most_vnfs: of a graph.
        lab: NICs instead of ports in shared memory (lab.py).
    """

    __test__ = False  # pytest: not a test

    def __init__(
        self,
        subjects: Sequence[Subject],
        plan: CorePlan,
        quick: bool = False,
        sent: Mapping[str, Traffic] | None = None,
        settings: Mapping[str, Any] | None = None,
        most_vnfs: int = 0,
        lab: Lab | None = None,
    ) -> None:
        self._lab = lab
        self._most_vnfs = most_vnfs
        self._plan = plan
        self._sent = dict(sent or {})
        self._quick = quick
        self._settings = settings
        self._subjects = list(subjects)
        self._stands = {subject.node: subject for subject in reversed(self._subjects)}
        self._stands = dict(reversed(self._stands.items()))
        self._up: dict[str, Stand] = {}
        self._lost: dict[str, str] = {}
        self._traffic: TrafficClient | None = None
        self._running: Stand | None = None
        self._configured: Case | None = None
        self._usable = os.sched_getaffinity(0)
        self._vdevs = 0
        self._captures: tempfile.TemporaryDirectory[str] | None = None
        self._watch = Watch(None, [])
        self._transfer: Transfer | None = None
        self._measured_at = -math.inf
        self.calibration: Calibration | None = None
        self.port_ceilings: dict[tuple[str, bool], PortCeiling] = {}
        self.not_calibrated: dict[str, str] = {}
        self._sources: dict[str, Source] = {}
        self.information: dict[str, dict[str, object]] = {}

    def _subject(self, case: Case) -> Subject:
        """The subject of a case; without VNFs any that has its switch and its outer ports."""
        return next(one for one in self._subjects if one.runs(case))

    def _case_key(self, case: Case) -> str:
        """The stand of a case."""
        return self._subject(case).node

    async def up(self) -> None:
        """Starts and calibrates the generator, then starts, attaches and pauses every node.

        If a node does not start, only its own cases are skipped.

        Raises:
            DeviceError: there is no generator.
        """
        traffic = self._generator()
        try:
            await traffic.connect()
            self._traffic = traffic
            if isinstance(traffic, TrafficProcess):
                self.calibration = await traffic.calibrate(duration_s=0.1 if self._quick else 0.3)
        except TrafficError as error:
            raise DeviceError(f"generator: {error}") from error
        used = {subject.ports for subject in self._stands.values()}
        ways = {sent.bare for sent in self._sent.values()} or {False}
        for kind in (kind for kind in get_args(Kind) if kind in used):
            for bare in sorted(ways):
                await self._calibrate(traffic, kind, bare)
        measured = {*self._plan.switch, *self._plan.generator, *self._plan.vnf}
        self._watch = Watch(Probe(self._plan.generator[0]), sorted(measured))
        for key, subject in self._stands.items():
            plan = self._plan.with_workers(subject.workers)
            try:
                stand = Stand(subject, self._node(subject, plan), cores=plan.switch)
            except DeviceError as error:
                self._lost[key] = str(error)
                continue
            self._up[key] = stand
            try:
                self.information[key] = await stand.node.up()
                for rundir in stand.node.rundirs:
                    raise_owned(rundir)
                await self._attach(stand)
                stand.workers = [
                    thread
                    for rundir in stand.node.rundirs
                    for thread in worker_threads(rundir, plan.switch)
                ]
                await stand.node.client.pause(True)
            except (DeviceError, TrafficError) as error:
                self._lost[key] = str(error)
                del self._up[key]
                await self._dismantle(stand)
        # What this process does between trials, and after the last of a turn, is not for the core
        # of a switch's worker: a millisecond there is half of what it is busy at 200 kpps.
        self._usable = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._plan.control)

    def _generator(self) -> TrafficClient:
        if self._lab is None:
            return TrafficProcess(cpu=self._plan.generator)
        if self._lab.generator.kind == "trex":
            return LabTrex(self._lab)
        return TrafficProcess(cpu=self._plan.generator, extra_args=["--pci"])

    def _node(self, subject: Subject, plan: CorePlan) -> NodeProcess:
        if subject.nodes > 1:
            return NodeRow(subject, plan)
        if self._lab is not None and self._lab.device.node and subject.ports == "nic":
            return RunningNode(subject, plan, self._lab)
        alike = [one for one in self._subjects if one.node == subject.node]
        node = NodeProcess(
            subject, plan, settings=self._settings, vnfs=alike, most_vnfs=self._most_vnfs
        )
        if self._lab is not None and subject.ports == "nic":
            node.set_ports(self._lab.node_ports(PORTS, subject.switch))
        return node

    async def _calibrate(self, traffic: TrafficClient, kind: Kind, bare: bool) -> None:
        seconds = 0.05 if self._quick else 0.1
        core = self._plan.switch[0]
        try:
            found = await calibrate(traffic, kind, core=core, bare=bare, seconds=seconds)
            self.port_ceilings[kind, bare] = found
        except DeviceError as error:
            self.not_calibrated[kind] = str(error)

    async def _attach(self, stand: Stand) -> None:
        assert self._traffic is not None
        ports = {port.name: port for port in await stand.node.client.ports()}
        missing = [name for name in PORTS if name not in ports]
        if missing:
            raise DeviceError(f"node {stand.subject.node} has no port {', '.join(missing)}")
        if stand.subject.ports == IN_PROCESS:
            return
        if stand.subject.ports == "nic":
            await self._attach_lab(stand)
            return
        names = [f"{stand.subject.node}.{end}" for end in ("a", "b")]
        if stand.subject.sink == IN_PROCESS:
            del names[1]
        stand.tx_port, stand.rx_port = names[0], names[-1]
        for name, port in zip(names, PORTS, strict=False):
            await self._traffic.add_port(name, self._devargs(ports[port]))
        await self._traffic.wait_links(names, patient(LINK_S))

    async def _attach_lab(self, stand: Stand) -> None:
        """The lab's generator ports; all subjects use the same, one after the other."""
        assert self._traffic is not None and self._lab is not None
        stand.tx_port, stand.rx_port = names = self._lab.generator.ports
        there = {port.name for port in await self._traffic.ports()}
        for name in names:
            if name not in there:
                await self._traffic.add_port(name, name)
        await self._traffic.wait_links(names, patient(LINK_S))

    def _devargs(self, port: NodePort) -> str:
        number, self._vdevs = self._vdevs, self._vdevs + 1
        if port.attach.devargs:
            return port.attach.devargs.replace("{n}", str(number))
        if port.attach.iface:
            return f"net_af_packet{number},iface={port.attach.iface},qdisc_bypass=1"
        raise DeviceError(f"port {port.name} ({port.kind}) does not say how to attach to it")

    async def _run_only(self, stand: Stand) -> None:
        """Stops the running node and continues `stand`'s; measures the distance in between.

        A node that goes on is stopped for that too once the last distance is old: the hypervisor
        moves the cores within seconds.
        """
        fresh = time.monotonic() - self._measured_at < DISTANCE_S
        if self._running is stand and (fresh or self._plan.vnf[0] == self._plan.switch[0]):
            return
        if self._running is not None:
            parked, self._running = self._running, None
            await parked.node.client.pause(True)
        self._watch.transfer_ns = self._distance()
        self._measured_at = time.monotonic()
        await stand.node.client.pause(False)
        self._running = stand
        await asyncio.sleep(SETTLE_S)

    def _stand(self, key: str) -> Stand:
        if key in self._lost:
            raise DeviceError(self._lost[key])
        return self._up[key]

    async def prediction(self, case: Case) -> dict[str, Any]:
        """What the case's node has predicted of the graph that is deployed."""
        return await self._stand(self._case_key(case)).node.client.prediction(GRAPH)

    async def distance(self, case: Case) -> float | None:
        """How far the cores of VNFs and switch are apart, while the case's node is stopped."""
        stand = self._stand(self._case_key(case))
        await stand.node.client.pause(True)
        try:
            return self._distance()
        finally:
            await stand.node.client.pause(False)

    def _distance(self) -> float | None:
        """The same while no node runs; None if they are one core."""
        here, there = self._plan.vnf[0], self._plan.switch[0]
        if here == there:
            return None
        self._transfer = self._transfer or Transfer(there)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {here})
        try:
            return self._transfer.round_trip_ns()
        finally:
            os.sched_setaffinity(0, before)

    async def deploy(
        self, block: Block, subject: str, demand: Mapping[str, float] | None = None
    ) -> None:
        """Deploys the block's graph, with a demand or none, on the subject's node."""
        case = next(job.case for job in block.jobs if job.case.deployment == subject)
        stand = self._stand(self._case_key(case))
        await self._run_only(stand)
        self._configured = None
        stand.deployed = GRAPH
        template = template_name(self._subject(case)) if block.vnfs else ""
        graph = build(
            block.shape, block.vnfs, template, *PORTS, prefixes=block.prefixes,
            addressed=case.function not in ("", *UNADDRESSED),
        )  # fmt: skip
        if demand is not None:
            graph["forwarding-graph"]["demand"] = dict(demand)
        await stand.node.client.deploy(GRAPH, graph)
        if case.engine in ("process", "container"):
            names = [f"vnf{index}" for index in range(block.vnfs)]
            raise_owned(stand.node.rundir)
            await stand.node.client.wait_forwarding(GRAPH, names, patient(LINK_S))
            stand.vnfs = vnf_threads(stand.node.rundir)

    async def withdraw(self, block: Block, subject: str) -> None:
        """Deletes the block's graph on the subject's node, if it is there."""
        case = next(job.case for job in block.jobs if job.case.deployment == subject)
        stand = self._up.get(self._case_key(case))
        if stand is None or not stand.deployed:
            return
        stand.deployed = ""
        stand.vnfs = []
        self._configured = None
        with contextlib.suppress(DeviceError):
            await self._run_only(stand)
            await stand.node.client.delete(GRAPH)

    async def device(self, case: Case) -> Device:
        """The case's device, alone on its cores, with its streams configured."""
        stand = self._stand(self._case_key(case))
        assert self._traffic is not None
        await self._run_only(stand)
        sent = self._sent.get(case.scenario, Traffic())
        if case.ports == IN_PROCESS:
            assert stand.node.flows is not None
            source = self._sources.setdefault(stand.subject.node, Source(stand.node.flows))
            return QuietDevice(InProcessDevice(case, stand, source, sent, self._plan), self._watch)
        if self._configured != case:
            made = streams(
                case.shape, case.vnfs, self._sent_size(case), case.flows, stand.tx_port,
                stand.rx_port, both_ways=sent.both_ways, headers=_headers(sent),
            )  # fmt: skip
            try:
                await self._traffic.configure(
                    [
                        (ReplaySpec if "pcap" in row else StreamSpec).model_validate(row)
                        for row in made
                    ]
                )
            except TrafficError as error:
                raise DeviceError(f"generator: {error}") from error
            self._configured = case
        # Only if VNFs poll on the generator's core, too: sched_yield(2) gives it to sessions of the
        # same nice value, which the device makes equal.
        shared = case.engine not in ("", "native") and bool(
            set(self._plan.generator) & set(self._plan.vnf)
        )
        device = AttachedDevice(
            case,
            stand,
            self._traffic,
            self.ceiling(case.size),
            shared,
            self._plan,
            None if shared else self.port_ceiling(case, sent.bare),
            sent,
        )
        return QuietDevice(device, self._watch)

    def _sent_size(self, case: Case) -> str:
        """The case's size; where it is a capture of a mix, the file that was made of it."""
        mix = case.size.removeprefix(CAPTURE)
        if not case.size.startswith(CAPTURE) or mix not in MIXES:
            return case.size
        if self._captures is None:
            self._captures = tempfile.TemporaryDirectory(prefix="headrace-mixes-")
        file = Path(self._captures.name) / f"{mix}-{case.flows}.pcap"
        if not file.exists():
            write(file, mix, case.flows)
        return f"{CAPTURE}{file}"

    def port_ceiling(self, case: Case, bare: bool) -> float | None:
        """The generator's ceiling over the case's kind of port; None if that is not known."""
        if case.ports == "nic" and self._lab is not None:
            return self._lab.line_pps(case.size)
        found = self.port_ceilings.get((case.ports, bare))
        return None if found is None else found.at(mean_bytes(case.size))

    def ceiling(self, size: str) -> float:
        """The highest load worth trying: what the generator sends over a ring of its own memory."""
        if self._lab is not None:
            return self._lab.line_pps(size)
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
        os.sched_setaffinity(0, self._usable)
        if self._captures is not None:
            self._captures.cleanup()
        self._watch.close()
        if self._transfer is not None:
            self._transfer.close()
            self._transfer = None
        if self._traffic is not None:
            await self._traffic.close()
            self._traffic = None
        stands, self._up = list(self._up.values()), {}
        await asyncio.gather(*(stand.node.down() for stand in stands), return_exceptions=True)
