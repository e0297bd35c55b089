// SPDX-License-Identifier: Apache-2.0
// The table that changes its structure: which it chooses, and that no change is seen in its
// results.
#include "match/table/compiled_table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "match/structures/acl_rules.h"
#include "match/structures/naive_table.h"
#include "match/structures/word_table.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

constexpr uint8_t kFirst[] = {0};

/// A table and the naive one that is its source.
class CompiledTableTest : public ::testing::Test {
 protected:
  void insert(const Match& match, uint16_t priority) {
    naive_.insert(match, priority, next_);
    ASSERT_TRUE(table_.insert(match, priority, next_++));
  }
  void erase(size_t position) {
    const NaiveTable::Rule rule = naive_.rules[position];
    naive_.erase(position);
    ASSERT_TRUE(table_.erase(rule.match, rule.priority));
  }
  uint32_t lookup(const FlowKey& packet) {
    uint32_t result = 0;
    table_.lookup(&packet, kFirst, &result, kAllWords);
    return result;
  }

  NaiveTable naive_;
  uint32_t next_{1};
  CompiledTable table_{defer_not, [this](const CompiledTable::RuleVisitor& visit) {
                         for (const NaiveTable::Rule& rule : naive_.rules) {
                           visit(rule.match, rule.priority, rule.index);
                         }
                       }};
};

Match mac_rule(uint32_t host) {
  Match match;
  uint8_t mac[6] = {2};
  packet::store_be32(mac + 2, host);
  match.add(Field::eth_dst, mac);
  return match;
}

Match route(uint32_t network, uint32_t length) {
  Match match;
  const uint8_t type[2] = {8, 0};
  match.add(Field::eth_type, type);
  uint8_t address[4];
  uint8_t mask[4];
  packet::store_be32(address, network);
  packet::store_be32(mask, length == 0 ? 0 : ~uint32_t{0} << (32 - length));
  match.add(Field::ipv4_dst, address, mask);
  return match;
}

TEST_F(CompiledTableTest, AnEmptyTableMisses) {
  EXPECT_EQ(lookup({}), kMiss);
  EXPECT_EQ(table_.structure(), "direct");
}

TEST_F(CompiledTableTest, TheTableMissRuleSpoilsNoStructure) {
  insert({}, 0);
  EXPECT_EQ(lookup({}), 1u);
  for (uint32_t i = 0; i < 100; ++i) insert(mac_rule(i), 10);
  EXPECT_EQ(table_.structure(), "hash-word");
  EXPECT_EQ(table_.reason(), "one mask over eth_dst: exact hash of one word");
  EXPECT_EQ(lookup(mac_rule(7).value), 9u);
  EXPECT_EQ(lookup(mac_rule(1000).value), 1u);
  erase(0);
  EXPECT_EQ(lookup(mac_rule(1000).value), kMiss);
  EXPECT_EQ(table_.structure(), "hash-word");
}

TEST_F(CompiledTableTest, OneWordInVeryManyRulesIsHashedAsSeveralAre) {
  const auto fill = [this](uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) insert(mac_rule(i), 10);
  };
  constexpr auto kMax = static_cast<uint32_t>(WordTable::kMaxRules);
  fill(0, kMax);
  EXPECT_EQ(table_.structure(), "hash-word");
  fill(kMax, kMax + 2);
  EXPECT_EQ(table_.structure(), "hash");
  for (const uint32_t i : {0u, 7u, kMax - 1, kMax, kMax + 1}) {
    EXPECT_EQ(lookup(mac_rule(i).value), i + 1);
  }
}

TEST_F(CompiledTableTest, ARuleBelowTheMatchAllRuleIsHidden) {
  for (uint32_t i = 0; i < 20; ++i) insert(mac_rule(i), 10);
  insert({}, 5);
  insert(mac_rule(100), 1);
  EXPECT_EQ(lookup(mac_rule(100).value), 21u);
  EXPECT_EQ(lookup(mac_rule(3).value), 4u);
  erase(20);  // the match-all rule
  EXPECT_EQ(lookup(mac_rule(100).value), 22u);
}

TEST_F(CompiledTableTest, RoutesBecomePrefixes) {
  insert({}, 0);
  for (uint32_t i = 0; i < 50; ++i) {
    insert(route(0x0a000000 + (i << 16), 16), 16);
    insert(route(0x0a000000 + (i << 16) + 256, 24), 24);
  }
  EXPECT_EQ(table_.structure(), "prefix");
  EXPECT_EQ(table_.reason(), "prefixes of ipv4_dst under eth_type=0x800: longest prefix match");
  EXPECT_LT(table_.memory_bytes(), size_t{1} << 20);
  EXPECT_LE(table_.rebuilds(), 2u);
  insert(route(0x0a000000, 8), 100);  // shorter, but above: no longer a longest prefix match
  EXPECT_EQ(table_.structure(), "tuple-space");
  EXPECT_EQ(lookup(route(0x0a000101, 32).value), 102u);
}

TEST_F(CompiledTableTest, ManyMasksBecomeTrees) {
  const auto pair = [](uint32_t i) {
    Match match = route(0x0a000000 + (i << 16), 8 + i % 8);
    uint8_t address[4];
    uint8_t mask[4];
    packet::store_be32(address, 0x0b000000 + (i << 12));
    packet::store_be32(mask, ~uint32_t{0} << (24 - i / 8 % 16));
    match.add(Field::ipv4_src, address, mask);
    return match;
  };
  for (uint32_t i = 0; i < 10; ++i) insert(pair(i), static_cast<uint16_t>(i));
  EXPECT_EQ(table_.structure(), "tuple-space");
  for (uint32_t i = 10; i < 250; ++i) insert(pair(i), static_cast<uint16_t>(i));
  EXPECT_EQ(table_.structure(), "decision-tree");
  EXPECT_EQ(table_.reason().substr(table_.reason().find("masks")), "masks: decision trees");
  for (uint32_t i = 0; i < 250; ++i) {
    const FlowKey packet = pair(i).value;
    EXPECT_TRUE(naive_.agrees(packet, lookup(packet), kMiss)) << i;
  }
  const uint64_t rebuilds = table_.rebuilds();
  insert(mac_rule(1), 200);  // a word that no rule asked for
  EXPECT_EQ(table_.rebuilds(), rebuilds + 1);
  EXPECT_EQ(lookup(mac_rule(1).value), naive_.rules.back().index);
}

/// Rules one by one, so that vectors are made anew where places or prefixes run out.
TEST_F(CompiledTableTest, FirewallsBecomeBitVectors) {
  const std::vector<AclRule> rules = acl_rules(AclFamily::fw, 400, false, 3);
  for (const AclRule& rule : rules) {
    for (const Match& match : matches_of(rule)) insert(match, rule.priority);
  }
  EXPECT_EQ(table_.structure(), "bit-vectors");
  EXPECT_NE(table_.reason().find("leave an address open: bit vectors"), std::string::npos);
  for (const AclPacket& packet : acl_trace(rules, 2000, false, 1)) {
    FlowKey key{};
    packet.fill(key);
    ASSERT_TRUE(naive_.agrees(key, lookup(key), kMiss));
  }
  insert(mac_rule(1), 200);  // a word that no rule asked for
  EXPECT_EQ(table_.structure(), "decision-tree");
  EXPECT_EQ(lookup(mac_rule(1).value), naive_.rules.back().index);
}

TEST_F(CompiledTableTest, ShrinkingFindsTheSimplerStructureAgain) {
  for (uint32_t i = 0; i < 30; ++i) insert(mac_rule(i), 10);
  insert(route(0x0a000000, 8), 10);
  EXPECT_EQ(table_.structure(), "tuple-space");
  while (naive_.rules.size() > 5) erase(0);
  EXPECT_EQ(table_.structure(), "direct");
}

TEST_F(CompiledTableTest, KindsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const ClassifierKind* kind : classifier_kinds()) {
    EXPECT_FALSE(kind->name.empty());
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
  }
}

/// The kind that would serve so many rules of a family, the first that says so.
std::string_view kind_for(AclFamily family, size_t count) {
  std::vector<Match> matches;
  std::vector<uint16_t> priorities;
  for (const AclRule& rule : acl_rules(family, count, false, 3)) {
    for (Match& match : matches_of(rule)) {
      matches.push_back(std::move(match));
      priorities.push_back(rule.priority);
    }
  }
  std::vector<RuleRef> refs;
  for (uint32_t i = 0; i < matches.size(); ++i) refs.push_back({&matches[i], priorities[i], i});
  for (const ClassifierKind* kind : classifier_kinds()) {
    if (kind->plan(refs).has_value()) return kind->name;
  }
  return "";
}

TEST(PlannerTest, FirewallsOfAllSizesAreToldFromAccessLists) {
  EXPECT_EQ(kind_for(AclFamily::fw, 1000), "bit-vectors");
  EXPECT_EQ(kind_for(AclFamily::fw, 10000), "bit-vectors");
  EXPECT_EQ(kind_for(AclFamily::fw, 33000), "trees-and-vectors");
  EXPECT_EQ(kind_for(AclFamily::ipc, 1000), "bit-vectors");
  EXPECT_EQ(kind_for(AclFamily::acl, 1000), "decision-tree");
}

TEST_F(CompiledTableTest, WordsAreThoseOfTheRules) {
  insert(mac_rule(1), 1);
  EXPECT_EQ(table_.words(), 1u);
  insert(route(0x0a000000, 8), 1);
  EXPECT_EQ(table_.words(), 1u | 1u << 3);
}

TEST_F(CompiledTableTest, RandomChangesAgreeWithNaive) {
  std::mt19937 random(1);
  const auto below = [&random](uint32_t limit) {
    return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random);
  };
  const auto any_rule = [&below]() -> Match {
    switch (below(12)) {
      case 0:
        return {};
      case 1:
      case 2:
        return mac_rule(below(30));
      default:
        return route(0x0a000000 + (below(4) << 16) + below(512), 8 + below(25));
    }
  };
  // Phases grow the table and shrink it, so that every structure comes and goes.
  for (int step = 0; step < 6000; ++step) {
    const bool growing = step / 500 % 2 == 0;
    if (below(10) < (growing ? 7u : 2u)) {
      const Match match = any_rule();
      const auto priority = static_cast<uint16_t>(below(step < 3000 ? 1 : 5));
      if (!naive_.has(match, priority)) insert(match, priority);
    } else if (!naive_.rules.empty()) {
      const size_t position = below(static_cast<uint32_t>(naive_.rules.size()));
      if (below(4) == 0) {
        NaiveTable::Rule& rule = naive_.rules[position];
        rule.index = next_++;
        ASSERT_TRUE(table_.replace(rule.match, rule.priority, rule.index));
      } else {
        erase(position);
      }
    }
    FlowKey packet = any_rule().value;
    if (below(2) == 0) packet.ipv4_dst |= packet::swap32(below(65536));
    ASSERT_TRUE(naive_.agrees(packet, lookup(packet), kMiss))
        << "step " << step << ", " << table_.reason();
  }
}

TEST_F(CompiledTableTest, AMatchAllRuleBelowAllOthersIsTakenInPlace) {
  for (uint32_t host = 0; host < 1000; ++host) insert(mac_rule(host), 10);
  const uint64_t rebuilds = table_.rebuilds();
  const std::string structure(table_.structure());
  insert({}, 10);  // of equal priorities any may win; kept aside, the others do
  EXPECT_EQ(table_.rebuilds(), rebuilds);
  EXPECT_EQ(table_.structure(), structure);
  EXPECT_EQ(lookup(mac_rule(5).value), 6U);
  EXPECT_EQ(lookup(mac_rule(5000).value), 1001U);
  erase(1000);
  EXPECT_EQ(lookup(mac_rule(5000).value), kMiss);
  insert({}, 0);
  EXPECT_EQ(table_.rebuilds(), rebuilds);
  EXPECT_EQ(lookup(mac_rule(5000).value), 1002U);
  // Above some of the others it is no default; nor can two be.
  insert({}, 20);
  EXPECT_EQ(lookup(mac_rule(5).value), 1003U);
}

}  // namespace
}  // namespace headrace::match
