# SPDX-License-Identifier: Apache-2.0
"""The node's counters in Prometheus' text format, read from switch and VNFs at each scrape.

What can't be read at the moment is left out: a switch that is down, a VNF that does not answer
within its time. Rules, VNFs and graphs are those that the user may read.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.engines.base import engine_of
from headrace.node.deployment.store import GraphRecord
from headrace.node.node import Node
from headrace.node.readings import read_vnfs
from headrace.node.statistics import Counted, rule_counters
from headrace.switches.base import SwitchError

_DIRECTIONS = ("rx", "tx")


class _Fixed:
    """A collector of values that have been read already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> list[Metric]:
        """The values."""
        return self._metrics


async def exposition(node: Node, may_read: Callable[[str], bool]) -> tuple[bytes, str]:
    """All metrics of a node and their content type; of the graphs, those that `may_read`."""
    records = [record for record in node.graphs.records() if may_read(record.id)]
    metrics = [*_of_node(node), *_of_graphs(node, records)]
    metrics += await _of_switch(node, records)
    metrics += await _of_vnfs(node, records)
    metrics += _of_scaling(node, may_read)
    registry = CollectorRegistry()
    registry.register(_Fixed(metrics))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _of_node(node: Node) -> list[Metric]:
    about = node.information()
    info = GaugeMetricFamily(
        "headrace_node_info", "What the node is; always 1", labels=["name", "version", "switch"]
    )
    info.add_metric([about["name"], about["version"], about["switch"]["name"]], 1)
    inventory = node.inventory().report()
    memory = GaugeMetricFamily(
        "headrace_node_memory_bytes", "Memory for switch and VNFs", labels=["state"]
    )
    for state in ("used", "free"):
        memory.add_metric([state], inventory["memory_mb"][state] << 20)
    pollers = GaugeMetricFamily(
        "headrace_core_pollers", "Pollers that a core is given to", labels=["core"]
    )
    for core in inventory["cores"]:
        pollers.add_metric([str(core["core"])], core["polling"])
    return [info, memory, pollers]


def _of_graphs(node: Node, records: list[GraphRecord]) -> list[Metric]:
    number = GaugeMetricFamily("headrace_graphs", "Graphs by status", labels=["status"])
    graph = GaugeMetricFamily(
        "headrace_graph_status", "1 for the status that a graph has", labels=["graph", "status"]
    )
    states = {record.id: node.state_of(record)[0] for record in records}
    for status in ("complete", "in_progress", "error"):
        number.add_metric([status], list(states.values()).count(status))
        for graph_id, found in states.items():
            graph.add_metric([graph_id, status], int(found == status))
    return [number, graph]


async def _of_switch(node: Node, records: list[GraphRecord]) -> list[Metric]:
    up = GaugeMetricFamily("headrace_switch_up", "Whether the switch answers")
    by_port = ["lsi", "port", "direction"]
    packets = CounterMetricFamily(
        "headrace_port_packets", "Packets of a switch port", None, by_port
    )
    octets = CounterMetricFamily("headrace_port_bytes", "Bytes of a switch port", None, by_port)
    dropped = CounterMetricFamily("headrace_port_dropped", "Dropped at a port", None, by_port)
    cycles = CounterMetricFamily(
        "headrace_switch_cycles", "TSC cycles of a switch worker", labels=["core", "kind"]
    )
    received = CounterMetricFamily(
        "headrace_switch_packets", "Packets that a switch worker has received", labels=["core"]
    )
    rules = CounterMetricFamily(
        "headrace_rule_packets", "Packets that a flow rule has matched", labels=["graph", "rule"]
    )
    rule_octets = CounterMetricFamily(
        "headrace_rule_bytes", "Bytes that a flow rule has matched", labels=["graph", "rule"]
    )
    try:
        for port in await node.driver.port_statistics():
            for direction in _DIRECTIONS:
                labels = [port.lsi, port.port, direction]
                packets.add_metric(labels, getattr(port, f"{direction}_packets"))
                octets.add_metric(labels, getattr(port, f"{direction}_bytes"))
                dropped.add_metric(labels, getattr(port, f"{direction}_dropped"))
        for worker in (await node.driver.cycles()).workers:
            core = str(worker.core)
            cycles.add_metric([core, "busy"], worker.busy_cycles)
            cycles.add_metric([core, "idle"], worker.idle_cycles)
            received.add_metric([core], worker.packets)
        for record, found in zip(records, await _rules(node, records), strict=True):
            for rule_id, counter in found.items():
                rules.add_metric([record.id, rule_id], counter["packets"])
                rule_octets.add_metric([record.id, rule_id], counter["bytes"])
        up.add_metric([], 1)
    except SwitchError:
        up.add_metric([], 0)
    return [up, packets, octets, dropped, cycles, received, rules, rule_octets]


async def _rules(node: Node, records: list[GraphRecord]) -> list[dict[str, Counter[str]]]:
    """The counters of each graph's rules; of those that have expired, the last that were seen."""
    counted = Counted(node.driver)

    async def of(record: GraphRecord) -> dict[str, Counter[str]]:
        found = await rule_counters(counted, record)
        for label, last in node.graphs.expired(record.id).items():
            if last is not None:
                rule_id = label.removeprefix(f"{record.id}/")
                found[rule_id] = Counter(packets=last.packets, bytes=last.bytes)
        return found

    return await asyncio.gather(*map(of, records))


async def _of_vnfs(node: Node, records: list[GraphRecord]) -> list[Metric]:
    labels = ["graph", "vnf"]
    up = GaugeMetricFamily(
        "headrace_vnf_up", "Whether a VNF runs as wanted", None, [*labels, "template", "engine"]
    )
    by_port = [*labels, "port", "direction"]
    packets = CounterMetricFamily("headrace_vnf_packets", "Packets of a VNF's port", None, by_port)
    cycles = CounterMetricFamily(
        "headrace_vnf_cycles", "TSC cycles of a VNF that polls", None, [*labels, "kind"]
    )
    vnfs = [vnf for record in records for vnf in record.plan.vnfs()]
    for vnf, reading in zip(vnfs, await read_vnfs(node.engines, vnfs), strict=True):
        names = [vnf.graph, vnf.vnf]
        running = engine_of(node.engines, vnf).running(vnf)
        up.add_metric([*names, vnf.template, vnf.engine], int(running))
        for port, values in reading.ports():
            for direction in _DIRECTIONS:
                if f"{direction}_packets" in values:
                    packets.add_metric([*names, port, direction], values[f"{direction}_packets"])
        for kind in ("busy", "idle"):
            if reading.cycles.get(f"{kind}_cycles") is not None:
                cycles.add_metric([*names, kind], reading.cycles[f"{kind}_cycles"])
    return [up, packets, cycles]


def _of_scaling(node: Node, may_read: Callable[[str], bool]) -> list[Metric]:
    labels = ["graph", "vnf"]
    replicas = GaugeMetricFamily(
        "headrace_vnf_replicas", "Replicas of a VNF that scales", None, [*labels, "state"]
    )
    load = GaugeMetricFamily(
        "headrace_vnf_load", "Mean busy share of the replicas that serve", None, labels
    )
    changes = CounterMetricFamily(
        "headrace_vnf_scalings", "Changes of the number of replicas", None, [*labels, "direction"]
    )
    for record, vnf, held, known in node.scaler.loads():
        if not may_read(record.id):
            continue
        names = [record.id, vnf]
        replicas.add_metric([*names, "serving"], held.serving)
        replicas.add_metric([*names, "draining"], held.draining)
        if known.load is not None:
            load.add_metric(names, known.load)
        changes.add_metric([*names, "up"], known.ups)
        changes.add_metric([*names, "down"], known.downs)
    return [replicas, load, changes]
