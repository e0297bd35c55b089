# SPDX-License-Identifier: Apache-2.0
"""Readings of a node's counters for its model: what is measured of a graph, and what is learned."""

import asyncio
import time
from typing import Any

from headrace.engines.base import EngineError, VnfSpec, engine_of
from headrace.machine.waiting import waited_ns
from headrace.node.deployment.store import GraphRecord, GraphState
from headrace.node.learning import Counted, Graphs, VnfCounted, follow
from headrace.node.node import Node
from headrace.node.prediction import LEARNED
from headrace.node.readings import read_vnfs
from headrace.node.statistics import Counted as RuleCounts
from headrace.node.statistics import graph_statistics
from headrace.switches.base import SwitchCycles

SUMMED = ("busy_cycles", "idle_cycles", "rounds", "busy_rounds", "bursts")
VNF_COUNTERS = {
    "busy_cycles": "busy_cycles",
    "idle_cycles": "idle_cycles",
    "rounds": "polls",
    "busy_rounds": "busy_polls",
    "bursts": "bursts",
    "packets": "packets",
}
"""What the model calls the counters of headrace-vnf."""
FRAME_CHECK = 4
"""Bytes that rules don't count."""
VNF_PATIENCE_S = 1.0


async def received(node: Node, records: list[GraphRecord]) -> dict[str, tuple[float, float]]:
    """By graph, packets and octets (with FCS) that its rules took from its end-points."""
    counts = RuleCounts(node.driver)
    found = {}
    for record in records:
        told = await graph_statistics(counts, record, node.graphs.expired(record.id))
        points = [point["received"] for point in told["end-points"]]
        if any(point["packets"] is None for point in points):
            continue
        packets = float(sum(point["packets"] for point in points))
        octets = float(sum(point["bytes"] for point in points))
        found[record.id] = (packets, octets + FRAME_CHECK * packets)
    return found


def _workers(cycles: SwitchCycles) -> dict[str, float] | None:
    """The workers' counters added up; None where the switch does not count rounds."""
    if cycles.approximate or not cycles.workers:
        return None
    total = dict.fromkeys(SUMMED, 0.0)
    for worker in cycles.workers:
        for name in SUMMED:
            value = getattr(worker, name)
            if value is None:
                return None
            total[name] += value
    return total


async def read(node: Node) -> Counted:
    """One reading of all running graphs."""
    records = [one for one in node.graphs.records() if one.state is GraphState.RUNNING]
    found = await received(node, records)
    cycles = await node.driver.cycles()
    switch = node.supervisor.find("switch")
    waited = None if switch is None else waited_ns(switch.pid, node.config.cores.switch)
    vnfs = await _vnfs(node, records)
    return Counted(time.monotonic(), cycles.tsc_hz, _workers(cycles), found, waited, vnfs)


async def _vnfs(node: Node, records: list[GraphRecord]) -> dict[tuple[str, str], VnfCounted]:
    """The pollers of all VNFs that count their rounds and packets."""
    pairs = [(record.id, vnf) for record in records for vnf in record.plan.vnfs()]
    told = await read_vnfs(node.engines, [vnf for _, vnf in pairs])
    found = {}
    for (graph_id, vnf), reading in zip(pairs, told, strict=True):
        counts = {name: reading.cycles.get(of) for name, of in VNF_COUNTERS.items()}
        numbers = {name: float(value) for name, value in counts.items() if value is not None}
        if len(numbers) == len(counts):
            found[graph_id, vnf.vnf] = VnfCounted(**numbers, waited_ns=_waited(node, vnf))
    return found


def _waited(node: Node, vnf: VnfSpec) -> int | None:
    processes = (node.supervisor.find(name) for name in engine_of(node.engines, vnf).processes(vnf))
    waits = [waited_ns(one.pid, vnf.cores) for one in processes if one is not None]
    known = [one for one in waits if one is not None]
    return sum(known) if known else None


def plans(node: Node) -> Graphs:
    """Document and plan of each running graph."""
    return {
        record.id: (record.document, record.plan)
        for record in node.graphs.records()
        if record.state is GraphState.RUNNING
    }


async def learning(node: Node) -> None:
    """Learns for as long as the node serves."""
    await follow(
        node.model,
        lambda: read(node),
        lambda: plans(node),
        lambda text: node.store.set_meta(LEARNED, text),
    )


async def _vnf_cycles(node: Node, record: GraphRecord) -> dict[str, tuple[float, float]]:
    """By VNF, busy and all cycles; those that don't tell are left out."""
    found = {}
    for vnf in record.plan.vnfs():
        try:
            async with asyncio.timeout(VNF_PATIENCE_S):
                told = await engine_of(node.engines, vnf).cycles(vnf)
        except (EngineError, TimeoutError, OSError):
            continue
        busy, idle = told.get("busy_cycles"), told.get("idle_cycles")
        if busy is not None and idle is not None:
            found[vnf.vnf] = (float(busy), float(busy) + float(idle))
    return found


async def measured(node: Node, record: GraphRecord, seconds: float) -> dict[str, Any]:
    """What a graph does now: packets per second, bytes of a frame, busy shares.

    The switch's share is of all graphs: its workers don't count by graph.
    """
    first, vnfs = await read(node), await _vnf_cycles(node, record)
    await asyncio.sleep(seconds)
    last, then = await read(node), await _vnf_cycles(node, record)
    span = last.at - first.at
    told: dict[str, Any] = {"seconds": span, "pps": None, "bytes": None, "busy": {}}
    if record.id in first.received and record.id in last.received:
        packets = last.received[record.id][0] - first.received[record.id][0]
        octets = last.received[record.id][1] - first.received[record.id][1]
        told["pps"] = max(0.0, packets / span)
        told["bytes"] = octets / packets if packets > 0 else None
    if first.workers is not None and last.workers is not None:
        busy = last.workers["busy_cycles"] - first.workers["busy_cycles"]
        spent = busy + last.workers["idle_cycles"] - first.workers["idle_cycles"]
        told["busy"]["switch"] = busy / spent if spent > 0 else None
    for name in vnfs.keys() & then.keys():
        spent = then[name][1] - vnfs[name][1]
        told["busy"][name] = (then[name][0] - vnfs[name][0]) / spent if spent > 0 else None
    return told
