# SPDX-License-Identifier: Apache-2.0
"""Test 25: how fast flow rules are set up, and how long it takes until they are in force.

A probe sends packets for the new rules at a known rate R from before the request on. Those that it
loses say when the rules came into force: after lost / R seconds, of which the part before the
request is known. The rules are in force when the node answers if none is lost later.
"""

import asyncio
import copy
import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Chart, Findings, Line
from headrace.conformance.graphs import Graph, graph, interface, rule, rules_of
from headrace.conformance.packets import Loads, Measured, Read, Stream
from headrace.conformance.suite.load_sweep import TRAFFIC, Traffic
from headrace.conformance.target import Target

_FIRST = ipaddress.IPv4Address("198.19.128.0")
_PROBE_PPS = 5000.0
_CHECK_PPS = 5000.0
_AT_ONCE = 100
_SHARES = (0.1, 0.5)
_INTERVALS_S = (0.2, 0.1, 0.05, 0.02, 0.0)
_SPACED = 4
_LATE_S = 0.05
"""By how much rules may come into force later than the answer, which the probe can't tell apart."""

_TRIES = 5


@dataclass(frozen=True)
class SetUp:
    """An update by `rules` rules: seconds until the answer, and until the rules were in force."""

    rules: int
    answered_s: float
    in_force_s: float
    background: Measured | None


def _base(loads: Loads) -> Graph:
    source, sink = loads.ports
    there = rule("there", "endpoint:a", "endpoint:b", ether_type="0x0800", dest_ip="198.19.0.1")
    background = rule("many", "endpoint:a", "endpoint:b", priority=5, ether_type="0x0800",
                      dest_ip="198.19.0.0/18")  # fmt: skip
    return graph(
        "rules", [interface("a", source), interface("b", sink)],
        [there, background, rule("back", "endpoint:b", "endpoint:a")],
    )  # fmt: skip


def _with(base: Graph, count: int, first: int = 0) -> Graph:
    """The graph with that many rules more, one destination each."""
    made = copy.deepcopy(base)
    rules_of(made).extend(
        rule(f"new{number}", "endpoint:a", "endpoint:b", priority=20, ether_type="0x0800",
             dest_ip=str(_FIRST + number))
        for number in range(first, first + count)
    )  # fmt: skip
    return made


async def _set_up(
    target: Target, loads: Loads, name: str, document: Graph, count: int, first: int,
    traffic: Traffic | None = None, size: int | str = 64, pps: float = 0.0,
) -> SetUp:  # fmt: skip
    """Sends the update while the probe and a background load are running."""
    source, sink = loads.ports
    total = _PROBE_PPS + pps
    probe = Stream("probe", source, sink, flows=count, targets=str(_FIRST + first),
                   share=_PROBE_PPS / total)  # fmt: skip
    streams = [probe]
    if traffic is not None:
        streams.append(Stream("load", source, sink, size, traffic.flows, zipf=traffic.zipf,
                              share=pps / total))  # fmt: skip
    times: dict[str, float] = {}
    begun: Mapping[str, Measured] = {}

    async def request(read: Read) -> None:
        nonlocal begun
        begun = await read()
        times["asked"] = time.monotonic()
        await target.node.change(name, document)
        times["answered"] = time.monotonic()

    measured = await loads.load(streams, total, 2 * target.settings.duration_s, request)
    lost = measured.streams["probe"].lost - begun["probe"].intended
    return SetUp(
        count,
        times["answered"] - times["asked"],
        max(0.0, lost / _PROBE_PPS),
        measured.streams.get("load"),
    )


async def _all_in_force(loads: Loads, count: int) -> tuple[int, int]:
    """Packets sent and received, at least one for each rule; the best of a few tries."""
    source, sink = loads.ports
    stream = Stream("each", source, sink, flows=count, targets=str(_FIRST))
    best: Measured | None = None
    for _ in range(_TRIES):
        seconds = max(0.05, (count + 1) / _CHECK_PPS)
        found = await loads.load([stream], _CHECK_PPS, seconds)
        best = found if best is None or found.lost < best.lost else best
        if best.lost == 0:
            break
    assert best is not None
    return best.intended, best.received


async def run(target: Target, findings: Findings) -> None:
    """Sets up rules under loads, in rising numbers, and at falling intervals."""
    loads = target.need_loads()
    base = _base(loads)
    name = await target.node.bring(base)
    await _under_load(target, findings, loads, name, base)
    await _by_number(target, findings, loads, name, base)
    await _spaced(target, findings, loads, name, base)
    await target.node.remove(name)


async def _under_load(
    target: Target, findings: Findings, loads: Loads, name: str, base: Graph
) -> None:
    source, sink = loads.ports
    rows, rates, delays = [], [], []
    for traffic in TRAFFIC:
        for size in traffic.sizes:
            stream = Stream("load", source, sink, size, traffic.flows, zipf=traffic.zipf)
            over = await loads.load([stream], None, target.settings.duration_s)
            each = over.bits / over.received if over.received else 0.0
            points = []
            for share in _SHARES:
                pps = share * over.pps
                if pps <= 0:
                    continue
                done = await _set_up(target, loads, name, _with(base, _AT_ONCE), _AT_ONCE, 0,
                                     traffic, size, pps)  # fmt: skip
                await target.node.change(name, base)
                lost = done.background.lost if done.background else 0
                points.append((pps * each / 1e6, done))
                rows.append((traffic.name, size, round(pps), f"{_AT_ONCE / done.answered_s:.0f}",
                             _ms(done.answered_s), _ms(done.in_force_s), lost))  # fmt: skip
            label = f"{traffic.name}, {size}"
            rates.append(Line(label, tuple((x, d.rules / d.answered_s) for x, d in points)))
            delays.append(Line(label, tuple((x, 1e3 * d.in_force_s) for x, d in points)))
            findings.equal(f"{label}: loads under which {_AT_ONCE} rules were set up",
                           len(_SHARES), len(points))  # fmt: skip
    findings.table(
        f"{_AT_ONCE} rules in one request, under load",
        ("traffic", "frame", "load pps", "rules/s", "answered ms", "in force ms", "load lost"),
        rows,
    )
    findings.charts += [
        Chart("Set-up rate", "load, Mbit/s", "rules per second", tuple(rates), log_x=True),
        Chart("Until the rules are in force", "load, Mbit/s", "ms", tuple(delays), log_x=True),
    ]


async def _by_number(
    target: Target, findings: Findings, loads: Loads, name: str, base: Graph
) -> None:
    rows, points = [], []
    numbers = [count for count in (1, 10, 100, 1000, 10_000) if count < target.settings.rules]
    for count in (*numbers, target.settings.rules):
        done = await _set_up(target, loads, name, _with(base, count), count, 0)
        sent, received = await _all_in_force(loads, count)
        findings.equal(f"{count} rules: each passes its packets", sent, received)
        findings.holds(
            f"{count} rules: they are in force when the node answers",
            done.in_force_s <= done.answered_s + _LATE_S,
            f"within {done.answered_s + _LATE_S:.3f} s",
            f"{done.in_force_s:.3f} s",
        )
        points.append((float(count), count / done.answered_s))
        rows.append((count, f"{count / done.answered_s:.0f}", _ms(done.answered_s),
                     _ms(done.in_force_s)))  # fmt: skip
        await target.node.change(name, base)
    findings.table("Rules in one request (bursts)",
                   ("rules", "rules/s", "answered ms", "in force ms"), rows)  # fmt: skip
    findings.charts.append(
        Chart("Set-up rate by the size of a burst", "rules in one request", "rules per second",
              (Line("rules", tuple(points)),), log_x=True, log_y=True)
    )  # fmt: skip


async def _spaced(target: Target, findings: Findings, loads: Loads, name: str, base: Graph) -> None:
    rows, points = [], []
    count = 0
    for interval in _INTERVALS_S:
        answers, delays, began = [], [], time.monotonic()
        for number in range(_SPACED):
            wait = began + number * interval - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait * target.settings.pace)
            document = _with(base, count + 1)
            if number == _SPACED - 1:
                done = await _set_up(target, loads, name, document, 1, count)
                delays.append(done.in_force_s)
                answers.append(done.answered_s)
            else:
                asked = time.monotonic()
                await target.node.change(name, document)
                answers.append(time.monotonic() - asked)
            count += 1
        rate = 1 / max(interval, sum(answers) / len(answers))
        points.append((rate, 1e3 * max(answers)))
        rows.append((f"{interval:g}", _SPACED, _ms(sum(answers) / len(answers)),
                     _ms(max(answers)), _ms(delays[-1])))  # fmt: skip
    sent, received = await _all_in_force(loads, count)
    findings.equal(f"{count} rules, set up one by one: each passes its packets", sent, received)
    findings.table(
        "One rule in each request, at equal intervals",
        ("interval s", "requests", "answered ms", "longest ms", "in force ms"), rows,
    )  # fmt: skip
    findings.charts.append(
        Chart("Latency of requests by their rate", "requests per second", "longest answer, ms",
              (Line("one rule each", tuple(points)),), log_x=True)
    )  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"


CASES = (
    Case(
        25, "Switching", Part.PERFORMANCE,
        "The node is up; two of its ports are connected to a generator and analyser, and joined by "
        "a graph without VNFs.",
        (f"Under loads of each size and kind of traffic {_AT_ONCE} rules are set up in one "
         "request.",
         "Bursts of rules, up to the most that are tried, are set up; a packet is sent for each.",
         "Single rules are set up at equal intervals, which get shorter."),
        "The set-up rate and the latency, until the answer and until the rules are in force, over "
        "load, number and interval; every rule is in force, no later than the node answers.",
        run, loaded=True,
    ),
)  # fmt: skip
