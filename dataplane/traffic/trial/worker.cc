// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/worker.h"

#include <future>

#include "eal/thread.h"

namespace headrace::traffic {

Result<std::unique_ptr<Worker>> Worker::start(uint32_t cpu) {
  std::unique_ptr<Worker> worker(new Worker());
  std::promise<Result<>> started;
  worker->thread_ = std::thread([&started, cpu, self = worker.get()] {
    eal::name_this_thread("traffic");
    if (Result<> pinned = eal::pin_this_thread(cpu); !pinned) {
      started.set_value(pinned);
      return;
    }
    const eal::DpdkThread registered;
    started.set_value({});
    self->loop();
  });
  if (Result<> result = started.get_future().get(); !result) return tl::unexpected(result.error());
  return worker;
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Worker::loop() {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace headrace::traffic
