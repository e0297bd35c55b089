// SPDX-License-Identifier: Apache-2.0
#include "packet/free_burst.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace headrace::packet {
namespace {

constexpr unsigned kBuffers = 255;

class FreeBurst : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::vector<std::string> words{"free-burst-test", "--no-huge",    "--no-pci",
                                   "--no-shconf",     "-m64",         "--iova-mode=va",
                                   "--no-telemetry",  "--lcores=0@0", "--log-level=error"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) std::abort();
  }
  FreeBurst() : pools_{make("one"), make("other")} {}
  ~FreeBurst() override {
    for (rte_mempool* pool : pools_) rte_mempool_free(pool);
  }

  static rte_mempool* make(const char* name) {
    return rte_pktmbuf_pool_create(name, kBuffers, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  }
  rte_mbuf* of(size_t pool) { return rte_pktmbuf_alloc(pools_[pool]); }
  void expect_all_back() {
    for (const rte_mempool* pool : pools_) EXPECT_EQ(rte_mempool_avail_count(pool), kBuffers);
  }

  std::array<rte_mempool*, 2> pools_;
};

TEST_F(FreeBurst, GivesPlainPacketsBack) {
  std::array<rte_mbuf*, 3> burst{of(0), of(0), of(0)};
  free_burst(burst);
  expect_all_back();
  free_burst({});
}

TEST_F(FreeBurst, GivesEachPoolItsOwn) {
  std::array<rte_mbuf*, 3> burst{of(0), of(1), of(0)};
  free_burst(burst);
  expect_all_back();
}

TEST_F(FreeBurst, GivesAllSegmentsBack) {
  std::array<rte_mbuf*, 2> burst{of(0), of(0)};
  ASSERT_EQ(rte_pktmbuf_chain(burst[1], of(1)), 0);
  free_burst(burst);
  expect_all_back();
}

TEST_F(FreeBurst, LeavesWhatOthersHave) {
  std::array<rte_mbuf*, 2> burst{of(0), of(0)};
  rte_mbuf* const shared = burst[1];
  rte_pktmbuf_refcnt_update(shared, 1);
  free_burst(burst);
  EXPECT_EQ(rte_mempool_avail_count(pools_[0]), kBuffers - 1);
  EXPECT_EQ(rte_mbuf_refcnt_read(shared), 1);
  rte_pktmbuf_free(shared);
  expect_all_back();
}

TEST_F(FreeBurst, FreesTheBufferBehindAnIndirectOne) {
  rte_mbuf* const data = of(0);
  std::array<rte_mbuf*, 1> burst{of(1)};
  rte_pktmbuf_attach(burst[0], data);
  rte_pktmbuf_free(data);
  EXPECT_EQ(rte_mempool_avail_count(pools_[0]), kBuffers - 1);
  free_burst(burst);
  expect_all_back();
}

}  // namespace
}  // namespace headrace::packet
