# SPDX-License-Identifier: Apache-2.0
"""The counters of a switch's worker, its source and sink, and a VNF; and how they have grown."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from headrace.bench.peers.openflow import Session
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import PeerError, run
from headrace.protocols.control import call
from headrace.protocols.pmd import PERF, STATS, parse_pmd


@dataclass(frozen=True)
class WorkerCounters:
    """A poller's: cycles are TSC cycles, `bursts` those taken from queues, `ran_ns` on its core.

    `full_bursts` is None where it is not counted (OVS, whose `bursts` are transmitted batches).
    """

    busy_cycles: int
    idle_cycles: int
    rounds: int
    busy_rounds: int
    bursts: int
    full_bursts: int | None
    packets: int
    ran_ns: int

    def since(self, before: "WorkerCounters") -> "WorkerCounters":
        """How much each has grown."""
        grown: dict[str, Any] = {}
        for field in fields(self):
            now, then = getattr(self, field.name), getattr(before, field.name)
            grown[field.name] = None if now is None or then is None else now - then
        return WorkerCounters(**grown)

    def within(self, cycles: float) -> "WorkerCounters":
        """The same without the idle rounds that go beyond so many cycles."""
        idle_rounds = self.rounds - self.busy_rounds
        over = self.cycles - cycles
        if over <= 0 or idle_rounds <= 0 or self.idle_cycles <= 0:
            return self
        idle = max(0.0, self.idle_cycles - over)
        kept = round(idle_rounds * idle / self.idle_cycles)
        return replace(self, idle_cycles=round(idle), rounds=self.busy_rounds + kept)

    @property
    def cycles(self) -> int:
        """All cycles of the worker."""
        return self.busy_cycles + self.idle_cycles


def ran_ns(pid: int, core: int) -> int:
    """Nanoseconds for which the threads of a process that are pinned to `core` alone have run."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            if os.sched_getaffinity(int(task.name)) == {core}:
                total += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError):
            continue  # it has ended
    return total


async def switch_counters(switch: Headrace | OvsDpdk) -> WorkerCounters:
    """The worker's; PeerError if the switch does not count rounds."""
    ran = ran_ns(switch.polling().pid, switch.place.worker_core)
    if isinstance(switch, Headrace):
        (worker,) = (await call(switch.rundir / "headrace-switch.ctl", "cycles"))["workers"]
        return WorkerCounters(
            worker["busy_cycles"],
            worker["idle_cycles"],
            worker["polls"],
            worker["busy_polls"],
            sum(queue["bursts"] for queue in worker["queues"]),
            sum(queue["full_bursts"] for queue in worker["queues"]),
            worker["packets"],
            ran,
        )
    control = str(switch.rundir / "ovs.ctl")
    perf = run("ovs-appctl", "-t", control, PERF)
    (thread,) = parse_pmd(run("ovs-appctl", "-t", control, STATS), perf)
    # Batches are not told as long as there are none.
    batches = 0 if thread.tx_packets == 0 else thread.tx_batches
    if thread.iterations is None or thread.busy_iterations is None or batches is None:
        raise PeerError(f"{switch.name}: {PERF} does not tell its iterations")
    return WorkerCounters(
        thread.busy_cycles,
        thread.idle_cycles,
        thread.iterations,
        thread.busy_iterations,
        batches,
        None,
        thread.packets,
        ran,
    )


async def vnf_counters(control: Path) -> tuple[WorkerCounters, int]:
    """A headrace-vnf's worker, and the packets that its ports did not take."""
    told = await call(control, "cycles")
    worker = WorkerCounters(
        told["busy_cycles"],
        told["idle_cycles"],
        told["polls"],
        told["busy_polls"],
        told["bursts"],
        told["full_bursts"],
        told["packets"],
        told["cpu_ns"],
    )
    return worker, int(told["refused"])


def dropped(switch: Headrace | OvsDpdk, port: int) -> int:
    """Packets that a port did not take from the switch so far."""
    with Session(switch.rundir / "br0.mgmt") as session:
        return session.dropped(port)
