# SPDX-License-Identifier: Apache-2.0
"""A switch with its source and sink in its own worker, and a VNF between them or none.

p2p   source -> switch -> sink
pvp   source -> switch -> VNF (on the other core) -> switch -> sink

Several VNFs, in a row, share the other core. Ports are vhost-user, or another kind that Headrace
has.
"""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.bench.chains.vnf import Vnf, memif_port, shm_port, vhost_port
from headrace.bench.cost.counters import (
    WorkerCounters,
    dropped,
    switch_counters,
    vnf_counters,
)
from headrace.bench.peers import frames
from headrace.bench.peers.frames import Pace
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.vnfs.mixes import Mix, frames_of
from headrace.machine.core_distance import Transfer
from headrace.model.mechanistic.distance import is_same
from headrace.results.limiter import ON_CORE, Activity, Verdict, decide

Way = Literal["p2p", "pvp"]
Ports = Literal["vhost-user", "shm", "memif"]

DEVICE = "net_null_cost"
SOURCE, SINK, IDLE = 1, 2, 100
GROUP = "cost"
FLOWS = 100
VNF_MEMORY_MB = 64
SETTLE_S = 0.04
"""The source looks for a new file every 20 ms."""
ROUND_S = 0.005
"""In which the round ends that a worker was stopped in."""
QUEUES: dict[Way, int] = {"p2p": 1, "pvp": 2}
"""Queues that a packet is taken from on its way."""


def into(vnf: int) -> int:
    """The switch's port to a VNF of the chain."""
    return SINK + 1 + 2 * vnf


def out_of(vnf: int) -> int:
    """The switch's port from it."""
    return into(vnf) + 1


@dataclass(frozen=True)
class Reading:
    """All counters at one time."""

    at: float
    switch: WorkerCounters
    delivered: int
    served: int
    missed: int
    refused: int
    vnfs: tuple[WorkerCounters, ...]
    vnf_refused: int


@dataclass(frozen=True)
class Window:
    """What happened in one window.

    Attributes:
        seconds: its length, by the worker's own cycles.
        mix, pace: what the source was told.
        refused: packets that the VNFs' ports did not take from the switch.
        vnfs: in the order of the chain.
        open_s: for which the source was open, if that was not all the time.
        full_pps: without a pace, the rate by the busy cycles of all packets, from the first to the
            last: the switch's, if it is the limit.
        refused_share: packets that the VNFs' ports did not take, for each that came through.
        transfer_ns: a cache line from VNFs' core to the switch's and back, before and after (the
            mean of both); None if it was not measured, or changed.
    """

    seconds: float
    wall_s: float
    mix: Mix
    pace: Pace
    switch: WorkerCounters
    delivered: int
    served: int
    missed: int
    refused: int
    vnfs: tuple[WorkerCounters, ...]
    vnf_refused: int
    open_s: float | None = None
    full_pps: float | None = None
    refused_share: float = 0.0
    transfer_ns: float | None = None

    @property
    def vnf(self) -> WorkerCounters | None:
        """The VNF, where there is one alone."""
        return self.vnfs[0] if len(self.vnfs) == 1 else None

    @property
    def pps(self) -> float:
        """Packets at the sink per second."""
        return self.delivered / (self.wall_s if self.open_s is None else self.open_s)

    @property
    def loss(self) -> float:
        """Share of what was due that did not come to the sink."""
        due = self.served + self.missed
        return max(0.0, 1 - self.delivered / due) if due else 0.0

    @property
    def on_core(self) -> float:
        """Share of the window in which the switch's worker ran."""
        return min(1.0, self.switch.ran_ns / 1e9 / self.wall_s)

    @property
    def undisturbed(self) -> bool:
        """Whether the switch's worker and the VNFs had their cores."""
        return min(self.on_core, self.vnfs_on_core()) >= ON_CORE

    @property
    def switch_undisturbed(self) -> bool:
        """Whether the switch's worker had its core."""
        return self.on_core >= ON_CORE

    def vnfs_on_core(self) -> float:
        """Share of the window in which VNFs ran, all together; 1 without any."""
        ran = sum(vnf.ran_ns for vnf in self.vnfs)
        return min(1.0, ran / 1e9 / self.wall_s) if self.vnfs else 1.0

    def verdict(self, name: str) -> Verdict:
        """Who limited the rate; a rate that the source sets is the generator's limit."""
        due = self.served + self.missed
        paced = self.pace.pps is not None
        path = [
            Activity(
                "generator",
                "source",
                # What is given up was due, but the switch did not come to take it.
                idle_share=1.0 if paced and self.missed == 0 else 0.0,
                refused_share=self.missed / due if due else None,
                refused_by="switch",
                inexhaustible=not paced,
            ),
            Activity(
                "switch",
                name,
                idle_share=self.switch.idle_cycles / max(1, self.switch.cycles),
                empty_share=max(0.0, 1 - self.switch.busy_rounds / max(1, self.switch.rounds)),
                full_share=self._full(self.switch),
                refused_share=self.refused / max(1, self.served),
                refused_by="VNF" if self.refused else "",
                on_core=self.on_core,
                core=1,
            ),
        ]
        for vnf in self.vnfs:
            path.append(
                Activity(
                    "VNF",
                    "vnf",
                    idle_share=vnf.idle_cycles / max(1, vnf.cycles),
                    empty_share=max(0.0, 1 - vnf.busy_rounds / max(1, vnf.rounds)),
                    full_share=self._full(vnf),
                    refused_share=self.vnf_refused / max(1, vnf.packets),
                    refused_by="switch",
                    on_core=self.vnfs_on_core(),
                    core=0,
                )
            )
        return decide(path, sent_all=paced and self.loss < 0.001)

    @staticmethod
    def _full(worker: WorkerCounters) -> float | None:
        if worker.full_bursts is None:
            # Of batches the mean size is known: full ones bring it to 32.
            return min(1.0, worker.packets / max(1, worker.bursts) / 32)
        return worker.full_bursts / max(1, worker.bursts)


def _same(before: float | None, after: float | None) -> float | None:
    """The mean of two distances, if they are of the same state."""
    if before is None or after is None or not is_same(before, after):
        return None
    return (before + after) / 2


class Bed:
    """One switch, set up for one way."""

    def __init__(
        self,
        switch: Headrace | OvsDpdk,
        way: Way,
        vnf_program: Path,
        *,
        vnfs: int = 1,
        ports: Ports = "vhost-user",
        idle_ports: int = 0,
        transfer: Transfer | None = None,
    ) -> None:
        """Nothing is started; `vnfs` are pvp's, `idle_ports` are polled and bring nothing."""
        self.switch = switch
        self.way = way
        self.length = vnfs if way == "pvp" else 0
        self.ports = ports
        self.idle_ports = idle_ports
        self._transfer = transfer
        self._program = vnf_program
        self._vnfs: list[Vnf] = []
        self._open = True
        self._file = switch.place.flow_dir / f"{DEVICE}.frames"

    @property
    def name(self) -> str:
        """The switch's."""
        return self.switch.name

    async def start(self, function: str = "pass", config: dict[str, Any] | None = None) -> None:
        """Starts the switch with its ports and rules, then the VNF, and parks them."""
        switch = self.switch
        frames.close(self._file)
        switch.start()
        switch.vsctl("add-br", "br0", *switch.bridge_options("br0"))
        self._add("source", SOURCE, f"options:dpdk-devargs={DEVICE},size=60")
        self._add("sink", SINK, "options:dpdk-devargs=net_null_sink,no-rx=1")
        for number in range(self.idle_ports):
            device = f"options:dpdk-devargs=net_null_idle{number},no-rx=1"
            self._add(f"idle{number}", IDLE + number, device)
        # One alone polls; several share the core.
        idle = "poll" if self.length == 1 else "yield"
        for at in range(self.length):
            ends = ((f"into{at}", into(at)), (f"outof{at}", out_of(at)))
            ports = [self._vnf_port(name, number) for name, number in ends]
            made = Vnf(switch.rundir, f"vnf{at}", function, ports, cpu=0,
                       memory_mb=VNF_MEMORY_MB, idle=idle)  # fmt: skip
            self._vnfs.append(made)
        switch.ofctl("del-flows")
        hops = [SOURCE, *(port for at in range(self.length) for port in (into(at), out_of(at)))]
        for here, there in zip(hops[::2], [*hops[1::2], SINK], strict=True):
            switch.ofctl("add-flow", f"in_port={here},actions=output:{there}")
        for vnf in self._vnfs:
            await vnf.start(self._program, config or {})
        for vnf in self._vnfs:
            await vnf.ready()
        self.park()

    def _vnf_port(self, name: str, number: int) -> dict[str, Any]:
        """Adds a port to the switch; returns the VNF's side of it."""
        folder = self.switch.rundir
        if self.ports == "shm":
            ports = f"options:ports={2 * self.length}"
            self._add(name, number, f"options:group={GROUP}", ports, kind="shm")
            return shm_port(name, folder / f"{GROUP}.shm", name)
        socket = folder / f"{name}.sock"
        if self.ports == "memif":
            self._add(name, number, f"options:socket={socket}", kind="memif")
            return memif_port(name, socket)
        self._add(name, number, f"options:vhost-server-path={socket}", kind="dpdkvhostuserclient")
        return vhost_port(name, socket)

    def _add(self, name: str, number: int, *options: str, kind: str = "dpdk") -> None:
        self.switch.vsctl(
            *("add-port", "br0", name, "--", "set", "Interface", name),
            *(f"ofport_request={number}", f"type={kind}", *options),
        )

    def offer(self, mix: Mix, pace: Pace) -> None:
        """Sets what the source sends."""
        self._open = True
        made, lengths = frames_of(mix, _frames)
        frames.write(self._file, made, lengths, pace)

    async def read(self) -> Reading:
        """Reads all counters."""
        switch = self.switch
        told = [await vnf_counters(switch.rundir / f"{vnf.name}.ctl") for vnf in self._vnfs]
        flow_dir, pid = switch.place.flow_dir, switch.polling().pid
        at = time.monotonic()
        worker = await switch_counters(switch)
        delivered = switch.sent()
        at = (at + time.monotonic()) / 2
        return Reading(
            at,
            worker,
            delivered,
            frames.served(flow_dir, DEVICE, pid),
            frames.missed(flow_dir, DEVICE, pid),
            sum(dropped(switch, into(at)) for at in range(self.length)),
            tuple(counters for counters, _ in told),
            sum(refused for _, refused in told),
        )

    async def counted(self, mix: Mix, pace: Pace, seconds: float, hz: float) -> Window:
        """One load from no traffic to no traffic, so that every counter is of the same packets.

        Counters of a running switch are read one after another, which in a short window is some of
        it. Here the source is closed before they are read. The time for which it was open is that
        of its packets at their rate; idle rounds outside of it are left out. Without a rate a
        window within, while it is open, says who is the limit.

        Args:
            mix: of sizes.
            pace: of the source.
            seconds: for which it is open.
            hz: of the TSC.
        """
        frames.close(self._file)
        near = self._distance()
        inner: Window | None = None
        self.resume()
        try:
            # The round in which it was stopped lasted until now.
            await asyncio.sleep(SETTLE_S if self._open else ROUND_S)
            before = await self.read()
            self.offer(mix, pace)
            if pace.pps is None:
                await asyncio.sleep(SETTLE_S)
                first = await self.read()
                await asyncio.sleep(seconds)
                inner = self._between(first, await self.read(), mix, pace, hz)
            else:
                await asyncio.sleep(seconds + SETTLE_S / 2)
            frames.close(self._file)
            await asyncio.sleep(SETTLE_S)
            self._open = False
            after = await self.read()
        finally:
            self.park()
        found = self._between(before, after, mix, pace, hz)
        transfer_ns = _same(near, self._distance())
        refused = found.refused / max(1, found.delivered)
        if pace.pps is None:
            assert inner is not None
            full = hz * found.delivered / max(1, found.switch.busy_cycles)
            return replace(inner, full_pps=full, refused_share=refused, transfer_ns=transfer_ns)
        open_s = (found.served + found.missed) / pace.pps
        return replace(
            found,
            seconds=open_s,
            switch=found.switch.within(open_s * hz),
            vnfs=tuple(vnf.within(open_s * hz) for vnf in found.vnfs),
            open_s=open_s,
            refused_share=refused,
            transfer_ns=transfer_ns,
        )

    def _distance(self) -> float | None:
        """How far apart the cores are, if there are VNFs for whom that matters."""
        if self._transfer is None or not self.length:
            return None
        return self._transfer.round_trip_ns()

    async def window(self, mix: Mix, pace: Pace, seconds: float, hz: float) -> Window:
        """Runs this bed alone under one load for a while."""
        self.offer(mix, pace)
        self.resume()
        try:
            await asyncio.sleep(SETTLE_S)
            before = await self.read()
            await asyncio.sleep(seconds)
            after = await self.read()
        finally:
            self.park()
        return self._between(before, after, mix, pace, hz)

    @staticmethod
    def _between(before: Reading, after: Reading, mix: Mix, pace: Pace, hz: float) -> Window:
        worker = after.switch.since(before.switch)
        vnfs = zip(after.vnfs, before.vnfs, strict=True)
        return Window(
            worker.cycles / hz,
            after.at - before.at,
            mix,
            pace,
            worker,
            after.delivered - before.delivered,
            after.served - before.served,
            after.missed - before.missed,
            after.refused - before.refused,
            tuple(now.since(then) for now, then in vnfs),
            after.vnf_refused - before.vnf_refused,
        )

    def park(self) -> None:
        """Stops the VNFs and the switch (SIGSTOP)."""
        for vnf in self._vnfs:
            vnf.park()
        self.switch.park()

    def resume(self) -> None:
        """Continues them."""
        self.switch.resume()
        for vnf in self._vnfs:
            vnf.resume()

    async def stop(self) -> None:
        """Ends everything: the VNFs first, which wait for a word of their switch."""
        if self.switch.children:
            self.switch.resume()
        for vnf in self._vnfs:
            await vnf.stop()
        self.switch.stop()


def _frames(length: int) -> frames.Bytes:
    flows = np.arange(FLOWS, dtype=np.uint32)
    return frames.udp_frames(
        eth_dst=frames.mac("02:00:00:00:00:02"),
        eth_src=frames.mac("02:00:00:00:00:01"),
        ipv4_src=0x0A000001 + flows,
        ipv4_dst=0x14000001 + flows,
        length=length,
    )
