# SPDX-License-Identifier: Apache-2.0
"""The node's counters in Prometheus' text format, read from the switch at each scrape."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.node.node import Node
from headrace.switches.base import PortStatistics, SwitchError, WorkerCycles


class _Fixed:
    """A collector of values that have been read already."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        """The values."""
        return self._metrics


async def exposition(node: Node) -> tuple[bytes, str]:
    """All metrics of a node and their content type; those of a switch that is down are left out."""
    up = GaugeMetricFamily("headrace_switch_up", "Whether the switch answers")
    ports: list[PortStatistics] = []
    workers: list[WorkerCycles] = []
    try:
        ports = await node.driver.port_statistics()
        workers = list((await node.driver.cycles()).workers)
        up.add_metric([], 1)
    except SwitchError:
        up.add_metric([], 0)
    packets = CounterMetricFamily(
        "headrace_port_packets", "Packets of a switch port", labels=["lsi", "port", "direction"]
    )
    octets = CounterMetricFamily(
        "headrace_port_bytes", "Bytes of a switch port", labels=["lsi", "port", "direction"]
    )
    dropped = CounterMetricFamily(
        "headrace_port_dropped", "Packets dropped at a port", labels=["lsi", "port", "direction"]
    )
    for port in ports:
        for direction in ("rx", "tx"):
            labels = [port.lsi, port.port, direction]
            packets.add_metric(labels, getattr(port, f"{direction}_packets"))
            octets.add_metric(labels, getattr(port, f"{direction}_bytes"))
            dropped.add_metric(labels, getattr(port, f"{direction}_dropped"))
    cycles = CounterMetricFamily(
        "headrace_switch_cycles", "TSC cycles of a switch worker", labels=["core", "kind"]
    )
    for worker in workers:
        cycles.add_metric([str(worker.core), "busy"], worker.busy_cycles)
        cycles.add_metric([str(worker.core), "idle"], worker.idle_cycles)
    graphs = GaugeMetricFamily("headrace_graphs", "Graphs by status", labels=["status"])
    states = [node.status(record)["status"] for record in node.graphs.records()]
    for state in ("complete", "in_progress", "error"):
        graphs.add_metric([state], states.count(state))
    registry = CollectorRegistry()
    registry.register(_Fixed([up, packets, octets, dropped, cycles, graphs]))
    return generate_latest(registry), CONTENT_TYPE_LATEST
