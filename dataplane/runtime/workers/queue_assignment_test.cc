// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/queue_assignment.h"

#include <gtest/gtest.h>

namespace headrace::runtime {
namespace {

using Affinities = std::vector<std::optional<unsigned>>;
using Workers = std::vector<std::optional<size_t>>;
constexpr auto kAny = std::nullopt;

Workers assign(const Affinities& affinities, const std::vector<unsigned>& cpus) {
  return assign_queues(affinities, cpus);
}

TEST(AssignQueues, DealsOutInTurn) {
  EXPECT_EQ(assign({kAny, kAny, kAny, kAny, kAny}, {1, 3}), (Workers{0, 1, 0, 1, 0}));
}

TEST(AssignQueues, AnAffinityIsolatesItsWorker) {
  EXPECT_EQ(assign({3, kAny, kAny, kAny}, {1, 2, 3}), (Workers{2, 0, 1, 0}));
}

TEST(AssignQueues, WhenAllAreIsolatedTheyShare) {
  EXPECT_EQ(assign({1, 2, kAny, kAny}, {1, 2}), (Workers{0, 1, 0, 1}));
}

TEST(AssignQueues, ACpuWithoutWorkerPollsNothing) {
  EXPECT_EQ(assign({7, kAny}, {1, 2}), (Workers{kAny, 0}));
}

TEST(AssignQueues, NoWorkersNoPolling) {
  EXPECT_EQ(assign({kAny}, {}), (Workers{kAny}));
}

}  // namespace
}  // namespace headrace::runtime
