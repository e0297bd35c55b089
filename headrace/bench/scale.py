# SPDX-License-Identifier: Apache-2.0
"""`headrace bench scale`: what idle vhost-user ports and bridges cost a switch that has many.

One switch gets ports without a guest, then bridges, in steps. After each: how long a poll round
takes without traffic, what a source sends to a sink meanwhile, and what memory was added.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.bench.manifest import machine, versions
from headrace.bench.peers import frames
from headrace.bench.peers.bed import place, switch_program
from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import PeerError, Place
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row, row
from headrace.protocols.control import call

DEVICE = "net_null_scale"
SOURCE, SINK = 1, 2
FLOWS = 100
AT_ONCE = 128
"""Ports or bridges of one transaction."""


@dataclass(frozen=True)
class Plan:
    """How many to have at once, and how long to look.

    Attributes:
        ports, bridges: numbers of each, ascending.
        repeats: windows of each figure.
    """

    ports: Sequence[int] = (64, 256, 1024)
    bridges: Sequence[int] = (64, 256)
    repeats: int = 5
    window_s: float = 0.2


@dataclass(frozen=True)
class Cost:
    """What a switch costs at one moment of its growth.

    Attributes:
        round_cycles: TSC cycles of a poll round without traffic, by window.
        mpps: rate from source to sink, by window.
        memory_kib: resident memory, huge pages included.
    """

    round_cycles: list[float]
    mpps: list[float]
    memory_kib: int


@dataclass(frozen=True)
class Step:
    """`count` of `what` there are now, of which `added` are new and took `seconds`."""

    what: str
    count: int
    added: int
    seconds: float
    cost: Cost


async def run(plan: Plan, say: Callable[[str], None]) -> tuple[list[Row], dict[str, Any]]:
    """Measures one switch as it grows.

    Raises:
        PeerError, ControlError: it could not be started or asked, or sent nothing.
    """
    priority = raise_priority()
    with place() as where:
        switch = Headrace(where, switch_program())
        source = where.flow_dir / f"{DEVICE}.frames"
        frames.close(source)
        try:
            _start(switch)
            before = await _cost(switch, source, plan)
            steps = []
            for what, counts, add in (
                ("ports", plan.ports, _add_ports),
                ("bridges", plan.bridges, _add_bridges),
            ):
                present = 0
                for count in counts:
                    begin = time.monotonic()
                    for first in range(present, count, AT_ONCE):
                        add(switch, range(first, min(first + AT_ONCE, count)))
                    seconds = time.monotonic() - begin
                    cost = await _cost(switch, source, plan)
                    steps.append(Step(what, count, count - present, seconds, cost))
                    present = count
                    say(f"{count} {what}: {seconds:.2f} s for {steps[-1].added}")
        finally:
            switch.stop()
    return list(rows_of(before, steps)), _manifest(plan, where, priority)


def rows_of(before: Cost, steps: Sequence[Step]) -> Iterator[Row]:
    """Every row; memory is what each new one added."""
    yield row("empty switch round", before.round_cycles, "cycles/round")
    yield row("empty switch rate", before.mpps, "Mpps")
    memory = before.memory_kib
    for step in steps:
        name = f"{step.count} {step.what}"
        yield row(f"{name} round", step.cost.round_cycles, "cycles/round")
        yield row(f"{name} rate", step.cost.mpps, "Mpps")
        yield row(f"{name} time to add", [1e3 * step.seconds / step.added], "ms each")
        added = step.cost.memory_kib - memory
        yield row(f"{name} memory", [added / step.added], "KiB each")
        memory = step.cost.memory_kib


def _start(switch: Headrace) -> None:
    switch.start()
    switch.vsctl("add-br", "br0", *switch.bridge_options("br0"))
    for name, number, devargs in (
        ("source", SOURCE, f"{DEVICE},size=60"),
        ("sink", SINK, "net_null_sink,no-rx=1"),
    ):
        switch.vsctl(
            *("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk"),
            *(f"ofport_request={number}", f"options:dpdk-devargs={devargs}"),
        )
    switch.ofctl("del-flows")
    switch.ofctl("add-flow", f"in_port={SOURCE},actions=output:{SINK}")


def _add_ports(switch: Headrace, numbers: range) -> None:
    words: list[str] = []
    for number in numbers:
        path = f"options:vhost-server-path={switch.rundir}/nobody{number}"
        words += ["--", "add-port", "br0", f"v{number}"]
        words += ["--", "set", "Interface", f"v{number}", "type=dpdkvhostuserclient", path]
    switch.vsctl(*words[1:])


def _add_bridges(switch: Headrace, numbers: range) -> None:
    words: list[str] = []
    for number in numbers:
        words += ["--", "add-br", f"scale{number}", *switch.bridge_options(f"scale{number}")]
    switch.vsctl(*words[1:])


async def _cost(switch: Headrace, source: Path, plan: Plan) -> Cost:
    rounds, rates = [], []
    flows = np.arange(FLOWS, dtype=np.uint32)
    made = frames.udp_frames(
        eth_dst=frames.mac("02:00:00:00:00:02"),
        eth_src=frames.mac("02:00:00:00:00:01"),
        ipv4_src=0x0A000001 + flows,
        ipv4_dst=0x14000001 + flows,
        length=60,
    )
    for _ in range(plan.repeats):
        first = await _rounds(switch)
        await asyncio.sleep(plan.window_s)
        last = await _rounds(switch)
        rounds.append((last[0] - first[0]) / (last[1] - first[1]))
        frames.write(source, made)
        await asyncio.sleep(plan.window_s / 2)
        sent, at = switch.sent(), time.monotonic()
        await asyncio.sleep(plan.window_s)
        rates.append((switch.sent() - sent) / (time.monotonic() - at) / 1e6)
        frames.close(source)
        await asyncio.sleep(plan.window_s / 2)
    if min(rates) <= 0:
        raise PeerError(f"nothing was sent; {switch.last_words()}")
    return Cost(rounds, rates, _memory_of(switch.polling().pid))


def _memory_of(process: int) -> int:
    return memory_kib(Path(f"/proc/{process}/status").read_text())


async def _rounds(switch: Headrace) -> tuple[int, int]:
    """Cycles of all rounds so far, and their number."""
    worker = (await call(switch.rundir / "headrace-switch.ctl", "cycles"))["workers"][0]
    return int(worker["busy_cycles"]) + int(worker["idle_cycles"]), int(worker["polls"])


def memory_kib(status: str) -> int:
    """Resident memory, huge pages included, of a process's /proc/PID/status."""
    found = dict(re.findall(r"^(VmRSS|HugetlbPages):\s+(\d+) kB$", status, re.MULTILINE))
    return sum(int(kib) for kib in found.values())


def _manifest(plan: Plan, where: Place, priority: str) -> dict[str, Any]:
    return {
        "machine": machine(),
        "versions": versions(),
        "ports": "dpdkvhostuserclient without a guest, all of one bridge",
        "bridges": "without ports but LOCAL, beside the ports",
        "round": "TSC cycles of one round of the worker over what it polls then, without traffic",
        "rate": "64 bytes with FCS, in-process source to in-process sink, unpaced",
        "time": f"by ovs-vsctl, {AT_ONCE} in a transaction, until the switch has made them",
        "memory": "resident, huge pages included",
        "worker_core": where.worker_core,
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s},
        "priority": priority,
    }
