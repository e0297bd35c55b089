// SPDX-License-Identifier: Apache-2.0
// When may memory that a worker could still be reading be used again?
//
// The control thread replaces what workers read (a program, a rule slot, a group's buckets) by
// publishing the new one and handing the old one to a Reclaimer. A worker reads published state
// only between two quiescent reports, and reports only after Executor::flush(), when it holds no
// packet and no pointer. So once every worker has reported after the publication, nobody can see
// the old state: then, and only then, the deferred function runs.
#pragma once

#include <functional>

namespace headrace::pipeline {

/// Runs a function after a grace period. Control thread only.
class Reclaimer {
 public:
  virtual ~Reclaimer() = default;

  /// Runs `function` on the control thread, once every worker has passed a quiescent state after
  /// this call; functions run in the order in which they were deferred. May not run it before
  /// returning unless there are no workers.
  virtual void defer(std::function<void()> function) = 0;
};

/// For programs without workers, and for tests that run the executor on the control thread:
/// there is nobody to wait for.
class ImmediateReclaimer final : public Reclaimer {
 public:
  void defer(std::function<void()> function) override { function(); }
};

}  // namespace headrace::pipeline
