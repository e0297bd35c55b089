# SPDX-License-Identifier: Apache-2.0
"""A case whose source and sink are in the switch's own worker: no generator, no core for one.

The source is the DPDK plugin of dataplane/flowsource on a net_null device, the sink another such
device; the node has them as its two physical ports. What a worker spends on both is part of the
switch's cycles, of every switch alike. Packets have no stamps, so there is no latency.

A trial with a load counts everything from before the source opens to after it has closed and the
last packet is through, so that not one packet's loss is missed; it lasted for what was due / load.
Without a load the switch gets full bursts at every poll, and what counts is a window in which the
source is open all the time.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headrace.bench.attached import Stand, at_sink, path_of, read_node
from headrace.bench.core_plan import CorePlan
from headrace.bench.device import TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.evidence import Reading, counters_of
from headrace.bench.graph import SOURCE_MAC, vnf_mac
from headrace.bench.node_process import SOURCE
from headrace.bench.noise.others import Cores
from headrace.bench.peers import frames
from headrace.bench.peers.frames import Pace
from headrace.bench.scenario import Traffic
from headrace.bench.vnfs.mixes import Mix, frames_of
from headrace.bench.waiting import waited_ns
from headrace.results import Case, Trial
from headrace.results.limiter import Activity, decide

SETTLE_S = 0.04
"""The source looks for a new file every 20 ms."""
CLOSE_S = 0.06
LOOK_S = 1.0
"""How often a trial that may end at its first loss is looked at."""
DRAIN_S = 0.02
CEILING_PPS = 1e9
"""No generator sets one: whatever the switch polls, it gets."""
MAX_OCTETS = 256 << 20
REPEATED = 480
"""At least that many frames are prepared, so that a mix has its sizes in their ratio."""
_ADDRESS = 0xC6120001  # 198.18.0.1
_MIXES = {
    "imix-csit": Mix("imix-csit", (64, 570, 1518), (28, 16, 4)),
    "imix-nfvbench": Mix("imix-nfvbench", (64, 594, 1518), (7, 4, 1)),
}


def prepared(case: Case) -> tuple[frames.Bytes, np.ndarray[tuple[int], np.dtype[np.uint16]] | None]:
    """The frames of a case, and their lengths if they differ: the generator's headers and flows.

    Flows differ in the destination address; parallel VNFs, by whose MAC address frames are
    addressed, take turns.

    Raises:
        DeviceError: so many frames of this size don't fit.
    """
    mix = _MIXES.get(case.size) or Mix(case.size, (int(case.size),))
    vnfs = case.vnfs if case.shape == "parallel" else 1
    count = max(case.flows, vnfs)
    rows = np.arange(count * max(1, -(-REPEATED // count)), dtype=np.uint32)
    flow = (rows % count).astype(np.uint32)
    if len(rows) * max(mix.sizes) > MAX_OCTETS:
        raise DeviceError(f"in-process source: {case.flows} flows of {case.size} take too much")
    macs = np.array([list(frames.mac(vnf_mac(index))) for index in range(vnfs)], dtype=np.uint8)

    def made(length: int) -> frames.Bytes:
        return frames.udp_frames(
            eth_dst=macs[flow % vnfs],
            eth_src=frames.mac(SOURCE_MAC),
            ipv4_src=np.full(len(rows), _ADDRESS, dtype=np.uint32),
            ipv4_dst=_ADDRESS + flow // np.uint32(vnfs),
            udp_src=49152,
            udp_dst=9,
            length=length,
        )

    return frames_of(mix, made)


@dataclass(frozen=True)
class _Totals:
    """Frames that the source has served and given up so far."""

    served: int
    missed: int


class Source:
    """The in-process source of a node's switch; its folder is `flows`."""

    def __init__(self, flows: Path) -> None:
        self._flows = flows
        self._file = flows / f"{SOURCE}.frames"
        self._closed = flows / "closed"
        self._unpaced: dict[Case, Path] = {}

    def offer(self, case: Case, pace: Pace) -> None:
        """Opens the source. Mapped files stay mapped, so those without a pace are used again."""
        if pace.pps is None:
            path = self._unpaced.get(case)
            if path is None:
                path = self._flows / f"unpaced{len(self._unpaced)}"
                frames.write(path, *prepared(case), pace)
                self._unpaced[case] = path
            frames.serve(self._file, path)
            return
        frames.write(self._file, *prepared(case), pace)

    def close(self) -> None:
        """Closes it: no frames until `offer`."""
        if not self._closed.exists():
            frames.close(self._closed)
        frames.serve(self._file, self._closed)

    def totals(self) -> _Totals:
        """What it has served; DeviceError if no switch has the plugin."""
        counts = sorted(self._flows.glob(f"{SOURCE}.*.served"), key=os.path.getmtime)
        if not counts:
            raise DeviceError("in-process source: the switch does not count what it took")
        pid = int(counts[-1].name.split(".")[1])
        return _Totals(
            frames.served(self._flows, SOURCE, pid), frames.missed(self._flows, SOURCE, pid)
        )


@dataclass(frozen=True)
class _Look:
    """All counters at one time."""

    at: float
    node: Reading
    source: _Totals
    waited: int


async def sent(request: TrialRequest, missed: Callable[[], int], look_s: float = LOOK_S) -> None:
    """Waits while the source is open; until it has given a frame up if that decides the trial."""
    end = time.monotonic() + request.duration_s
    before = missed() if request.until_loss else 0
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, look_s) if request.until_loss else left)
        if request.until_loss and missed() > before:
            return


class InProcessDevice:
    """A case on a node whose source and sink are in its switch."""

    ceiling_pps = CEILING_PPS

    def __init__(
        self, case: Case, stand: Stand, source: Source, sent: Traffic, cores: CorePlan
    ) -> None:
        self.case = case
        self._watched = Cores(stand.pollers)
        self._watched.level()
        self._stand = stand
        self._source = source
        self._sent = sent
        self._cores = cores

    async def _look(self) -> _Look:
        totals = self._source.totals()
        node = await read_node(self._stand.node.client, self.case)
        # What comes to the sink is in the counters of the ports: the time is theirs.
        return _Look(node.at, node, totals, waited_ns(self._stand.workers) or 0)

    async def trial(self, request: TrialRequest) -> Trial:
        """Runs one trial.

        Raises:
            DeviceError: the switch or its source can't be read.
        """
        if request.event is not None:
            raise DeviceError("in-process source: no events")
        taken = int(self.case.varied("taken", "0"))
        pace = Pace(request.load_pps, self._sent.burst, self._sent.poisson, taken)
        paced = pace.pps is not None
        opening = await self._look() if paced else None
        started = time.time()
        try:
            self._source.offer(self.case, pace)
            await asyncio.sleep(SETTLE_S)
            # Nobody is asked for the limit of a set load that takes turns with others.
            short = opening if request.interleaved else None
            begin = short or await self._look()
            first = self._watched.look()
            await sent(request, lambda: self._source.totals().missed)
            others = self._watched.between(first, self._watched.look())
            end = None if short else await self._look()
        finally:
            self._source.close()
        if opening is not None:
            await asyncio.sleep(CLOSE_S + (request.drain_s or DRAIN_S))
            last = await self._look()
            window, counted = (begin, end or last), (opening, last)
        else:
            assert end is not None
            window = counted = (begin, end)
        trial = trial_of(self.case, request, started, window, counted, self._cores)
        told = {"others": others, **self._watched.sessions()}
        return replace(trial, detail={**trial.detail, **told})


def trial_of(
    case: Case,
    request: TrialRequest,
    started: float,
    window: tuple[_Look, _Look],
    counted: tuple[_Look, _Look],
    cores: CorePlan,
) -> Trial:
    """The trial: who was the limit is read in the window, packets and cycles over `counted`."""
    before, after = counted
    served = after.source.served - before.source.served
    missed = after.source.missed - before.source.missed
    seconds = after.at - before.at
    if request.load_pps is not None:
        seconds = (served + missed) / request.load_pps
    # Without a load, packets that were under way at either end of the window differ.
    received = at_sink(before.node, after.node)
    if request.load_pps is None:
        served = max(served, received)
    else:
        received = min(received, served)
    lost = max(0, served - received)
    due = max(1, served + missed)
    rate = received / seconds if seconds > 0 else 0.0
    begin, end = window
    gone = end.source.missed - begin.source.missed
    asked = max(1, end.source.served - begin.source.served + gone)
    paced = request.load_pps is not None
    source = Activity(
        "generator",
        "in-process source",
        idle_share=1.0 if paced and not gone else 0.0,
        refused_share=gone / asked,
        refused_by="switch",
        inexhaustible=not paced,
    )
    nodes = (begin.node, end.node)
    path = path_of(case, source, nodes, end.waited - begin.waited, end.at - begin.at, cores)
    verdict = decide(path, sent_all=paced and lost + missed == 0)
    vnfs = zip(before.node.vnfs, after.node.vnfs, strict=True)
    vnf_busy = sum(last.busy_cycles - first.busy_cycles for first, last in vnfs)
    switch, hz = after.node.switch, after.node.switch.tsc_hz
    return Trial(
        round=request.round,
        purpose=request.purpose,
        intended_pps=request.load_pps,
        duration_s=seconds,
        sent=served,
        received=received,
        lost=lost,
        unsent=missed,
        loss_ratio=(lost + missed) / due,
        tx_pps=served / seconds if seconds > 0 else 0.0,
        rx_pps=rate,
        started=started,
        busy_cycles=switch.busy - before.node.switch.busy,
        waited_cycles=round((after.waited - before.waited) * hz / 1e9),
        switch_packets=switch.packets - before.node.switch.packets,
        tsc_hz=hz,
        vnf_busy_cycles=vnf_busy if after.node.vnfs else None,
        generator_limited=verdict.lower_bound,
        detail={
            "limiter": verdict.as_dict(),
            "counters": counters_of(before.node, after.node),
        },
    )
