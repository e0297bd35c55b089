-- SPDX-License-Identifier: Apache-2.0
-- depends: 0001-graphs-and-steps
-- The version of the schema is told by the migrations that were applied, not by a row of its own.
DELETE FROM meta WHERE key = 'schema';
