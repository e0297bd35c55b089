// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/worker_pool.h"

#include <fmt/ranges.h>
#include <rte_cycles.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "eal/thread.h"

namespace headrace::runtime {

WorkerPool::WorkerPool(Qsbr& qsbr, WakeUp& wake_up)
    : qsbr_(qsbr), wake_up_(wake_up), owners_(qsbr, [this] { publish(); }) {}

Result<> WorkerPool::set_cpus(std::vector<unsigned> cpus) {
  std::ranges::sort(cpus);
  if (cpus.empty()) return fail("at least one CPU is needed");
  Result<> result;
  std::vector<unsigned> missing;
  std::ranges::copy_if(cpus, std::back_inserter(missing),
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
  const size_t ended = std::erase_if(workers_, [&](std::unique_ptr<Worker>& worker) {
    const auto stays = std::ranges::find(cpus, worker->cpu());
    if (stays != cpus.end()) {
      cpus.erase(stays);
      return false;
    }
    const unsigned number = worker->number();
    worker.reset();  // its thread has ended
    owners_.worker_ended(number);
    busy_.erase(number);
    return true;
  });
  // Two phases, as for all queues: what new workers will share is shared a grace period before.
  std::vector<unsigned> then = numbers();
  std::vector<std::pair<unsigned, unsigned>> wanted;  // number, CPU
  for (const unsigned cpu : cpus) {
    unsigned number = 0;
    while (std::ranges::find(then, number) != then.end()) ++number;
    then.push_back(number);
    wanted.emplace_back(number, cpu);
  }
  if (share_among(then)) {
    qsbr_.defer([] {});
    qsbr_.drain();
  }
  for (const auto& [number, cpu] : wanted) {
    Result<std::unique_ptr<Worker>> worker = Worker::start(number, cpu, qsbr_, wake_up_);
    if (!worker) {
      result = tl::unexpected(worker.error());
      continue;
    }
    (*worker)->set_max_sleep(max_sleep_us_);
    (*worker)->set_stage_timing(stage_timing_);
    busy_.emplace(number, QueueLoad(rte_rdtsc(), 0));
    workers_.push_back(std::move(*worker));
  }
  std::ranges::sort(workers_, {}, [](const std::unique_ptr<Worker>& worker) {
    return std::pair(worker->cpu(), worker->number());
  });
  share_among(numbers());
  if (ended > 0 || !wanted.empty()) {
    ++generation_;
    deal(/*keep=*/false);
  }
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

void WorkerPool::set_policy(AssignPolicy policy) {
  if (std::exchange(policy_, policy) != policy) deal(/*keep=*/false);
}

void WorkerPool::set_queues(QueueSet queues) {
  queues_ = std::move(queues);
  collect_units();
  share_among(numbers());
  deal(/*keep=*/true);
}

std::vector<unsigned> WorkerPool::cpus() const {
  std::vector<unsigned> cpus;
  for (const auto& worker : workers_) cpus.push_back(worker->cpu());
  return cpus;
}

std::vector<unsigned> WorkerPool::numbers() const {
  std::vector<unsigned> numbers;
  for (const auto& worker : workers_) numbers.push_back(worker->number());
  return numbers;
}

std::optional<size_t> WorkerPool::index_of(std::optional<unsigned> number) const {
  if (!number) return std::nullopt;
  const auto found = std::ranges::find(workers_, *number, &Worker::number);
  if (found == workers_.end()) return std::nullopt;
  return static_cast<size_t>(found - workers_.begin());
}

bool WorkerPool::share_among(const std::vector<unsigned>& numbers) {
  bool shared = false;
  for (TxQueues* port : queues_.tx) shared |= port->set_workers(numbers);
  const bool alone = numbers.size() == 1;
  shared |= !alone && workers_.size() == 1;
  for (const auto& worker : workers_) worker->set_alone(alone);
  return shared;
}

Owned WorkerPool::unit_of(const RxQueue& queue) {
  return queue.group != nullptr ? Owned{queue.group} : Owned{queue.entry.io, queue.entry.queue};
}

Owned WorkerPool::unit_of(const ScheduledPort& port) {
  return port.group != nullptr ? Owned{port.group} : Owned{port.queues};
}

void WorkerPool::measure(uint64_t now) {
  for (auto& [what, unit] : units_) unit.cycles = 0;
  for (const RxQueue& queue : queues_.rx) {
    units_.at(unit_of(queue)).cycles += queue.entry.counters->cycles.read();
  }
  for (const ScheduledPort& port : queues_.scheduled) {
    units_.at(unit_of(port)).cycles += port.queues->cycles.read();
  }
  for (const HandedPort& port : queues_.handed) {
    units_.at(Owned{port.group}).cycles += port.port->cycles.read();
  }
  const uint64_t hz = rte_get_tsc_hz();
  for (auto& [what, unit] : units_) unit.history.note(now, unit.cycles, hz);
  for (const auto& worker : workers_) {
    busy_.at(worker->number()).note(now, worker->counters().busy_cycles.read(), hz);
  }
}

void WorkerPool::collect_units() {
  const std::map<Owned, Unit> before = std::exchange(units_, {});
  order_.clear();
  const uint64_t now = rte_rdtsc();
  const auto unit = [&](const Owned& what, uint64_t cycles) -> Unit& {
    const auto [at, is_new] =
        units_.try_emplace(what, Unit{{}, {}, QueueLoad(now, cycles), cycles});
    if (is_new) {
      order_.push_back(what);
      const auto known = before.find(what);
      if (known != before.end()) at->second = known->second;
      at->second.demand = {};
    }
    return at->second;
  };
  for (const RxQueue& queue : queues_.rx) {
    QueueDemand& demand = unit(unit_of(queue), queue.entry.counters->cycles.read()).demand;
    if (!demand.affinity) demand.affinity = queue.affinity;
    if (demand.node == kAnyNode) demand.node = queue.node;
  }
  for (const ScheduledPort& port : queues_.scheduled) {
    QueueDemand& demand = unit(unit_of(port), port.queues->cycles.read()).demand;
    if (demand.node == kAnyNode) demand.node = port.node;
  }
}

std::vector<QueueDemand> WorkerPool::demands(uint64_t now) const {
  std::vector<QueueDemand> all;
  for (const Owned& what : order_) {
    const Unit& unit = units_.at(what);
    QueueDemand demand = unit.demand;
    demand.load = unit.history.load(now, unit.cycles);
    demand.worker = index_of(unit.worker);
    all.push_back(demand);
  }
  return all;
}

std::vector<WorkerPlace> WorkerPool::places() const {
  std::vector<WorkerPlace> all;
  for (const auto& worker : workers_) {
    all.push_back({worker->cpu(), eal::numa_node_of(worker->cpu()).value_or(kAnyNode)});
  }
  return all;
}

double WorkerPool::load(const RxQueue& queue) const {
  const auto found = units_.find(unit_of(queue));
  if (found == units_.end()) return 0;
  return found->second.history.load(rte_rdtsc(), found->second.cycles);
}

double WorkerPool::busy_share(size_t worker) const {
  const Worker& its = *workers_[worker];
  return busy_.at(its.number()).load(rte_rdtsc(), its.counters().busy_cycles.read());
}

void WorkerPool::tick(uint64_t now) {
  measure(now);
  if (auto_lb_.enabled) balance(now);
}

void WorkerPool::balance(uint64_t now) {
  const uint64_t interval = uint64_t{auto_lb_.interval_minutes} * 60 * rte_get_tsc_hz();
  if (balanced_at_ == 0) balanced_at_ = now;
  // OVS deals by load only if it is told to.
  if (now - balanced_at_ < interval || policy_ == AssignPolicy::roundrobin) return;
  balanced_at_ = now;
  const std::vector<QueueDemand> queues = demands(now);
  const std::vector<WorkerPlace> workers = places();
  const std::vector<bool> isolated = isolated_workers(queues, workers);
  bool overloaded = false;
  bool movable = false;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (isolated[i]) continue;
    const Worker& worker = *workers_[i];
    const double load = busy_.at(worker.number()).load(now, worker.counters().busy_cycles.read());
    overloaded |= load * 100 >= auto_lb_.load_threshold;
    movable |= std::ranges::count(queues, std::optional(i), &QueueDemand::worker) > 1;
  }
  if (!overloaded || !movable || std::ranges::count(isolated, false) < 2) return;
  std::vector<std::optional<size_t>> at_present;
  for (const QueueDemand& queue : queues) at_present.push_back(queue.worker);
  const auto then = assign_queues(queues, workers, policy_, /*keep=*/false);
  const double improvement = variance_improvement(queues, at_present, then, isolated);
  log::info("pmd-auto-lb: dealing queues anew makes the loads' variance {:.0f} % less; {}",
            improvement, improvement >= auto_lb_.improvement_threshold ? "done" : "left as it is");
  if (improvement >= auto_lb_.improvement_threshold) deal(/*keep=*/false);
}

void WorkerPool::deal(bool keep) {
  const uint64_t now = rte_rdtsc();
  measure(now);
  const auto assigned = assign_queues(demands(now), places(), policy_, keep);
  std::vector<Grant> grants;
  for (size_t i = 0; i < order_.size(); ++i) {
    Unit& unit = units_.at(order_[i]);
    unit.worker.reset();
    if (assigned[i]) unit.worker = workers_[*assigned[i]]->number();
    grants.push_back({order_[i], unit.worker});
  }
  for (RxQueue& queue : queues_.rx) {
    queue.worker = index_of(units_.at(unit_of(queue)).worker);
    if (!queue.worker && queue.affinity) {
      log::warn("{}: queue {} has an affinity to CPU {}, where no worker runs: it is not polled",
                queue.port, queue.entry.queue, *queue.affinity);
    }
  }
  owners_.assign(grants);
}

void WorkerPool::publish() {
  std::vector<PollPlan> plans(workers_.size());
  const auto plan_of = [&](const Owned& what) {
    const std::optional<size_t> index = index_of(owners_.owner(what));
    return index ? &plans[*index] : nullptr;
  };
  for (const RxQueue& queue : queues_.rx) {
    if (PollPlan* plan = plan_of(unit_of(queue))) plan->queues.push_back(queue.entry);
  }
  for (const ScheduledPort& port : queues_.scheduled) {
    if (PollPlan* plan = plan_of(unit_of(port))) plan->scheduled.push_back(port.queues);
  }
  for (const HandedPort& port : queues_.handed) {
    port.port->set_owner(owners_.owner(Owned{port.group}));
    if (PollPlan* plan = plan_of(Owned{port.group})) plan->handed.push_back(port.port);
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    // A worker whose plan is the same is not touched.
    if (workers_[i]->plan() != plans[i]) workers_[i]->set_plan(std::move(plans[i]));
  }
}

}  // namespace headrace::runtime
