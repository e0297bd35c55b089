-- SPDX-License-Identifier: Apache-2.0
-- depends: 0006-expired-rules
-- How often VNFs were restarted, and which stay ended, over restarts of the node. Times are those of
-- the clock, in seconds since 1970.
CREATE TABLE restart (
  graph TEXT NOT NULL,
  vnf TEXT NOT NULL,
  restarts INTEGER NOT NULL,
  streak INTEGER NOT NULL,
  wait_s REAL NOT NULL,
  last REAL,
  held TEXT NOT NULL,
  PRIMARY KEY (graph, vnf)
);
