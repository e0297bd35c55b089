# SPDX-License-Identifier: Apache-2.0
"""Gives VNFs that scale more replicas when their load rises, and takes them back when it falls.

Once a second the busy shares of the replicas that serve are read. What follows is in
`planning/replicas.py`: thresholds that must be passed for a while, a time after each change in
which nothing changes, replicas that drain. A change is an update of the graph, so it is logged,
undone if it fails, and loses no packet: a replica serves before flows are sent to it, and ends when
none come any more.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.engines.base import Engine, EngineError, VnfSpec, engine_of
from headrace.node.deployment.lifecycle import GraphManager
from headrace.node.deployment.store import GraphRecord, GraphState
from headrace.node.errors import NodeError
from headrace.node.events import EventKind, Events
from headrace.node.planning.nffg import parse
from headrace.node.planning.replicas import Replicas, Scaling
from headrace.node.planning.scaling import replica_id, scaled_vnfs
from headrace.switches.base import SwitchError

log = logging.getLogger("headrace.node")

_LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class Reading:
    """What a replica has spent and received so far."""

    busy: float
    spent: float
    packets: int


@dataclass
class VnfLoad:
    """What is known of a VNF that scales; times are of the monotonic clock.

    `load` is the mean busy share of the replicas that serve, null before it is known. `above` and
    `below` are since when it is beyond a threshold.
    """

    load: float | None = None
    above: float | None = None
    below: float | None = None
    changed: float | None = None
    readings: dict[str, Reading] = field(default_factory=dict)
    drains_since: float | None = None
    last_packet: float = 0.0
    ups: int = 0
    downs: int = 0

    def note(self, scaling: Scaling, load: float, now: float) -> None:
        """Takes a new load."""
        self.load = load
        if load < scaling.up:
            self.above = None
        elif self.above is None:
            self.above = now
        if load > scaling.down:
            self.below = None
        elif self.below is None:
            self.below = now

    def wish(self, scaling: Scaling, replicas: Replicas, now: float) -> Replicas:
        """The replicas that the VNF should have now."""
        if replicas.draining and self._has_drained(scaling, now):
            return Replicas(serving=replicas.serving, draining=replicas.draining - 1)
        if self.changed is not None and now - self.changed < scaling.cool_down_s:
            return replicas
        if self.above is not None and now - self.above >= scaling.for_s:
            if replicas.serving < scaling.max_replicas:
                # One that drains has its flows still, and is there at once.
                draining = max(0, replicas.draining - 1)
                return Replicas(serving=replicas.serving + 1, draining=draining)
        elif self.below is not None and now - self.below >= scaling.for_s:
            # Only if those that are left are not brought over the upper threshold by it.
            would_be = (self.load or 0.0) * replicas.serving / max(1, replicas.serving - 1)
            if replicas.serving > scaling.min_replicas and would_be < scaling.up:
                draining = replicas.draining + 1
                return Replicas(serving=replicas.serving - 1, draining=draining)
        return replicas

    def _has_drained(self, scaling: Scaling, now: float) -> bool:
        since = self.drains_since
        if since is None:
            return False
        quiet = now - max(since, self.last_packet) >= scaling.quiet_s
        return quiet or bool(scaling.drain_s and now - since >= scaling.drain_s)


class Scaler:
    """The VNFs of a node that scale; `run` until cancelled."""

    def __init__(
        self,
        graphs: GraphManager,
        engines: dict[str, Engine],
        events: Events,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._graphs, self._engines, self._events, self._clock = graphs, engines, events, clock
        self._loads: dict[tuple[str, str], VnfLoad] = {}

    async def run(self) -> None:
        """Looks once a second."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:  # a fault here must not end the scaling of all others
                log.exception("scaling")

    def loads(self) -> Iterable[tuple[GraphRecord, str, Replicas, VnfLoad]]:
        """What is known of each VNF that scales."""
        for record in self._graphs.records():
            for vnf, replicas in record.plan.replicas.items():
                yield record, vnf, replicas, self._loads.get((record.id, vnf), VnfLoad())

    async def look(self) -> None:
        """Reads all loads and changes what is due."""
        records = [record for record in self._graphs.records() if record.plan.replicas]
        known = {(record.id, vnf) for record in records for vnf in record.plan.replicas}
        for key in self._loads.keys() - known:
            del self._loads[key]
        for record in records:
            if record.state is GraphState.RUNNING and not self._graphs.is_worked_on(record.id):
                await self._look_at(record)

    async def _look_at(self, record: GraphRecord) -> None:
        graph, _ = parse(record.document)
        wanted = dict(record.plan.replicas)
        for vnf, scaling in scaled_vnfs(graph).items():
            held = self._loads.setdefault((record.id, vnf), VnfLoad())
            replicas = record.plan.replicas[vnf]
            await self._read(record, vnf, replicas, scaling, held)
            wanted[vnf] = held.wish(scaling, replicas, self._clock())
        if wanted != record.plan.replicas:
            await self._change(record, wanted)

    async def _read(
        self, record: GraphRecord, vnf: str, replicas: Replicas, scaling: Scaling, held: VnfLoad
    ) -> None:
        specs = {spec.vnf: spec for spec in record.plan.vnfs()}
        now = self._clock()
        shares = []
        readings: dict[str, Reading] = {}
        for number in range(1, replicas.all + 1):
            name = replica_id(vnf, number)
            reading = await self._reading(specs[name])
            if reading is None:
                continue  # it is being started again; what it did before says nothing of it
            readings[name] = reading
            before = held.readings.get(name)
            if before is None or reading.spent <= before.spent:
                continue
            if number > replicas.serving:
                if reading.packets != before.packets:
                    held.last_packet = now
            else:
                shares.append((reading.busy - before.busy) / (reading.spent - before.spent))
        held.readings = readings
        if not replicas.draining:
            held.drains_since = None
        elif held.drains_since is None:
            held.drains_since = held.last_packet = now
        if shares:
            held.note(scaling, sum(shares) / len(shares), now)

    async def _reading(self, vnf: VnfSpec) -> Reading | None:
        engine = engine_of(self._engines, vnf)
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                cycles, counters = await engine.cycles(vnf), await engine.counters(vnf)
        except (EngineError, TimeoutError, OSError):
            return None
        packets = sum(int(port.get("rx_packets", 0)) for port in _ports(counters))
        if cycles.get("busy_cycles") is not None and cycles.get("idle_cycles") is not None:
            busy = float(cycles["busy_cycles"])
            away = float(cycles.get("yielded_cycles") or 0)
            return Reading(busy, busy + float(cycles["idle_cycles"]) + away, packets)
        if cycles.get("cpu_ns") is not None:
            spent = time.monotonic_ns() * max(1, len(vnf.cores))
            return Reading(float(cycles["cpu_ns"]), float(spent), packets)
        return None

    async def _change(self, record: GraphRecord, wanted: dict[str, Replicas]) -> None:
        now = self._clock()
        try:
            await self._graphs.rescale(record.id, wanted)
        except (NodeError, SwitchError, EngineError) as error:
            for vnf, replicas in wanted.items():
                if replicas != record.plan.replicas[vnf]:
                    self._loads[record.id, vnf].changed = now
                    self._events.publish(
                        EventKind.VNF_SCALING_REFUSED, record.id, vnf=vnf, message=str(error)
                    )
            return
        for vnf, replicas in wanted.items():
            before = record.plan.replicas[vnf]
            if replicas == before:
                continue
            held = self._loads[record.id, vnf]
            held.above = held.below = None
            held.drains_since = None
            if replicas.serving != before.serving:
                held.changed = now
                held.ups += replicas.serving > before.serving
                held.downs += replicas.serving < before.serving
            self._events.publish(
                EventKind.VNF_SCALED,
                record.id,
                vnf=vnf,
                replicas=replicas.serving,
                draining=replicas.draining,
                load=None if held.load is None else round(held.load, 3),
            )


def _ports(counters: dict[str, Any]) -> Iterable[dict[str, Any]]:
    ports = counters.get("ports", {})
    return ports.values() if isinstance(ports, dict) else ports
