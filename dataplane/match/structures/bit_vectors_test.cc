// SPDX-License-Identifier: Apache-2.0
// Bit vectors against the naive table: rules as firewalls have them and as who wants to do harm
// would choose them, made at once and changed in place.
#include "match/structures/bit_vectors.h"

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

/// Different rules of a shape.
NaiveTable some_of(const Shape& shape, size_t count, unsigned seed) {
  Random random(seed);
  NaiveTable naive;
  for (size_t tries = 0; naive.rules.size() < count && tries < 20 * count; ++tries) {
    const Match match = shape.match(random);
    const uint16_t priority = shape.priority(random, match);
    if (!naive.has(match, priority)) {
      naive.insert(match, priority, static_cast<uint32_t>(naive.rules.size()));
    }
  }
  return naive;
}

/// The rules of a family, ports expanded.
NaiveTable family_of(AclFamily family, size_t count) {
  NaiveTable naive;
  for (const AclRule& tuple : acl_rules(family, count, false, 5)) {
    for (const Match& match : matches_of(tuple)) {
      naive.insert(match, tuple.priority, static_cast<uint32_t>(naive.rules.size()));
    }
  }
  return naive;
}

/// Any bits of both words: no prefixes, and fields that have no vector.
Match any_bits_of_both(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x0800);
  const auto some = [&random] { return static_cast<uint32_t>(random() & random()); };
  add_u32(match, Field::ipv4_src, some(), some() | (below(random, 2) != 0 ? 0xf0000000 : 0));
  add_u32(match, Field::ipv4_dst, some(), some());
  const uint8_t dscp = static_cast<uint8_t>(below(random, 4));
  if (below(random, 2) != 0) match.add(Field::ip_dscp, &dscp);
  const uint8_t port[2] = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random())};
  const uint8_t mask[2] = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random() & 1)};
  match.add(Field::udp_dst, port, mask);
  return match;
}

/// Many ports at few addresses, so that groups are full.
Match ports_of_few(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x0800);
  const uint8_t proto = 6;
  match.add(Field::ip_proto, &proto);
  add_u32(match, Field::ipv4_src, 0x0a000000 + (below(random, 2) << 24), 0xff000000);
  add_u16(match, Field::tcp_dst, static_cast<uint16_t>(below(random, 300)));
  return match;
}

uint16_t few_priorities(Random& random, const Match&) {
  return static_cast<uint16_t>(below(random, 2));
}

/// A table that held such rules, and holds none.
std::unique_ptr<BitVectors> emptied(const Shape& shape, size_t rules) {
  const NaiveTable naive = some_of(shape, rules, 77);
  std::unique_ptr<BitVectors> table = BitVectors::make(refs_of(naive), defer_not);
  for (const NaiveTable::Rule& rule : naive.rules) {
    EXPECT_TRUE(table->erase(rule.match, rule.priority));
  }
  EXPECT_EQ(table->size(), 0u);
  EXPECT_EQ(table->groups(), 0u);
  return table;
}

TEST_P(SimdVariantTest, BitVectorsAgreeWithNaive) {
  const Shape shapes[] = {
      {"prefix pairs", prefix_pair, any_priority},  {"nested", nested, any_priority},
      {"any bits", any_bits_of_both, any_priority}, {"firewall", acl_match<false>, any_priority},
      {"ports", ports_of_few, few_priorities},      {"five-tuples", five_tuple, any_priority}};
  for (const Shape& shape : shapes) {
    for (unsigned seed = 1; seed <= 2; ++seed) {
      const std::unique_ptr<BitVectors> table = emptied(shape, 900);
      compare(*table, shape, 500, 3000, seed);
      if (HasFailure()) return;
    }
  }
}

/// Vectors of one block, of a few and of many; rules are then taken away one by one.
TEST_P(SimdVariantTest, BitVectorsMadeAtOnceAgreeWithNaive) {
  for (const size_t count : {100u, 900u, 3000u}) {
    for (const AclFamily family : {AclFamily::acl, AclFamily::fw, AclFamily::ipc}) {
      Random random(8);
      const Shape shape{"access list", acl_match<false>, any_priority};
      NaiveTable naive = family_of(family, count);
      const std::unique_ptr<BitVectors> table = BitVectors::make(refs_of(naive), defer_not);
      ASSERT_NE(table, nullptr);
      table->set_default(kDefault);
      ASSERT_EQ(table->size(), naive.rules.size());
      const std::unique_ptr<Classifier> copy = table->clone();
      ASSERT_NE(copy, nullptr);
      const NaiveTable before = naive;
      const size_t rules = naive.rules.size();
      size_t hits = 0;
      while (!naive.rules.empty()) {
        if (naive.rules.size() % (1 + rules / 200) == 0) {
          hits += hits_of_burst(random, *table, naive, shape, kDefault);
        }
        if (HasFailure()) return;
        const size_t victim = below(random, static_cast<uint32_t>(naive.rules.size()));
        const NaiveTable::Rule rule = naive.rules[victim];
        ASSERT_TRUE(table->erase(rule.match, rule.priority));
        naive.erase(victim);
      }
      EXPECT_GT(hits, 200u);
      EXPECT_EQ(hits_of_burst(random, *table, naive, shape, kDefault), 0u);
      for (int i = 0; i < 20; ++i) hits_of_burst(random, *copy, before, shape, kDefault);
    }
  }
}

/// More and more rules between the same two, then above and below all, until no place is left.
TEST_P(SimdVariantTest, BitVectorsTakeRulesAtOnePlaceOfTheOrder) {
  Random random(3);
  const Shape shape{"nested", nested, any_priority};
  for (const uint16_t priority : {uint16_t{500}, uint16_t{0}, uint16_t{0xffff}}) {
    NaiveTable naive;
    for (uint32_t i = 0; i < 1000; ++i) {
      naive.insert(nested(random), static_cast<uint16_t>(1 + i), i);
    }
    const std::unique_ptr<BitVectors> table = BitVectors::make(refs_of(naive), defer_not);
    table->set_default(kDefault);
    size_t added = 0;
    while (added < 5000) {
      const Match match = nested(random);
      if (naive.has(match, priority)) continue;
      const auto index = static_cast<uint32_t>(naive.rules.size());
      if (!table->insert(match, priority, index)) break;
      naive.insert(match, priority, index);
      ++added;
      if (added % 16 == 0) hits_of_burst(random, *table, naive, shape, kDefault);
      if (HasFailure()) return;
    }
    EXPECT_GE(added, BitBlock::kPlaces);
    EXPECT_EQ(table->size(), naive.rules.size());
    EXPECT_GT(hits_of_burst(random, *table, naive, shape, kDefault), 0u);
  }
}

TEST(BitVectorsTest, ARangeOfPortsIsOneGroup) {
  AclRule range;
  range.protocol = 6;
  range.source_port = {1024, 65535};
  range.destination_port = {1, 14};
  NaiveTable naive;
  for (const Match& match : matches_of(range)) {
    naive.insert(match, 5, static_cast<uint32_t>(naive.rules.size()));
  }
  ASSERT_EQ(naive.rules.size(), 36u);
  const std::unique_ptr<BitVectors> table = BitVectors::make(refs_of(naive), defer_not);
  EXPECT_EQ(table->groups(), 1u);
  EXPECT_EQ(table->size(), 36u);
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    FlowKey packet{};
    packet_of(range, random).fill(packet);
    const uint8_t slot = 0;
    uint32_t result = 0;
    table->lookup(&packet, {&slot, 1}, &result, kAllWords);
    EXPECT_TRUE(naive.agrees(packet, result, kMiss));
  }
}

TEST(BitVectorsTest, RefusesOtherWordsThanItsOwn) {
  const auto rule = [](uint16_t type, Field field) {
    Match match;
    add_u16(match, Field::eth_type, type);
    add_u32(match, field, 0x0a000000);
    return match;
  };
  const Match first = rule(0x0800, Field::ipv4_dst);
  const Match second = rule(0x0800, Field::ipv4_src);
  const Match third = rule(0x0806, Field::arp_spa);
  const RuleRef refs[] = {{&first, 1, 1}, {&second, 2, 2}};
  const RuleRef others[] = {{&first, 1, 1}, {&third, 2, 2}};
  EXPECT_TRUE(BitVectors::serves(refs));
  EXPECT_FALSE(BitVectors::serves(others));
  const std::unique_ptr<BitVectors> table = BitVectors::make(refs, defer_not);
  EXPECT_FALSE(table->insert(rule(0x0806, Field::ipv4_src), 3, 3)) << "another eth_type";
  EXPECT_FALSE(table->insert(rule(0x0800, Field::arp_spa), 3, 3)) << "another word";
  EXPECT_FALSE(table->erase(rule(0x0806, Field::ipv4_src), 2));
  EXPECT_FALSE(table->replace(rule(0x0800, Field::ipv4_src), 1, 2)) << "another priority";
  EXPECT_EQ(table->size(), 2u);
}

TEST(BitVectorsTest, ChangesTakeNoMoreMemory) {
  const NaiveTable naive = family_of(AclFamily::fw, 1000);
  const std::unique_ptr<BitVectors> table = BitVectors::make(refs_of(naive), defer_not);
  Random random(5);
  size_t settled = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto& rule = naive.rules[below(random, static_cast<uint32_t>(naive.rules.size()))];
    ASSERT_TRUE(table->erase(rule.match, rule.priority));
    ASSERT_TRUE(table->insert(rule.match, rule.priority, rule.index));
    if (i == 1000) settled = table->memory_bytes();
  }
  EXPECT_LE(table->memory_bytes(), settled + (size_t{256} << 10));
}

}  // namespace
}  // namespace headrace::match
