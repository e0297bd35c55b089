# SPDX-License-Identifier: Apache-2.0
"""The packet path of the faulty node: what its rules do to frames, and how much it takes.

Time is simulated: a load of a second takes none. A VNF takes so many nanoseconds for a packet and
for each of its octets; what exceeds that is lost, and latency grows towards it.
"""

import ipaddress
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.conformance.frames import Frame, frame, seen, tags_of
from headrace.conformance.packets import Measured, Read, Stream
from tests.conformance_node.forwarding import Deployed, entry, through
from tests.conformance_node.node import PORTS, FaultyNode

_COST_NS = {"pass": 50.0, "cpu": 200.0, "memory": 120.0, "pass-container": 60.0, "bridge": 80.0}
_OCTET_NS = 0.05
_GHZ = 2.0
_MEAN = 326
_LINE_OCTETS = 20


class SimulatedFrames:
    """Single frames at the node's ports."""

    def __init__(self, node: FaultyNode) -> None:
        self._node = node
        self.ports = PORTS

    async def exchange(
        self, sent: Sequence[tuple[str, Frame]], expected: int | None = None
    ) -> Mapping[str, list[Frame]]:
        """See packets.Frames."""
        came: dict[str, list[Frame]] = {port: [] for port in PORTS}
        for port, one in sent:
            for sink, octets in self._out(port, one.octets):
                found = seen(octets)
                if found is not None:
                    came[sink].append(found)
        return came

    def _out(self, port: str, octets: bytes) -> list[tuple[str, bytes]]:
        for deployed in self._node.graphs.values():
            out = through(deployed, port, octets, self._node.fault)
            if out is not None:
                return out
        # Two VLANs more than any test has a graph for: what floods is no graph's.
        stray = self._node.fault == 18 and tags_of(octets) and len(self._node.graphs) > 0
        return [("p2", octets)] if stray else []


class SimulatedLoads:
    """Loads between two of the node's ports."""

    def __init__(self, node: FaultyNode) -> None:
        self._node = node
        self.ports = (PORTS[0], PORTS[1])

    async def load(
        self,
        streams: Sequence[Stream],
        pps: float | None,
        seconds: float,
        meanwhile: Callable[[Read], Awaitable[None]] | None = None,
    ) -> Measured:
        """See packets.Loads."""
        shares = sum(stream.share for stream in streams)

        def rate(stream: Stream) -> float:
            return (self._capacity(stream) * 1.2 if pps is None else pps) * stream.share / shares

        before = {stream.name: self._passing(stream) for stream in streams}
        gap = 0.0
        for stream in streams if pps is not None else ():
            self._scale(stream, rate(stream))
        if meanwhile is not None:
            half = seconds / 2

            async def read() -> Mapping[str, Measured]:
                return {s.name: self._measured(s, rate(s), half, before[s.name]) for s in streams}

            began = time.monotonic()
            await meanwhile(read)
            gap = max(0.0, self._node.applied - began) + half
            seconds += time.monotonic() - began
        parts: dict[str, Measured] = {}
        for stream in streams:
            passing = self._passing(stream)
            lost = (passing - before[stream.name]) * gap / seconds if gap else 0.0
            parts[stream.name] = self._measured(stream, rate(stream), seconds, passing - lost)
        return Measured(
            seconds=seconds,
            intended=sum(each.intended for each in parts.values()),
            sent=sum(each.sent for each in parts.values()),
            received=sum(each.received for each in parts.values()),
            bits=sum(each.bits for each in parts.values()),
            latency_p50=next(iter(parts.values())).latency_p50,
            latency_p99=next(iter(parts.values())).latency_p99,
            streams=parts,
        )

    def _graph(self, stream: Stream) -> Deployed | None:
        tags = () if stream.tag is None else (stream.tag,)
        for deployed in self._node.graphs.values():
            if entry(deployed, stream.source, tags) is not None:
                return deployed
        return None

    def _vnfs(self, stream: Stream) -> list[tuple[Deployed, str, str]]:
        deployed = self._graph(stream)
        if deployed is None:
            return []
        return [(deployed, vnf["id"], vnf["vnf_template"]) for vnf in deployed.inner["VNFs"]]

    def _cost_ns(self, stream: Stream) -> float:
        size = stream.size if isinstance(stream.size, int) else _MEAN
        costs = [_COST_NS[template] for _, _, template in self._vnfs(stream)]
        return max(costs, default=20.0) + _OCTET_NS * size

    def _capacity(self, stream: Stream) -> float:
        replicas = min((max(1, deployed.replicas[vnf]) for deployed, vnf, _ in self._vnfs(stream)),
                       default=1)  # fmt: skip
        return 1e9 / self._cost_ns(stream) * (1 if self._node.fault == 13 else replicas)

    def _scale(self, stream: Stream, pps: float) -> None:
        """Gives the VNFs that may scale a second replica above a load, and takes it below one."""
        load = pps * self._cost_ns(stream) / 1e9
        for deployed, vnf, _ in self._vnfs(stream):
            limits = next(v for v in deployed.inner["VNFs"] if v["id"] == vnf).get("scaling")
            if limits is not None and load > limits["up"]:
                deployed.replicas[vnf] = limits["max-replicas"]
            elif limits is not None and load < limits["down"]:
                deployed.replicas[vnf] = 1

    def _passing(self, stream: Stream) -> float:
        """The share of a stream's packets that the rules lead to its sink."""
        deployed = self._graph(stream)
        if deployed is None:
            return 0.0
        tags = () if stream.tag is None else (stream.tag,)
        point = f"endpoint:{entry(deployed, stream.source, tags)}"
        here = [rule for rule in deployed.rules if rule["match"]["port_in"] == point]
        first = ipaddress.IPv4Address(stream.targets)
        if not any("dest_ip" in rule["match"] for rule in here):
            probe = frame(tags=tags, target=stream.targets)
            out = through(deployed, stream.source, probe.octets, self._node.fault) or []
            return 1.0 if any(sink == stream.sink for sink, _ in out) else 0.0
        given = [ipaddress.ip_network(rule["match"]["dest_ip"]) for rule in here]
        exact = {int(each.network_address) for each in given if each.prefixlen == 32}
        wide = [each for each in given if each.prefixlen < 32]
        flows = range(int(first), int(first) + stream.flows)
        if any(first in net and first + stream.flows - 1 in net for net in wide):
            return 1.0
        hit = sum(flow in exact for flow in flows)
        return hit / stream.flows

    def _measured(self, stream: Stream, pps: float, seconds: float, passing: float) -> Measured:
        intended = max(1, round(pps * seconds))
        capacity = self._capacity(stream)
        vnfs = self._vnfs(stream)
        share = passing * min(1.0, capacity / pps)
        templates = {template for _, _, template in vnfs}
        if self._node.fault == 22 and stream.size == 1500 and templates == {"pass"}:
            share *= 0.99
        if self._node.fault == 24 and "memory" in templates and stream.flows > 100:
            share *= 100 / stream.flows
        received = round(intended * share)
        for deployed, name, template in vnfs:
            spent = _COST_NS[template] * _GHZ * received
            if self._node.fault == 23 and template == "cpu":
                spent = 1e6 * seconds
            deployed.busy[name] += round(spent)
            replicas = 1 if self._node.fault == 13 else max(1, deployed.replicas[name])
            for number in range(1, replicas + 1):
                deployed.seen[name if number == 1 else f"{name}~{number}"] += received // replicas
        size = stream.size if isinstance(stream.size, int) else _MEAN
        load = min(0.99, pps / capacity)
        latency = 5_000 + 1_000 / (1 - load)
        return Measured(
            seconds=seconds, intended=intended, sent=intended, received=received,
            bits=received * (size + _LINE_OCTETS) * 8,
            latency_p50=latency if received else None,
            latency_p99=3 * latency if received else None,
        )  # fmt: skip
