-- SPDX-License-Identifier: Apache-2.0
-- depends: 0002-version-by-migrations
-- Who may use the API: groups, users with their quotas, tokens (by digest), owners of graphs.
CREATE TABLE user_group (name TEXT PRIMARY KEY);
INSERT INTO user_group VALUES ('admin');
CREATE TABLE user (
  name TEXT PRIMARY KEY,
  member_of TEXT NOT NULL REFERENCES user_group (name),
  password TEXT NOT NULL,
  max_graphs INTEGER,
  max_cores INTEGER,
  max_memory_mb INTEGER
);
CREATE TABLE token (
  digest TEXT PRIMARY KEY,
  user TEXT NOT NULL REFERENCES user (name) ON DELETE CASCADE,
  expires_at REAL NOT NULL
);
CREATE TABLE owner (graph TEXT PRIMARY KEY, user TEXT NOT NULL, member_of TEXT NOT NULL);
