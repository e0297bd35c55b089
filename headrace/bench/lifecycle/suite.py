# SPDX-License-Identifier: Apache-2.0
"""`headrace bench lifecycle` as the command runs it."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.bench.lifecycle import documents
from headrace.bench.lifecycle.bed import Bed
from headrace.bench.lifecycle.traffic import PPS, Stream, stream
from headrace.bench.manifest import machine, versions
from headrace.bench.rows import Row, row

Say = Callable[[str], None]

PARTS = ("graphs", "updates", "faults", "many")
DEPLOY_GOAL_MS, RULES_GOAL_MS = 300.0, 50.0
VNF_BACK_MS, SWITCH_BACK_MS = 300.0, 1000.0
PORTS_GOAL_MS, METRICS_GOAL_MS = 50.0, 200.0
CHANGED_RULES, ALL_RULES = 100, 1000
_AFTER_S = {"VNF": 3.0, "switch": 8.0}
"""For how long it is looked whether traffic is back: the longest time that is told."""
_STEADY_S = 12.0
"""After which the node takes an end of the switch for a first one: it restarts that at once."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        parts: of `PARTS`.
        vnfs: sizes of the graphs that are deployed, changed and deleted.
        idle: graphs of a node that has many.
        repeats: of each figure.
        burst: requests at once.
    """

    parts: Sequence[str] = PARTS
    vnfs: Sequence[int] = (1, 10, 100)
    idle: int = 1000
    repeats: int = 5
    burst: int = 64


async def run(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures the parts, each with a node of its own.

    Raises:
        DeviceError, TrafficError: something could not be started, or did not come back.
    """
    works = {"graphs": graphs, "updates": updates, "faults": faults, "many": many}
    rows: list[Row] = []
    for part in plan.parts:
        bed = Bed(idle="yield" if part in ("updates", "faults") else "auto")
        try:
            await bed.up()
            rows += await works[part](bed, plan, say)
        finally:
            await bed.down()
    return rows, manifest(plan)


def _line(found: Row) -> str:
    return f"{found.name}: {found.value:.4g} {found.unit}"


async def graphs(bed: Bed, plan: Plan, say: Say) -> list[Row]:
    """Times to deploy, update and delete chains of process VNFs; an update adds the last VNF."""
    rows = []
    for size in plan.vnfs:
        taken: dict[str, list[float]] = {"deploy": [], "update": [], "delete": []}
        for _ in range(plan.repeats if size < 50 else 1):
            whole, shorter = documents.chain(size), documents.chain(size - 1)
            taken["deploy"].append(await bed.timed("PUT", "/NF-FG/g", whole))
            await bed.request("PUT", "/NF-FG/g", shorter)
            taken["update"].append(await bed.timed("PUT", "/NF-FG/g", whole))
            taken["delete"].append(await bed.timed("DELETE", "/NF-FG/g"))
        for what, samples in taken.items():
            goal = DEPLOY_GOAL_MS if size == 1 and what == "deploy" else None
            name = f"{what} a graph of {size} VNF{'s' if size > 1 else ''}"
            rows.append(row(name, samples, "ms", goal=goal, better="lower"))
            say(_line(rows[-1]))
    return rows


async def updates(bed: Bed, plan: Plan, say: Say) -> list[Row]:
    """Rules of a graph of a VNF changed under traffic."""
    document = documents.with_rules(documents.chain(1), ALL_RULES, 1)
    await bed.request("PUT", "/NF-FG/g", document)
    times: list[float] = []
    lost: list[float] = []
    async with stream(bed) as traffic:
        await traffic.until_clean()
        for version in range(2, 2 + plan.repeats):
            document = documents.changed(document, CHANGED_RULES, version)

            async def change(new: documents.Document = document) -> None:
                times.append(await bed.timed("PUT", "/NF-FG/g", new))

            lost.append((await traffic.during(change, 0.2)).lost)
        name = f"{CHANGED_RULES} of {ALL_RULES} rules changed"
        rows = [
            row(name, times, "ms", goal=RULES_GOAL_MS, better="lower"),
            row(f"{name}: lost", [sum(lost)], "packets", goal=0, better="lower"),
        ]
        one, two = documents.chain(1), documents.chain(2)
        lost = []
        for _ in range(plan.repeats):

            async def longer() -> None:
                await bed.request("PUT", "/NF-FG/g", documents.with_rules(two, ALL_RULES, 1))
                await bed.request("PUT", "/NF-FG/g", documents.with_rules(one, ALL_RULES, 1))

            lost.append((await traffic.during(longer, 0.2)).lost)
        rows.append(
            row(
                "a VNF added to the chain and taken out: lost",
                [sum(lost)],
                "packets",
                goal=0,
                better="lower",
            )
        )
    for found in rows:
        say(_line(found))
    return rows


async def faults(bed: Bed, plan: Plan, say: Say) -> list[Row]:
    """How long traffic is away after `kill -9` of a VNF and of the switch, by the graph's size."""
    rows = []
    for rules in (0, 10 * ALL_RULES):
        document = documents.with_rules(documents.chain(1), rules, 1)
        await bed.request("PUT", "/NF-FG/g", document)
        about = f"graph of {len(document['forwarding-graph']['big-switch']['flow-rules'])} rules"
        async with stream(bed) as traffic:
            for name, goal in (("VNF", VNF_BACK_MS), ("switch", SWITCH_BACK_MS)):
                away = []
                for _ in range(plan.repeats):
                    # To an update's VNFs nothing has happened before: they start again at once.
                    await bed.request("PUT", "/NF-FG/g", document)
                    await traffic.until_clean()
                    away.append(await _killed(bed, traffic, name))
                    await asyncio.sleep(_STEADY_S - _AFTER_S[name])
                found = row(f"traffic back after kill -9 of {name}, {about}", away, "ms",
                            goal=goal, better="lower")  # fmt: skip
                rows.append(found)
                say(_line(found))
        await bed.until_complete("g")
        await bed.request("DELETE", "/NF-FG/g")
    return rows


async def _killed(bed: Bed, traffic: Stream, what: str) -> float:
    name = "switch" if what == "switch" else bed.vnf_processes()[0]

    async def kill() -> None:
        bed.kill(name)

    return (await traffic.during(kill, _AFTER_S[what])).away_ms


async def many(bed: Bed, plan: Plan, say: Say) -> list[Row]:
    """A node with many idle graphs: what it costs, how fast it answers, how it starts."""
    rows: list[Row] = []

    def add(found: Row) -> None:
        rows.append(found)
        say(_line(found))

    def path(number: int) -> str:
        return f"/NF-FG/idle{number}"

    before = {name: bed.memory_kib(name) for name in ("node", "switch", "ovsdb-server")}
    begin = time.perf_counter()
    spread = plan.idle // 2
    for number in range(spread):
        await bed.request("PUT", path(number), documents.idle(number))
    taken = time.perf_counter() - begin
    add(row("requests one after another", [spread / taken], "deployments/s"))
    gate = asyncio.Semaphore(plan.burst)

    async def put(number: int) -> float:
        async with gate:
            return await bed.timed("PUT", path(number), documents.idle(number))

    begin = time.perf_counter()
    times = await asyncio.gather(*(put(number) for number in range(spread, plan.idle)))
    taken = time.perf_counter() - begin
    add(row(f"requests in bursts of {plan.burst}", [len(times) / taken], "deployments/s"))
    add(row(f"deployment in a burst of {plan.burst}", times, "ms"))
    for name, kib in before.items():
        added = bed.memory_kib(name) - kib
        add(row(f"memory of {name} for each graph", [added / plan.idle], "KiB"))
    extra = documents.idle(plan.idle)
    deploy, delete, ports, metrics, vnf = [], [], [], [], []
    for _ in range(plan.repeats):
        deploy.append(await bed.timed("PUT", "/NF-FG/extra", extra))
        delete.append(await bed.timed("DELETE", "/NF-FG/extra"))
        ports.append(await bed.timed("GET", "/node/ports"))
        metrics.append(await bed.timed("GET", "/metrics"))
        one = documents.chain(1, tag=documents.MARKED)
        vnf.append(await bed.timed("PUT", "/NF-FG/vnf", one))
        await bed.request("DELETE", "/NF-FG/vnf")
    beside = f"beside {plan.idle} graphs"
    add(row(f"deploy an idle graph {beside}", deploy, "ms", goal=DEPLOY_GOAL_MS, better="lower"))
    add(row(f"deploy a graph of a VNF {beside}", vnf, "ms", goal=DEPLOY_GOAL_MS, better="lower"))
    add(row(f"delete an idle graph {beside}", delete, "ms"))
    add(row(f"GET /node/ports {beside}", ports, "ms", goal=PORTS_GOAL_MS, better="lower"))
    add(row(f"GET /metrics {beside}", metrics, "ms", goal=METRICS_GOAL_MS, better="lower"))
    await bed.kill_node()
    begin = time.perf_counter()
    answers = await bed.up()
    await bed.until_recovered()
    add(row(f"`up` with {plan.idle} graphs that run", [answers], "s"))
    add(row(f"{plan.idle} graphs that run taken over", [time.perf_counter() - begin], "s"))
    await bed.kill_node()
    bed.kill("switch")
    begin = time.perf_counter()
    answers = await bed.up()
    await bed.until_recovered()
    add(row(f"`up` with {plan.idle} graphs on record", [answers], "s"))
    add(row(f"{plan.idle} graphs made again", [time.perf_counter() - begin], "s"))
    return rows


def manifest(plan: Plan) -> dict[str, Any]:
    """What was done, and what the figures mean."""
    return {
        "machine": machine(),
        "versions": versions(),
        "plan": dataclasses.asdict(plan),
        "requests": "by HTTP from this command, which shares the machine; answered when the graph "
        "is in its new state",
        "graphs": "chains of the template pass (headrace-vnf) between p0 and p1; an update adds "
        "the last VNF",
        "idle graphs": "two VLAN end-points and a rule each way",
        "traffic back": f"packets that did not arrive of a stream of {PPS:g} a second, divided by "
        "that rate; the generator shares the VNF's core where there are two",
        "memory": "growth of the resident memory over all idle graphs, divided by their number",
    }
