# SPDX-License-Identifier: Apache-2.0
"""The generator's ceilings by port kind: what it sends and gets back where nothing else is slower.

Over a ring in its own memory (net_ring) the generator reaches rates that no port of a switch lets
it reach: a vhost-user or memif port costs it a copy and the peer's cache lines, a veth pair a
system call. So each kind is calibrated over a port of that kind, with the same devices and sizes of
rings as at a switch, and the cheapest peer there is: headrace-vnf's `pass` on the switch's core,
which looks at no packet. A veth pair has both ends at the generator, so the kernel carries packets
on the generator's core, as it does with a bridge between. So has a direct link, of which the switch
only takes back the buffers that were freed: one that forwards would cost the generator no less.

    kind        generator                         peer
    vhost-user  virtio-user (packed, 1024)        net_vhost
    memif       memif client                      memif server
    veth        AF_PACKET at both ends of a pair  none
    shm         two ports of headrace-switch      none: a direct link

The best of a few short trials counts: whatever disturbs one makes it slower. If the generator had
time left or its packets were refused then, the peer was the limit: the ceiling is what the
generator would reach at the cycles that packets cost it, and a lower bound of what it can, since
fuller bursts would cost less. A rate near it may have been limited by the generator all the same.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from headrace.bench.chains.vnf import ChainError, Vnf
from headrace.bench.direct_link import DirectLink
from headrace.bench.errors import DeviceError
from headrace.bench.peers.systems import PeerError
from headrace.machine.patience import patient
from headrace.machine.programs import ProgramMissing, find_program
from headrace.results.limiter import IDLE, REFUSED
from headrace.traffic import StreamSpec, TrafficClient, TrafficError, TrialResult

Kind = Literal["vhost-user", "memif", "veth", "shm"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SIZES = (64, 512, 1518)
FLOWS = 1000
TRIES = 3
WARMUP_S = 0.02
LINK_S = 20.0
PEER_MEMORY_MB = 128
JOIN_S = 0.3
"""Seconds of packets in which the generator answers the switch's request for a direct link."""
_VIRTIO = "server=1,packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1,queue_size=1024"


@dataclass(frozen=True)
class Point:
    """The ceiling at one frame size (bytes with FCS), in packets per second.

    Attributes:
        exact: whether the generator was the limit; else it reaches at least this, by its cycles.
        cycles: TSC cycles of the generator for each packet, sent and received.
    """

    size: int
    pps: float
    exact: bool
    cycles: float | None = None


@dataclass(frozen=True)
class PortCeiling:
    """The generator's ceilings over one kind of port; `bare` without stamps and sequence."""

    kind: Kind
    bare: bool
    points: tuple[Point, ...]

    def at(self, size: float) -> float:
        """Packets per second at a frame size: the time of a packet grows with its bytes."""
        ordered = sorted(self.points, key=lambda point: point.size)
        times = [1 / point.pps for point in ordered]
        return 1 / float(np.interp(size, [point.size for point in ordered], times))

    @property
    def exact(self) -> bool:
        """Whether the generator was the limit at every size."""
        return all(point.exact for point in self.points)

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {**asdict(self), "exact": self.exact}


def point_of(size: int, results: Sequence[TrialResult]) -> Point:
    """The ceiling that trials as fast as possible show.

    Raises:
        DeviceError: nothing came back.
    """
    best = max(results, key=lambda result: result.rx_pps)
    if best.received <= 0:
        raise DeviceError(f"calibration: none of {best.sent} packets of {size} bytes came back")
    io = best.generator.io
    refused = io.tx_refused / max(1, best.sent + io.tx_refused) if io else 0.0
    exact = best.generator.busy_share >= 1 - IDLE and refused <= REFUSED
    spent = sum(worker.busy_cycles for worker in best.generator.workers)
    rate = best.rx_pps if exact else best.rx_pps / best.generator.busy_share
    return Point(size, rate, exact, spent / best.received if spent else None)


async def _tool(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    if process.returncode != 0:
        raise DeviceError(f"{' '.join(words)}: {told.decode(errors='replace').strip()}")


class _Joined:
    """A generator joined with its peer by two ports of one kind, named `a` and `b`."""

    def __init__(self, traffic: TrafficClient, kind: Kind, folder: Path, core: int) -> None:
        self._traffic = traffic
        self._kind = kind
        self._folder = folder
        self._core = core
        self._peer: Vnf | None = None
        self._pair: str = ""
        self._switch: DirectLink | None = None
        self.names = tuple(f"calibration.{kind}.{end}" for end in "ab")

    def _devices(self) -> tuple[list[str], list[str]]:
        """Devices of the generator, and of its peer."""
        own, theirs = [], []
        for number in range(2):
            socket = self._folder / f"{number}.sock"
            if self._kind == "vhost-user":
                own.append(f"net_virtio_user_cal{number},path={socket},{_VIRTIO}")
                theirs.append(f"net_vhost{number},iface={socket},queues=1,client=1")
            else:
                where = f"socket={socket},id=0,socket-abstract=no"
                own.append(f"net_memif_cal{number},role=client,{where}")
                theirs.append(f"net_memif{number},role=server,{where}")
        return own, theirs

    async def join(self) -> None:
        """Starts the peer and waits for both links."""
        if self._kind == "veth":
            devices = await self._make_pair()
        elif self._kind == "shm":
            self._switch = DirectLink(self._core)
            devices = self._switch.start()
        else:
            devices, theirs = self._devices()
            ports = [{"name": f"p{n}", "devargs": text} for n, text in enumerate(theirs)]
            self._peer = Vnf(
                self._folder,
                "peer",
                "pass",
                ports,
                cpu=self._core,
                memory_mb=PEER_MEMORY_MB,
                idle="poll",
            )
            await self._peer.start(find_program("headrace-vnf"), {})
        for name, device in zip(self.names, devices, strict=True):
            await self._traffic.add_port(name, device, wait_s=patient(LINK_S))
        await self._traffic.wait_links(self.names, patient(LINK_S))
        if self._peer is not None:
            await self._peer.ready()
        if self._switch is not None:
            await self._traffic.configure([self.stream(SIZES[0])])
            await self._traffic.trial(JOIN_S, None, drain_s=0.02)

    def stream(self, size: int) -> StreamSpec:
        """From one end to the other."""
        tx, rx = self.names
        return StreamSpec(name="loop", tx_port=tx, rx_port=rx, size=size, flows=FLOWS)

    async def _make_pair(self) -> list[str]:
        near, far = (f"hrc{os.getpid()}{end}" for end in "ab")
        await _tool("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        self._pair = near
        for name in (near, far):
            await _tool("ip", "link", "set", "dev", name, "addrgenmode", "none", "up")
        return [
            f"net_af_packet_cal{number},iface={name},qdisc_bypass=1"
            for number, name in enumerate((near, far))
        ]

    async def part(self) -> None:
        """Removes the ports and ends the peer."""
        with contextlib.suppress(TrafficError):
            there = {port.name for port in await self._traffic.ports()}
            for name in there & set(self.names):
                await self._traffic.remove_port(name)
        if self._peer is not None:
            await self._peer.stop()
        if self._switch is not None:
            self._switch.stop()
        if self._pair:
            await _tool("ip", "link", "del", self._pair)


@contextlib.asynccontextmanager
async def _joined(traffic: TrafficClient, kind: Kind, core: int) -> AsyncIterator[_Joined]:
    home = "/run" if os.access("/run", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hrc-", dir=home) as folder:
        joined = _Joined(traffic, kind, Path(folder), core)
        try:
            await joined.join()
            yield joined
        finally:
            await asyncio.shield(joined.part())


async def calibrate(
    traffic: TrafficClient,
    kind: Kind,
    *,
    core: int,
    bare: bool = False,
    seconds: float = 0.1,
    sizes: Sequence[int] = SIZES,
) -> PortCeiling:
    """Calibrates a running generator over one kind of port.

    Args:
        traffic: the generator; its streams are replaced.
        kind: of port.
        core: where the peer polls: that of the switches, of which none may run.
        bare: without stamps and sequence.
        seconds: of each trial.
        sizes: frame sizes in bytes with FCS.

    Raises:
        DeviceError: the peer could not be started, or nothing came back.
    """
    try:
        async with _joined(traffic, kind, core) as joined:
            points = []
            for size in sizes:
                await traffic.configure([joined.stream(size)])
                results = [
                    await traffic.trial(seconds, None, warmup_s=WARMUP_S, drain_s=0.02, bare=bare)
                    for _ in range(TRIES)
                ]
                points.append(point_of(size, results))
            return PortCeiling(kind, bare, tuple(points))
    except (TrafficError, ChainError, ProgramMissing, PeerError, OSError) as error:
        raise DeviceError(f"calibration over {kind}: {error}") from error
