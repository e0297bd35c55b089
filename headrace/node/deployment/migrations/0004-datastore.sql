-- SPDX-License-Identifier: Apache-2.0
-- depends: 0003-users
-- Templates that clients bring (as they wrote them), the images that belong to them, a quota for these.
CREATE TABLE template (
  id TEXT PRIMARY KEY,
  content TEXT NOT NULL,
  user TEXT NOT NULL,
  member_of TEXT NOT NULL,
  origin TEXT NOT NULL DEFAULT ''
);
CREATE TABLE image (
  template TEXT PRIMARY KEY REFERENCES template (id) ON DELETE CASCADE,
  digest TEXT NOT NULL,
  size INTEGER NOT NULL,
  format TEXT NOT NULL,
  virtual_size INTEGER NOT NULL,
  user TEXT NOT NULL
);
ALTER TABLE user ADD COLUMN max_images_mb INTEGER;
