// SPDX-License-Identifier: Apache-2.0
#include "pipeline/program/select_memory.h"

#include <gtest/gtest.h>

#include <random>

namespace headrace::pipeline {
namespace {

TEST(SelectMemory, AFlowKeepsItsBucketWhileItIsSeen) {
  SelectMemory memory(10);
  const uint64_t flow = 0x123456789abcdef0;
  EXPECT_FALSE(memory.find(flow, 1));
  memory.remember(flow, 7, 1);
  for (uint32_t tick = 1; tick < 200'000; tick += 9) EXPECT_EQ(memory.find(flow, tick), 7);
}

TEST(SelectMemory, AQuietFlowIsForgotten) {
  SelectMemory memory(10);
  memory.remember(5, 7, 100);
  EXPECT_EQ(memory.find(5, 110), 7);
  EXPECT_FALSE(memory.find(5, 121));
  memory.remember(5, 8, 121);
  EXPECT_EQ(memory.find(5, 122), 8);
}

TEST(SelectMemory, FlowsOfOneSetAreKeptApartAndTheOldestGivesWay) {
  SelectMemory memory(1000);
  const auto flow = [](uint64_t number) { return (2 * number + 1) << 32 | 3; };
  for (uint16_t i = 0; i < SelectMemory::kWays; ++i) memory.remember(flow(i), i, 10u + i);
  for (uint16_t i = 1; i < SelectMemory::kWays; ++i) EXPECT_EQ(memory.find(flow(i), 30), i);
  memory.remember(flow(100), 99, 30);
  EXPECT_EQ(memory.find(flow(100), 31), 99);
  EXPECT_FALSE(memory.find(flow(0), 31));
  for (uint16_t i = 1; i < SelectMemory::kWays; ++i) EXPECT_EQ(memory.find(flow(i), 31), i);
}

TEST(SelectMemory, RemembersManyFlows) {
  SelectMemory memory(1000);
  std::mt19937_64 random(3);
  std::vector<uint64_t> flows(50'000);
  for (uint64_t& flow : flows) {
    flow = random();
    memory.remember(flow, static_cast<uint16_t>(flow % 100), 1);
  }
  size_t kept = 0;
  for (const uint64_t flow : flows) kept += memory.find(flow, 2) == flow % 100 ? 1 : 0;
  EXPECT_GT(kept, flows.size() * 99 / 100);
}

}  // namespace
}  // namespace headrace::pipeline
