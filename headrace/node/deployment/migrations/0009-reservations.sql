-- SPDX-License-Identifier: Apache-2.0
-- depends: 0008-attached-ports
-- Cores and memory of the node that others than its VNFs have, such as pods.
CREATE TABLE reservation (
  name TEXT PRIMARY KEY,
  content TEXT NOT NULL
);
