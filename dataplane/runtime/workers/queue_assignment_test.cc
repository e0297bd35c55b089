// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/queue_assignment.h"

#include <gtest/gtest.h>

namespace headrace::runtime {
namespace {

using Demands = std::vector<QueueDemand>;
using Places = std::vector<WorkerPlace>;
using Workers = std::vector<std::optional<size_t>>;
constexpr auto kNone = std::nullopt;
constexpr auto kRoundRobin = AssignPolicy::roundrobin;

Workers deal(const Demands& queues, const Places& workers, AssignPolicy policy) {
  return assign_queues(queues, workers, policy, /*keep=*/false);
}
Workers add(const Demands& queues, const Places& workers, AssignPolicy policy) {
  return assign_queues(queues, workers, policy, /*keep=*/true);
}

/// Queues with these loads, on any node.
Demands loads(std::initializer_list<double> all) {
  Demands queues;
  for (const double load : all) queues.push_back({.load = load});
  return queues;
}

QueueDemand on_cpu(unsigned cpu) {
  return {.affinity = cpu};
}

TEST(AssignQueues, RoundRobinDealsOutInTurn) {
  EXPECT_EQ(deal(Demands(5), {{1}, {3}}, kRoundRobin), (Workers{0, 1, 0, 1, 0}));
}

TEST(AssignQueues, AnAffinityIsolatesItsWorker) {
  EXPECT_EQ(deal({on_cpu(3), {}, {}, {}}, {{1}, {2}, {3}}, kRoundRobin), (Workers{2, 0, 1, 0}));
}

TEST(AssignQueues, WhenAllAreIsolatedTheyShare) {
  EXPECT_EQ(deal({on_cpu(1), on_cpu(2), {}, {}}, {{1}, {2}}, kRoundRobin), (Workers{0, 1, 0, 1}));
}

TEST(AssignQueues, ACpuWithoutWorkerPollsNothing) {
  EXPECT_EQ(deal({on_cpu(7), {}}, {{1}, {2}}, kRoundRobin), (Workers{kNone, 0}));
}

TEST(AssignQueues, NoWorkersNoPolling) {
  EXPECT_EQ(deal(Demands(1), {}, kRoundRobin), (Workers{kNone}));
}

TEST(AssignQueues, CyclesDealsByLoadForthAndBack) {
  EXPECT_EQ(deal(loads({0.1, 0.6, 0.3, 0.5, 0.2, 0.4}), {{0}, {1}, {2}}, AssignPolicy::cycles),
            (Workers{0, 0, 2, 1, 1, 2}));
}

TEST(AssignQueues, GroupFillsTheLeastLoaded) {
  EXPECT_EQ(deal(loads({0.9, 0.2, 0.3, 0.35}), {{0}, {1}}, AssignPolicy::group),
            (Workers{0, 1, 1, 1}));
}

TEST(AssignQueues, QueuesWithoutLoadAreSpread) {
  EXPECT_EQ(deal(Demands(4), {{0}, {1}}, AssignPolicy::group), (Workers{0, 1, 0, 1}));
}

TEST(AssignQueues, StaysOnItsNodeWhereThereIsAWorker) {
  const Places workers{{0, 0}, {1, 0}, {2, 1}};
  EXPECT_EQ(deal({{.node = 1}, {.node = 1}, {.node = 0}, {.node = 0}}, workers, kRoundRobin),
            (Workers{2, 2, 0, 1}));
  EXPECT_EQ(deal({{.node = 3}, {.node = 3}, {.node = 3}}, workers, kRoundRobin), (Workers{0, 1, 2}))
      << "a node without a worker: any";
}

TEST(AssignQueues, WhatHasAWorkerKeepsIt) {
  const Demands queues{{.load = 0.5, .worker = 1}, {.load = 0.4, .worker = 1}, {}};
  for (const AssignPolicy policy :
       {AssignPolicy::roundrobin, AssignPolicy::cycles, AssignPolicy::group}) {
    EXPECT_EQ(add(queues, {{0}, {1}}, policy), (Workers{1, 1, 0}));
  }
}

TEST(AssignQueues, ANewQueueGoesWhereTheLeastLoadIs) {
  const Demands queues{
      {.load = 0.9, .worker = 0}, {.load = 0.1, .worker = 1}, {.load = 0.1, .worker = 1}, {}, {}};
  EXPECT_EQ(add(queues, {{0}, {1}}, AssignPolicy::cycles), (Workers{0, 1, 1, 1, 1}));
  EXPECT_EQ(add(queues, {{0}, {1}}, kRoundRobin), (Workers{0, 1, 1, 0, 0}));
}

TEST(AssignQueues, AQueueLeavesAWorkerThatBecomesIsolated) {
  const Demands queues{{.worker = 0}, {.affinity = 0}, {.worker = 1}};
  EXPECT_EQ(add(queues, {{0}, {1}}, kRoundRobin), (Workers{1, 0, 1}));
}

TEST(AssignQueues, PoliciesHaveTheirNames) {
  for (const char* word : {"roundrobin", "cycles", "group"}) {
    EXPECT_EQ(name(parse_assign_policy(word).value()), word);
  }
  EXPECT_EQ(parse_assign_policy("random"), std::nullopt);
}

TEST(VarianceImprovement, IsOneHundredWhenTheLoadsBecomeEqual) {
  const Demands queues = loads({0.5, 0.5, 0.5, 0.5});
  const std::vector<bool> none(2, false);
  EXPECT_DOUBLE_EQ(variance_improvement(queues, Workers{0, 0, 0, 1}, Workers{0, 0, 1, 1}, none),
                   100);
  EXPECT_DOUBLE_EQ(variance_improvement(queues, Workers{0, 0, 1, 1}, Workers{0, 0, 1, 1}, none), 0);
  EXPECT_LT(variance_improvement(queues, Workers{0, 0, 1, 1}, Workers{0, 0, 0, 0}, none), 1);
}

TEST(VarianceImprovement, LeavesIsolatedWorkersOut) {
  const Demands queues = loads({1, 0.5, 0.5});
  EXPECT_DOUBLE_EQ(
      variance_improvement(queues, Workers{0, 1, 1}, Workers{0, 1, 2}, {true, false, false}), 100);
}

}  // namespace
}  // namespace headrace::runtime
