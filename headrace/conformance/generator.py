# SPDX-License-Identifier: Apache-2.0
"""Loads of packets by headrace-traffic, attached to two of the node's ports."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from headrace.conformance.packets import Measured, Read, Stream
from headrace.traffic import StreamSpec, TrafficError, TrafficProcess, TrialResult
from headrace.traffic.models import Counts, StreamResult, Variation, Zipf

LINK_S = 20.0
LINE_BYTES, _TAG_OCTETS = 20, 4
_SLOW_PPS, _PATIENT_US = 20_000.0, 500_000.0
"""Up to this rate a load asks whether packets pass, not how fast: none is left out as too late."""

_DRAIN_S = 0.2
"""How long a packet may be under way; it ends at once if all have come."""

_SOURCE, _TARGET = "02:48:52:00:00:01", "02:48:52:00:01:00"


class Generator:
    """A generator process with its two ports.

    Args:
        devices: DPDK vdev arguments, by the node's names of the ports.
        cpu: the core of the generator.
        shares: another poller has that core as well: it is yielded between rounds.
    """

    def __init__(self, devices: Mapping[str, str], cpu: int, shares: bool) -> None:
        first, second = devices
        self.ports = (first, second)
        self._devices = dict(devices)
        self._shares = shares
        self._process = TrafficProcess(cpu=cpu)
        self._streams: Sequence[Stream] | None = None

    async def open(self) -> None:
        """Starts the generator and waits for the links.

        Raises:
            TrafficError: it doesn't start, or a link stays down.
        """
        await self._process.connect()
        try:
            for number, (name, devargs) in enumerate(self._devices.items()):
                await self._process.add_port(name, devargs.replace("{n}", str(number)))
            await self._process.wait_links(timeout_s=LINK_S)
        except TrafficError:
            await self._process.close()
            raise

    async def close(self) -> None:
        """Ends the generator."""
        await self._process.close()

    async def _configure(self, streams: Sequence[Stream]) -> None:
        if streams != self._streams:
            await self._process.configure([_spec(stream) for stream in streams])
            self._streams = list(streams)

    async def load(
        self,
        streams: Sequence[Stream],
        pps: float | None,
        seconds: float,
        meanwhile: Callable[[Read], Awaitable[None]] | None = None,
    ) -> Measured:
        """See packets.Loads."""
        await self._configure(streams)
        if meanwhile is None:
            result = await self._process.trial(
                seconds, pps, drain_s=_DRAIN_S, yield_core=self._shares, late_bound_us=_late(pps)
            )
            return _measured(result)
        await self._process.start(
            pps, drain_s=_DRAIN_S, yield_core=self._shares, late_bound_us=_late(pps)
        )

        async def read() -> Mapping[str, Measured]:
            return _measured(await self._process.read()).streams

        try:
            await asyncio.sleep(seconds / 2)
            await meanwhile(read)
            await asyncio.sleep(seconds / 2)
        except BaseException:
            with suppress(TrafficError):
                await self._process.stop()
            raise
        return _measured(await self._process.stop())


def _late(pps: float | None) -> float | None:
    """How late a packet may be sent, in microseconds; None is the generator's own bound."""
    return _PATIENT_US if pps is not None and pps <= _SLOW_PPS else None


def _spec(stream: Stream) -> StreamSpec:
    # A tag comes on top: the VNFs see frames of the size that was asked for.
    tagged = stream.tag is not None and isinstance(stream.size, int)
    size = int(stream.size) + _TAG_OCTETS if tagged else stream.size
    return StreamSpec(
        name=stream.name,
        tx_port=stream.source,
        rx_port=stream.sink,
        size=size,
        flows=stream.flows,
        share=stream.share,
        vlan=stream.tag,
        src_mac=_SOURCE,
        dst_mac=_TARGET,
        src_ip="198.18.0.1",
        dst_ip=str(ipaddress.IPv4Address(stream.targets)),
        vary=[Variation(field="ipv4_dst")] if stream.flows > 1 else None,
        popularity=None if stream.zipf is None else Zipf(zipf=stream.zipf),
    )


def _measured(result: TrialResult) -> Measured:
    seconds = result.duration_s
    streams = {stream.name: _of(stream, seconds, _bits(stream)) for stream in result.streams}
    bits = sum(each.bits for each in streams.values())
    return _of(result, seconds, bits, streams)


def _of(
    counts: Counts, seconds: float, bits: float, streams: Mapping[str, Measured] | None = None
) -> Measured:
    return Measured(
        seconds=seconds,
        intended=counts.intended,
        sent=counts.sent,
        received=counts.received,
        duplicated=counts.duplicated,
        reordered=counts.reordered,
        misdelivered=counts.misdelivered,
        bits=bits,
        latency_p50=counts.latency_ns.p50,
        latency_p99=counts.latency_ns.p99,
        streams=streams or {},
    )


def _bits(stream: StreamResult) -> float:
    """Bits on the line of what came back (layer 1)."""
    mean = stream.size.mean if stream.size else 0.0
    return stream.received * (mean + LINE_BYTES) * 8
