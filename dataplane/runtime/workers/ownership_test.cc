// SPDX-License-Identifier: Apache-2.0
// The two phases of the table of owners, with grace periods that the test ends.
#include "runtime/workers/ownership.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace headrace::runtime {
namespace {

constexpr auto kNobody = std::nullopt;

/// Runs what is deferred when it is told to.
class ManualReclaimer final : public pipeline::Reclaimer {
 public:
  void defer(std::function<void()> function) override { deferred_.push_back(std::move(function)); }
  void end_grace_period() {
    std::deque<std::function<void()>> due;
    due.swap(deferred_);
    for (const auto& function : due) function();
  }

 private:
  std::deque<std::function<void()>> deferred_;
};

class OwnershipTest : public ::testing::Test {
 protected:
  void assign(const std::vector<Grant>& grants) { table_.assign(grants); }

  int port_a_{0};
  int port_b_{0};
  Owned a_{&port_a_, 0};
  Owned b_{&port_b_, 0};
  ManualReclaimer reclaimer_;
  int published_{0};
  OwnershipTable table_{reclaimer_, [this] { ++published_; }};
};

TEST_F(OwnershipTest, WhatNobodyUsedIsGrantedAtOnce) {
  assign({{a_, 1}, {b_, kNobody}});
  EXPECT_EQ(table_.owner(a_), 1u);
  EXPECT_EQ(table_.owner(b_), kNobody);
  EXPECT_EQ(table_.withdrawn(), 0u);
  assign({{a_, 1}, {b_, 0}});
  EXPECT_EQ(table_.owner(b_), 0u);
}

TEST_F(OwnershipTest, WhatMovesHasNoOwnerDuringTheGracePeriod) {
  assign({{a_, 0}, {b_, 1}});
  assign({{a_, 1}, {b_, 1}});
  EXPECT_EQ(table_.owner(a_), kNobody);
  EXPECT_EQ(table_.owner(b_), 1u) << "it does not move";
  const int published = published_;
  reclaimer_.end_grace_period();
  EXPECT_EQ(table_.owner(a_), 1u);
  EXPECT_EQ(published_, published + 1);
  EXPECT_EQ(table_.withdrawn(), 0u);
}

TEST_F(OwnershipTest, TheLastWishCounts) {
  assign({{a_, 0}});
  assign({{a_, 1}});
  assign({{a_, 2}});
  EXPECT_EQ(table_.owner(a_), kNobody);
  reclaimer_.end_grace_period();
  EXPECT_EQ(table_.owner(a_), 2u);
}

TEST_F(OwnershipTest, WhatIsRemovedAndComesBackWaitsForItsOldOwner) {
  assign({{a_, 0}});
  assign({});
  assign({{a_, 1}});
  EXPECT_EQ(table_.owner(a_), kNobody) << "worker 0 may still be in its round";
  reclaimer_.end_grace_period();
  EXPECT_EQ(table_.owner(a_), 1u);
  assign({});
  reclaimer_.end_grace_period();
  assign({{a_, 0}});
  EXPECT_EQ(table_.owner(a_), 0u) << "nobody was left in it";
}

TEST_F(OwnershipTest, ALaterWithdrawalWaitsForItsOwnGracePeriod) {
  assign({{a_, 0}, {b_, 0}});
  assign({{a_, 1}, {b_, 0}});
  assign({{a_, 1}, {b_, 1}});
  EXPECT_EQ(table_.withdrawn(), 2u);
  reclaimer_.end_grace_period();
  EXPECT_EQ(table_.owner(a_), 1u);
  EXPECT_EQ(table_.owner(b_), 1u);
}

TEST_F(OwnershipTest, WhatAnEndedWorkerHadIsGrantedAtOnce) {
  assign({{a_, 0}, {b_, 1}});
  table_.worker_ended(0);
  EXPECT_EQ(table_.owner(a_), kNobody);
  assign({{a_, 1}, {b_, 1}});
  EXPECT_EQ(table_.owner(a_), 1u);
}

TEST_F(OwnershipTest, AWishForAnEndedWorkerIsNotItsSuccessors) {
  assign({{a_, 0}});
  assign({{a_, 1}});
  table_.worker_ended(1);
  reclaimer_.end_grace_period();
  EXPECT_EQ(table_.owner(a_), kNobody);
}

TEST_F(OwnershipTest, AGracePeriodMayEndAfterTheTable) {
  auto table = std::make_unique<OwnershipTable>(reclaimer_, [] {});
  table->assign(std::vector<Grant>{{a_, 0}});
  table->assign(std::vector<Grant>{{a_, 1}});
  table.reset();
  reclaimer_.end_grace_period();
}

}  // namespace
}  // namespace headrace::runtime
