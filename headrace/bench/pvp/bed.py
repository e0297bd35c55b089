# SPDX-License-Identifier: Apache-2.0
"""What is measured: a switch with a VNF between two of its ports, or two testpmd back to back."""

import asyncio
import time
from pathlib import Path
from typing import Protocol

from headrace.bench.chains.bed import cycles_of
from headrace.bench.chains.vnf import Vnf, shm_port
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.pvp.readings import Reading
from headrace.bench.pvp.vnfs import MEMORY_MB, RINGS, Forwarder, Pass, Testpmd

DEVICE = "net_null_pvp"
"""The flow source's device; net_null_sink is the sink."""
SOURCE, SINK, INTO, OUT_OF = 1, 2, 3, 4
CIRCULATING = 16
"""Bursts of 32 packets that go round between the two testpmd of the floor."""


class Subject(Protocol):
    """One of those that are measured in turn."""

    name: str

    async def start(self) -> None:
        """Starts everything, and stops it from running."""

    async def read(self) -> Reading:
        """Reads all counters."""

    def park(self) -> None:
        """Stops everything, so that the cores are others'."""

    def resume(self) -> None:
        """Lets everything run."""

    async def stop(self) -> None:
        """Ends everything."""


class Pvp:
    """A switch, its source and sink, and one VNF."""

    def __init__(
        self, name: str, switch: Headrace | OvsDpdk, kind: str, program: Path, vnf_core: int
    ) -> None:
        """`kind` is one of suite.KINDS; `program` is headrace-vnf."""
        self.name = name
        self._switch = switch
        self._shm = kind == "shm"
        self._sockets = [switch.rundir / f"{end}.sock" for end in ("into", "outof")]
        rings = RINGS["split" if kind == "testpmd-split" else "packed"]
        vdevs = [
            f"net_virtio_user{n},path={socket},server=1,{rings}"
            for n, socket in enumerate(self._sockets)
        ]
        self._vnf: Forwarder
        if kind.startswith("testpmd"):
            self._vnf = Testpmd(
                switch.rundir, kind, vdevs, cpu=vnf_core, main_cpu=vnf_core, begin="start"
            )
            return
        group = switch.rundir / "pvp.shm"
        ports = (
            [shm_port(name, group, name) for name in ("into", "outof")]
            if self._shm
            else [{"name": f"p{n}", "devargs": vdev} for n, vdev in enumerate(vdevs)]
        )
        vnf = Vnf(
            switch.rundir, "pass", "pass", ports, cpu=vnf_core, memory_mb=MEMORY_MB, idle="poll"
        )
        self._vnf = Pass(program, vnf, switch.rundir)

    async def start(self) -> None:
        """Makes bridge, ports and rules, then the VNF, which waits for its ports' peers."""
        switch = self._switch
        switch.start()
        switch.vsctl("add-br", "br0", *switch.bridge_options("br0"))
        self._add("source", SOURCE, "type=dpdk", f"options:dpdk-devargs={DEVICE},size=60")
        self._add("sink", SINK, "type=dpdk", "options:dpdk-devargs=net_null_sink,no-rx=1")
        for name, number, socket in zip(
            ("into", "outof"), (INTO, OUT_OF), self._sockets, strict=True
        ):
            if self._shm:
                self._add(name, number, "type=shm", "options:group=pvp", "options:ports=2")
            else:
                path = f"options:vhost-server-path={socket}"
                self._add(name, number, "type=dpdkvhostuserclient", path)
        switch.ofctl("del-flows")
        switch.ofctl("add-flow", f"in_port={SOURCE},actions=output:{INTO}")
        switch.ofctl("add-flow", f"in_port={OUT_OF},actions=output:{SINK}")
        await self._vnf.start()
        await self._vnf.ready()
        self.park()

    def _add(self, name: str, number: int, *columns: str) -> None:
        self._switch.vsctl(
            *("add-port", "br0", name, "--", "set", "Interface", name),
            *(f"ofport_request={number}", *columns),
        )

    async def read(self) -> Reading:
        """Of the sink, the worker and the VNF; the sink's time is that of the request's middle."""
        before = time.monotonic()
        delivered = self._switch.sent()
        at = (before + time.monotonic()) / 2
        return Reading(delivered, (await cycles_of(self._switch)).busy, await self._vnf.work(), at)

    def park(self) -> None:
        """The VNF and the switch."""
        self._vnf.park()
        self._switch.park()

    def resume(self) -> None:
        """The switch and the VNF."""
        self._switch.resume()
        self._vnf.resume()

    async def stop(self) -> None:
        """The VNF first, which waits for a word of its switch."""
        if self._switch.children:
            self._switch.resume()
        await self._vnf.stop()
        self._switch.stop()


class Floor:
    """testpmd between two vhost-user ports, and another by virtio-user that sends all back."""

    def __init__(self, folder: Path, kind: str, worker_core: int, vnf_core: int) -> None:
        """The packets are testpmd's own, 64 octets with FCS."""
        self.name = "testpmd-vhost"
        folder.mkdir(parents=True, exist_ok=True)
        sockets = [folder / f"{n}.sock" for n in range(2)]
        rings = RINGS["split" if kind == "testpmd-split" else "packed"]
        self._vnf = Testpmd(
            folder,
            "floor-virtio",
            [f"net_virtio_user{n},path={s},server=1,{rings}" for n, s in enumerate(sockets)],
            cpu=vnf_core,
            main_cpu=vnf_core,
            begin=f"start tx_first {CIRCULATING}",
        )
        self._vhost = Testpmd(
            folder,
            "floor-vhost",
            [f"net_vhost{n},iface={s},client=1" for n, s in enumerate(sockets)],
            cpu=worker_core,
            main_cpu=vnf_core,
            begin="start",
        )

    async def start(self) -> None:
        """The one that connects when both sides are there; the one that listens sends first."""
        await self._vhost.start()
        await self._vnf.start()
        await self._vhost.ready()
        await asyncio.sleep(0.5)  # for the queues to be enabled, which testpmd does not tell
        await self._vnf.ready()
        self.park()

    async def read(self) -> Reading:
        """Of both."""
        vhost = await self._vhost.work()
        at = time.monotonic()
        return Reading(vhost.packets, vhost.cycles, await self._vnf.work(), at)

    def park(self) -> None:
        """Both."""
        self._vhost.park()
        self._vnf.park()

    def resume(self) -> None:
        """Both."""
        self._vhost.resume()
        self._vnf.resume()

    async def stop(self) -> None:
        """Both."""
        await self._vnf.stop()
        await self._vhost.stop()
