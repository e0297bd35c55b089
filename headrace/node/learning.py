# SPDX-License-Identifier: Apache-2.0
"""What lies between two readings of the node, as windows that its model learns from.

Of the switch's workers, which do not count by graph, amounts are those of all graphs by what their
end-points received. Each VNF counts its own packets; bytes of a packet are those of its graph. A
window is disturbed if the workers, or the VNF, were kept from their cores; VNFs that share a core
are not learned from at all, since a time slice that ends within a round counts as busy.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engines.base import VnfSpec
from headrace.model.mechanistic import nffg
from headrace.model.mechanistic.predict import NoGrounds
from headrace.model.mechanistic.windows import Key, Window, by_queues
from headrace.node.planning.resources import Plan
from headrace.node.prediction import NodeModel, as_read

log = logging.getLogger("headrace.node.learning")

EVERY_S = 30.0
DISTURBED = 0.10
"""Share of the time that the workers waited for their cores, above which nothing is learned."""
LEAST_PACKETS = 10_000
"""Packets of a window that is learned from."""
GROUP = "node"

Graphs = Mapping[str, tuple[Mapping[str, Any], Plan]]
"""By id, document and plan of the graphs."""


@dataclass(frozen=True)
class VnfCounted:
    """A VNF's poller: counters that only grow, and how long it waited for its core."""

    busy_cycles: float
    idle_cycles: float
    rounds: float
    busy_rounds: float
    bursts: float
    packets: float
    waited_ns: float | None


@dataclass(frozen=True)
class Counted:
    """One reading: the switch's workers, what each graph received, the workers' waiting, VNFs.

    Attributes:
        workers: sums of busy_cycles, idle_cycles, rounds, busy_rounds and bursts; None: no counts.
        received: by graph, packets and octets from its end-points.
        vnfs: by graph and VNF.
    """

    at: float
    hz: float
    workers: Mapping[str, float] | None
    received: Mapping[str, tuple[float, float]]
    waited_ns: float | None
    vnfs: Mapping[tuple[str, str], VnfCounted] = field(default_factory=dict)


def learn(model: NodeModel, before: Counted, after: Counted, graphs: Graphs) -> dict[str, str]:
    """Learns from what lies between two readings; returns what became of it, by role.

    Args:
        model: the node's.
        before: a reading.
        after: a later one.
        graphs: those that were there all the time.
    """
    if model.fitted is None:
        return {"switch": model.reason}
    switch = switch_window(model, before, after, graphs)
    told = {"switch": switch if isinstance(switch, str) else model.learn(switch)}
    for name, window in vnf_windows(model, before, after, graphs):
        told[name] = window if isinstance(window, str) else model.learn(window)
    return told


def switch_window(
    model: NodeModel, before: Counted, after: Counted, graphs: Graphs
) -> Window | str:
    """What the workers did for all graphs, or why it can't be learned from."""
    if before.workers is None or after.workers is None:
        return "the switch does not count rounds and bursts"
    grown = {name: after.workers[name] - before.workers[name] for name in before.workers}
    if min(grown.values()) < 0:
        return "the switch has started anew"
    amounts = dict.fromkeys(("packets", "octets", "visits", "visit_octets"), 0.0)
    subjects = set()
    for graph_id, (packets, octets) in after.received.items():
        first = before.received.get(graph_id)
        if first is None or graph_id not in graphs:
            return "a graph is new"
        through, size = packets - first[0], octets - first[1]
        if through <= 0:
            continue
        document, plan = graphs[graph_id]
        try:
            graph, _ = model.graph_of(as_read(document), plan)
        except (NoGrounds, nffg.NotAGraph) as error:
            return str(error)
        subjects.add(graph.subject)
        each = sum(path.share * len(path.functions) for path in graph.paths)
        amounts["packets"] += through
        amounts["octets"] += size
        amounts["visits"] += each * through
        amounts["visit_octets"] += each * size
    if amounts["packets"] < LEAST_PACKETS or len(subjects) != 1:
        return "too few packets" if len(subjects) < 2 else "several kinds of ports"
    seconds = after.at - before.at
    rounds, busy = grown["rounds"], grown["busy_rounds"]
    queues = model.ports + sum(len(vnf.ports) for _, plan in graphs.values() for vnf in plan.vnfs())
    packets = amounts["packets"]
    polled, visits = _polled(rounds, busy, grown["bursts"]), amounts["visits"] / packets
    return Window(
        key=Key(subjects.pop(), "switch"),
        group=GROUP,
        vnfs=round(amounts["visits"] / packets),
        size=amounts["octets"] / packets,
        load=packets / seconds,
        offered=packets / seconds,
        through=packets / seconds,
        seconds=seconds,
        hz=after.hz,
        busy=grown["busy_cycles"],
        idle=grown["idle_cycles"],
        idle_rounds=rounds - busy,
        limiter="unknown",
        disturbed=_disturbed(before.waited_ns, after.waited_ns, seconds),
        terms={**amounts, **polled, **by_queues(polled, visits, queues)},
    )


def vnf_windows(
    model: NodeModel, before: Counted, after: Counted, graphs: Graphs
) -> Iterator[tuple[str, Window | str]]:
    """What each VNF did, by its name, or why it can't be learned from."""
    pollers = Counter(model.switch_cores)
    for _, plan in graphs.values():
        pollers.update(core for vnf in plan.vnfs() for core in vnf.cores)
    for graph_id, (_, plan) in graphs.items():
        for spec in plan.vnfs():
            first, last = (one.vnfs.get((graph_id, spec.vnf)) for one in (before, after))
            if first is None or last is None:
                continue
            name = f"{graph_id}/{spec.vnf}"
            if any(pollers[core] > 1 for core in spec.cores):
                yield name, "it shares a core"
                continue
            received = [one.received.get(graph_id) for one in (before, after)]
            size = _mean_size(received[0], received[1])
            if size is None:
                yield name, "too few packets"
                continue
            yield name, _vnf_window(model, spec, (first, last), (before, after), size)


def _vnf_window(
    model: NodeModel,
    spec: VnfSpec,
    counted: tuple[VnfCounted, VnfCounted],
    readings: tuple[Counted, Counted],
    size: float,
) -> Window | str:
    first, last = counted
    packets = last.packets - first.packets
    rounds, busy = last.rounds - first.rounds, last.busy_rounds - first.busy_rounds
    cycles, idle = last.busy_cycles - first.busy_cycles, last.idle_cycles - first.idle_cycles
    if min(packets, rounds, busy, cycles, idle) < 0:
        return "it has started anew"
    if packets < LEAST_PACKETS:
        return "too few packets"
    try:
        subject, _ = model.subject(spec.ports[0].switch_port.kind.value)
    except NoGrounds as error:
        return str(error)
    seconds = readings[1].at - readings[0].at
    return Window(
        key=Key(subject, "VNF", spec.template),
        group=GROUP,
        vnfs=1,
        size=size,
        load=packets / seconds,
        offered=packets / seconds,
        through=packets / seconds,
        seconds=seconds,
        hz=readings[1].hz,
        busy=cycles,
        idle=idle,
        idle_rounds=rounds - busy,
        limiter="unknown",
        disturbed=_disturbed(first.waited_ns, last.waited_ns, seconds),
        terms={
            "packets": packets,
            "octets": packets * size,
            **_polled(rounds, busy, last.bursts - first.bursts),
        },
    )


def _mean_size(first: tuple[float, float] | None, last: tuple[float, float] | None) -> float | None:
    if first is None or last is None or last[0] - first[0] < LEAST_PACKETS:
        return None
    return (last[1] - first[1]) / (last[0] - first[0])


def _polled(rounds: float, busy: float, bursts: float) -> dict[str, float]:
    wakes = busy * (1 - busy / rounds) if rounds > 0 else 0.0
    return {"busy_rounds": busy, "wakes": wakes, "bursts": bursts}


def _disturbed(before_ns: float | None, after_ns: float | None, seconds: float) -> bool:
    """Whether a poller was kept from its core; where the kernel does not tell, it may have been."""
    if before_ns is None or after_ns is None:
        return True
    return (after_ns - before_ns) / 1e9 / seconds > DISTURBED


async def follow(
    model: NodeModel,
    read: Callable[[], Awaitable[Counted]],
    graphs: Callable[[], Graphs],
    save: Callable[[str], None],
    every_s: float = EVERY_S,
) -> None:
    """Learns until cancelled, if there is a model; logs demands that can't be met any more."""
    if model.fitted is None:
        return
    before: Counted | None = None
    there: Graphs = {}
    told: dict[str, list[str]] = {}
    while True:
        try:
            now, known = await read(), graphs()
            if before is not None and known.keys() == there.keys():
                outcomes = learn(model, before, now, known)
                log.debug("learning: %s", outcomes)
                if "learned" in outcomes.values():
                    save(model.remember())
                    told = _warned(model, known, told)
            before, there = now, known
        except Exception:  # a fault here must not end the learning of all others
            log.exception("learning")
            before = None
        await asyncio.sleep(every_s)


def _warned(model: NodeModel, graphs: Graphs, told: dict[str, list[str]]) -> dict[str, list[str]]:
    """Logs what is new to say of the graphs' demands; returns all there is to say."""
    found = {name: model.warnings(document, plan) for name, (document, plan) in graphs.items()}
    for name, texts in found.items():
        # The figures in a warning change with every window: that there is one is what is new.
        if texts and not told.get(name):
            log.warning("graph %s: %s", name, "; ".join(texts))
    return found
