# SPDX-License-Identifier: Apache-2.0
"""The papers' numbers and ours: what was measured in each, and what differs.

No ratio is printed: the machines are ten years apart and ours has no wire. The tables are there so
that orders of magnitude and *shapes* (which system slows down, where) can be compared.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.report.view import View
from headrace.results import published
from headrace.results.summary import Row
from headrace.results.units import digits, rate


@dataclass(frozen=True)
class Beside:
    """One row: a paper's figure and our closest one ("" if there is none)."""

    paper: str
    what: str
    theirs: str
    ours: str


@dataclass(frozen=True)
class Comparison:
    """A table of a paper's figures and ours."""

    title: str
    source: str
    differs: str
    rows: list[Beside]


def _median(rows: list[Row], accept: Callable[[Row], bool]) -> str:
    texts = [f"{row.case.subject} {rate(row.summary.median)}" for row in rows if accept(row)]
    return ", ".join(dict.fromkeys(texts))


def _flow_tables(view: View) -> Comparison | None:
    ours = view.by_flows("mrr")
    if not ours:
        return None
    rows = []
    for value in published.throughput():
        if value.where != "Table 5" or value.flows is None:
            continue
        wanted = min(value.flows, max(row.case.flows for row in ours))
        same = wanted == value.flows

        def accept(row: Row, wanted: int = wanted) -> bool:
            return row.case.flows == wanted

        found = _median(ours, accept)
        note = "" if same or not found else f" (with {wanted:,} flows)"
        rows.append(
            Beside(
                f"{value.paper}, {value.where}",
                f"{value.system}, {value.flows:,} flow{'' if value.flows == 1 else 's'}",
                f"{digits(value.value / 1e3)} Mpps a core",
                found + note,
            )
        )
    return Comparison(
        "Number of flows through a router pipeline",
        published.SOURCES["unify-d5.6"],
        "Theirs: two tables, exact L2 then longest prefix, MAC rewrite and TTL, Xeon, 10 GbE. "
        "Ours: one table of /24 prefixes, no rewrite, ports in shared memory, a virtual machine, "
        "the generator on the other core. Rates under overload.",
        rows,
    )


def _interfaces(view: View) -> Comparison | None:
    ours = [row for row in view.by_vnfs("mrr", "pdr") if row.case.vnfs == 1]
    ours += [
        row for row in view.select("mrr", "pdr") if row.case.engine == "native" and row.case.vnfs
    ]
    if not ours:
        return None
    kinds = {"ivshmem": "memif", "vhost-user": "vhost-user", "veth": "veth"}
    rows = []
    for value in published.throughput():
        if value.where != "Table 8" or value.packet_bytes not in {"64", "512", "1500"}:
            continue
        kind = kinds.get(value.system, "")

        def accept(row: Row, kind: str = kind) -> bool:
            return row.case.vnf_ports == kind and row.metric == "mrr"

        texts = [
            f"{row.case.subject} {rate(row.summary.median)} ({row.case.frames})"
            for row in ours
            if accept(row)
        ]
        rows.append(
            Beside(
                f"{value.paper}, {value.where}",
                f"{value.system}, {value.packet_bytes} B, {value.placement}",
                f"{digits(value.value / 1e3)} Mpps",
                ", ".join(dict.fromkeys(texts)),
            )
        )
    return Comparison(
        "One VNF behind the switch, by the interface between them",
        published.SOURCES["unify-d5.6"],
        "Theirs: VMs and containers on cores of their own, OVS-DPDK 2.4. Ours: processes and a "
        "kernel bridge; VNF and generator share a core, so our figures are oversubscribed. memif "
        "stands beside ivshmem: both are shared memory without virtio.",
        rows,
    )


def _multi_vnf(view: View) -> Comparison | None:
    ours = [row for row in view.by_vnfs("mrr") if row.case.size.startswith("imix")]
    if not ours:
        return None
    rows = []
    for value in published.throughput():
        if value.paper != "icpe18-multi-vnf" or value.experiment != "ip-forwarding-imix":
            continue

        def accept(row: Row, vnfs: int | None = value.vnfs) -> bool:
            return row.case.vnfs == vnfs

        rows.append(
            Beside(
                f"{value.paper}, {value.where}",
                f"{value.system}, {value.vnfs} VNFs ({value.note or 'IMIX'})",
                f"{digits(value.value)} {value.unit}",
                _median(ours, accept),
            )
        )
    return Comparison(
        "VNFs side by side, IMIX",
        published.SOURCES["icpe18-multi-vnf"],
        "Theirs: virtual routers in VMs, each with cores of its own, two switch threads, two 10 "
        "GbE ports in both directions. Ours: forwarding processes that share one core on a machine "
        "of two, source and sink in the one switch thread, one direction.",
        rows,
    )


def comparisons(view: View) -> list[Comparison]:
    """All tables for which the campaign has figures."""
    made = [_flow_tables(view), _interfaces(view), _multi_vnf(view)]
    return [table for table in made if table is not None and table.rows]
