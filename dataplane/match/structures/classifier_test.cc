// SPDX-License-Identifier: Apache-2.0
// Every classifier against the naive table: random rules of a shape that it takes, random packets
// that often match, and insert, erase and replace in between.
#include "match/structures/classifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>

#include "match/fields/simd.h"
#include "match/structures/bit_vectors.h"
#include "match/structures/classifier_compare.h"
#include "match/structures/direct_table.h"
#include "match/structures/hash_table.h"
#include "match/structures/naive_table.h"
#include "match/structures/prefix_table.h"
#include "match/structures/tuple_space.h"
#include "match/structures/word_table.h"
#include "match/table/compiled_table.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

INSTANTIATE_TEST_SUITE_P(AllSimd, SimdVariantTest, testing::ValuesIn(simd_levels()),
                         [](const auto& level) { return std::string(name(level.param)); });

TEST_P(SimdVariantTest, DirectTableAgreesWithNaive) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    DirectTable table(defer_not);
    compare(table, {"wild", wild, any_priority}, DirectTable::kRules, 400, seed);
  }
}

TEST(DirectTableTest, RefusesTheNinthRule) {
  DirectTable table(defer_not);
  Random random(1);
  for (uint16_t i = 0; i < DirectTable::kRules; ++i) {
    ASSERT_TRUE(table.insert(exact_mac(random), i, i));
  }
  EXPECT_FALSE(table.insert(exact_mac(random), 100, 100));
}

TEST(DirectTableTest, VectorCompareAgreesWithPortable) {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    Pair words;
    for (int lane = 0; lane < 2; ++lane) {
      words[lane] = below(random, 2) == 0 ? 0 : uint64_t{1} << below(random, 64);
    }
    EXPECT_EQ(zero_lanes(words), zero_lanes_portable(words));
  }
}

TEST(HashTableTest, OneWordAgreesWithNaive) {
  Random random(0);
  HashTable table(exact_mac(random).mask, 0, defer_not);
  compare(table, {"exact_mac", exact_mac, any_priority}, 2000, 20000, 1);
}

TEST(HashTableTest, ThreeWordsAgreeWithNaive) {
  Random random(0);
  HashTable table(five_tuple(random).mask, 0, defer_not);
  compare(table, {"five_tuple", five_tuple, any_priority}, 1000, 10000, 2);
}

TEST(HashTableTest, LongKeysAgreeWithNaive) {
  Random random(0);
  HashTable table(long_key(random).mask, 100, defer_not);
  ASSERT_EQ(MaskedWords(long_key(random).mask).size(), 6u);
  compare(table, {"long_key", long_key, any_priority}, 1000, 10000, 3);
}

template <typename Table>
void hold_a_hundred_thousand_macs() {
  Match match;
  const uint8_t zero[6] = {};
  match.add(Field::eth_dst, zero);
  Table table(match.mask, 0, defer_not);
  const auto key = [&match](uint32_t i) {
    Match each = match;
    each.value.eth_dst[0] = 2;
    packet::store_be32(&each.value.eth_dst[2], i);
    return each;
  };
  constexpr uint32_t kKeys = 100000;
  for (uint32_t i = 0; i < kKeys; ++i) ASSERT_TRUE(table.insert(key(i), 1, i));
  EXPECT_EQ(table.size(), kKeys);
  const std::unique_ptr<const Classifier> copy = table.clone();
  FlowKey burst[kBurst];
  uint8_t active[kBurst];
  uint32_t results[kBurst];
  std::iota(active, active + kBurst, uint8_t{0});
  for (uint32_t i = 0; i < kKeys + kBurst; i += kBurst) {
    for (uint32_t k = 0; k < kBurst; ++k) burst[k] = key(i + k).value;
    for (const Classifier* each : {static_cast<const Classifier*>(&table), copy.get()}) {
      each->lookup(burst, active, results, kAllWords);
      for (uint32_t k = 0; k < kBurst; ++k) {
        ASSERT_EQ(results[k], i + k < kKeys ? i + k : kMiss);
      }
    }
  }
}

TEST(HashTableTest, HoldsAHundredThousandKeys) {
  hold_a_hundred_thousand_macs<HashTable>();
}

TEST_P(SimdVariantTest, WordTableHoldsAHundredThousandKeys) {
  hold_a_hundred_thousand_macs<WordTable>();
}

TEST_P(SimdVariantTest, WordTableAgreesWithNaive) {
  Random random(0);
  for (unsigned seed = 1; seed <= 2; ++seed) {
    WordTable table(exact_mac(random).mask, 0, defer_not);
    compare(table, {"exact_mac", exact_mac, any_priority}, 2000, 20000, seed);
  }
}

Match exact_metadata(Random& random) {
  Match match;
  const uint8_t value[8] = {0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            static_cast<uint8_t>(below(random, 2)),
                            static_cast<uint8_t>(below(random, 200))};
  match.add(Field::metadata, value);
  return match;
}

/// All 64 bits of a word; 0, which free memory holds, is among the keys.
TEST_P(SimdVariantTest, WordTableOfAllBitsAgreesWithNaive) {
  Random random(0);
  for (unsigned seed = 1; seed <= 2; ++seed) {
    WordTable table(exact_metadata(random).mask, 0, defer_not);
    compare(table, {"exact_metadata", exact_metadata, any_priority}, 2000, 20000, seed);
  }
}

TEST(WordTableTest, ServesOneWord) {
  Random random(0);
  EXPECT_TRUE(WordTable::serves(exact_mac(random).mask));
  EXPECT_TRUE(WordTable::serves(exact_metadata(random).mask));
  EXPECT_FALSE(WordTable::serves(five_tuple(random).mask));
  EXPECT_FALSE(WordTable::serves(FlowKey{}));
  WordTable table(exact_mac(random).mask, 0, defer_not);
  EXPECT_FALSE(table.insert(five_tuple(random), 1, 1));
  EXPECT_FALSE(table.erase(five_tuple(random), 1));
  EXPECT_FALSE(table.replace(five_tuple(random), 1, 1));
}

TEST(HashTableTest, RefusesAnotherMask) {
  Random random(0);
  HashTable table(exact_mac(random).mask, 0, defer_not);
  EXPECT_FALSE(table.insert(five_tuple(random), 1, 1));
  EXPECT_FALSE(table.erase(five_tuple(random), 1));
}

TEST(HashTableTest, VectorCompareAgreesWithPortable) {
  Random random(4);
  for (int i = 0; i < 1000; ++i) {
    uint16_t signatures[8];
    for (uint16_t& each : signatures) each = static_cast<uint16_t>(below(random, 3) * 0x7fff);
    for (const uint16_t wanted : {0, 0x7fff, 0xfffe, 1}) {
      EXPECT_EQ(equal_signatures(signatures, wanted),
                equal_signatures_portable(signatures, wanted));
    }
  }
}

TEST_P(SimdVariantTest, PrefixTableIpv4AgreesWithNaive) {
  Random random(0);
  const PrefixForm shape = prefix_form_of(ipv4_prefix(random), Field::ipv4_dst);
  for (unsigned seed = 1; seed <= 5; ++seed) {
    PrefixTable<2> table(shape, defer_not);
    compare(table, {"ipv4_prefix", ipv4_prefix, length_priority}, 300, 4000, seed);
  }
}

TEST_P(SimdVariantTest, PrefixTableWideRootAgreesWithNaive) {
  Random random(0);
  PrefixTable<3> table(prefix_form_of(ipv4_prefix(random), Field::ipv4_dst), defer_not);
  compare(table, {"ipv4_prefix", ipv4_prefix, length_priority}, 300, 400, 9);
}

TEST_P(SimdVariantTest, PrefixTableIpv6AgreesWithNaive) {
  Random random(0);
  PrefixTable<2> table(prefix_form_of(ipv6_prefix(random), Field::ipv6_dst), defer_not);
  compare(table, {"ipv6_prefix", ipv6_prefix, length_priority}, 300, 6000, 5);
}

/// Fills a table at once, compares, takes half of the rules away again one by one, and then all.
template <size_t kRootOctets>
void compare_loaded(const Shape& shape, Field field, int rules, unsigned seed) {
  Random random(seed);
  const PrefixForm prefixes = prefix_form_of(shape.match(random), field);
  NaiveTable naive;
  std::vector<PrefixRef> ordered;
  for (int i = 0; i < rules; ++i) {
    const Match match = shape.match(random);
    const uint16_t priority = shape.priority(random, match);
    if (naive.has(match, priority)) continue;
    const auto index = static_cast<uint32_t>(i + 1);
    naive.insert(match, priority, index);
    ordered.push_back({prefixes.prefix_of(match)->key(), priority, index});
  }
  std::sort(ordered.begin(), ordered.end(), [](const PrefixRef& a, const PrefixRef& b) {
    return std::tie(a.key.high, a.key.low, a.key.length) <
           std::tie(b.key.high, b.key.low, b.key.length);
  });
  PrefixTable<kRootOctets> table(prefixes, defer_not);
  table.set_default(4000000);
  ASSERT_TRUE(table.load(ordered));
  ASSERT_EQ(table.size(), naive.rules.size());
  size_t hits = 0;
  while (!naive.rules.empty()) {
    hits += hits_of_burst(random, table, naive, shape, 4000000);
    if (::testing::Test::HasFailure()) return;
    const size_t victim = below(random, static_cast<uint32_t>(naive.rules.size()));
    const NaiveTable::Rule rule = naive.rules[victim];
    ASSERT_TRUE(table.erase(rule.match, rule.priority));
    naive.erase(victim);
  }
  EXPECT_GT(hits, ordered.size());
  EXPECT_EQ(hits_of_burst(random, table, naive, shape, 4000000), 0u);
}

TEST_P(SimdVariantTest, PrefixTablesFilledAtOnceAgreeWithNaive) {
  const Shape ipv4{"ipv4_prefix", ipv4_prefix, length_priority};
  const Shape ipv6{"ipv6_prefix", ipv6_prefix, length_priority};
  for (unsigned seed = 1; seed <= 5; ++seed) {
    compare_loaded<2>(ipv4, Field::ipv4_dst, 500, seed);
    compare_loaded<2>(ipv6, Field::ipv6_dst, 500, seed);
  }
  compare_loaded<3>(ipv4, Field::ipv4_dst, 500, 6);
}

TEST(PrefixTableTest, RandomPrioritiesAreRefusedRatherThanWrong) {
  Random random(0);
  PrefixTable<2> table(prefix_form_of(ipv4_prefix(random), Field::ipv4_dst), defer_not);
  const auto priority = [](Random& r, const Match&) { return static_cast<uint16_t>(below(r, 3)); };
  compare(table, {"ipv4_prefix", ipv4_prefix, priority}, 100, 4000, 6);
}

TEST(PrefixTableTest, RefusesWhatItCannotServe) {
  PrefixTable<2> table(
      [] {
        Match match;
        add_u16(match, Field::eth_type, 0x0800);
        return prefix_form_of(match, Field::ipv4_dst);
      }(),
      defer_not);
  const auto rule = [](uint16_t type, uint32_t address, uint32_t mask) {
    Match match;
    add_u16(match, Field::eth_type, type);
    add_u32(match, Field::ipv4_dst, address, mask);
    return match;
  };
  EXPECT_TRUE(table.insert(rule(0x0800, 0x0a000000, 0xff000000), 10, 1));
  EXPECT_FALSE(table.insert(rule(0x0800, 0x0a000000, 0xff000000), 11, 2)) << "the same prefix";
  EXPECT_FALSE(table.insert(rule(0x0800, 0x0a010000, 0xffff0000), 9, 3)) << "longer, but below";
  EXPECT_TRUE(table.insert(rule(0x0800, 0x0b010000, 0xffff0000), 9, 4)) << "no relative";
  EXPECT_FALSE(table.insert(rule(0x0800, 0x0b000000, 0xff000000), 10, 5)) << "shorter, but above";
  EXPECT_FALSE(table.insert(rule(0x0806, 0x0a010000, 0xffff0000), 12, 6)) << "another exact part";
  EXPECT_FALSE(table.insert(rule(0x0800, 0x0a010001, 0xffff00ff), 12, 7)) << "no prefix";
  EXPECT_EQ(table.size(), 2u);
}

TEST(TupleSpaceTest, AgreesWithNaive) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    TupleSpace table(defer_not);
    compare(table, {"wild", wild, any_priority}, 400, 4000, seed);
  }
}

TEST(TupleSpaceTest, HundredsOfMasksAgreeWithNaive) {
  TupleSpace few(defer_not);
  compare(few, {"prefix pairs", prefix_pair, any_priority}, 60, 2000, 1);
  // More than a filter has numbers for.
  TupleSpace many(defer_not);
  compare(many, {"prefix pairs", prefix_pair, any_priority}, 900, 4500, 2);
}

TEST_P(SimdVariantTest, BitVectorsAgreeWithNaive) {
  // What only their words are in common with the rules that they are made of.
  Random random(1);
  const Match any = prefix_pair(random);
  const RuleRef one{&any, 1, 1};
  const std::unique_ptr<BitVectors> table = BitVectors::make({&one, 1}, defer_not);
  ASSERT_TRUE(table->erase(any, 1));
  compare(*table, {"prefix pairs", prefix_pair, any_priority}, 60, 2000, 1);
}

TEST(TupleSpaceTest, TuplesComeAndGo) {
  TupleSpace table(defer_not);
  Random random(1);
  EXPECT_EQ(table.masks(), 0u);
  const Match mac = exact_mac(random);
  const Match tuple = five_tuple(random);
  ASSERT_TRUE(table.insert(mac, 1, 1));
  ASSERT_TRUE(table.insert(tuple, 1, 2));
  EXPECT_EQ(table.masks(), 2u);
  ASSERT_TRUE(table.erase(mac, 1));
  EXPECT_EQ(table.masks(), 1u);
}

}  // namespace
}  // namespace headrace::match
