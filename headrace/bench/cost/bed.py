# SPDX-License-Identifier: Apache-2.0
"""A switch with its source and sink in its own worker, and a VNF between them or none.

p2p   source -> switch -> sink
pvp   source -> switch -> VNF (vhost-user, on the other core) -> switch -> sink
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.bench.chains.vnf import Vnf, vhost_port
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
from headrace.results.limiter import ON_CORE, Activity, Verdict, decide

Way = Literal["p2p", "pvp"]

DEVICE = "net_null_cost"
SOURCE, SINK, INTO, OUT_OF, IDLE = 1, 2, 3, 4, 5
FLOWS = 100
VNF_MEMORY_MB = 96
SETTLE_S = 0.04
"""The source looks for a new file every 20 ms."""
QUEUES: dict[Way, int] = {"p2p": 1, "pvp": 2}
"""Queues that a packet is taken from on its way."""


@dataclass(frozen=True)
class Reading:
    """All counters at one time."""

    at: float
    switch: WorkerCounters
    delivered: int
    served: int
    missed: int
    refused: int
    vnf: WorkerCounters | None
    vnf_refused: int


@dataclass(frozen=True)
class Window:
    """What happened in one window.

    Attributes:
        seconds: its length, by the worker's own cycles.
        mix, pace: what the source was told.
        refused: packets that the VNF's port did not take from the switch.
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
    vnf: WorkerCounters | None
    vnf_refused: int

    @property
    def pps(self) -> float:
        """Packets at the sink per second."""
        return self.delivered / self.wall_s

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
        """Whether the switch's worker and the VNF had their cores."""
        vnf = 1.0 if self.vnf is None else self.vnf.ran_ns / 1e9 / self.wall_s
        return min(self.on_core, vnf) >= ON_CORE

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
        if self.vnf is not None:
            path.append(
                Activity(
                    "VNF",
                    "vnf",
                    idle_share=self.vnf.idle_cycles / max(1, self.vnf.cycles),
                    empty_share=max(0.0, 1 - self.vnf.busy_rounds / max(1, self.vnf.rounds)),
                    full_share=self._full(self.vnf),
                    refused_share=self.vnf_refused / max(1, self.vnf.packets),
                    refused_by="switch",
                    on_core=min(1.0, self.vnf.ran_ns / 1e9 / self.wall_s),
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


class Bed:
    """One switch, set up for one way."""

    def __init__(
        self, switch: Headrace | OvsDpdk, way: Way, vnf_program: Path, *, idle_ports: int = 0
    ) -> None:
        """Nothing is started; `idle_ports` are polled besides and bring nothing."""
        self.switch = switch
        self.way = way
        self.idle_ports = idle_ports
        self._program = vnf_program
        self._vnf: Vnf | None = None
        self._control = switch.rundir / "vnf.ctl"
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
        if self.way == "pvp":
            sockets = [switch.rundir / f"{end}.sock" for end in ("into", "outof")]
            for name, number, socket in zip(
                ("into", "outof"), (INTO, OUT_OF), sockets, strict=True
            ):
                path = f"options:vhost-server-path={socket}"
                self._add(name, number, path, kind="dpdkvhostuserclient")
            ports = [vhost_port(f"p{n}", socket) for n, socket in enumerate(sockets)]
            self._vnf = Vnf(
                switch.rundir, "vnf", function, ports, cpu=0, memory_mb=VNF_MEMORY_MB, idle="poll"
            )
        switch.ofctl("del-flows")
        if self._vnf is None:
            switch.ofctl("add-flow", f"in_port={SOURCE},actions=output:{SINK}")
        else:
            switch.ofctl("add-flow", f"in_port={SOURCE},actions=output:{INTO}")
            switch.ofctl("add-flow", f"in_port={OUT_OF},actions=output:{SINK}")
            await self._vnf.start(self._program, config or {})
            await self._vnf.ready()
        self.park()

    def _add(self, name: str, number: int, option: str, kind: str = "dpdk") -> None:
        self.switch.vsctl(
            *("add-port", "br0", name, "--", "set", "Interface", name),
            *(f"ofport_request={number}", f"type={kind}", option),
        )

    def offer(self, mix: Mix, pace: Pace) -> None:
        """Sets what the source sends."""
        made, lengths = frames_of(mix, _frames)
        frames.write(self._file, made, lengths, pace)

    async def read(self) -> Reading:
        """Reads all counters."""
        switch = self.switch
        vnf, refused = None, 0
        if self._vnf is not None:
            vnf, refused = await vnf_counters(self._control)
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
            dropped(switch, INTO) if self._vnf is not None else 0,
            vnf,
            refused,
        )

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
        worker = after.switch.since(before.switch)
        vnf = None
        if after.vnf is not None and before.vnf is not None:
            vnf = after.vnf.since(before.vnf)
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
            vnf,
            after.vnf_refused - before.vnf_refused,
        )

    def park(self) -> None:
        """Stops the VNF and the switch (SIGSTOP)."""
        if self._vnf is not None:
            self._vnf.park()
        self.switch.park()

    def resume(self) -> None:
        """Continues them."""
        self.switch.resume()
        if self._vnf is not None:
            self._vnf.resume()

    async def stop(self) -> None:
        """Ends everything: the VNF first, which waits for a word of its switch."""
        if self.switch.children:
            self.switch.resume()
        if self._vnf is not None:
            await self._vnf.stop()
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
