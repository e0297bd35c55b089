# SPDX-License-Identifier: Apache-2.0
"""The node's database: graphs and their steps, in SQLite, each written before it is taken.

A row of `step` is one resource of one graph. It is written with state `intent` before anything is
touched and turned to `done` afterwards; before a removal it becomes `removing` and is deleted
afterwards. So whatever may exist in the switch has a row, at every moment, and a crash loses
nothing: the next start compares the rows with the plan and goes on (see `lifecycle`).

Writes are synchronous (WAL, `synchronous=FULL`): a step may not begin before its intent is on disk.
They take about a millisecond; the control plane of one node can afford it.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.node.deployment.schema import migrate
from headrace.node.planning.resources import EMPTY_PLAN, Plan, Resource, from_json


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
    content: str
    state: str

    @property
    def resource(self) -> Resource:
        """The resource that the row stands for."""
        return from_json(self.content)


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
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def meta(self, key: str) -> str | None:
        """A value noted by `set_meta`."""
        row = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        """Notes a value."""
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?,?)", (key, value))

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query, for tables that are another module's (access/users.py)."""
        return self._db.execute(query, values).fetchall()

    def write(self, statement: str, *values: Any) -> None:
        """Executes a statement that changes such a table."""
        self._db.execute(statement, values)

    # Graphs.

    def graphs(self) -> list[GraphRecord]:
        """All graphs, in the order of their numbers."""
        rows = self._db.execute(
            "SELECT id, number, state, document, plan, previous_document, previous_plan, message "
            "FROM graph ORDER BY number"
        )
        return [_record(row) for row in rows]

    def graph(self, graph_id: str) -> GraphRecord | None:
        """The graph with this id."""
        return next((record for record in self.graphs() if record.id == graph_id), None)

    def free_number(self) -> int:
        """The smallest number, from 1, that no graph has."""
        taken = {record.number for record in self.graphs()}
        return next(number for number in range(1, len(taken) + 2) if number not in taken)

    def put_graph(self, record: GraphRecord) -> None:
        """Writes a graph, new or changed."""
        previous = record.previous_document
        self._db.execute(
            "INSERT OR REPLACE INTO graph VALUES (?,?,?,?,?,?,?,?,?)",
            (
                record.id,
                record.number,
                record.state.value,
                json.dumps(record.document),
                record.plan.model_dump_json(),
                None if previous is None else json.dumps(previous),
                record.previous_plan.model_dump_json() if record.previous_plan else None,
                record.message,
                time.time(),
            ),
        )

    def delete_graph(self, graph_id: str) -> None:
        """Forgets a graph; its steps must be gone."""
        self._db.execute("DELETE FROM graph WHERE id=?", (graph_id,))

    # Steps.

    def steps(self, graph_id: str) -> list[StepRow]:
        """All rows of a graph, in the order in which they were first intended."""
        rows = self._db.execute(
            "SELECT key, content, state FROM step WHERE graph=? ORDER BY seq", (graph_id,)
        )
        return [StepRow(*row) for row in rows]

    def held_by_others(self, graph_id: str, key: str) -> bool:
        """Whether another graph has a row of this key."""
        query = "SELECT 1 FROM step WHERE key=? AND graph<>? LIMIT 1"
        return self._db.execute(query, (key, graph_id)).fetchone() is not None

    def intend(self, graph_id: str, resources: Iterable[Resource]) -> None:
        """Notes that these resources are about to be made."""
        self._write(
            "INSERT INTO step (graph, key, content, state) VALUES (?,?,?,'intent') "
            "ON CONFLICT (graph, key) DO UPDATE SET content=excluded.content, state='intent'",
            [(graph_id, r.key, r.model_dump_json()) for r in resources],
        )

    def done(self, graph_id: str, resources: Iterable[Resource]) -> None:
        """Notes that these resources exist."""
        self._write(
            "UPDATE step SET state='done' WHERE graph=? AND key=?",
            [(graph_id, r.key) for r in resources],
        )

    def removing(self, graph_id: str, resources: Iterable[Resource]) -> None:
        """Notes that these resources are about to be removed."""
        self._write(
            "UPDATE step SET state='removing' WHERE graph=? AND key=?",
            [(graph_id, r.key) for r in resources],
        )

    def forget(self, graph_id: str, resources: Iterable[Resource]) -> None:
        """Notes that these resources are gone."""
        self._write(
            "DELETE FROM step WHERE graph=? AND key=?", [(graph_id, r.key) for r in resources]
        )

    def expired(self, graph_id: str, resources: Iterable[Resource]) -> None:
        """Notes that these rules, which were done, have gone by their own timeouts."""
        self._write(
            "UPDATE step SET state='expired' WHERE graph=? AND key=? AND state='done'",
            [(graph_id, r.key) for r in resources],
        )

    def _write(self, statement: str, rows: Sequence[tuple[str, ...]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(statement, rows)
        except sqlite3.Error:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


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
