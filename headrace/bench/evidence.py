# SPDX-License-Identifier: Apache-2.0
"""What the elements of a path did during a trial, from readings before and after it.

The generator's counters come with its result, the others' from the node. A counter that an element
does not have stays None: the verdict (results/limiter.py) then does without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.bench.node_client import Cycles, PortCounters, VnfCycles, Worker
from headrace.results.limiter import Activity, Role
from headrace.traffic import TrialResult


@dataclass(frozen=True)
class Reading:
    """The node's counters at one time.

    Attributes:
        switch: the switch's workers.
        ports: all ports of the switch.
        vnfs: each VNF's; empty if they have no counters (native ones).
        at: when the ports were read, seconds of the monotonic clock.
    """

    switch: Cycles
    ports: tuple[PortCounters, ...] = ()
    vnfs: tuple[VnfCycles, ...] = field(default=())
    at: float = 0.0


def share(part: float | None, whole: float | None) -> float | None:
    """A share, or None if it is not counted or there is nothing to have a share of."""
    if part is None or not whole or whole <= 0:
        return None
    return min(1.0, max(0.0, part / whole))


def growth(before: int | None, after: int | None) -> int | None:
    """How much a counter has grown, or None if it is not counted."""
    return None if before is None or after is None else after - before


def generator_activity(
    result: TrialResult, core: int | None, ceiling_pps: float | None = None
) -> Activity:
    """The generator's side of a trial; its ceiling is that over such a port, if it is known."""
    health = result.generator
    io = health.io
    on_core = [w.on_core_share for w in health.workers if w.on_core_share is not None]
    offered = result.sent + (io.tx_refused if io else 0)
    return Activity(
        role="generator",
        name="generator",
        idle_share=1.0 - min(1.0, health.busy_share),
        empty_share=share(io.rx_empty_polls, io.rx_polls) if io else None,
        full_share=share(io.tx_full_bursts, io.tx_bursts) if io else None,
        refused_share=share(io.tx_refused, offered) if io else None,
        refused_by="switch",
        on_core=min(on_core) if on_core else None,
        core=core,
        of_ceiling=result.rx_pps / ceiling_pps if ceiling_pps else None,
    )


def _workers(before: Cycles, after: Cycles) -> list[tuple[Worker, Worker]]:
    """The same worker in both readings; workers that came or went are left out."""
    earlier = {worker.core: worker for worker in before.workers}
    return [(earlier[one.core], one) for one in after.workers if one.core in earlier]


def _total(pairs: Sequence[tuple[Worker, Worker]], name: str) -> int | None:
    grown = [growth(getattr(a, name), getattr(b, name)) for a, b in pairs]
    known = [value for value in grown if value is not None]
    return sum(known) if known and len(known) == len(grown) else None


def switch_activity(
    name: str,
    before: Reading,
    after: Reading,
    physical: Sequence[str],
    on_core: float | None,
    core: int | None,
    sent_for: float | None = None,
) -> Activity:
    """The switch's side of a trial; ports named in `physical` are the generator's, others VNFs'.

    `sent_for`: seconds for which packets came. The readings are farther apart then, and the idle
    rounds before and after are not what the trial is about; None if they came all the time.
    """
    if after.switch.approximate:
        return Activity(role="switch", name=name)
    pairs = _workers(before.switch, after.switch)
    busy, idle = _total(pairs, "busy_cycles") or 0, _total(pairs, "idle_cycles") or 0
    rounds, busy_rounds = _total(pairs, "rounds"), _total(pairs, "busy_rounds")
    empty = None if rounds is None or busy_rounds is None else rounds - busy_rounds
    earlier = {(port.lsi, port.port): port for port in before.ports}
    refused: dict[Role, int] = {"generator": 0, "VNF": 0}
    sent = 0
    for port in after.ports:
        first = earlier.get((port.lsi, port.port))
        if first is None:
            continue
        sent += port.tx_packets - first.tx_packets
        to: Role = "generator" if port.port in physical else "VNF"
        refused[to] += port.tx_dropped - first.tx_dropped
    most: Role = "VNF" if refused["VNF"] > refused["generator"] else "generator"
    dropped = sum(refused.values())
    return Activity(
        role="switch",
        name=name,
        idle_share=_idle_share(busy, idle, sent_for, after.switch.tsc_hz * len(pairs)),
        empty_share=share(empty, rounds) if sent_for is None else None,
        full_share=share(_total(pairs, "full_bursts"), _total(pairs, "bursts")),
        refused_share=share(dropped, sent + dropped) if after.ports else None,
        refused_by=most if dropped else "",
        on_core=on_core,
        core=core,
    )


def _idle_share(busy: int, idle: int | None, sent_for: float | None, hz: float) -> float | None:
    """Share of the time in which packets came that was not spent on them."""
    if idle is None:
        return None
    if sent_for is None:
        return share(idle, busy + idle)
    return share(hz * sent_for - busy, hz * sent_for)


def vnf_activity(
    name: str,
    before: VnfCycles,
    after: VnfCycles,
    seconds: float,
    core: int | None,
    sent_for: float | None = None,
    tsc_hz: float = 0.0,
) -> Activity:
    """A VNF's side of a trial of that many seconds; `sent_for` as for `switch_activity`."""
    busy = after.busy_cycles - before.busy_cycles
    idle = growth(before.idle_cycles, after.idle_cycles)
    yielded = after.yielded_cycles - before.yielded_cycles
    polls = growth(before.polls, after.polls)
    busy_polls = growth(before.busy_polls, after.busy_polls)
    empty = None if polls is None or busy_polls is None else polls - busy_polls
    packets, refused = growth(before.packets, after.packets), growth(before.refused, after.refused)
    ran = after.cpu_ns - before.cpu_ns
    return Activity(
        role="VNF",
        name=name,
        idle_share=_idle_share(busy, idle, sent_for, tsc_hz),
        empty_share=share(empty, polls) if sent_for is None else None,
        full_share=share(
            growth(before.full_bursts, after.full_bursts), growth(before.bursts, after.bursts)
        ),
        refused_share=share(refused, packets),
        refused_by="switch",
        # A VNF that yields when idle is off its core by its own will.
        on_core=share(ran / 1e9, seconds) if ran > 0 and yielded == 0 else None,
        core=core,
    )


def generator_counters(result: TrialResult) -> dict[str, int | None]:
    """What the generator's workers counted while they sent; bursts are of both directions."""
    workers, io = result.generator.workers, result.generator.io
    if io is None or not workers:
        return {}
    busy = sum(worker.busy_cycles for worker in workers)
    return {
        "busy_cycles": busy,
        "idle_cycles": sum(worker.cycles for worker in workers) - busy,
        "rounds": sum(worker.rounds for worker in workers),
        "busy_rounds": sum(worker.busy_rounds for worker in workers),
        "bursts": io.tx_bursts + io.rx_polls - io.rx_empty_polls,
        "packets": result.sent + result.received,
    }


_COUNTED = ("busy_cycles", "idle_cycles", "rounds", "busy_rounds", "bursts", "packets")


def counters_of(before: Reading, after: Reading) -> dict[str, dict[str, int | None]]:
    """What the switch's workers counted between two readings, and each VNF, by role.

    Names are those of `WorkerCycles`; a VNF's polls are its rounds.
    """
    switch: dict[str, int | None] = {}
    for name in _COUNTED:
        values = [
            growth(getattr(first, name), getattr(last, name))
            for first, last in zip(before.switch.workers, after.switch.workers, strict=False)
        ]
        known = [value for value in values if value is not None]
        switch[name] = sum(known) if len(known) == len(values) else None
    found = {"switch": switch}
    renamed = {"rounds": "polls", "busy_rounds": "busy_polls"}
    for number, (first, last) in enumerate(zip(before.vnfs, after.vnfs, strict=True)):
        found[f"vnf{number}"] = {
            name: growth(
                getattr(first, renamed.get(name, name)), getattr(last, renamed.get(name, name))
            )
            for name in _COUNTED
        }
    return found
