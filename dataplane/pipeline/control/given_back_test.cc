// SPDX-License-Identifier: Apache-2.0
// What very many rules take is given back to the kernel when they go.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;

constexpr uint32_t kFlows = 400'000;
/// What a rule may leave behind, and what it takes at least: its cell alone has 64.
constexpr double kMostLeft = 40;
constexpr double kLeastTaken = 400;

/// The process's resident memory.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t size = 0;
  size_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

class GivenBack : public testing::Test {
 protected:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  void SetUp() override {
    GTEST_SKIP() << "sanitizers keep memory that is freed";
  }
#endif

  GivenBack() {
    start_eal();
    count_all();  // the packets' own memory
    reclaim();
  }

  /// As when workers have passed quiescent states.
  void reclaim() {
    while (!reclaimer_.deferred.empty()) reclaimer_.end_grace_period();
  }

  static FlowMod exact(uint32_t number) {
    return add_flow(0, 5, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, number}}),
                    {ApplyActions{{set_field(Field::eth_src, number), OutputAction{kPortInPort}}}});
  }
  static FlowMod remove_all() {
    FlowMod mod;
    mod.command = FlowMod::Command::remove;
    mod.table_id = kTableAll;
    return mod;
  }
  /// Counts for every rule, in the arrays of two workers.
  void count_all() {
    for (unsigned worker = 0; worker < 2; ++worker) {
      Executor executor(worker, punts_);
      executor.set_time(rte_rdtsc());
      for (uint32_t n = 0; n < kFlows; n += kBurst) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < kBurst; ++i)
          packets.push_back(make_packet(make_frame({.ip_dst = n + i})));
        executor.run(lsi_.program(), 1, packets);
        executor.flush();
      }
    }
  }

  ManualReclaimer reclaimer_;
  CapturePunts punts_;
  Lsi lsi_{{.id = 1, .name = "test"}, reclaimer_};
};

TEST_F(GivenBack, WhenAllGo) {
  const double before = resident_bytes();
  for (uint32_t n = 0; n < kFlows; ++n) ASSERT_TRUE(lsi_.flow_mod(exact(n)));
  count_all();
  EXPECT_GT((resident_bytes() - before) / kFlows, kLeastTaken);
  ASSERT_TRUE(lsi_.flow_mod(remove_all()));
  reclaim();
  EXPECT_LT((resident_bytes() - before) / kFlows, kMostLeft);
}

TEST_F(GivenBack, WhenABundleFails) {
  const double before = resident_bytes();
  {
    std::vector<BundleItem> items;
    for (uint32_t n = 0; n < kFlows; ++n) items.emplace_back(exact(n));
    items.emplace_back(add_flow(0, 5, {}, {ApplyActions{{OutputAction{0}}}}));
    ASSERT_FALSE(lsi_.apply_bundle(items));
  }
  ASSERT_TRUE(lsi_.flow_mod(remove_all()));
  reclaim();
  EXPECT_LT((resident_bytes() - before) / kFlows, kMostLeft);
}

/// All but every hundredth of the first half: what is left lies spread.
TEST_F(GivenBack, WhenMostGo) {
  const double before = resident_bytes();
  for (uint32_t n = 0; n < kFlows; ++n) ASSERT_TRUE(lsi_.flow_mod(exact(n)));
  count_all();
  const double taken = resident_bytes() - before;
  for (uint32_t n = 0; n < kFlows; ++n) {
    if (n < kFlows / 2 && n % 100 == 0) continue;
    FlowMod mod = exact(n);
    mod.command = FlowMod::Command::remove_strict;
    ASSERT_TRUE(lsi_.flow_mod(mod));
  }
  reclaim();
  EXPECT_LT(resident_bytes() - before, taken / 2);
}

}  // namespace
}  // namespace headrace::pipeline::test
