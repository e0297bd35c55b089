// SPDX-License-Identifier: Apache-2.0
// Which worker is to own which receive queue (or what else is dealt: schedulers, groups of queues).
//
// As OVS documents it (ovs-vswitchd.conf.db(5), pmd-rxq-assign, pmd-rxq-affinity). A queue with an
// affinity goes to the worker on that CPU, and a worker that has such queues gets no others, unless
// all workers have some. A queue whose affinity names a CPU without a worker is not polled; the
// caller reports that to the operator. The rest goes to workers on the queue's NUMA node, or where
// none is to any, by the policy:
//
// * roundrobin: in turn, in the order given;
// * cycles: in descending order of load, forth and back over the workers (0, 1, 2, 2, 1, 0, ...);
// * group: in descending order of load, each to the worker with the least load so far.
//
// Other than OVS, a queue that has a worker keeps it when others come or go: assign_queues() with
// `keep` deals only what has none, each to the worker with the least of it (of queues for
// roundrobin, else of load, in whole percents, then of queues).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace headrace::runtime {

/// other_config:pmd-rxq-assign.
enum class AssignPolicy : uint8_t { roundrobin, cycles, group };
[[nodiscard]] std::optional<AssignPolicy> parse_assign_policy(std::string_view word);
[[nodiscard]] std::string_view name(AssignPolicy policy);

/// A NUMA node that is not known.
inline constexpr int kAnyNode = -1;

/// One queue that needs a worker.
struct QueueDemand {
  std::optional<unsigned> affinity{};  ///< the CPU that must poll it
  int node{kAnyNode};                  ///< where its device is
  double load{0};                      ///< measured, as the share of a CPU
  std::optional<size_t> worker{};      ///< which has it now
};

/// One worker.
struct WorkerPlace {
  unsigned cpu;
  int node{kAnyNode};
};

/// For each queue the index of its worker; nothing if no worker may poll it.
std::vector<std::optional<size_t>> assign_queues(std::span<const QueueDemand> queues,
                                                 std::span<const WorkerPlace> workers,
                                                 AssignPolicy policy, bool keep);

/// Whether each worker is kept for queues with an affinity: no others are dealt to it.
std::vector<bool> isolated_workers(std::span<const QueueDemand> queues,
                                   std::span<const WorkerPlace> workers);

/// By how many percent dealing anew as `then` makes the variance of the workers' loads less than it
/// is `now`: OVS's measure for pmd-auto-lb. Workers in `isolated` don't count.
double variance_improvement(std::span<const QueueDemand> queues,
                            std::span<const std::optional<size_t>> now,
                            std::span<const std::optional<size_t>> then,
                            const std::vector<bool>& isolated);

}  // namespace headrace::runtime
