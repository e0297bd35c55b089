// SPDX-License-Identifier: Apache-2.0
// Decision trees against the naive table: rules of many masks, as access lists have them and as who
// wants to do harm would choose them.
#include "match/structures/decision_tree.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "match/structures/acl_rules.h"
#include "match/structures/classifier_compare.h"

namespace headrace::match {
namespace {

INSTANTIATE_TEST_SUITE_P(AllSimd, SimdVariantTest, testing::ValuesIn(simd_levels()));

/// Any bits of three words.
Match any_bits(Random& random) {
  Match match;
  const auto some = [&random] { return static_cast<uint32_t>(random() & random()); };
  add_u32(match, Field::ipv4_src, some(), some());
  add_u32(match, Field::ipv4_dst, some(), some());
  uint8_t metadata[8] = {};
  uint8_t mask[8] = {};
  metadata[7] = static_cast<uint8_t>(below(random, 4));
  mask[7] = static_cast<uint8_t>(below(random, 4));
  match.add(Field::metadata, metadata, mask);
  return match;
}

WordSet words_of(const Shape& shape) {
  Random random(0);
  WordSet words = 0;
  for (int i = 0; i < 1000; ++i) words |= shape.match(random).words;
  return words;
}

TEST_P(SimdVariantTest, DecisionTreeAgreesWithNaive) {
  const Shape shapes[] = {{"wild", wild, any_priority},
                          {"prefix pairs", prefix_pair, any_priority},
                          {"nested", nested, any_priority},
                          {"any bits", any_bits, any_priority},
                          {"firewall", acl_match<false>, any_priority},
                          {"firewall of IPv6", acl_match<true>, any_priority},
                          {"long keys", long_key, any_priority}};
  for (const Shape& shape : shapes) {
    for (unsigned seed = 1; seed <= 2; ++seed) {
      DecisionTree table(words_of(shape), defer_not);
      compare(table, shape, 500, 3000, seed);
      if (HasFailure()) return;
    }
  }
}

/// Trees cut for all rules at once, then taken down rule by rule; a copy must not change with it.
TEST_P(SimdVariantTest, DecisionTreesFilledAtOnceAgreeWithNaive) {
  for (const bool ipv6 : {false, true}) {
    for (const AclFamily family : {AclFamily::acl, AclFamily::fw, AclFamily::ipc}) {
      Random random(8);
      const Shape shape{"access list", ipv6 ? acl_match<true> : acl_match<false>, any_priority};
      std::vector<AclRule> tuples = acl_rules(family, 300, ipv6, 5);
      NaiveTable naive;
      for (const AclRule& tuple : tuples) {
        for (const Match& match : matches_of(tuple)) {
          naive.insert(match, tuple.priority, static_cast<uint32_t>(naive.rules.size()));
        }
      }
      std::vector<RuleRef> refs;
      for (const NaiveTable::Rule& rule : naive.rules) {
        refs.push_back({&rule.match, rule.priority, rule.index});
      }
      DecisionTree table(refs, defer_not);
      table.set_default(4000000);
      ASSERT_EQ(table.size(), refs.size());
      EXPECT_FALSE(table.outgrown());
      const std::unique_ptr<Classifier> copy = table.clone();
      const NaiveTable before = naive;
      size_t hits = 0;
      while (!naive.rules.empty()) {
        hits += hits_of_burst(random, table, naive, shape, 4000000);
        if (HasFailure()) return;
        const size_t victim = below(random, static_cast<uint32_t>(naive.rules.size()));
        const NaiveTable::Rule rule = naive.rules[victim];
        ASSERT_TRUE(table.erase(rule.match, rule.priority));
        naive.erase(victim);
      }
      EXPECT_GT(hits, before.rules.size());
      EXPECT_EQ(hits_of_burst(random, table, naive, shape, 4000000), 0u);
      for (int i = 0; i < 20; ++i) hits_of_burst(random, *copy, before, shape, 4000000);
    }
  }
}

TEST(DecisionTreeTest, RefusesWhatDiffersWhereAllAgree) {
  Random random(0);
  const auto rule = [](uint16_t type, Field field) {
    Match match;
    add_u16(match, Field::eth_type, type);
    add_u32(match, field, 0x0a000000);
    return match;
  };
  const Match first = rule(0x0800, Field::ipv4_dst);
  const Match second = rule(0x0800, Field::ipv4_src);
  const RuleRef refs[] = {{&first, 1, 1}, {&second, 2, 2}};
  DecisionTree table(refs, defer_not);
  EXPECT_FALSE(table.insert(rule(0x0806, Field::ipv4_src), 3, 3)) << "another eth_type";
  EXPECT_FALSE(table.insert(rule(0x0800, Field::arp_spa), 3, 3)) << "another word";
  EXPECT_FALSE(table.erase(rule(0x0806, Field::ipv4_src), 2));
  EXPECT_EQ(table.size(), 2u);
}

TEST(DecisionTreeTest, MemoryIsBoundedByTheRules) {
  // Each rule leaves open what others ask for.
  DecisionTree table(WordSet{1} << 3, defer_not);
  Random random(2);
  constexpr uint32_t kRules = 2000;
  for (uint32_t i = 0; i < kRules; ++i) {
    Match match;
    const Field field = i % 2 == 0 ? Field::ipv4_src : Field::ipv4_dst;
    add_u32(match, field, static_cast<uint32_t>(random()), prefix_mask(8 + below(random, 25)));
    ASSERT_TRUE(table.insert(match, static_cast<uint16_t>(i), i));
  }
  // 28 octets per rule and copy, as much again for slots, and what arenas hold in reserve.
  EXPECT_LT(table.memory_bytes(), size_t{4} * kRules * kMostCopies * 28);
}

TEST(DecisionTreeTest, GathersBits) {
  Random random(6);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bits = uint64_t{random()} << 32 | random();
    uint64_t gathered = 0;
    unsigned at = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
      if ((bits >> bit & 1) != 0) gathered |= (0x123456789abcdef0u >> bit & 1) << at++;
    }
    EXPECT_EQ(gather_bits_portable(0x123456789abcdef0u, bits), gathered);
  }
}

}  // namespace
}  // namespace headrace::match
