// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/queue_assignment.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace headrace::runtime {
namespace {

constexpr std::array<std::pair<AssignPolicy, std::string_view>, 3> kPolicies{
    {{AssignPolicy::roundrobin, "roundrobin"},
     {AssignPolicy::cycles, "cycles"},
     {AssignPolicy::group, "group"}}};

/// Deals queues to the workers of one NUMA node, or to all.
struct Turn {
  std::vector<size_t> workers;
  size_t next{0};
  bool back{false};

  size_t in_turn() { return workers[next++ % workers.size()]; }
  size_t forth_and_back() {
    const size_t chosen = workers[back ? workers.size() - 1 - next : next];
    if (++next == workers.size()) {
      next = 0;
      back = !back;
    }
    return chosen;
  }
};

std::optional<size_t> on_cpu(std::span<const WorkerPlace> workers, unsigned cpu) {
  const auto found = std::ranges::find(workers, cpu, &WorkerPlace::cpu);
  if (found == workers.end()) return std::nullopt;
  return static_cast<size_t>(found - workers.begin());
}

/// The workers that a queue of this node may go to.
std::vector<size_t> candidates(std::span<const WorkerPlace> workers,
                               const std::vector<bool>& isolated, int node) {
  std::vector<size_t> all;
  std::vector<size_t> near;
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    if (isolated[worker]) continue;
    all.push_back(worker);
    if (workers[worker].node == node) near.push_back(worker);
  }
  return near.empty() || node == kAnyNode ? all : near;
}

/// What each worker has been dealt.
struct Dealt {
  double load{0};
  size_t queues{0};
};

}  // namespace

std::optional<AssignPolicy> parse_assign_policy(std::string_view word) {
  for (const auto& [policy, spelt] : kPolicies) {
    if (spelt == word) return policy;
  }
  return std::nullopt;
}

std::string_view name(AssignPolicy policy) {
  return kPolicies[static_cast<size_t>(policy)].second;
}

std::vector<bool> isolated_workers(std::span<const QueueDemand> queues,
                                   std::span<const WorkerPlace> workers) {
  std::vector<bool> isolated(workers.size(), false);
  for (const QueueDemand& queue : queues) {
    if (!queue.affinity) continue;
    if (const auto worker = on_cpu(workers, *queue.affinity)) isolated[*worker] = true;
  }
  if (std::ranges::find(isolated, false) == isolated.end()) isolated.assign(workers.size(), false);
  return isolated;
}

std::vector<std::optional<size_t>> assign_queues(std::span<const QueueDemand> queues,
                                                 std::span<const WorkerPlace> workers,
                                                 AssignPolicy policy, bool keep) {
  std::vector<std::optional<size_t>> assigned(queues.size());
  if (workers.empty()) return assigned;
  const std::vector<bool> isolated = isolated_workers(queues, workers);
  std::map<int, Turn> turns;
  for (const QueueDemand& queue : queues) {
    if (!turns.contains(queue.node)) {
      turns[queue.node].workers = candidates(workers, isolated, queue.node);
    }
  }
  std::vector<Dealt> dealt(workers.size());
  const auto give = [&](size_t queue, size_t worker) {
    assigned[queue] = worker;
    dealt[worker].load += queues[queue].load;
    ++dealt[worker].queues;
  };
  std::vector<size_t> rest;
  for (size_t i = 0; i < queues.size(); ++i) {
    const QueueDemand& queue = queues[i];
    if (queue.affinity) {
      if (const auto worker = on_cpu(workers, *queue.affinity)) give(i, *worker);
      continue;
    }
    const std::vector<size_t>& possible = turns[queue.node].workers;
    const bool stays =
        keep && queue.worker && std::ranges::find(possible, *queue.worker) != possible.end();
    if (stays) {
      give(i, *queue.worker);
    } else {
      rest.push_back(i);
    }
  }
  if (policy != AssignPolicy::roundrobin) {
    std::ranges::stable_sort(rest, std::greater{}, [&](size_t i) { return queues[i].load; });
  }
  for (const size_t i : rest) {
    Turn& turn = turns[queues[i].node];
    const auto least = [&](auto rank) {
      return *std::ranges::min_element(turn.workers, {},
                                       [&](size_t worker) { return rank(dealt[worker]); });
    };
    if (keep && policy == AssignPolicy::roundrobin) {
      give(i, least([](const Dealt& of) { return of.queues; }));
    } else if (keep) {
      give(i, least([](const Dealt& of) {
             return std::pair(static_cast<int>(of.load * 100), of.queues);
           }));
    } else if (policy == AssignPolicy::roundrobin) {
      give(i, turn.in_turn());
    } else if (policy == AssignPolicy::cycles) {
      give(i, turn.forth_and_back());
    } else {
      give(i, least([](const Dealt& of) { return std::pair(of.load, of.queues); }));
    }
  }
  return assigned;
}

double variance_improvement(std::span<const QueueDemand> queues,
                            std::span<const std::optional<size_t>> now,
                            std::span<const std::optional<size_t>> then,
                            const std::vector<bool>& isolated) {
  const auto variance = [&](std::span<const std::optional<size_t>> assigned) {
    std::vector<double> loads(isolated.size(), 0);
    for (size_t i = 0; i < queues.size(); ++i) {
      if (assigned[i]) loads[*assigned[i]] += queues[i].load;
    }
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (size_t worker = 0; worker < loads.size(); ++worker) {
      if (isolated[worker]) continue;
      sum += loads[worker];
      squares += loads[worker] * loads[worker];
      ++count;
    }
    return count == 0 ? 0 : squares / count - (sum / count) * (sum / count);
  };
  const double before = variance(now);
  return before <= 0 ? 0 : 100 * (before - variance(then)) / before;
}

}  // namespace headrace::runtime
