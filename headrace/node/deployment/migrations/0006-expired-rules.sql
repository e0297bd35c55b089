-- SPDX-License-Identifier: Apache-2.0
-- depends: 0005-exec
-- The row of a rule that has gone by its own timeout stays, `expired`, so that the rule is not made
-- again. SQLite cannot change the check of a column, so the table is made anew.
CREATE TABLE new_step (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  graph TEXT NOT NULL,
  key TEXT NOT NULL,
  content TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('intent', 'done', 'removing', 'expired')),
  UNIQUE (graph, key)
);
INSERT INTO new_step SELECT seq, graph, key, content, state FROM step;
DROP TABLE step;
ALTER TABLE new_step RENAME TO step;
