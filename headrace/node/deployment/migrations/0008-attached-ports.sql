-- SPDX-License-Identifier: Apache-2.0
-- depends: 0007-restarts
-- Ports of LSI-0 that were attached while the node ran, beside those of node.yaml. `content` is a
-- port as node.yaml would have it, `owner` whose it is (such as a pod's sandbox).
CREATE TABLE attached_port (
  name TEXT PRIMARY KEY,
  content TEXT NOT NULL,
  owner TEXT NOT NULL
);
