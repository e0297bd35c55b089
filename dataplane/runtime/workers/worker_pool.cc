// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/worker_pool.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "eal/thread.h"
#include "runtime/workers/queue_assignment.h"

namespace headrace::runtime {

Result<> WorkerPool::set_cpus(std::vector<unsigned> cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  if (cpus.empty()) return fail("at least one CPU is needed");
  Result<> result;
  std::vector<unsigned> missing;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(missing),
               [](unsigned cpu) { return !eal::is_cpu_usable(cpu); });
  if (!missing.empty()) {
    result = fail("no worker can run on CPU {}; leave {} out", fmt::join(missing, ", "),
                  missing.size() == 1 ? "it" : "them");
    std::erase_if(cpus, [](unsigned cpu) { return !eal::is_cpu_usable(cpu); });
    if (cpus.empty()) return result;  // the present workers stay
  }
  if (cpus.size() > pipeline::kMaxWorkers) {
    return fail("{} CPUs: at most {} workers are possible", cpus.size(), pipeline::kMaxWorkers);
  }
  size_t kept = 0;
  while (kept < workers_.size() && kept < cpus.size() && workers_[kept]->cpu() == cpus[kept]) {
    ++kept;
  }
  workers_.resize(kept);
  for (size_t i = kept; i < cpus.size(); ++i) {
    Result<std::unique_ptr<Worker>> worker =
        Worker::start(static_cast<unsigned>(workers_.size()), cpus[i], qsbr_, wake_up_);
    if (!worker) {
      result = tl::unexpected(worker.error());
      continue;
    }
    (*worker)->set_max_sleep(max_sleep_us_);
    (*worker)->set_stage_timing(stage_timing_);
    workers_.push_back(std::move(*worker));
  }
  publish();
  return result;
}

void WorkerPool::set_max_sleep(uint32_t microseconds) {
  max_sleep_us_ = microseconds;
  for (const auto& worker : workers_) worker->set_max_sleep(microseconds);
}

void WorkerPool::set_stage_timing(bool on) {
  stage_timing_ = on;
  for (const auto& worker : workers_) worker->set_stage_timing(on);
}

void WorkerPool::set_queues(std::vector<RxQueue> queues, std::vector<SharedTx*> shared,
                            std::vector<PortQueues*> scheduled) {
  queues_ = std::move(queues);
  shared_ = std::move(shared);
  scheduled_ = std::move(scheduled);
  publish();
}

std::vector<unsigned> WorkerPool::cpus() const {
  std::vector<unsigned> cpus;
  for (const auto& worker : workers_) cpus.push_back(worker->cpu());
  return cpus;
}

void WorkerPool::publish() {
  std::vector<std::optional<unsigned>> affinities;
  for (const RxQueue& queue : queues_) affinities.push_back(queue.affinity);
  const std::vector<std::optional<size_t>> assigned = assign_queues(affinities, cpus());

  std::vector<PollPlan> plans(workers_.size());
  for (size_t i = 0; i < queues_.size(); ++i) {
    const bool first = queues_[i].is_first_workers && !workers_.empty();
    queues_[i].worker = first ? std::optional<size_t>(0) : assigned[i];
    if (queues_[i].worker) {
      plans[*queues_[i].worker].queues.push_back(queues_[i].entry);
    } else if (queues_[i].affinity) {
      log::warn("{}: queue {} has an affinity to CPU {}, where no worker runs: it is not polled",
                queues_[i].port, queues_[i].entry.queue, *queues_[i].affinity);
    }
  }
  for (SharedTx* port : shared_) {
    for (size_t i = 0; i < workers_.size() && i < port->queues(); ++i) {
      // Only queues that some other worker maps to have anything to drain; or those to which one
      // did that is no more.
      const auto queue = static_cast<uint16_t>(i);
      if (i + port->queues() < workers_.size() || port->has_waiting(queue)) {
        plans[i].drains.push_back({port, queue});
      }
    }
  }
  // Always the first worker: an owner may not change while both old and new may be at it.
  if (!plans.empty()) plans.front().scheduled = scheduled_;
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->set_plan(std::move(plans[i]));
}

}  // namespace headrace::runtime
