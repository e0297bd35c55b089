// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/buffer_pools.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <unistd.h>

#include "eal/eal.h"

namespace headrace::runtime {
namespace {

class BufferPoolsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal = eal::Eal::init({.file_prefix = "headrace-pools-test-" + std::to_string(::getpid()),
                               .memory_mb = 64,
                               .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
  }
  static void TearDownTestSuite() { eal_.reset(); }
  static inline std::unique_ptr<eal::Eal> eal_;
};

TEST_F(BufferPoolsTest, OnePoolPerSizeIsMadeWhenItIsNeeded) {
  auto pools = BufferPools::make(32);
  ASSERT_TRUE(pools) << pools.error().message;
  EXPECT_EQ(pools->all().size(), 1u);
  const auto ordinary = pools->for_mtu(1500);
  const auto jumbo = pools->for_mtu(9000);
  ASSERT_TRUE(ordinary && jumbo);
  EXPECT_NE(*ordinary, *jumbo);
  EXPECT_EQ(pools->all().size(), 2u);
  EXPECT_EQ(pools->for_mtu(1500, static_cast<int>(rte_socket_id())).value(), *ordinary)
      << "the first node's";
  EXPECT_FALSE(pools->for_mtu(20'000));
}

TEST_F(BufferPoolsTest, EachNodeHasItsOwn) {
  if (rte_socket_count() < 2) GTEST_SKIP() << "this machine has one NUMA node";
  auto pools = BufferPools::make(16);
  ASSERT_TRUE(pools) << pools.error().message;
  const int other = rte_socket_id() == 0 ? 1 : 0;
  const auto there = pools->for_mtu(1500, other);
  ASSERT_TRUE(there);
  EXPECT_NE(*there, pools->for_mtu(1500).value());
  EXPECT_EQ((*there)->socket_id, other);
}

}  // namespace
}  // namespace headrace::runtime
