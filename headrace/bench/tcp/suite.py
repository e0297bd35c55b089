# SPDX-License-Identifier: Apache-2.0
"""`headrace bench tcp` as the command runs it: all switches at once, measured in turn."""

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import place
from headrace.bench.peers.systems import PeerError
from headrace.bench.rows import Row, row, skipped
from headrace.bench.tcp.hosts import LISTENS_S, Hosts
from headrace.bench.tcp.subjects import (
    HEADRACE,
    HEADRACE_VHOST,
    OVS_NETDEV,
    OVS_VHOST,
    Subject,
    subjects,
)

PAIRS = ((HEADRACE, OVS_NETDEV, 3.0), (HEADRACE_VHOST, OVS_VHOST, 1.0))
"""Ours, the peer, and what our TCP is to be of its."""
PINGS = 25
MEMORY_MB = 256  # of each DPDK switch, of which there are three

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How often and how long to look at each switch."""

    repeats: int = 5
    window_s: int = 2


@dataclass
class Measured:
    """What was measured of one switch; `missing` says why nothing was."""

    gbps: list[float] = field(default_factory=list)
    round_trip_us: list[float] = field(default_factory=list)  # medians of a window's pings
    note: str | None = None
    missing: str | None = None


def measure(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures all switches; the rows and what they were measured on."""
    found: dict[str, Measured] = {}
    with ExitStack() as open_, tempfile.TemporaryDirectory(prefix="headrace-tcp-") as folder:
        running: list[tuple[Subject, Hosts]] = []
        where = dataclasses.replace(open_.enter_context(place()), memory_mb=MEMORY_MB)
        for number, subject in enumerate(subjects(where)):
            found[subject.name] = Measured(note=subject.note)
            hosts = open_.enter_context(subject.hosts(number))
            open_.callback(subject.stop)
            try:
                subject.start()
                hosts.join(Path(folder))
            except PeerError as error:
                found[subject.name].missing = str(error)
                say(f"{subject.name}: skipped: {error}")
                subject.stop()
                continue
            open_.enter_context(hosts.serving(Path(folder) / f"iperf3-{number}.log"))
            _wait_for_server(hosts)
            _park(subject, hosts)
            running.append((subject, hosts))
        for repeat in range(plan.repeats):
            for subject, hosts in list(running if repeat % 2 == 0 else running[::-1]):
                last = found[subject.name]
                subject.resume()
                hosts.resume()
                try:
                    _window(plan, last, hosts)
                except PeerError as error:
                    # Ratios are of windows side by side: what it has is of no use without the rest.
                    found[subject.name] = Measured(note=subject.note, missing=str(error))
                    say(f"{subject.name}: left out: {error}")
                    running.remove((subject, hosts))
                    continue
                finally:
                    _park(subject, hosts)
                say(
                    f"{repeat + 1}/{plan.repeats} {subject.name}: {last.gbps[-1]:.2f} Gbit/s, "
                    f"{last.round_trip_us[-1]:.0f} us"
                )
        for subject, _ in running:
            subject.resume()
    return rows_of(found), manifest(plan)


def _park(subject: Subject, hosts: Hosts) -> None:
    hosts.park()
    subject.park()


def _wait_for_server(hosts: Hosts) -> None:
    deadline = time.monotonic() + LISTENS_S
    while not hosts.is_serving():
        if time.monotonic() > deadline:
            raise PeerError("iperf3 does not listen; is it installed (package iperf3)?")
        time.sleep(0.05)


def _window(plan: Plan, measured: Measured, hosts: Hosts) -> None:
    measured.round_trip_us.append(statistics.median(hosts.round_trips_us(PINGS)))
    measured.gbps.append(hosts.gbps(plan.window_s))


def rows_of(found: dict[str, Measured]) -> list[Row]:
    """Every figure of each switch, and ours over its peer's."""
    rows: list[Row] = []
    for name, measured in found.items():
        for what, samples, unit in (
            ("TCP, one connection", measured.gbps, "Gbit/s"),
            ("ping on the idle switch, median", measured.round_trip_us, "us"),
        ):
            if samples:
                rows.append(row(f"{name}: {what}", samples, unit, note=measured.note))
            else:
                rows.append(skipped(f"{name}: {what}", unit, measured.missing or "not measured"))
    for ours, theirs, goal in PAIRS:
        mine, peer = found[ours], found[theirs]
        if not mine.gbps or not peer.gbps:
            why = mine.missing or peer.missing or "not measured"
            rows.append(skipped(f"TCP: {ours} / {theirs}", "x", why, goal=goal))
            continue
        rate = [a / b for a, b in zip(mine.gbps, peer.gbps, strict=True)]
        rows.append(row(f"TCP: {ours} / {theirs}", rate, "x", goal=goal))
        trip = [a / b for a, b in zip(mine.round_trip_us, peer.round_trip_us, strict=True)]
        rows.append(row(f"ping: {ours} / {theirs}", trip, "x", goal=1.0, better="lower"))
    return rows


def manifest(plan: Plan) -> dict[str, Any]:
    """What the figures were taken with, and what they mean."""
    return {
        "machine": machine(),
        "versions": versions(),
        "TCP": "one connection of iperf3 with its defaults, received",
        "guests": "network namespaces behind headrace-guest: a tap with vnet headers in front of a "
        "virtio-user device, split rings, mergeable buffers, checksum and TSO; it takes the time "
        "on the hosts' core that a guest's driver and its machine would take",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s, "pings": PINGS},
    }
