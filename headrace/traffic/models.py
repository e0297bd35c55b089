# SPDX-License-Identifier: Apache-2.0
"""Requests and replies of headrace-traffic as pydantic models.

Definitions of the counts and of the latency: docs/traffic.md. Units are in the names. Sizes count
the frame check sequence, as in RFC 2544: 64 is a buffer of 60 bytes.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headrace.traffic.histogram import LatencyHistogram

VariedField = Literal[
    "eth_src",
    "eth_dst",
    "vlan_vid",
    "mpls_label",
    "ipv4_src",
    "ipv4_dst",
    "ipv6_src",
    "ipv6_dst",
    "udp_src",
    "udp_dst",
    "tcp_src",
    "tcp_dst",
    "tunnel_id",
    "outer_eth_src",
    "outer_eth_dst",
    "outer_vlan_vid",
    "outer_mpls_label",
    "outer_ipv4_src",
    "outer_ipv4_dst",
    "outer_ipv6_src",
    "outer_ipv6_dst",
    "outer_udp_src",
    "outer_udp_dst",
    "outer_tunnel_id",
]


class _Reply(BaseModel):
    """A reply of the generator; unknown members are ignored, for compatibility."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class PortInfo(_Reply):
    """A port of the generator: an ethdev made from DPDK vdev arguments."""

    name: str
    mac: str
    link: bool


class LatencyNs(_Reply):
    """One-way latency from the intended send time, in nanoseconds; None when nothing came back."""

    count: int
    min: float | None = None
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    max: float | None = None


class Counts(_Reply):
    """Packets of a trial, in all or of one stream (definitions: docs/traffic.md).

    intended = sent + unsent; sent = received + lost. `received` counts unique packets at the
    right port; `duplicated` the further copies; `misdelivered` arrivals at another port.
    `latency_histogram` is present if the trial was run with histograms.
    """

    intended: int
    sent: int
    unsent: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    misdelivered: int
    tx_pps: float
    rx_pps: float
    loss_ratio: float
    latency_ns: LatencyNs
    pdv_ns: float | None = None
    latency_histogram: LatencyHistogram | None = None


class FrameSizes(_Reply):
    """The frame sizes of a stream: configured name, sizes, weights, mean."""

    name: str
    sizes: list[int]
    weights: list[int]
    mean: float


class StreamResult(Counts):
    """The result of one stream."""

    name: str
    size: FrameSizes | None = None
    flows: int | None = None
    popularity: Literal["uniform"] | Zipf | None = None
    ancient: int = 0


class WorkerHealth(_Reply):
    """The load of one worker of the generator while it sent.

    `busy_share`: the share of its cycles in rounds that moved packets. `on_core_share`: the share
    of time in which the kernel ran it, None while it still sends; for the rest another program had
    its core, which happened `preemptions` times. `cycles` are TSC cycles of its `rounds`, of which
    `busy_cycles` and `busy_rounds` moved packets.
    """

    busy_share: float
    cycles: int = 0
    busy_cycles: int = 0
    rounds: int = 0
    busy_rounds: int = 0
    on_core_share: float | None = None
    preemptions: int = 0
    cpu: int | None = None


class GeneratorIo(_Reply):
    """What the generator's bursts met while it sent, over all of its ports.

    `tx_bursts` calls of transmit functions, of which `tx_full_bursts` had a full burst;
    `tx_refused` packets were not taken by the device (and tried again). Of `rx_polls`,
    `rx_empty_polls` brought nothing and `rx_full_polls` a full burst.
    """

    tx_bursts: int = 0
    tx_full_bursts: int = 0
    tx_refused: int = 0
    rx_polls: int = 0
    rx_empty_polls: int = 0
    rx_full_polls: int = 0


class GeneratorHealth(_Reply):
    """The load of the generator itself; check it before attributing loss to the device under test.

    `busy_share` is that of the busiest worker.
    """

    busy_share: float
    limited: bool = False
    timing_error_ns: LatencyNs | None = None
    foreign: int = 0
    stale: int = 0
    io: GeneratorIo | None = None
    workers: list[WorkerHealth] = Field(default_factory=list)


class CalibrationSize(_Reply):
    """The generator's ceiling at one frame size, in loopback."""

    size: int
    ceiling_pps: float
    loss_ratio: float
    workers: list[WorkerHealth] = Field(default_factory=list)


class Calibration(_Reply):
    """The generator's own limits and precision, measured in loopback.

    `workers` is their load at `at_pps`, where floor and error were measured.
    """

    via: str
    ceilings: list[CalibrationSize]
    latency_floor_ns: LatencyNs
    timing_error_ns: LatencyNs
    at_pps: float
    workers: list[WorkerHealth] = Field(default_factory=list)


class TrialResult(Counts):
    """The outcome of one trial."""

    duration_s: float
    load_pps: float | None = None
    generator: GeneratorHealth
    streams: list[StreamResult] = Field(default_factory=list)
    calibration: Calibration | None = None


class Variation(BaseModel):
    """A field in which flows differ: flow i has the base value + step * (i mod count)."""

    model_config = ConfigDict(extra="forbid")

    field: VariedField
    step: int = Field(default=1, ge=1)
    count: int | None = Field(default=None, ge=1)


class Zipf(BaseModel):
    """Popularity of flows: the k-th in proportion to 1/k^zipf, drawn from `seed`."""

    model_config = ConfigDict(extra="forbid")

    zipf: float = Field(gt=0, le=10)
    seed: int = Field(default=1, ge=0)


class ReplaySpeed(BaseModel):
    """Timing of a replay: that of the capture, this many times as fast."""

    model_config = ConfigDict(extra="forbid")

    speed: float = Field(gt=0)


class StreamSpec(BaseModel):
    """A stream: packets with the same headers from `tx_port`, expected at `rx_port`.

    `size` counts the FCS: 64..9018, or an IMIX by name (`imix-nfvbench`, `imix-csit`,
    `imix-genome:<letters>`, RFC 6985). `flows` packets differ in the fields of `vary` (default:
    the innermost IP destination). `share` weighs the stream's part of the load. `layers` are the
    headers from the outside in, e.g. `["ethernet", {"vlan": {"vid": 7}}, "ipv4", "udp"]`
    (default: Ethernet, VLAN if `vlan` is set, IPv4 or IPv6 after the addresses, UDP); the
    addresses and ports beside them set those of the innermost layers.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    tx_port: str
    rx_port: str
    size: int | str = 64
    flows: int = Field(default=1, ge=1)
    share: float = Field(default=1.0, gt=0)
    src_mac: str | None = None
    dst_mac: str | None = None
    src_ip: str | None = None
    dst_ip: str | None = None
    src_port: int | None = None
    dst_port: int | None = None
    vlan: int | None = None
    vary: list[VariedField | Variation] | None = None
    layers: list[str | dict[str, dict[str, Any]]] | None = None
    popularity: Literal["uniform"] | Zipf | None = None


class ReplaySpec(BaseModel):
    """A stream that replays the capture `pcap` (a path that the generator can read).

    `timing`: as part of the load ("load"), as captured ("original"), or this many times as fast.
    With the capture's timing the stream has no share of the load.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    tx_port: str
    rx_port: str
    pcap: str
    timing: Literal["load", "original"] | ReplaySpeed = "load"
    share: float = Field(default=1.0, gt=0)


class Load(BaseModel):
    """The load of a trial, in one unit, over all streams.

    `pps`, or `bps` on the line (layer 1: each frame counts 20 bytes more), or `percent` of
    `line_rate_bps` (default 10 Gbit/s). None of them: as fast as the ports take it; then `packets`
    ends the sending after that many per stream. `burst` packets share one time, at the same mean
    rate; with `poisson` the gaps between packets, or bursts, are exponential.
    """

    model_config = ConfigDict(extra="forbid")

    pps: float | None = Field(default=None, gt=0)
    bps: float | None = Field(default=None, gt=0)
    percent: float | None = Field(default=None, gt=0)
    line_rate_bps: float | None = Field(default=None, gt=0)
    packets: int | None = Field(default=None, ge=1)
    burst: int | None = Field(default=None, ge=1)
    poisson: bool | None = None

    def params(self) -> dict[str, float | int]:
        """The members of the control protocol."""
        members = self.model_dump(exclude_none=True)
        for unit in ("pps", "bps", "percent"):
            if unit in members:
                members["load_" + unit] = members.pop(unit)
        return members
