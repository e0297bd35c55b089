// SPDX-License-Identifier: Apache-2.0
// The thread that builds large tables (pipeline::TableBuilder), one for the switch.
//
// It runs on the CPUs of the control thread, at a lower priority, and touches nothing but what its
// work refers to.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "pipeline/terms/table_builder.h"

namespace headrace::runtime {

class BuilderThread final : public pipeline::TableBuilder {
 public:
  /// `io` is the control thread's; it must outlive this.
  explicit BuilderThread(asio::io_context& io);
  /// Waits for all work; what would be run on the control thread then is not.
  ~BuilderThread() override;
  BuilderThread(const BuilderThread&) = delete;
  BuilderThread& operator=(const BuilderThread&) = delete;

  void build(std::function<void()> work, std::function<void()> done) override;
  void wait() override;

 private:
  struct Job {
    std::function<void()> work;
    std::function<void()> done;
  };

  void loop();
  void run_done();

  asio::io_context& io_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::deque<std::function<void()>> done_;  ///< for the control thread
  bool working_{false};
  bool stop_{false};
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};
  std::thread thread_;
};

}  // namespace headrace::runtime
