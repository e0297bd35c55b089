# SPDX-License-Identifier: Apache-2.0
"""The database of version 0.1.0, which had no migrations: made from one of this version."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE graph (
  id TEXT PRIMARY KEY,
  number INTEGER NOT NULL UNIQUE,
  state TEXT NOT NULL,
  document TEXT NOT NULL,
  plan TEXT NOT NULL,
  previous_document TEXT,
  previous_plan TEXT,
  message TEXT NOT NULL DEFAULT '',
  changed_at REAL NOT NULL
);
CREATE TABLE step (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  graph TEXT NOT NULL,
  key TEXT NOT NULL,
  content TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('intent', 'done', 'removing')),
  UNIQUE (graph, key)
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('schema', '1');
"""
QUERIES = {
    "graph": "SELECT id, number, state, new.document, new.plan, old.document, old.plan, message, "
    "changed_at FROM graph JOIN version AS new ON new.seq = version "
    "LEFT JOIN version AS old ON old.seq = previous",
    "step": "SELECT seq, graph, key, content, state FROM step",
    "meta": "SELECT key, value FROM meta",
}
"""What that version's tables had, as this one has it."""
NEW_FIELDS = ("sleep_us", "burst")
"""Of VnfSpec: that version did not know them."""


def as_of_0_1_0(source: Path, target: Path) -> None:
    """Writes to `target` what version 0.1.0 would have written where this one wrote `source`."""
    with closing(sqlite3.connect(source)) as now, closing(sqlite3.connect(target)) as then:
        then.executescript(SCHEMA)
        for table, query in QUERIES.items():
            for row in now.execute(query).fetchall():
                marks = ",".join("?" * len(row))
                values = [_without_new_fields(value) for value in row]
                if values[0] != "rundir":
                    then.execute(f"INSERT INTO {table} VALUES ({marks})", values)
        then.commit()


def _without_new_fields(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    return json.dumps(_stripped(json.loads(value)))


def _stripped(value: Any) -> Any:
    if isinstance(value, list):
        return [_stripped(member) for member in value]
    if isinstance(value, dict):
        return {key: _stripped(held) for key, held in value.items() if key not in NEW_FIELDS}
    return value
