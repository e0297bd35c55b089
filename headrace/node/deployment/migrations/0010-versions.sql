-- SPDX-License-Identifier: Apache-2.0
-- depends: 0009-reservations
-- A graph's document and plan are rows of their own, written once: the graph's row, which changes with
-- its state, names that of its present version and, while an update is under way, that of the one before.
CREATE TABLE version (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  document TEXT NOT NULL,
  plan TEXT NOT NULL
);
-- The numbers are those of the graphs, which are unique: 2n for the present version, 2n + 1 for the other.
INSERT INTO version SELECT 2 * number, document, plan FROM graph;
INSERT INTO version SELECT 2 * number + 1, previous_document, previous_plan FROM graph
  WHERE previous_document IS NOT NULL AND previous_plan IS NOT NULL;
CREATE TABLE new_graph (
  id TEXT PRIMARY KEY,
  number INTEGER NOT NULL UNIQUE,
  state TEXT NOT NULL,
  version INTEGER NOT NULL,
  previous INTEGER,
  message TEXT NOT NULL DEFAULT '',
  changed_at REAL NOT NULL
);
INSERT INTO new_graph SELECT id, number, state, 2 * number,
  CASE WHEN previous_document IS NOT NULL AND previous_plan IS NOT NULL THEN 2 * number + 1 END,
  message, changed_at FROM graph;
DROP TABLE graph;
ALTER TABLE new_graph RENAME TO graph;
