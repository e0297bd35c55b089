// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/worker_threads.h"

#include <algorithm>
#include <atomic>

namespace headrace::traffic {

Result<std::unique_ptr<WorkerThreads>> WorkerThreads::start(std::span<const uint32_t> cpus) {
  std::unique_ptr<WorkerThreads> threads(new WorkerThreads());
  for (const uint32_t cpu : cpus) {
    // Two pollers on one core would wait for each other's time slice.
    if (std::ranges::count(cpus, cpu) > 1) return fail("--cpu: CPU {} is named twice", cpu);
    auto worker = Worker::start(cpu);
    if (!worker) return tl::unexpected(worker.error());
    threads->cpus_.push_back(cpu);
    threads->workers_.push_back(std::move(*worker));
  }
  return threads;
}

void WorkerThreads::run(std::function<void(size_t)> part, std::function<void()> done) {
  struct Job {
    std::function<void(size_t)> part;
    std::function<void()> done;
    std::atomic<size_t> left;
    Job(std::function<void(size_t)> each, std::function<void()> end, size_t parts)
        : part(std::move(each)), done(std::move(end)), left(parts) {}
  };
  const auto job = std::make_shared<Job>(std::move(part), std::move(done), workers_.size());
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->submit([job, i] {
      job->part(i);
      if (job->left.fetch_sub(1, std::memory_order_acq_rel) == 1) job->done();
    });
  }
}

}  // namespace headrace::traffic
