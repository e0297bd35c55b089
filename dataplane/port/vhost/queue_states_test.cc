// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/queue_states.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headrace::port::vhost {
namespace {

using Vrings = std::vector<uint16_t>;

QueueStates with_pairs(const std::vector<uint16_t>& pairs) {
  QueueStates states;
  for (const uint16_t pair : pairs) {
    states.set(static_cast<uint16_t>(2 * pair), true);
    states.set(static_cast<uint16_t>(2 * pair + 1), true);
  }
  return states;
}

TEST(QueueStates, WithoutAnEnabledPairNobodySendsOrReceives) {
  EXPECT_EQ(QueueStates().send_to(4), Vrings{});
  EXPECT_EQ(QueueStates().receive_from(0, 1), Vrings{});
  QueueStates states = with_pairs({0});
  states.set(0, false);
  EXPECT_EQ(states.send_to(4), Vrings{}) << "what the guest sends by goes on";
  EXPECT_EQ(states.receive_from(0, 1), Vrings{1});
}

TEST(QueueStates, AWorkerSendsToItsOwnPairWhereItCan) {
  EXPECT_EQ(with_pairs({0, 1, 2, 3}).send_to(3), (Vrings{0, 2, 4}));
  EXPECT_EQ(with_pairs({0}).send_to(3), (Vrings{0, 0, 0}));
  EXPECT_EQ(with_pairs({1}).send_to(3), (Vrings{2, 2, 2}));
}

TEST(QueueStates, WorkersWithoutAPairAreDistributed) {
  EXPECT_EQ(with_pairs({0, 2}).send_to(6), (Vrings{0, 0, 4, 4, 0, 4}));
}

TEST(QueueStates, EveryVringHasOneReceiveQueue) {
  const QueueStates states = with_pairs({0, 1, 3, 4, 127});
  for (const uint16_t queues : {1, 2, 3, 64}) {
    Vrings all;
    for (uint16_t queue = 0; queue < queues; ++queue) {
      const Vrings some = states.receive_from(queue, queues);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (Vrings{1, 3, 7, 9, 255})) << queues;
  }
}

TEST(QueueStates, WhatCannotBeIsIgnored) {
  QueueStates states;
  states.set(kMaxVrings, true);
  states.set(UINT16_MAX, true);
  EXPECT_EQ(states.send_to(1), Vrings{});
  EXPECT_EQ(states.pairs_to_guest(), 0u);
}

}  // namespace
}  // namespace headrace::port::vhost
