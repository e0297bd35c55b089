-- SPDX-License-Identifier: Apache-2.0
-- depends: 0004-datastore
-- Which users may run commands in the VNFs of their graphs.
ALTER TABLE user ADD COLUMN may_exec INTEGER NOT NULL DEFAULT 0;
