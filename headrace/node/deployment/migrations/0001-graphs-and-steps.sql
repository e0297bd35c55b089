-- SPDX-License-Identifier: Apache-2.0
-- The schema of version 0.1.0, which had no migrations: a database of that version is found as it is.
CREATE TABLE IF NOT EXISTS graph (
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
CREATE TABLE IF NOT EXISTS step (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  graph TEXT NOT NULL,
  key TEXT NOT NULL,
  content TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('intent', 'done', 'removing')),
  UNIQUE (graph, key)
);
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
