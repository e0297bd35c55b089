# SPDX-License-Identifier: Apache-2.0
"""A switch between two vhost-user ports of the generator."""

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import PeerError
from headrace.traffic.client import TrafficClient
from headrace.traffic.models import StreamSpec, TrialResult

BRIDGE = "br0"
FLOWS = 1000
GUEST = "packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1,queue_size=1024"
"""The rings of the generator's ends: packed, vectorised virtio, the fastest of rte_vhost."""
DRAIN_S = 0.1


@dataclass(frozen=True)
class Threads:
    """Of a switch's threads, in milliseconds.

    Attributes:
        worker_waited: how long its worker (what may run on the worker's core alone) stood ready
            while others had the core.
        others_ran: how long all its other threads ran; they share the generator's core.
    """

    worker_waited: float
    others_ran: float

    def __sub__(self, before: "Threads") -> "Threads":
        """Between two moments."""
        return Threads(
            self.worker_waited - before.worker_waited, self.others_ran - before.others_ran
        )


class Bed:
    """One switch of the comparison; the others are parked while it is measured."""

    def __init__(self, system: Headrace | OvsDpdk, traffic: TrafficClient, first: int) -> None:
        """`first`: of two numbers that no other bed's virtio-user ports have."""
        self.system = system
        self._traffic = traffic
        self._ports = [f"{system.name}-{end}" for end in ("in", "out")]
        self._first = first

    @property
    def name(self) -> str:
        """The switch's."""
        return self.system.name

    async def start(self) -> None:
        """Starts the switch, joins it to the generator, and parks it.

        Raises:
            Missing: the switch is not installed.
        """
        system = self.system
        system.start()
        system.vsctl("add-br", BRIDGE, *system.bridge_options(BRIDGE))
        sockets = [system.rundir / f"{port}.sock" for port in self._ports]
        for number, (port, socket) in enumerate(zip(self._ports, sockets, strict=True), 1):
            system.vsctl(
                *("add-port", BRIDGE, port, "--", "set", "Interface", port),
                *("type=dpdkvhostuserclient", f"ofport_request={number}"),
                f"options:vhost-server-path={socket}",
            )
        system.ofctl("del-flows")
        system.ofctl("add-flows", "-", stdin="in_port=1,actions=output:2\n")
        for number, (port, socket) in enumerate(zip(self._ports, sockets, strict=True)):
            device = f"net_virtio_user{self._first + number},path={socket},server=1,{GUEST}"
            await self._traffic.add_port(port, device, wait_link_s=20)
        system.park()

    async def choose(self) -> None:
        """Makes the generator's stream go through this switch, which runs from now on."""
        self.system.resume()
        into, out = self._ports
        stream = StreamSpec(name="latency", tx_port=into, rx_port=out, flows=FLOWS)
        await self._traffic.configure([stream])

    def park(self) -> None:
        """Stops the switch, so that the core is the others'."""
        self.system.park()

    def threads(self) -> Threads:
        """What the kernel has counted of the switch's threads so far."""
        core = self.system.place.worker_core
        waited = others = 0
        for task in Path(f"/proc/{self.system.polling().pid}/task").iterdir():
            ran, stood, _ = (int(word) for word in (task / "schedstat").read_text().split())
            if os.sched_getaffinity(int(task.name)) == {core}:
                waited += stood
            else:
                others += ran
        return Threads(waited / 1e6, others / 1e6)

    async def trial(self, seconds: float, pps: float | None, warmup_s: float = 0.0) -> TrialResult:
        """One trial at a load; None: as fast as the port takes it."""
        return await self._traffic.trial(
            seconds, pps, warmup_s=warmup_s, drain_s=DRAIN_S, histograms=True
        )

    async def pdr(self, seconds: float, loss: float, steps: int) -> float:
        """The highest load, in packets per second, at which no more than `loss` is lost.

        Between what came back of all that could be sent and nothing, by halving; a lost trial is
        repeated once, for another program may have had the core.
        """
        most = (await self.trial(seconds, None)).rx_pps
        if most <= 0:
            raise PeerError(f"{self.name}: nothing came back; {self.system.last_words()}")
        low, high = 0.0, 1.05 * most
        load = 0.9 * most
        for _ in range(steps):
            results = [await self.trial(seconds, load)]
            if _lost(results[0]) > loss:
                results.append(await self.trial(seconds, load))
            if min(_lost(each) for each in results) <= loss:
                low = load
            else:
                high = load
            load = (low + high) / 2
        if low <= 0:
            raise PeerError(f"{self.name}: {loss:.1%} were lost at every load")
        return low


def _lost(result: TrialResult) -> float:
    """The share of what was intended that did not come back, unsent packets included."""
    return 1 - result.received / max(result.intended, 1)
