# SPDX-License-Identifier: Apache-2.0
"""An external TRex server as the generator: the methods of TrafficClient, with TRex's counters.

What differs from headrace-traffic:
* Ports are TRex's own, named "0", "1", ...; streams are Ethernet, VLAN, IPv4, UDP.
* TRex counts packets per stream in its devices or its software, and stamps only latency streams. So
  each stream goes out as two: the load, and LATENCY_PPS of its packets (at most a tenth) that carry
  TRex's signature. Latency, duplicates and reordering are of those packets only; latency counts
  from TRex's send time in whole microseconds, not from the schedule.
* `unsent` is the difference between the rate and the packets sent; treat it as loss.
* Start and stop cost the server about half a second, in which nothing is counted.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from headrace.traffic.client import TrafficError
from headrace.traffic.models import (
    FrameSizes,
    GeneratorHealth,
    LatencyNs,
    PortInfo,
    StreamResult,
    StreamSpec,
    TrialResult,
)
from headrace.traffic.trex.packets import Unsupported, packet, program, size_weights
from headrace.traffic.trex.wire import TrexConnection, TrexError

LATENCY_PPS = 1000.0
PROFILE = "_"


@dataclass(frozen=True)
class _Part:
    """One TRex stream: the frames of one size of a stream, counted under `group`."""

    spec: StreamSpec
    group: int
    size: int
    fraction: float  # of the spec's packets
    latency: bool


def _parts(specs: Sequence[StreamSpec]) -> list[_Part]:
    parts: list[_Part] = []
    for number, spec in enumerate(specs):
        weights = size_weights(spec.size)
        total = sum(weights.values())
        parts += [
            _Part(spec, 2 * number, size, weight / total, latency=False)
            for size, weight in weights.items()
        ]
        parts.append(_Part(spec, 2 * number + 1, min(weights), 1.0, latency=True))
    return parts


def _per_port(stats: dict[str, Any], group: int, field: str) -> dict[str, int]:
    counts = stats.get("flow_stats", {}).get(str(group), {}).get(field, {})
    return {port: int(count) for port, count in counts.items() if port != "total"}


@dataclass(frozen=True)
class _Timing:
    """The increase of a latency group's figures during a trial."""

    histogram: dict[int, int]  # packets, by the lower bound of their bucket in microseconds
    errors: dict[str, int]
    least_us: float | None


def _timing(before: dict[str, Any], after: dict[str, Any], group: int) -> _Timing:
    new = after.get("latency", {}).get(str(group), {})
    old = before.get("latency", {}).get(str(group), {})

    def grown(*names: str) -> dict[str, int]:
        late, early = new, old
        for name in names:
            late, early = late.get(name, {}), early.get(name, {})
        return {key: int(count) - int(early.get(key, 0)) for key, count in late.items()}

    histogram = {int(bucket): count for bucket, count in grown("lat", "histogram").items()}
    # TRex's minimum latency is that of all time: it is this trial's only if there was none before.
    least = None if old else new.get("lat", {}).get("total_min")
    return _Timing(histogram, grown("er"), least)


def _latency(timing: _Timing) -> LatencyNs:
    """Percentiles, to the width of TRex's buckets."""
    low = None if timing.least_us is None else timing.least_us * 1e3
    buckets = sorted(timing.histogram.items())
    total = sum(count for _, count in buckets)
    if total == 0:
        return LatencyNs(count=0)

    def quantile(fraction: float) -> float:
        below = 0
        for bucket, count in buckets:
            below += count
            if below >= fraction * total:
                return bucket * 1e3
        return buckets[-1][0] * 1e3

    return LatencyNs(
        count=total,
        min=buckets[0][0] * 1e3 if low is None else low,
        mean=sum(bucket * count for bucket, count in buckets) * 1e3 / total,
        p50=quantile(0.5),
        p90=quantile(0.9),
        p99=quantile(0.99),
        p99_9=quantile(0.999),
        max=buckets[-1][0] * 1e3,
    )


class TrexGenerator:
    """A TRex server, controlled over its JSON-RPC channel; `user` owns the ports meanwhile."""

    def __init__(self, host: str, port: int = 4501, *, user: str = "headrace") -> None:
        self._wire = TrexConnection(host, port)
        self._user = user
        self._handlers: dict[str, str] = {}
        self._specs: list[StreamSpec] = []

    async def connect(self) -> None:
        """Connects and acquires all ports. Raises TrafficError `unreachable`."""
        try:
            await self._wire.open()
            info = await self._wire.call("get_system_info")
            for port in info["ports"]:
                handler = await self._wire.call(
                    "acquire",
                    port_id=port["index"],
                    user=self._user,
                    session_id=1,
                    force=False,
                )
                self._handlers[str(port["index"])] = str(handler)
        except TrexError as error:
            self._wire.close()
            raise TrafficError("unreachable", str(error)) from error

    async def close(self) -> None:
        """Releases the ports and disconnects."""
        try:
            for port, handler in self._handlers.items():
                await self._wire.call("release", port_id=int(port), handler=handler)
        except TrexError:
            pass  # The server has exited, and its state with it.
        finally:
            self._handlers = {}
            self._wire.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _call(self, method: str, **params: Any) -> Any:
        try:
            return await self._wire.call(method, **params)
        except TrexError as error:
            raise TrafficError("trex", str(error)) from error

    async def _on_port(self, method: str, port: str, **params: Any) -> Any:
        return await self._call(method, port_id=int(port), handler=self._handlers[port], **params)

    async def ports(self) -> list[PortInfo]:
        """TRex's ports, with their links."""
        info = await self._call("get_system_info")
        found = []
        for port in info["ports"]:
            status = await self._call("get_port_status", port_id=port["index"])
            link = bool(status.get("attr", {}).get("link", {}).get("up", True))
            found.append(PortInfo(name=str(port["index"]), mac=port.get("hw_mac", ""), link=link))
        return found

    async def configure(self, streams: Sequence[StreamSpec]) -> None:
        """Replaces all streams. Raises TrafficError `unsupported` or `not_found`."""
        for spec in streams:
            for port in (spec.tx_port, spec.rx_port):
                if port not in self._handlers:
                    raise TrafficError("not_found", f"stream {spec.name}: TRex has no port {port}")
            try:
                program(spec)
                for size in size_weights(spec.size):
                    packet(spec, size)
            except Unsupported as error:
                raise TrafficError("unsupported", f"stream {spec.name}: {error}") from error
        self._specs = list(streams)

    async def trial(
        self, duration_s: float, load_pps: float, *, drain_s: float = 0.5
    ) -> TrialResult:
        """Runs one trial at `load_pps` over all streams and returns its result."""
        if not self._specs:
            raise TrafficError("no_streams", "no streams; configure first")
        wanted = {name for spec in self._specs for name in (spec.tx_port, spec.rx_port)}
        for info in await self.ports():
            if info.name in wanted and not info.link:
                raise TrafficError("link_down", f"port {info.name} has no link")
        rates = await self._add_streams(load_pps)
        before = await self._statistics()
        senders = sorted({spec.tx_port for spec in self._specs})
        for port in senders:
            await self._on_port(
                "start_traffic",
                port,
                profile_id=PROFILE,
                mul={"type": "raw", "op": "abs", "value": 1.0},
                duration=duration_s,
                force=False,
                core_mask=0xFFFFFFFF,
            )
        try:
            await asyncio.sleep(duration_s)
        finally:
            for port in senders:
                await self._on_port("stop_traffic", port, profile_id=PROFILE)
        await asyncio.sleep(drain_s)
        after = await self._statistics()
        status = await self._call("get_global_stats")
        return self._result(duration_s, rates, before, after, status)

    async def _add_streams(self, load_pps: float) -> dict[str, float]:
        """Adds the streams to the server; returns the rate of each."""
        for port in self._handlers:
            await self._on_port("remove_all_streams", port, profile_id=PROFILE)
        total = sum(spec.share for spec in self._specs)
        rates = {spec.name: load_pps * spec.share / total for spec in self._specs}
        for number, part in enumerate(_parts(self._specs), start=1):
            rate = rates[part.spec.name]
            latency_pps = min(LATENCY_PPS, rate / 10)
            pps = latency_pps if part.latency else (rate - latency_pps) * part.fraction
            await self._on_port(
                "add_stream",
                part.spec.tx_port,
                profile_id=PROFILE,
                stream_id=number,
                stream={
                    "enabled": True,
                    "self_start": True,
                    "isg": 0.0,
                    "next_stream_id": -1,
                    "action_count": 0,
                    "flags": 3,
                    "mode": {"type": "continuous", "rate": {"type": "pps", "value": pps}},
                    "packet": {
                        "binary": base64.b64encode(packet(part.spec, part.size)).decode(),
                        "meta": "",
                    },
                    "vm": {"instructions": program(part.spec)},
                    "flow_stats": {
                        "enabled": True,
                        "stream_id": part.group,
                        "rule_type": "latency" if part.latency else "stats",
                    },
                },
            )
        return rates

    async def _statistics(self) -> dict[str, Any]:
        groups = sorted({part.group for part in _parts(self._specs)})
        answer: dict[str, Any] = await self._call("get_pgid_stats", pgids=groups)
        return answer

    def _result(
        self,
        duration_s: float,
        rates: dict[str, float],
        before: dict[str, Any],
        after: dict[str, Any],
        status: dict[str, Any],
    ) -> TrialResult:
        streams = [
            self._stream_result(number, spec, duration_s, rates[spec.name], before, after)
            for number, spec in enumerate(self._specs)
        ]

        def total(name: str) -> int:
            return sum(int(getattr(stream, name)) for stream in streams)

        intended, lost, unsent = total("intended"), total("lost"), total("unsent")
        timed = [stream for stream in streams if stream.latency_ns.count]
        worst = max(timed, key=lambda stream: stream.latency_ns.p99_9 or 0, default=None)
        return TrialResult(
            intended=intended,
            sent=total("sent"),
            unsent=unsent,
            received=total("received"),
            lost=lost,
            duplicated=total("duplicated"),
            reordered=total("reordered"),
            misdelivered=total("misdelivered"),
            tx_pps=total("sent") / duration_s,
            rx_pps=total("received") / duration_s,
            loss_ratio=(lost + unsent) / intended if intended else 0.0,
            # TRex's histograms are too coarse to merge: use that of the worst stream.
            latency_ns=worst.latency_ns if worst else LatencyNs(count=0),
            pdv_ns=worst.pdv_ns if worst else None,
            duration_s=duration_s,
            load_pps=sum(rates.values()),
            generator=GeneratorHealth(
                busy_share=float(status.get("cpu_util", 0.0)) / 100,
                limited=unsent > 0.001 * intended or int(status.get("queue_full", 0)) > 0,
            ),
            streams=streams,
        )

    def _stream_result(
        self,
        number: int,
        spec: StreamSpec,
        duration_s: float,
        rate: float,
        before: dict[str, Any],
        after: dict[str, Any],
    ) -> StreamResult:
        def grown(field: str) -> dict[str, int]:
            counts: dict[str, int] = {}
            for group in (2 * number, 2 * number + 1):
                old = _per_port(before, group, field)
                for port, count in _per_port(after, group, field).items():
                    counts[port] = counts.get(port, 0) + count - old.get(port, 0)
            return counts

        sent = grown("tp").get(spec.tx_port, 0)
        arrived = grown("rp")
        at_port = arrived.pop(spec.rx_port, 0)
        timing = _timing(before, after, 2 * number + 1)
        duplicated = timing.errors.get("dup", 0)
        received = min(at_port - duplicated, sent)
        intended = max(round(rate * duration_s), sent)
        latency = _latency(timing)
        pdv = None
        if latency.p99_9 is not None and latency.min is not None:
            pdv = latency.p99_9 - latency.min
        weights = size_weights(spec.size)
        mean = sum(size * weight for size, weight in weights.items()) / sum(weights.values())
        return StreamResult(
            name=spec.name,
            size=FrameSizes(
                name=str(spec.size), sizes=list(weights), weights=list(weights.values()), mean=mean
            ),
            flows=spec.flows,
            intended=intended,
            sent=sent,
            unsent=intended - sent,
            received=received,
            lost=sent - received,
            duplicated=duplicated,
            reordered=timing.errors.get("ooo", 0),
            misdelivered=sum(arrived.values()),
            tx_pps=sent / duration_s,
            rx_pps=received / duration_s,
            loss_ratio=(intended - received) / intended if intended else 0.0,
            latency_ns=latency,
            pdv_ns=pdv,
        )
