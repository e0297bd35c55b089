// SPDX-License-Identifier: Apache-2.0
// A thread that moves packets: pinned to its core, sleeping while it has no job.
//
// Thread safety: submit() from the control thread; jobs run in the worker, one after the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.h"

namespace headrace::traffic {

class Worker {
 public:
  /// Starts the thread on `cpu`. EAL must be up. Fails if the process may not run there.
  static Result<std::unique_ptr<Worker>> start(uint32_t cpu);
  /// Waits until all submitted jobs have run: other workers' jobs may wait for them.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs `job` when those before it are done.
  void submit(std::function<void()> job);

 private:
  Worker() = default;
  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool ending_{false};
  std::thread thread_;
};

}  // namespace headrace::traffic
