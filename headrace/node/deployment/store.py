# SPDX-License-Identifier: Apache-2.0
"""The node's database: graphs and their steps, in SQLite, each written before it is taken.

A row of `step` is one resource of one graph. It is written with state `intent` before anything is
touched and turned to `done` afterwards; before a removal it becomes `removing` and is deleted
afterwards. So whatever may exist in the switch has a row, at every moment, and a crash loses
nothing: the next start compares the rows with the plan and goes on (see `lifecycle`).

A graph's document and plan, which are large, are a row of `version`, written once; its row of
`graph`, which changes with its state, says which version is its present one, and which was before
while an update is under way. Both change in one transaction.

Writes are synchronous (WAL, `synchronous=FULL`): a step may not begin before its intent is on disk.
They take one to ten milliseconds, so what has been done is a note that goes with the next
transaction, whosever it is: `done` and `forget`. After a crash before it, the step is taken once
more, which changes nothing. `write_notes` writes them if nothing else is to come.

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
from headrace.node.planning.resources import EMPTY_PLAN, Plan, Resource, from_json, to_json

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


@dataclass(frozen=True)
class _Version:
    """A document and its plan as they are on disk, by the number of their row."""

    seq: int
    document: dict[str, Any]
    plan: Plan

    def is_of(self, document: dict[str, Any] | None, plan: Plan | None) -> bool:
        """Whether it has this document and plan. Neither is changed once it is here."""
        return self.document is document and self.plan is plan


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
        self._versions: dict[str, tuple[_Version, ...]] = {}
        self._late: set[str] = set()
        self._notes: list[tuple[str, Sequence[tuple[Any, ...]]]] = []
        self._read()

    def _read(self) -> None:
        versions = {
            seq: _Version(seq, json.loads(document), _plan_of(plan))
            for seq, document, plan in self._db.execute("SELECT seq, document, plan FROM version")
        }
        rows = self._db.execute(
            "SELECT id, number, state, version, previous, message FROM graph ORDER BY number"
        )
        for graph_id, number, state, present, before, message in rows:
            new, old = versions[present], versions.get(before)
            self._versions[graph_id] = (new,) if old is None else (new, old)
            self._graphs[graph_id] = GraphRecord(
                id=graph_id,
                number=number,
                state=GraphState(state),
                document=new.document,
                plan=new.plan,
                previous_document=old.document if old else None,
                previous_plan=old.plan if old else None,
                message=message,
            )
        for graph_id, key in self._db.execute("SELECT graph, key FROM step"):
            self._holders[key].add(graph_id)

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(StoreFault):
            self.flush()
            self.write_notes()
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
        with self._told(), self._transaction():
            versions = self._put(record)
        self._graphs[record.id] = record
        self._versions[record.id] = versions

    def _put(self, record: GraphRecord) -> tuple[_Version, ...]:
        """Writes a graph's row and such versions of it as are new, and removes those before."""
        have = self._versions.get(record.id, ())
        wanted = [(record.document, record.plan)]
        if record.previous_document is not None and record.previous_plan is not None:
            wanted.append((record.previous_document, record.previous_plan))
        found = tuple(
            next((each for each in have if each.is_of(*content)), None)
            or self._put_version(*content)
            for content in wanted
        )
        before = found[1].seq if len(found) > 1 else None
        row = (record.id, record.number, record.state.value, found[0].seq, before)
        self._db.execute(_PUT_GRAPH, (*row, record.message, time.time()))
        kept = {each.seq for each in found}
        gone = [(each.seq,) for each in have if each.seq not in kept]
        self._db.executemany("DELETE FROM version WHERE seq=?", gone)
        return found

    def _put_version(self, document: dict[str, Any], plan: Plan) -> _Version:
        row = self._db.execute(
            "INSERT INTO version (document, plan) VALUES (?,?)",
            (json.dumps(document), plan.to_json()),
        )
        if row.lastrowid is None:
            raise AssertionError("SQLite gives each row of this table a number")
        return _Version(row.lastrowid, document, plan)

    def put_late(self, records: Iterable[GraphRecord]) -> None:
        """Notes graphs that are written by the next `flush`; a crash before it may lose that."""
        for record in records:
            self._graphs[record.id] = record
            self._late.add(record.id)

    def flush(self) -> None:
        """Writes, in one transaction, the graphs of `put_late` as they are now."""
        records = [self._graphs[graph] for graph in self._late if graph in self._graphs]
        if records:
            with self._told(), self._transaction():
                versions = {record.id: self._put(record) for record in records}
            self._versions.update(versions)
        self._late.clear()

    def delete_graph(self, graph_id: str) -> None:
        """Forgets a graph; its steps must be gone."""
        with self._told(), self._transaction():
            self._db.execute("DELETE FROM graph WHERE id=?", (graph_id,))
            gone = [(each.seq,) for each in self._versions.get(graph_id, ())]
            self._db.executemany("DELETE FROM version WHERE seq=?", gone)
            self._db.execute("DELETE FROM owner WHERE graph=?", (graph_id,))
        self._graphs.pop(graph_id, None)
        self._versions.pop(graph_id, None)

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

    def intend(
        self, graph_id: str, resources: Sequence[Resource], removing: Sequence[Resource] = ()
    ) -> None:
        """Notes that these resources are about to be made, and others about to be removed."""
        if not resources and not removing:
            return
        with self._told(), self._transaction():
            self._db.executemany(
                "INSERT INTO step (graph, key, content, state) VALUES (?,?,?,'intent') "
                "ON CONFLICT (graph, key) DO UPDATE SET content=excluded.content, state='intent'",
                [(graph_id, r.key, to_json(r)) for r in resources],
            )
            self._db.executemany(_TURN, [("removing", graph_id, r.key) for r in removing])
        held = self._of(graph_id)
        for resource in resources:
            held[resource.key] = StepRow(resource.key, resource, "intent")
            self._holders[resource.key].add(graph_id)
        self._turned(graph_id, removing, "removing")

    def done(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources exist: with the next transaction."""
        if resources:
            self._notes.append((_TURN, [("done", graph_id, r.key) for r in resources]))
            self._turned(graph_id, resources, "done")

    def removing(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources are about to be removed."""
        self._turn(graph_id, resources, "removing")

    def forget(self, graph_id: str, resources: Sequence[Resource]) -> None:
        """Notes that these resources are gone: with the next transaction."""
        if not resources:
            return
        rows = [(graph_id, r.key) for r in resources]
        self._notes.append(("DELETE FROM step WHERE graph=? AND key=?", rows))
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
        if resources:
            with self._told(), self._transaction():
                self._db.executemany(_TURN, [(state, graph_id, r.key) for r in resources])
            self._turned(graph_id, resources, state)

    def _turned(self, graph_id: str, resources: Sequence[Resource], state: str) -> None:
        held = self._of(graph_id)
        for resource in resources:
            row = held.get(resource.key)
            if row is not None:
                held[resource.key] = replace(row, state=state)

    def write_notes(self) -> None:
        """Writes what is done and what is gone, if a transaction has not done so already.

        Raises:
            StoreFault: it could not be written; the next transaction tries it again.
        """
        if self._notes:
            with self._told(), self._transaction():
                pass

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction, with the notes before it."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in self._notes:
                self._db.executemany(statement, rows)
            yield
            self._db.execute("COMMIT")
            self._notes.clear()
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have done so by itself
                self._db.execute("ROLLBACK")
            raise


_TURN = "UPDATE step SET state=? WHERE graph=? AND key=?"
_PUT_GRAPH = "INSERT OR REPLACE INTO graph VALUES (?,?,?,?,?,?,?)"


def _plan_of(text: str) -> Plan:
    return Plan.model_validate_json(text) if text else EMPTY_PLAN
