# SPDX-License-Identifier: Apache-2.0
"""Test 26: how fast NF-FGs are set up by requests that are spaced, in bursts, and many."""

import asyncio
import statistics
import time
from dataclasses import dataclass

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Chart, Findings, Line
from headrace.conformance.graphs import Graph, between, chain, vlan, vnf
from headrace.conformance.packets import Loads, Measured, Read, Stream
from headrace.conformance.suite.load_sweep import TRAFFIC, passes
from headrace.conformance.target import Target

_BASE_TAG, _FIRST_TAG = 1000, 1001
_RULES = 2
"""Of each graph that is requested."""

_INTERVALS_S = (0.2, 0.1, 0.05, 0.02, 0.0)
_SPACED = 5
_BURSTS = (1, 2, 5, 10, 20)
_UNDER_LOAD = 5
_SHARES = (0.1, 0.5)
_CHECK_PPS = 5000.0
_TRIES = 5


@dataclass(frozen=True)
class Request:
    """A deployment: whether it was answered with success, after how long, and the graph's id."""

    good: bool
    seconds: float
    name: str
    tag: int


def _graph(loads: Loads, number: int) -> tuple[Graph, int]:
    tag = _FIRST_TAG + number
    source, sink = loads.ports
    return between(vlan("a", source, tag), vlan("b", sink, tag), f"request {number}"), tag


async def _request(target: Target, loads: Loads, number: int) -> Request:
    document, tag = _graph(loads, number)
    began = time.monotonic()
    answer, name = await target.node.deploy(target.node.name(), document)
    return Request(answer.good, time.monotonic() - began, name, tag)


async def _remove(target: Target, requests: list[Request]) -> None:
    await asyncio.gather(*(target.node.remove(each.name) for each in requests if each.name))


async def _pass(loads: Loads, requests: list[Request]) -> int:
    """How many of the graphs pass all packets; a graph is tried again if it loses some."""
    source, sink = loads.ports
    left = {each.tag for each in requests}
    for _ in range(_TRIES):
        if not left:
            break
        streams = [Stream(f"t{tag}", source, sink, tag=tag) for tag in sorted(left)]
        measured = await loads.load(streams, _CHECK_PPS, 0.1)
        left = {tag for tag in left if measured.streams[f"t{tag}"].lost}
    return len(requests) - len(left)


async def run(target: Target, findings: Findings) -> None:
    """Requests under loads, at falling intervals, in bursts, and as many as are taken."""
    loads = target.need_loads()
    source, sink = loads.ports
    base = chain(vlan("a", source, _BASE_TAG), vlan("b", sink, _BASE_TAG),
                 [vnf("v", target.settings.passing)], "under load")  # fmt: skip
    async with target.node.with_graph(base):
        await passes(loads, Stream("load", source, sink, tag=_BASE_TAG))
        await _under_load(target, findings, loads)
        await _spaced(target, findings, loads)
        await _bursts(target, findings, loads)
        await _many(target, findings, loads)


async def _under_load(target: Target, findings: Findings, loads: Loads) -> None:
    source, sink = loads.ports
    rows, rates, delays = [], [], []
    for traffic in TRAFFIC:
        for size in traffic.sizes:
            stream = Stream("load", source, sink, size, traffic.flows, tag=_BASE_TAG,
                            zipf=traffic.zipf)  # fmt: skip
            over = await loads.load([stream], None, target.settings.duration_s)
            each = over.bits / over.received if over.received else 0.0
            points = []
            for share in _SHARES:
                pps = max(1.0, share * over.pps)
                requests: list[Request] = []

                async def ask(_: Read, requests: list[Request] = requests) -> None:
                    for number in range(_UNDER_LOAD):
                        requests.append(await _request(target, loads, number))

                measured: Measured = await loads.load(
                    [stream], pps, target.settings.duration_s, ask
                )
                seconds = sum(one.seconds for one in requests)
                await _remove(target, requests)
                findings.equal(
                    f"{traffic.name}, {size}, {share:.0%} of the highest load: requests answered",
                    _UNDER_LOAD, sum(one.good for one in requests),
                )  # fmt: skip
                rate = _RULES * _UNDER_LOAD / seconds
                points.append((pps * each / 1e6, rate, 1e3 * seconds / _UNDER_LOAD))
                rows.append((traffic.name, size, round(pps), f"{rate:.0f}",
                             f"{1e3 * seconds / _UNDER_LOAD:.1f}", measured.lost,
                             measured.intended, _us(measured)))  # fmt: skip
            label = f"{traffic.name}, {size}"
            rates.append(Line(label, tuple((x, rate) for x, rate, _ in points)))
            delays.append(Line(label, tuple((x, delay) for x, _, delay in points)))
    findings.table(
        f"{_UNDER_LOAD} requests one after the other, under load",
        ("traffic", "frame", "load pps", "rules/s", "answered ms", "load lost", "of", "p99 us"),
        rows,
    )
    findings.charts += [
        Chart("Set-up rate under load", "load, Mbit/s", "rules per second", tuple(rates),
              log_x=True),
        Chart("Latency of requests under load", "load, Mbit/s", "mean, ms", tuple(delays),
              log_x=True),
    ]  # fmt: skip


async def _spaced(target: Target, findings: Findings, loads: Loads) -> None:
    rows, points, rates = [], [], []
    for interval in _INTERVALS_S:
        requests: list[Request] = []
        began = time.monotonic()
        for number in range(_SPACED):
            wait = began + number * interval - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait * target.settings.pace)
            requests.append(await _request(target, loads, number))
        seconds = max(time.monotonic() - began, 1e-6)
        findings.equal(f"one each {interval:g} s: requests answered", _SPACED,
                       sum(one.good for one in requests))  # fmt: skip
        await _remove(target, requests)
        times = [1e3 * one.seconds for one in requests]
        per_second = len(requests) / seconds
        points.append((per_second, statistics.median(times)))
        rates.append((per_second, _RULES * per_second))
        rows.append((f"{interval:g}", len(requests), f"{per_second:.1f}",
                     f"{statistics.median(times):.1f}", f"{max(times):.1f}"))  # fmt: skip
    findings.table("Requests at equal intervals",
                   ("interval s", "requests", "per second", "median ms", "longest ms"),
                   rows)  # fmt: skip
    findings.charts += [
        Chart("Latency by the rate of requests", "NF-FG requests per second", "median, ms",
              (Line("equal intervals", tuple(points)),), log_x=True),
        Chart("Set-up rate by the rate of requests", "NF-FG requests per second",
              "rules per second", (Line("equal intervals", tuple(rates)),), log_x=True),
    ]  # fmt: skip


async def _bursts(target: Target, findings: Findings, loads: Loads) -> None:
    rows, points = [], []
    for size in _BURSTS:
        if size > target.settings.graphs:
            break
        began = time.monotonic()
        requests = await asyncio.gather(
            *(_request(target, loads, number) for number in range(size))
        )
        seconds = max(time.monotonic() - began, 1e-6)
        good = [one for one in requests if one.good]
        findings.equal(f"a burst of {size}: requests answered", size, len(good))
        findings.equal(f"a burst of {size}: graphs that pass packets", len(good),
                       await _pass(loads, good))  # fmt: skip
        await _remove(target, requests)
        times = [1e3 * one.seconds for one in requests]
        points.append((float(size), statistics.median(times)))
        rows.append((size, f"{size / seconds:.1f}", f"{_RULES * size / seconds:.0f}",
                     f"{statistics.median(times):.1f}", f"{max(times):.1f}"))  # fmt: skip
    findings.table("Bursts of requests",
                   ("requests", "graphs/s", "rules/s", "median ms", "longest ms"),
                   rows)  # fmt: skip
    findings.charts.append(
        Chart("Latency by the size of a burst", "requests at once", "median, ms",
              (Line("bursts", tuple(points)),), log_x=True)
    )  # fmt: skip


async def _many(target: Target, findings: Findings, loads: Loads) -> None:
    requests: list[Request] = []
    refused = ""
    began = time.monotonic()
    while len(requests) < target.settings.graphs and not refused:
        document, tag = _graph(loads, len(requests))
        asked = time.monotonic()
        answer, name = await target.node.deploy(target.node.name(), document)
        if answer.good:
            requests.append(Request(True, time.monotonic() - asked, name, tag))
        else:
            refused = str(answer)
    seconds = max(time.monotonic() - began, 1e-6)
    if refused:
        findings.note(f"the node takes {len(requests)} graphs, then: {refused}")
    else:
        findings.note(f"{len(requests)} graphs were taken; more were not tried")
    findings.holds("NF-FGs at a time", bool(requests), "some", len(requests))
    if requests:
        findings.equal("graphs that pass packets", len(requests), await _pass(loads, requests))
        times = [(float(number), 1e3 * one.seconds) for number, one in enumerate(requests, 1)]
        findings.charts.append(
            Chart("Latency by the number of graphs", "graphs on the node", "ms",
                  (Line("one after the other", tuple(times)),))
        )  # fmt: skip
        findings.table("As many as are taken", ("graphs", "graphs/s", "rules/s"),
                       [(len(requests), f"{len(requests) / seconds:.1f}",
                         f"{_RULES * len(requests) / seconds:.0f}")])  # fmt: skip
    await _remove(target, requests)


def _us(measured: Measured) -> str:
    return "" if measured.latency_p99 is None else f"{measured.latency_p99 / 1e3:.0f}"


CASES = (
    Case(
        26, "Control Interfaces", Part.PERFORMANCE,
        "The node is up; two of its ports are connected to a generator and analyser. A graph leads "
        "the traffic of one VLAN through a pass-through VNF, both ways.",
        (f"Under loads of each size and kind of traffic {_UNDER_LOAD} NF-FGs are deployed one "
         "after the other, on VLANs of their own.",
         "NF-FGs are requested at equal intervals, which get shorter; in bursts; and one after the "
         "other, up to the most that are tried. Packets are sent through each."),
        "Charts of the set-up rate and of the latency over the requests; every request is "
        "answered, every graph passes packets.",
        run, loaded=True,
    ),
)  # fmt: skip
