// SPDX-License-Identifier: Apache-2.0
// Where large tables are built, so that the control thread need not.
#pragma once

#include <functional>

namespace headrace::pipeline {

/// Does work on another thread. Control thread only.
class TableBuilder {
 public:
  virtual ~TableBuilder() = default;

  /// Runs `work` on another thread, after what was given before; then `done` on the control thread,
  /// not before build() has returned.
  virtual void build(std::function<void()> work, std::function<void()> done) = 0;
  /// Returns when all work is done, and runs what is to be run on the control thread then.
  virtual void wait() = 0;
};

}  // namespace headrace::pipeline
