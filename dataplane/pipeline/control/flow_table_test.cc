// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/flow_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace headrace::pipeline {
namespace {

using match::Field;
using match::Match;
using testing::Le;

constexpr uint32_t kFlows = 20'000;
/// Of n matches in n buckets at random, the fullest holds about ln n / ln ln n: 5, rarely 9.
constexpr size_t kEven = 16;

std::shared_ptr<Flow> flow_of(Match match, uint16_t priority = 1) {
  auto flow = std::make_shared<Flow>();
  flow->priority = priority;
  flow->match = std::move(match);
  return flow;
}

/// A match on the `octets` of a field that `number` fills from its last octet on.
Match numbered(Field field, uint32_t number, size_t last_octet) {
  std::array<uint8_t, 16> value{};
  for (size_t i = 0; i < 4 && i <= last_octet; ++i, number >>= 8) {
    value[last_octet - i] = static_cast<uint8_t>(number);
  }
  Match match;
  match.add(field, value.data());
  return match;
}

TEST(FlowTable, SpreadsRegularMatchesEvenly) {
  struct Case {
    const char* name;
    Field field;
    uint32_t step;
    size_t last_octet;
  };
  for (const Case& each :
       {Case{"every address", Field::ipv4_dst, 1, 3},
        Case{"every seventh address", Field::ipv4_dst, 7, 3},
        Case{"every /24", Field::ipv4_dst, 256, 3}, Case{"MAC addresses", Field::eth_dst, 1, 5},
        Case{"vendor halves of MAC addresses", Field::eth_dst, 1, 2},
        Case{"IPv6 interfaces", Field::ipv6_src, 1, 15},
        Case{"IPv6 subnets", Field::ipv6_src, 1, 7}, Case{"metadata", Field::metadata, 1, 7},
        Case{"metadata's upper half", Field::metadata, 1, 3}}) {
    FlowTable table;
    for (uint32_t i = 0; i < kFlows; ++i) {
      table.insert(flow_of(numbered(each.field, i * each.step, each.last_octet)));
    }
    EXPECT_EQ(table.size(), kFlows) << each.name;
    EXPECT_THAT(table.fullest_bucket(), Le(kEven)) << each.name;
  }
}

TEST(FlowTable, ChainsOneMatchByPriority) {
  FlowTable table;
  const Match match = numbered(Field::ipv4_dst, 1, 3);
  for (const uint16_t priority : {5, 9, 7}) table.insert(flow_of(match, priority));
  EXPECT_EQ(table.fullest_bucket(), 1u);
  for (const uint16_t priority : {9, 7, 5}) {
    Flow* head = table.head(match);
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(head->priority, priority);
    EXPECT_EQ(table.find(match, priority), head);
    table.remove(*head);
  }
  EXPECT_EQ(table.head(match), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace headrace::pipeline
