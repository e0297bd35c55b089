// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/queue_assignment.h"

#include <algorithm>

namespace headrace::runtime {

std::vector<std::optional<size_t>> assign_queues(
    std::span<const std::optional<unsigned>> affinities, std::span<const unsigned> worker_cpus) {
  std::vector<std::optional<size_t>> workers(affinities.size());
  std::vector<bool> isolated(worker_cpus.size(), false);
  for (size_t i = 0; i < affinities.size(); ++i) {
    if (!affinities[i]) continue;
    const auto found = std::find(worker_cpus.begin(), worker_cpus.end(), *affinities[i]);
    if (found == worker_cpus.end()) continue;
    workers[i] = static_cast<size_t>(found - worker_cpus.begin());
    isolated[*workers[i]] = true;
  }
  std::vector<size_t> shared;
  for (size_t worker = 0; worker < worker_cpus.size(); ++worker) {
    if (!isolated[worker]) shared.push_back(worker);
  }
  if (shared.empty()) {
    for (size_t worker = 0; worker < worker_cpus.size(); ++worker) shared.push_back(worker);
  }
  size_t next = 0;
  for (size_t i = 0; i < affinities.size(); ++i) {
    if (affinities[i] || shared.empty()) continue;
    workers[i] = shared[next++ % shared.size()];
  }
  return workers;
}

}  // namespace headrace::runtime
