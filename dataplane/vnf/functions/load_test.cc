// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/load.h"

#include <gmock/gmock.h>
#include <rte_cycles.h>

#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LoadTest : public FunctionTest {
 protected:
  /// The fastest of some bursts: the cost without what the machine does in between.
  uint64_t cycles_of_a_burst(const char* name, const std::string& config) {
    make(name, config.c_str());
    const std::vector<Bytes> frames(32, udp_frame({}, 1, 2));
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 50; ++i) {
      const uint64_t start = rte_rdtsc();
      process(0, frames);
      least = std::min(least, rte_rdtsc() - start);
    }
    function_.reset();
    return least;
  }
};

TEST_F(LoadTest, ForwardsUnchangedAndCounts) {
  const Bytes packet = udp_frame({}, 1, 2);
  for (const char* name : {"cpu", "memory"}) {
    function_.reset();
    make(name, "{}");
    EXPECT_THAT(process(0, {packet, packet}),
                ElementsAre(SentPacket{1, packet}, SentPacket{1, packet}));
    EXPECT_EQ(counters()["packets_worked_on"], 2);
  }
}

TEST_F(LoadTest, CpuCostGrowsWithUnits) {
  const uint64_t none = cycles_of_a_burst("cpu", R"({"units": 0})");
  const uint64_t some = cycles_of_a_burst("cpu", R"({"units": 1000})");
  // 32 packets x 1000 units x at least 3 TSC cycles for a chain of 7 dependent operations.
  EXPECT_GT(some, none + 32 * 1000 * 3);
}

TEST_F(LoadTest, MemoryCostGrowsWithBytes) {
  const uint64_t none = cycles_of_a_burst("memory", R"({"bytes": 0})");
  const uint64_t some = cycles_of_a_burst("memory", R"({"bytes": 64000, "write": true})");
  EXPECT_GT(some, none + 32 * 1000 * 3);
}

TEST_F(LoadTest, ReportsErrors) {
  EXPECT_THAT(config_errors("memory", R"({"working_set": 1000})"),
              ElementsAre("function.working_set: not a power of two"));
  EXPECT_THAT(config_errors("cpu", R"({"units": -5})"),
              ElementsAre(HasSubstr("function.units: -5 is not an integer")));
}

}  // namespace
}  // namespace headrace::vnf
