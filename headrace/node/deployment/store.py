# SPDX-License-Identifier: Apache-2.0
"""The node's database: graphs and their steps, in SQLite, each written before it is taken.

A row of `step` is one resource of one graph. It is written with state `intent` before anything is
touched and turned to `done` afterwards; before a removal it becomes `removing` and is deleted
afterwards. So whatever may exist in the switch has a row, at every moment, and a crash loses
nothing: the next start compares the rows with the plan and goes on (see `lifecycle`).

Writes are synchronous (WAL, `synchronous=FULL`): a step may not begin before its intent is on disk.
They take about a millisecond; the control plane of one node can afford it.

Reads are of memory: the file is this process's alone (the node's directory is locked), so what was
read or written once is what it says. What could not be written (a full disk, a lock of another
program) has not changed in memory, either.
"""

import contextlib
import json
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.node.deployment.schema import migrate
from headrace.node.errors import StoreFault
from headrace.node.planning.resources import EMPTY_PLAN, Plan, Resource, from_json

_LOCK_PATIENCE_S = 1.0
"""How long another program may hold the database; the node does nothing else meanwhile."""


class GraphState(StrEnum):
    """Where a graph is in its life."""

    DEPLOYING = "deploying"
    RUNNING = "running"
    UPDATING = "updating"
    DELETING = "deleting"
    FAILED = "failed"


@dataclass(frozen=True)
class GraphRecord:
    """A graph as stored. `previous_*` are set while an update is under way."""

    id: str
    number: int
    state: GraphState
    document: dict[str, Any]
    plan: Plan
    previous_document: dict[str, Any] | None = None
    previous_plan: Plan | None = None
    message: str = ""


@dataclass(frozen=True)
class StepRow:
    """What may exist of a resource: `intent` perhaps, `done` surely, `removing` perhaps still.

    `expired` was done, and went by its own timeout: it is not made again.
    """

    key: str
    resource: Resource
    state: str


class Store:
    """One SQLite file; not thread-safe, belongs to the node's event loop."""

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it, and brings it to this version's schema.

        Raises:
            ConfigError: it is of a later version, or no database.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its other files the mode of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        migrate(path)
        self._path = path
        self._db = sqlite3.connect(path, timeout=_LOCK_PATIENCE_S, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._graphs: dict[str, GraphRecord] = {}
        self._steps: dict[str, dict[str, StepRow]] = {}
        self._holders: defaultdict[str, set[str]] = defaultdict(set)
        self._late: set[str] = set()
        self._read()

    def _read(self) -> None:
        rows = self._db.execute(
            "SELECT id, number, state, document, plan, previous_document, previous_plan, message "
            "FROM graph ORDER BY number"
        )
        self._graphs = {row[0]: _record(row) for row in rows}
        for graph_id, key in self._db.execute("SELECT graph, key FROM step"):
            self._holders[key].add(graph_id)

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(StoreFault):
            self.flush()
        self._db.close()

    def meta(self, key: str) -> str | None:
        """A value noted by `set_meta`."""
        row = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        """Notes a value."""
        self.write("INSERT OR REPLACE INTO meta VALUES (?,?)", key, value)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query, for tables that are another module's (access/users.py)."""
        return self._db.execute(query, values).fetchall()

    def write(self, statement: str, *values: Any) -> None:
        """Executes a statement that changes such a table.

        Raises:
            StoreFault: it could not be written.
        """
        with self._told():
            self._db.execute(statement, values)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Says of a failure of the file, but not of a statement, what it is."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreFault("store", f"{self._path}: {error}; nothing was changed") from error

    # Graphs.

    def graphs(self) -> list[GraphRecord]:
        """All graphs, in the order of their numbers as far as they were read at the start."""
        return list(self._graphs.values())

    def graph(self, graph_id: str) -> GraphRecord | None:
        """The graph with this id."""
        return self._graphs.get(graph_id)

    def free_number(self) -> int:
        """The smallest number, from 1, that no graph has."""
        taken = {record.number for record in self._graphs.values()}
        return next(number for number in range(1, len(taken) + 2) if number not in taken)

    def put_graph(self, record: GraphRecord) -> None:
        """Writes a graph, new or changed."""
        self.write(_PUT_GRAPH, *_row(record))
        self._graphs[record.id] = record

    def put_late(self, records: Iterable[GraphRecord]) -> None:
        """Notes graphs that are written by the next `flush`; a crash before it may lose that."""
        for record in records:
            self._graphs[record.id] = record
            self._late.add(record.id)

    def flush(self) -> None:
        """Writes, in one transaction, the graphs of `put_late` as they are now."""
        rows = [_row(self._graphs[graph]) for graph in self._late if graph in self._graphs]
        self._write(_PUT_GRAPH, rows)
        self._late.clear()

    def delete_graph(self, graph_id: str) -> None:
        """Forgets a graph; its steps must be gone."""
        with self._told(), self._transaction():
            self._db.execute("DELETE FROM graph WHERE id=?", (graph_id,))
            self._db.execute("DELETE FROM owner WHERE graph=?", (graph_id,))
        self._graphs.pop(graph_id, None)

    # Steps.

    def steps(self, graph_id: str) -> list[StepRow]:
        """All rows of a graph, in the order in which they were first intended."""
        return list(self._of(graph_id).values())

    def _of(self, graph_id: str) -> dict[str, StepRow]:
        held = self._steps.get(graph_id)
        if held is None:
            rows = self._db.execute(
                "SELECT key, content, state FROM step WHERE graph=? ORDER BY seq", (graph_id,)
            )
            held = {key: StepRow(key, from_json(content), state) for key, content, state in rows}
            self._steps[graph_id] = held
        return held

    def held_by_others(self, graph_id: str, key: str) -> bool:
        """Whether another graph has a row of this key, and is not about to remove it."""
        others = self._holders.get(key, set()) - {graph_id}
        return any(self._of(other)[key].state != "removing" for other in others)

    def intend(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources are about to be made."""
        self._write(
            "INSERT INTO step (graph, key, content, state) VALUES (?,?,?,'intent') "
            "ON CONFLICT (graph, key) DO UPDATE SET content=excluded.content, state='intent'",
            [(graph_id, r.key, r.model_dump_json()) for r in resources],
        )
        held = self._of(graph_id)
        for resource in resources:
            held[resource.key] = StepRow(resource.key, resource, "intent")
            self._holders[resource.key].add(graph_id)

    def done(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources exist."""
        self._turn(graph_id, resources, "done")

    def removing(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources are about to be removed."""
        self._turn(graph_id, resources, "removing")

    def forget(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources are gone."""
        self._write(
            "DELETE FROM step WHERE graph=? AND key=?", [(graph_id, r.key) for r in resources]
        )
        held = self._of(graph_id)
        for resource in resources:
            held.pop(resource.key, None)
            self._holders[resource.key].discard(graph_id)
            if not self._holders[resource.key]:
                del self._holders[resource.key]
        if not held:
            del self._steps[graph_id]

    def expired(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these rules, which were done, have gone by their own timeouts."""
        held = self._of(graph_id)
        done = [r for r in resources if r.key in held and held[r.key].state == "done"]
        self._turn(graph_id, done, "expired")

    def _turn(self, graph_id: str, resources: Sequence[Resource], state: str) -> None:
        self._write(
            "UPDATE step SET state=? WHERE graph=? AND key=?",
            [(state, graph_id, r.key) for r in resources],
        )
        held = self._of(graph_id)
        for resource in resources:
            row = held.get(resource.key)
            if row is not None:
                held[resource.key] = replace(row, state=state)

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        with self._told(), self._transaction():
            self._db.executemany(statement, rows)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have done so by itself
                self._db.execute("ROLLBACK")
            raise


_PUT_GRAPH = "INSERT OR REPLACE INTO graph VALUES (?,?,?,?,?,?,?,?,?)"


def _row(record: GraphRecord) -> tuple[Any, ...]:
    previous = record.previous_document
    return (
        record.id,
        record.number,
        record.state.value,
        json.dumps(record.document),
        record.plan.model_dump_json(),
        None if previous is None else json.dumps(previous),
        record.previous_plan.model_dump_json() if record.previous_plan else None,
        record.message,
        time.time(),
    )


def _record(row: tuple[Any, ...]) -> GraphRecord:
    return GraphRecord(
        id=row[0],
        number=row[1],
        state=GraphState(row[2]),
        document=json.loads(row[3]),
        plan=Plan.model_validate_json(row[4]) if row[4] else EMPTY_PLAN,
        previous_document=json.loads(row[5]) if row[5] else None,
        previous_plan=Plan.model_validate_json(row[6]) if row[6] else None,
        message=row[7],
    )
