// SPDX-License-Identifier: Apache-2.0
// Trees with vectors for what they put aside against the naive table.
#include "match/structures/trees_and_vectors.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "match/structures/acl_rules.h"
#include "match/structures/classifier_compare.h"

namespace headrace::match {
namespace {

constexpr uint32_t kDefault = 4000000;

INSTANTIATE_TEST_SUITE_P(AllSimd, SimdVariantTest, testing::ValuesIn(simd_levels()));

std::vector<RuleRef> refs_of(const NaiveTable& naive) {
  std::vector<RuleRef> refs;
  for (const NaiveTable::Rule& rule : naive.rules) {
    refs.push_back({&rule.match, rule.priority, rule.index});
  }
  return refs;
}

NaiveTable firewall(size_t count) {
  NaiveTable naive;
  for (const AclRule& tuple : acl_rules(AclFamily::fw, count, false, 5)) {
    for (const Match& match : matches_of(tuple)) {
      naive.insert(match, tuple.priority, static_cast<uint32_t>(naive.rules.size()));
    }
  }
  return naive;
}

/// Rules go and come back; a copy must not change with them.
TEST_P(SimdVariantTest, TreesAndVectorsAgreeWithNaive) {
  Random random(4);
  const Shape shape{"firewall", acl_match<false>, any_priority};
  NaiveTable naive = firewall(1500);
  const std::unique_ptr<TreesAndVectors> table = TreesAndVectors::make(refs_of(naive), defer_not);
  ASSERT_NE(table, nullptr);
  EXPECT_GT(table->put_aside(), 0u);
  table->set_default(kDefault);
  ASSERT_EQ(table->size(), naive.rules.size());
  const std::unique_ptr<Classifier> copy = table->clone();
  ASSERT_NE(copy, nullptr);
  const NaiveTable before = naive;
  std::vector<NaiveTable::Rule> gone;
  auto index = static_cast<uint32_t>(naive.rules.size());
  size_t hits = 0;
  for (int step = 0; step < 6000; ++step) {
    if (!gone.empty() && below(random, 5) < 2) {
      const NaiveTable::Rule& rule = gone.back();
      ASSERT_TRUE(table->insert(rule.match, rule.priority, index));
      naive.insert(rule.match, rule.priority, index++);
      gone.pop_back();
    } else {
      NaiveTable::Rule& rule =
          naive.rules[below(random, static_cast<uint32_t>(naive.rules.size()))];
      if (below(random, 8) == 0) {
        rule.index = index++;
        ASSERT_TRUE(table->replace(rule.match, rule.priority, rule.index));
      } else {
        gone.push_back(rule);
        ASSERT_TRUE(table->erase(rule.match, rule.priority));
        ASSERT_FALSE(table->erase(rule.match, rule.priority));
        naive.erase(static_cast<size_t>(&rule - naive.rules.data()));
      }
    }
    ASSERT_EQ(table->size(), naive.rules.size());
    if (step % 20 == 0) hits += hits_of_burst(random, *table, naive, shape, kDefault);
    if (HasFailure()) return;
  }
  EXPECT_GT(hits, 1000u);
  for (int i = 0; i < 100; ++i) hits_of_burst(random, *copy, before, shape, kDefault);
}

TEST(TreesAndVectorsTest, RefusesOtherWordsThanItsOwn) {
  const NaiveTable naive = firewall(1500);
  const std::unique_ptr<TreesAndVectors> table = TreesAndVectors::make(refs_of(naive), defer_not);
  ASSERT_NE(table, nullptr);
  Random random(1);
  EXPECT_FALSE(table->insert(exact_mac(random), 1, 1));
  EXPECT_FALSE(table->erase(exact_mac(random), 1));
  EXPECT_FALSE(table->replace(exact_mac(random), 1, 1));
  EXPECT_EQ(table->size(), naive.rules.size());
}

/// Where trees put nothing aside, trees alone are what is wanted.
TEST(TreesAndVectorsTest, NeedsRulesToPutAside) {
  NaiveTable naive;
  for (uint32_t i = 0; i < 500; ++i) {
    Match match;
    add_u32(match, Field::ipv4_dst, 0x0a000000 + i);
    naive.insert(match, 1, i);
  }
  EXPECT_EQ(TreesAndVectors::make(refs_of(naive), defer_not), nullptr);
}

}  // namespace
}  // namespace headrace::match
