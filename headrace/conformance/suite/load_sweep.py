# SPDX-License-Identifier: Apache-2.0
"""Tests 22 to 24: throughput, loss and latency over the offered load, through VNFs of one kind.

For each configuration (VNFs in a row, kind of traffic, frame size) the rate that comes back under
overload is measured first; the loads are shares of it. The upper limit is the highest load without
loss, with none below it at which packets were lost: RFC 2544's throughput, to the steps of the
sweep. A machine that is shared loses packets for reasons that are not the node's, so a load with
loss is tried again, twice at most; each try is in the evidence.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Chart, Findings, Line
from headrace.conformance.graphs import chain, interface, vnf
from headrace.conformance.packets import Loads, Measured, Stream
from headrace.conformance.target import Target

SIZES = (64, 128, 256, 500, 1000, 1500)
"""Octets with the FCS, as the annex has them."""

MANY = 1000
REALISTIC = "imix-genome:aaaaaaabbbddfg"
_POPULAR = 10_000
_TRIES, _LOOKS = 3, 40
_GIGA = 1e9


@dataclass(frozen=True)
class Traffic:
    """A kind of traffic, with the frame sizes that it is sent in."""

    name: str
    sizes: tuple[int | str, ...]
    flows: int
    zipf: float | None = None


TRAFFIC = (
    Traffic("single flow", SIZES, 1),
    Traffic(f"{MANY} flows", SIZES, MANY),
    Traffic("realistic", (REALISTIC,), _POPULAR, 1.0),
)


@dataclass(frozen=True)
class Point:
    """A load, and what came of it."""

    load_pps: float
    measured: Measured
    tries: int
    busy: float | None

    @property
    def bps(self) -> float:
        """Offered bits per second on the line."""
        each = self.measured.bits / self.measured.received if self.measured.received else 0.0
        return self.load_pps * each


@dataclass
class Sweep:
    """The points of one configuration, by rising load."""

    vnfs: int
    traffic: Traffic
    size: int | str
    overload: Measured
    points: list[Point] = field(default_factory=list)

    @property
    def label(self) -> str:
        """For a legend."""
        return self.traffic.name if isinstance(self.size, str) else f"{self.size} octets"

    @property
    def limit(self) -> Point | None:
        """The highest load without loss of which none below has any."""
        best = None
        for point in self.points:
            if point.measured.lost:
                break
            best = point
        return best


async def sweep(
    target: Target,
    loads: Loads,
    name: str,
    vnfs: Sequence[str],
    traffic: Traffic,
    size: int | str,
    busy_too: bool = False,
) -> Sweep:
    """Measures one configuration of a graph that is deployed; with the VNFs' cycles, if wanted."""
    seconds = target.settings.duration_s
    source, sink = loads.ports
    stream = Stream("s", source, sink, size, traffic.flows, zipf=traffic.zipf)
    over = await loads.load([stream], None, seconds)
    found = Sweep(len(vnfs), traffic, size, over)
    if over.pps <= 0:
        return found
    for share in target.settings.loads:
        pps = share * over.pps
        for attempt in itertools.count(1):
            before = await _busy(target, name, vnfs) if busy_too else None
            measured = await loads.load([stream], pps, seconds)
            after = await _busy(target, name, vnfs) if busy_too else None
            if measured.lost == 0 or share > 0.5 or attempt == _TRIES:
                break
        busy = None if before is None or after is None else (after - before) / measured.seconds
        found.points.append(Point(pps, measured, attempt, busy))
    return found


async def _busy(target: Target, name: str, vnfs: Sequence[str]) -> float | None:
    """Busy cycles of all VNFs so far; None if one doesn't count them."""
    total = 0.0
    for vnf_id in vnfs if target.node.dialect.own else ():
        cycles = await target.node.member(f"/node/vnfs/{name}/{vnf_id}/cycles", "busy_cycles")
        if not isinstance(cycles, int | float):
            return None
        total += cycles
    return total if target.node.dialect.own else None


async def sweeps(
    target: Target,
    findings: Findings,
    template: str,
    chains: Sequence[int],
    busy_too: bool = False,
) -> list[Sweep]:
    """All configurations through VNFs of one template; the limits and the charts in `findings`."""
    loads = target.need_loads()
    source, sink = loads.ports
    found: list[Sweep] = []
    for count in chains:
        names = [f"v{number}" for number in range(count)]
        vnfs = [vnf(each, template) for each in names]
        document = chain(interface("subscriber", source), interface("internet", sink), vnfs)
        async with target.node.with_graph(document) as name:
            await passes(loads, Stream("s", source, sink))
            for traffic in TRAFFIC:
                for size in traffic.sizes:
                    found.append(await sweep(target, loads, name, names, traffic, size, busy_too))
    _judge(findings, found)
    _tell(findings, found)
    return found


async def passes(loads: Loads, stream: Stream) -> None:
    """Waits until packets pass: a VNF may open its ports after its graph is complete."""
    for _ in range(_LOOKS):
        if (await loads.load([stream], 500, 0.05)).received:
            return


def _judge(findings: Findings, found: Sequence[Sweep]) -> None:
    for each in found:
        what = f"{each.vnfs} VNF, {each.traffic.name}, {each.size}"
        limit = each.limit
        lowest = each.points[0].measured if each.points else each.overload
        findings.holds(
            f"{what}: there is a rate without loss",
            limit is not None,
            "a rate",
            f"{limit.load_pps:.0f} pps, {limit.bps / _GIGA:.3g} Gbit/s" if limit
            else f"{lowest.lost} of {lowest.intended} lost at the lowest load",
        )  # fmt: skip
        strange = sum(p.measured.duplicated + p.measured.misdelivered for p in each.points)
        findings.equal(f"{what}: packets doubled or at the wrong port", 0, strange)
    reordered = sum(p.measured.reordered for s in found for p in s.points)
    findings.equal("packets out of order", 0, reordered)


def _tell(findings: Findings, found: Sequence[Sweep]) -> None:
    findings.table(
        "The upper limit",
        ("VNFs", "traffic", "frame", "overload pps", "without loss pps", "Gbit/s",
         "p50 us", "p99 us", "tries"),
        [
            (
                each.vnfs, each.traffic.name, each.size, round(each.overload.pps),
                round(each.limit.load_pps) if each.limit else "none",
                f"{each.limit.bps / _GIGA:.3f}" if each.limit else "",
                _us(each.limit.measured.latency_p50) if each.limit else "",
                _us(each.limit.measured.latency_p99) if each.limit else "",
                max((point.tries for point in each.points), default=0),
            )
            for each in found
        ],
    )  # fmt: skip
    groups: dict[str, list[Sweep]] = {}
    for each in found:
        groups.setdefault(f"{each.vnfs} VNF, {each.traffic.name}", []).append(each)
    for title, group in groups.items():
        findings.charts.append(
            Chart(
                f"{title}: loss", "offered, Mbit/s", "lost, %",
                tuple(Line(s.label, tuple((p.bps / 1e6, 100 * p.measured.loss)
                                          for p in s.points)) for s in group),
                log_x=True,
            )
        )  # fmt: skip
        findings.charts.append(
            Chart(
                f"{title}: latency (p50)", "offered, Mbit/s", "us",
                tuple(Line(s.label, tuple((p.bps / 1e6, p.measured.latency_p50 / 1e3)
                                          for p in s.points if p.measured.latency_p50))
                      for s in group),
                log_x=True, log_y=True,
            )
        )  # fmt: skip


def _us(nanoseconds: float | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / 1e3:.1f}"


async def throughput(target: Target, findings: Findings) -> None:
    """Test 22."""
    await sweeps(target, findings, target.settings.passing, target.settings.chains)


async def cpu(target: Target, findings: Findings) -> None:
    """Test 23."""
    found = await sweeps(target, findings, target.settings.computing, (1,), busy_too=True)
    _load_of_processor(findings, found, "computing")


async def memory(target: Target, findings: Findings) -> None:
    """Test 24."""
    found = await sweeps(target, findings, target.settings.remembering, (1,), busy_too=True)
    _load_of_processor(findings, found, "memory")


def _load_of_processor(findings: Findings, found: Sequence[Sweep], what: str) -> None:
    """The cycles that the VNF spends rise with the rate: it is the packets that load it."""
    lines = []
    for each in found:
        points = [(p.measured.pps, p.busy) for p in each.points if p.busy is not None]
        if len(points) < 2:
            findings.note(f"{each.label}: the node doesn't say what the VNF spends")
            continue
        (low_pps, low), (high_pps, high) = points[0], points[-1]
        findings.holds(
            f"{each.traffic.name}, {each.size}: the VNF spends more cycles at a higher rate",
            high > 1.5 * low,
            f"more than {1.5 * low:.3g}/s at {high_pps:.0f} pps",
            f"{low:.3g}/s at {low_pps:.0f} pps, {high:.3g}/s at {high_pps:.0f} pps",
        )
        lines.append(Line(f"{each.traffic.name}, {each.label}",
                          tuple((pps / 1e6, busy / 1e9) for pps, busy in points)))  # fmt: skip
    findings.charts.append(
        Chart(f"What the {what} VNF spends", "Mpps", "busy cycles, 10^9 per second", tuple(lines))
    )


_CABLED = (
    "The node is up; two of its ports are connected to a generator and analyser. Graphs lead from "
    "the subscriber's port through {what} to the internet's port, and back."
)
_STEPS = (
    "Packets of 64, 128, 256, 500, 1000 and 1500 octets are sent, of one flow, at rising loads up "
    "to what the node takes; loss and latency are taken.",
    f"The same with {MANY} flows.",
    f"The same with realistic traffic: sizes mixed, {_POPULAR} flows of which few have most of the "
    "packets (Zipf).",
)

CASES = (
    Case(
        22, "Throughput", Part.PERFORMANCE,
        _CABLED.format(what="one pass-through VNF, then two in a row"), _STEPS,
        "For each configuration a highest rate without loss, in packets and bits per second, and "
        "charts of loss and latency over the load; nothing doubled, out of order or misdelivered.",
        throughput, loaded=True,
    ),
    Case(
        23, "CPU", Part.PERFORMANCE, _CABLED.format(what="a VNF that computes for each packet"),
        _STEPS,
        "As Test 22; the VNF's use of its processor rises with the rate.",
        cpu, loaded=True,
    ),
    Case(
        24, "Memory", Part.PERFORMANCE,
        _CABLED.format(what="a VNF that works on memory for each packet"), _STEPS,
        "As Test 22; the VNF's use of its processor rises with the rate.",
        memory, loaded=True,
    ),
)  # fmt: skip
