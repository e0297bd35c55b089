// SPDX-License-Identifier: Apache-2.0
// The workers of the generator, one for each of its cores.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "traffic/trial/worker.h"

namespace headrace::traffic {

class WorkerThreads {
 public:
  /// Starts a worker on each of `cpus`, which must differ. EAL must be up.
  static Result<std::unique_ptr<WorkerThreads>> start(std::span<const uint32_t> cpus);

  /// Runs `part` in every worker, with the worker's number; the last to return calls `done`. Called
  /// by the control thread.
  void run(std::function<void(size_t)> part, std::function<void()> done);

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(workers_.size()); }
  /// The CPU of each worker.
  [[nodiscard]] const std::vector<uint32_t>& cpus() const { return cpus_; }

 private:
  WorkerThreads() = default;

  std::vector<uint32_t> cpus_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace headrace::traffic
