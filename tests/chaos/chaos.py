# SPDX-License-Identifier: Apache-2.0
"""Graphs made, changed and deleted in random order while everything fails.

    python -m tests.chaos.chaos --graphs 1000 --seed 1

The order of the work and of the faults is the seed's; when exactly a fault falls into the work is
the machine's. Beside them a graph that nobody touches carries a stream of packets, none of which
may be lost between the node's wires but while the switch itself is killed; what the generator loses
beside a busy machine is counted apart. At the end the node's database and its switch
must say the same, and once the graphs are deleted, nothing of them may be left on the machine. The
run prints its ledger: what was done, what was refused and why, which faults there were, what was
found.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from headrace.bench.errors import DeviceError
from headrace.bench.lifecycle import documents
from headrace.bench.lifecycle.traffic import stream
from headrace.commands.switch import drop_rows
from headrace.protocols.control import ControlError, call_blocking
from tests.chaos.bed import ChaosBed, hugepage_files

_AT_ONCE = 10
_VNFS_AT_ONCE = 3
_ROUND = 12
_SETTLE_S = 120.0
"""Longer than the node waits at most before it starts again what has ended young, a minute."""
_LATEST_FAULT_S = 0.3
_PPS = 500.0
"""So few that the rings hold what comes while a machine of two cores does something else."""


@dataclass
class Ledger:
    """What a run has done and found; `faults_found` must be empty."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    lost: int = 0
    late: int = 0
    found: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "done": dict(sorted(self.done.items())),
            "refused or interrupted": dict(sorted(self.refused.items())),
            "faults": dict(sorted(self.faults.items())),
            "undisturbed graph": {
                "sent": self.sent,
                "lost": self.lost,
                "lost by the generator": self.late,
            },
            "found": self.found,
        }


class Chaos:
    """One run."""

    def __init__(self, bed: ChaosBed, seed: int, graphs: int) -> None:
        self.bed, self.ledger = bed, Ledger()
        self._random = random.Random(seed)
        self._wanted = graphs
        self._made = 0
        self._live: dict[str, int] = {}  # graphs and their numbers of VNFs

    async def run(self) -> Ledger:
        """The whole run, from a node that is up to one without graphs.

        Raises:
            DeviceError: the node is lost for good.
        """
        undisturbed = _shared(documents.chain(0))
        for rule in undisturbed["forwarding-graph"]["big-switch"]["flow-rules"]:
            rule["priority"] = 1
        await self._settled("PUT", "undisturbed", undisturbed)
        while self._made < self._wanted:
            kind = self._random.choice(
                ["calm", "node", "vnf", "ovsdb-server", "switch", "disk", "lock", "clock"]
            )
            if kind == "switch":
                await self._round(kind)
                continue
            async with stream(self.bed, pps=_PPS) as traffic:
                await traffic.until_clean(_SETTLE_S)
                before = self.bed.on_the_wires()
                outcome = await traffic.during(lambda k=kind: self._round(k), 0.2)  # type: ignore[misc]
                after = self.bed.on_the_wires()
            went, came = (after[n] - before[n] for n in range(2))
            self.ledger.sent += went
            self.ledger.lost += max(0, went - came)
            self.ledger.late += max(0, outcome.lost - (went - came))
            if went != came or outcome.duplicated:
                self.ledger.found.append(
                    f"{went} packets went in, {came} came out, {outcome.duplicated} doubled "
                    f"beside {kind}; {self._where()}"
                )
        await self._agree()
        for graph in [*self._live, "undisturbed"]:
            await self._settled("DELETE", graph)
        for what, names in self.bed.left_of_graphs().items():
            self.ledger.found.append(f"left behind: {what}: {', '.join(names[:10])}")
        return self.ledger

    def _where(self) -> str:
        """What the switch says of packets that it has dropped."""
        try:
            answer = call_blocking(self.bed.rundir / "switch/headrace-switch.ctl", "drops")
        except ControlError as error:
            return str(error)
        dropped = Counter[str]()
        for row in drop_rows(answer):
            dropped[f"{row['where']}: {row['reason']}"] += row["packets"]
        return ", ".join(f"{name} {count}" for name, count in dropped.items()) or "no drops"

    async def _round(self, kind: str) -> None:
        """Some work on graphs, with faults of one kind in it."""
        end = min(self._made + _ROUND, self._wanted)
        while self._made < end:
            work = self._work()
            if kind == "calm" or self._random.random() < 0.6:
                await self._tried(work)
                continue
            delay = self._random.uniform(0.0, _LATEST_FAULT_S)
            task = asyncio.create_task(self._tried(work))
            await asyncio.sleep(delay)
            self.ledger.faults[kind] += 1
            await self._fault(kind, task)
            await task
            await self._healed()
        await self._healed()

    # Work.

    def _work(self) -> tuple[str, str, Any]:
        """The next request: method, graph and document."""
        made = self._random.random()
        if not self._live or (made < 0.5 and len(self._live) < _AT_ONCE):
            self._made += 1
            graph = f"g{self._made}"
            vnfs = self._random.choice([0, 0, 0, 1, 1, 2])
            return "PUT", graph, self._document(self._made, vnfs)
        graph = self._random.choice(sorted(self._live))
        if made < 0.75:
            vnfs = self._random.choice([self._live[graph], 0, 1])
            return "PUT", graph, self._document(int(graph[1:]), vnfs)
        return "DELETE", graph, None

    def _document(self, number: int, vnfs: int) -> Any:
        running = sum(self._live.values()) - self._live.get(f"g{number}", 0)
        vnfs = min(vnfs, max(0, _VNFS_AT_ONCE - running))
        document = _shared(documents.chain(vnfs, tag=100 + number % 3900))
        return documents.with_rules(document, self._random.randrange(20), 1 + number % 200)

    async def _tried(self, work: tuple[str, str, Any]) -> None:
        """One request; what becomes of it is noted, whatever it is."""
        method, graph, document = work
        new = graph not in self._live
        what = "made" if new else "changed" if method == "PUT" else "deleted"
        try:
            answer = await self.bed._http.request(method, f"/NF-FG/{graph}", json=document)
        except httpx.HTTPError as error:
            self.ledger.refused[f"{what}: {type(error).__name__}"] += 1
            if document is not None:
                self._live.setdefault(graph, _vnfs(document))
            return
        if answer.status_code < 300:
            self.ledger.done[what] += 1
            if method == "DELETE":
                self._live.pop(graph, None)
            else:
                self._live[graph] = _vnfs(document)
            return
        reason = str(answer.json().get("module", "?"))
        self.ledger.refused[f"{what}: {answer.status_code} {reason}"] += 1
        if document is not None:
            self._live.setdefault(graph, _vnfs(document))

    async def _settled(self, method: str, graph: str, document: Any = None) -> None:
        """A request that must succeed in the end."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            try:
                answer = await self.bed._http.request(method, f"/NF-FG/{graph}", json=document)
                if answer.status_code < 300 or (method == "DELETE" and answer.status_code == 404):
                    return
                said = answer.text
            except httpx.HTTPError as error:
                said = repr(error)
            if time.monotonic() > deadline:
                raise DeviceError(f"{method} {graph}: {said}")
            await asyncio.sleep(0.2)

    # Faults.

    async def _fault(self, kind: str, work: asyncio.Task[None]) -> None:
        if kind == "node":
            await self.bed.kill_node()
        elif kind == "vnf":
            names = self.bed.vnf_processes()
            if names:
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                    self.bed.kill(self._random.choice(names))
        elif kind in ("switch", "ovsdb-server"):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                self.bed.kill(kind)
        elif kind == "disk":
            with self.bed.disk_full():
                await work
        elif kind == "lock":
            with self.bed.database_locked():
                await asyncio.sleep(self._random.choice([0.1, 2.0]))
        elif kind == "clock":
            self.bed.step_clock(self._random.choice([-86_400.0, 86_400.0, 3e8, 0.0]))

    async def _healed(self) -> None:
        """Waits until the node runs and every graph of it has an end; learns which there are."""
        if not self.bed.alive():
            await self.bed.up()
        deadline = time.monotonic() + _SETTLE_S
        while True:
            left = await self._unsettled()
            if not left:
                return
            if time.monotonic() > deadline:
                self.ledger.found.append(f"after {_SETTLE_S:.0f} s: {left[0]}")
                raise DeviceError(left[0])
            await asyncio.sleep(0.1)

    async def _unsettled(self) -> list[str]:
        try:
            about = (await self.bed.request("GET", "/node")).json()
            graphs = (await self.bed.request("GET", "/NF-FG")).json()["NF-FG"]
            if about["recovering"]:
                return [f"{about['recovering']} graphs are being recovered"]
            there = {entry["nffg-uuid"]: entry for entry in graphs}
            left = []
            for graph in there:
                status = await self.bed.status(graph)
                if status["state"] == "failed":
                    # It could not be made when the fault was there: its client has been told so.
                    await self._settled("DELETE", graph)
                    self.ledger.done["deleted as failed"] += 1
                    return [f"{graph} was deleted as failed"]
                if status["status"] != "complete":
                    left.append(f"{graph}: {status['state']}: {status['message']}")
        except DeviceError as error:
            return [str(error)]
        self._live = {
            graph: _vnfs(entry) for graph, entry in there.items() if graph != "undisturbed"
        }
        return left

    async def _agree(self) -> None:
        """The database, the switch and the processes say the same."""
        await self._healed()
        graphs, recorded = await asyncio.to_thread(self.bed.on_record)
        if graphs != {*self._live, "undisturbed"}:
            self.ledger.found.append(f"on record {sorted(graphs)}, by REST {sorted(self._live)}")
        there = await asyncio.to_thread(self.bed.in_switch)
        for kind, names in recorded.items():
            for name in names - there[kind]:
                self.ledger.found.append(f"{kind} {name} is on record and not there")
            for name in there[kind] - names:
                self.ledger.found.append(f"{kind} {name} is there and not on record")


def _shared(document: Any) -> Any:
    """The document with end-points on ports that other graphs may use, too."""
    for point in document["forwarding-graph"]["end-points"]:
        point[point["type"]]["shared"] = True
    return document


def _vnfs(document: Any) -> int:
    return len(document["forwarding-graph"]["VNFs"])


async def chaos(graphs: int, seed: int) -> Ledger:
    """A run with a node of its own, and what is left of that at the end."""
    bed = ChaosBed()
    try:
        await bed.up()
        run = Chaos(bed, seed, graphs)
        try:
            ledger = await run.run()
        except (DeviceError, AssertionError) as error:
            run.ledger.found.append(f"{type(error).__name__}: {error}")
            ledger = run.ledger
            log = (bed.rundir / "chaos-node.log").read_text(errors="replace")
            print(log[-6000:], file=sys.stderr)
    finally:
        await bed.down()
    if bed.rundir.exists():
        ledger.found.append(f"left behind: {bed.rundir}")
    for file in hugepage_files(bed.rundir):
        ledger.found.append(f"left behind: hugepages of {file}")
    return ledger


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    ledger = asyncio.run(chaos(given.graphs, given.seed))
    print(json.dumps(ledger.document(), indent=2))
    sys.exit(bool(ledger.found))
