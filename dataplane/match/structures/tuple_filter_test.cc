// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tuple_filter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "match/fields/match.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

Match source_and_port(uint32_t address, uint32_t mask, uint16_t port) {
  std::array<uint8_t, 4> octets;
  std::array<uint8_t, 4> mask_octets;
  packet::store_be32(octets.data(), address);
  packet::store_be32(mask_octets.data(), mask);
  Match match;
  match.add(Field::ipv4_src, octets.data(), mask_octets.data());
  if (port != 0) {
    const std::array<uint8_t, 2> bytes = {static_cast<uint8_t>(port >> 8),
                                          static_cast<uint8_t>(port)};
    match.add(Field::udp_dst, bytes.data());
  }
  return match;
}

TupleProfile profile_of(std::initializer_list<Match> rules) {
  TupleProfile profile(rules.begin()->mask);
  for (const Match& rule : rules) profile.add(rule.value);
  return profile;
}

bool has(const TupleFilter& filter, const FlowKey& packet, size_t tuple) {
  TupleFilter::Set set;
  filter.candidates(packet, set);
  return (set[tuple / 64] >> tuple % 64 & 1) != 0;
}

TEST(TupleProfile, AllowsWhatTheMaskLeavesFree) {
  const TupleProfile profile = profile_of({source_and_port(0x0a100000, 0xfff00000, 0)});
  constexpr size_t kSource = offsetof(FlowKey, ipv4_src);
  ASSERT_NE(profile.values_at(kSource), nullptr);
  EXPECT_EQ(profile.values_at(kSource)->count(), 1u);
  ASSERT_NE(profile.values_at(kSource + 1), nullptr);
  EXPECT_EQ(profile.values_at(kSource + 1)->count(), 16u);
  EXPECT_TRUE((*profile.values_at(kSource + 1))[0x1f]);
  EXPECT_EQ(profile.values_at(kSource + 2), nullptr) << "not matched: all values";
}

TEST(TupleFilter, RulesOutOnlyWhatNoRuleAllows) {
  const TupleProfile wide = profile_of({source_and_port(0x0a000000, 0xff000000, 0)});
  const TupleProfile narrow = profile_of(
      {source_and_port(0x0a000001, 0xffffffff, 53), source_and_port(0x0b000001, 0xffffffff, 80)});
  const std::array tuples = {&wide, &narrow};
  const TupleFilter filter(tuples);
  const auto packet = [](uint32_t address, uint16_t port) {
    return source_and_port(address, 0xffffffff, port).value;
  };
  EXPECT_TRUE(has(filter, packet(0x0a000001, 53), 0));
  EXPECT_TRUE(has(filter, packet(0x0a000001, 53), 1));
  EXPECT_TRUE(has(filter, packet(0x0a777777, 99), 0));
  EXPECT_FALSE(has(filter, packet(0x0a777777, 99), 1));
  EXPECT_FALSE(has(filter, packet(0x0c000001, 53), 0));
  EXPECT_FALSE(has(filter, packet(0x0c000001, 53), 1));
}

/// Against the profiles themselves: tuples of random rules, half of them there when the octets are
/// chosen and half added later, each widened rule by rule.
TEST(TupleFilter, AgreesWithTheProfilesWhateverComesInWhichOrder) {
  std::mt19937 random(7);
  const auto below = [&random](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  const auto rule = [&](uint32_t mask) {
    return source_and_port(random() & mask, mask, static_cast<uint16_t>(1 + below(700)));
  };
  size_t forbidden = 0;
  size_t ruled_out = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<uint32_t> masks;
    std::vector<TupleProfile> profiles;
    for (int i = 0; i < 40; ++i) {
      masks.push_back(~uint32_t{0} << below(30));
      profiles.push_back(profile_of({rule(masks.back())}));
    }
    std::vector<const TupleProfile*> first;
    for (size_t i = 0; i < 20; ++i) first.push_back(&profiles[i]);
    TupleFilter filter(first);
    for (size_t i = 20; i < 40; ++i) ASSERT_EQ(filter.add(profiles[i]), i);
    for (int change = 0; change < 400; ++change) {
      const uint32_t tuple = below(40);
      if (profiles[tuple].add(rule(masks[tuple]).value)) {
        filter.widen(static_cast<uint16_t>(tuple), profiles[tuple]);
      }
      const FlowKey packet =
          source_and_port(random(), ~uint32_t{0}, static_cast<uint16_t>(1 + below(700))).value;
      for (size_t each = 0; each < 40; ++each) {
        bool allowed = true;
        for (size_t offset = 0; offset < sizeof(FlowKey); ++offset) {
          const std::bitset<256>* values = profiles[each].values_at(offset);
          const uint8_t octet = reinterpret_cast<const uint8_t*>(&packet)[offset];
          allowed = allowed && (values == nullptr || (*values)[octet]);
        }
        ASSERT_TRUE(!allowed || has(filter, packet, each)) << "left out wrongly";
        forbidden += allowed ? 0 : 1;
        ruled_out += has(filter, packet, each) ? 0 : 1;
      }
    }
  }
  // Octets that few masks touch are not asked.
  EXPECT_GT(ruled_out, forbidden * 9 / 10);
}

TEST(TupleFilter, TakesRulesAndTuplesInPlaceUntilItIsFull) {
  TupleProfile first = profile_of({source_and_port(0x0a000001, 0xffffffff, 53)});
  const std::array tuples = {&std::as_const(first)};
  TupleFilter filter({tuples.data(), tuples.size()});
  const FlowKey later = source_and_port(0x0b000002, 0xffffffff, 54).value;
  EXPECT_FALSE(has(filter, later, 0));
  EXPECT_TRUE(first.add(later));
  EXPECT_FALSE(first.add(later)) << "nothing new";
  filter.widen(0, first);
  EXPECT_TRUE(has(filter, later, 0));
  for (size_t tuple = 1; tuple < 64; ++tuple) ASSERT_EQ(filter.add(first), tuple);
  EXPECT_EQ(filter.add(first), std::nullopt);
  EXPECT_TRUE(has(filter, later, 63));
}

}  // namespace
}  // namespace headrace::match
