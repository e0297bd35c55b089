# SPDX-License-Identifier: Apache-2.0
"""`headrace bench soak` as the command runs it: periods of change, each with its accounts."""

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import CONTROL_CORE, place, switch_program
from headrace.bench.peers.switches import Headrace
from headrace.bench.rows import Row, row
from headrace.bench.soak.bed import BESIDE, STEADY, Bed, attach
from headrace.bench.soak.changes import DRAIN_S, Account, Changes, Log
from headrace.machine.patience import patient
from headrace.traffic.client import TrafficProcess

MEMORY_MB = 384
STEADY_PORTS = ("steadya", "steadyb")
STEADY_FLOWS = 1000

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How long, and how hard.

    Attributes:
        seconds: in all.
        period_s: of each account: traffic is stopped and drained at its end.
        pps: of the steady stream.
    """

    seconds: float = 300.0
    period_s: float = 20.0
    pps: float = 100_000.0
    seed: int = 1


@dataclass(frozen=True)
class Stalls:
    """What took longest.

    Attributes:
        command_s: ovs-vsctl, until the switch had done what it was told.
        grace_ms: a wait of a thread of the switch for workers to end their rounds.
    """

    command_s: float = 0.0
    grace_ms: float = 0.0


async def run(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Runs periods until the time is over.

    Raises:
        PeerError, TrafficError: something could not be started, or has ended.
    """
    log = Log()
    rss: list[int] = []
    stalls = Stalls()
    with place() as whole:
        where = dataclasses.replace(whole, memory_mb=MEMORY_MB)
        bed = Bed(Headrace(where, switch_program()))
        try:
            await bed.start()
            for number, name in enumerate(STEADY_PORTS, 1):
                await bed.add_vhost(STEADY, name, number)
            async with TrafficProcess(cpu=CONTROL_CORE, memory_mb=128) as traffic:
                await attach(traffic, bed, STEADY_PORTS, STEADY_FLOWS)
                changes = Changes(bed, log, plan.seed)
                end = time.monotonic() + plan.seconds
                while time.monotonic() < end:
                    seconds = min(plan.period_s, end - time.monotonic())
                    await _period(bed, traffic, changes, log, plan, max(seconds, 1.0))
                    rss.append(bed.rss_kb())
                    stalls = Stalls(bed.longest_command_s, await bed.longest_grace_wait_ms())
                    say(_told(log, rss[-1]))
        finally:
            bed.system.stop()
    return rows_of(log, rss, stalls), manifest(plan)


async def _period(
    bed: Bed, traffic: TrafficProcess, changes: Changes, log: Log, plan: Plan, seconds: float
) -> None:
    """The steady stream, and all changes beside it, for some time."""
    stop = asyncio.Event()
    before = await bed.drops(STEADY, BESIDE)
    await traffic.start(plan.pps, drain_s=patient(DRAIN_S), yield_core=True)
    async with asyncio.TaskGroup() as tasks:
        for task in (changes.bundles, changes.ports, changes.guests):
            tasks.create_task(task(stop))
        await asyncio.sleep(seconds)
        stop.set()
    result = await traffic.stop()
    dropped: Counter[str] = await bed.drops(STEADY, BESIDE) - before
    wrong = result.duplicated + result.misdelivered
    log.add("steady stream", result.sent, result.received, dropped, wrong)


def _told(log: Log, rss_kb: int) -> str:
    accounts = ", ".join(
        f"{kind}: {account.sent} sent, {account.unaccounted} unaccounted"
        for kind, account in log.accounts.items()
    )
    done = ", ".join(f"{count} {what}" for what, count in sorted(log.done.items()))
    return f"{accounts}; {done}; {rss_kb} kB"


def rows_of(log: Log, rss: list[int], stalls: Stalls) -> list[Row]:
    """Of each account what was sent and what is missing; what was done; memory; what waited."""
    rows = []
    for kind, account in log.accounts.items():
        rows.append(row(f"{kind}: sent", [account.sent], "packets", note=_drops(account)))
        for what, packets in (("unaccounted", account.unaccounted), ("wrong", account.wrong)):
            # Either sign is a fault.
            rows.append(row(f"{kind}: {what}", [abs(packets)], "packets", goal=0, better="lower"))
    rows += [row(what, [count], "times") for what, count in sorted(log.done.items())]
    rows.append(row("longest ovs-vsctl", [stalls.command_s], "s"))
    rows.append(row("longest wait for workers", [stalls.grace_ms], "ms"))
    rows.append(
        row(
            "resident memory at the end",
            [rss[-1] / 1024],
            "MiB",
            note=f"after the first period {rss[0] / 1024:.0f}",
        )
    )
    return rows


def _drops(account: Account) -> str:
    named = ", ".join(f"{count} {reason}" for reason, count in sorted(account.dropped.items()))
    return f"{account.received} received; dropped: {named or 'none'}"


def manifest(plan: Plan) -> dict[str, Any]:
    """What was done, and what the figures mean."""
    return {
        "machine": machine(),
        "versions": versions(),
        "plan": dataclasses.asdict(plan),
        "workers": "two, on CPUs 0 and 1; the generators, the switch's other threads and this "
        f"command share CPU {CONTROL_CORE}",
        "steady stream": "vhost-user to vhost-user; bundles turn it over two patches to another "
        "bridge and back",
        "guests": "vhost-user ports and the process behind them, made anew each time",
        "killed guests": "the same, killed while they send; sent and received are the switch's "
        "counts of the ports",
        "longest wait for workers": "for the end of every worker's round, by any thread of the "
        "switch; both share their cores with other programs",
        "unaccounted": "sent - received - what the bridges' drop counters grew by",
    }
