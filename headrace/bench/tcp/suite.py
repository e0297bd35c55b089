# SPDX-License-Identifier: Apache-2.0
"""`headrace bench tcp` as the command runs it: all switches at once, measured in turn."""

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
from headrace.bench.tcp.subjects import Subject, subjects

GOAL_OVER_OVS = 3.0
PINGS = 25
NOTES = {
    "headrace": "senders' defaults; hosts on core 0, the switch on core 1",
    "ovs-netdev": "senders with `tx off`, as it needs; hosts on core 0, the switch on core 1",
    "linux-bridge": "senders' defaults; hosts and bridge on both cores",
}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How often and how long to look at each switch."""

    repeats: int = 5
    window_s: float = 2.0


@dataclass
class Measured:
    """What was measured of one switch; `missing` says why nothing was."""

    gbps: list[float] = field(default_factory=list)
    round_trip_us: list[float] = field(default_factory=list)  # medians of a window's pings
    missing: str | None = None


def measure(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures all switches; the rows and what they were measured on."""
    found: dict[str, Measured] = {}
    with ExitStack() as open_, tempfile.TemporaryDirectory(prefix="headrace-tcp-") as folder:
        running: list[tuple[Subject, Hosts]] = []
        for number, subject in enumerate(subjects(open_.enter_context(place()))):
            found[subject.name] = Measured()
            hosts = open_.enter_context(Hosts(number, subject.host_cores))
            open_.callback(subject.stop)
            try:
                subject.start(hosts)
            except PeerError as error:
                found[subject.name].missing = str(error)
                continue
            open_.enter_context(hosts.serving(Path(folder) / f"iperf3-{number}.log"))
            _wait_for_server(hosts)
            subject.park()
            running.append((subject, hosts))
        for repeat in range(plan.repeats):
            for subject, hosts in running:
                subject.resume()
                try:
                    _window(plan, found[subject.name], hosts)
                finally:
                    subject.park()
                last = found[subject.name]
                say(
                    f"{repeat + 1}/{plan.repeats} {subject.name}: {last.gbps[-1]:.2f} Gbit/s, "
                    f"{last.round_trip_us[-1]:.0f} us"
                )
        for subject, _ in running:
            subject.resume()
    return _rows(found), {"machine": machine(), "versions": versions()}


def _wait_for_server(hosts: Hosts) -> None:
    deadline = time.monotonic() + LISTENS_S
    while not hosts.is_serving():
        if time.monotonic() > deadline:
            raise PeerError("iperf3 does not listen; is it installed (package iperf3)?")
        time.sleep(0.05)


def _window(plan: Plan, measured: Measured, hosts: Hosts) -> None:
    measured.round_trip_us.append(statistics.median(hosts.round_trips_us(PINGS)))
    measured.gbps.append(hosts.gbps(plan.window_s))


def _rows(found: dict[str, Measured]) -> list[Row]:
    rows: list[Row] = []
    for name, measured in found.items():
        for what, samples, unit in (
            ("TCP, one connection", measured.gbps, "Gbit/s"),
            ("ping on the idle switch, median", measured.round_trip_us, "us"),
        ):
            if samples:
                rows.append(row(f"{name}: {what}", samples, unit, note=NOTES.get(name)))
            else:
                rows.append(skipped(f"{name}: {what}", unit, measured.missing or "not measured"))
    ours, theirs = found["headrace"], found["ovs-netdev"]
    if ours.gbps and theirs.gbps:
        rate = [a / b for a, b in zip(ours.gbps, theirs.gbps, strict=True)]
        rows.append(row("TCP: headrace / ovs-netdev", rate, "x", goal=GOAL_OVER_OVS))
        trip = [a / b for a, b in zip(ours.round_trip_us, theirs.round_trip_us, strict=True)]
        rows.append(row("ping: headrace / ovs-netdev", trip, "x", goal=1.0, better="lower"))
    return rows
