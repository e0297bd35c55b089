// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/fail_open.h"

#include <gtest/gtest.h>

#include "pipeline/testing/test_support.h"

namespace headrace::runtime {
namespace {

using namespace std::chrono_literals;
using pipeline::test::make_frame;

class FailOpenTest : public testing::Test {
 protected:
  /// True if a frame that comes in by port 1 goes out of port 2.
  bool forwards() {
    switch_.send(1, {make_frame({})});
    return !switch_.take(2).empty();
  }
  pipeline::test::TestSwitch switch_{2};
  FailOpen fail_open_{switch_.lsi};
  FailOpen::Clock::time_point now_{};
};

TEST_F(FailOpenTest, OpensAfterThreeProbesAndShutsWhenAControllerIsBack) {
  fail_open_.update(true, true, 1s, now_);
  fail_open_.update(true, false, 1s, now_ + 1s);
  fail_open_.update(true, false, 1s, now_ + 3900ms);
  EXPECT_FALSE(forwards());
  fail_open_.update(true, false, 1s, now_ + 4s);
  EXPECT_TRUE(fail_open_.is_open());
  EXPECT_TRUE(forwards());
  fail_open_.update(true, true, 1s, now_ + 5s);
  EXPECT_FALSE(fail_open_.is_open());
  EXPECT_FALSE(forwards());
}

TEST_F(FailOpenTest, OverridesRulesAndLeavesThemThere) {
  ASSERT_TRUE(switch_.lsi.flow_mod(pipeline::test::add_flow(0, 60'000, {}, {})));  // drop
  fail_open_.update(true, false, 0ms, now_);
  fail_open_.update(true, false, 0ms, now_ + FailOpen::kProbes * FailOpen::kDefaultProbe);
  EXPECT_TRUE(forwards());
  fail_open_.update(true, true, 0ms, now_ + 60s);
  EXPECT_FALSE(forwards());
  EXPECT_EQ(switch_.flow().priority, 60'000);
}

TEST_F(FailOpenTest, DoesNothingWhenSecure) {
  fail_open_.update(false, false, 1s, now_);
  fail_open_.update(false, false, 1s, now_ + 60s);
  EXPECT_FALSE(forwards());
}

}  // namespace
}  // namespace headrace::runtime
