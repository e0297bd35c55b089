// SPDX-License-Identifier: Apache-2.0
// For tests: a classifier against the naive table, with random rules of some shape, random packets
// that often match, and insert, erase and replace in between.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <vector>

#include "match/fields/simd.h"
#include "match/structures/acl_rules.h"
#include "match/structures/classifier.h"
#include "match/structures/naive_table.h"
#include "packet/bytes.h"

namespace headrace::match {

using Random = std::mt19937;

inline uint32_t below(Random& random, uint32_t limit) {
  return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random);
}

inline void add_u16(Match& match, Field field, uint16_t value) {
  const uint8_t bytes[2] = {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
  match.add(field, bytes);
}

inline void add_u32(Match& match, Field field, uint32_t value, uint32_t mask = 0xffffffff) {
  uint8_t bytes[4];
  uint8_t mask_bytes[4];
  packet::store_be32(bytes, value);
  packet::store_be32(mask_bytes, mask);
  match.add(field, bytes, mask == 0xffffffff ? nullptr : mask_bytes);
}

inline uint32_t prefix_mask(uint32_t length) {
  return length == 0 ? 0 : ~uint32_t{0} << (32 - length);
}

/// A rule of some shape; small value ranges make collisions and overlaps usual.
struct Shape {
  const char* name;
  std::function<Match(Random&)> match;
  std::function<uint16_t(Random&, const Match&)> priority;
};

inline uint16_t any_priority(Random& random, const Match&) {
  return static_cast<uint16_t>(below(random, 40));
}

inline Match exact_mac(Random& random) {
  Match match;
  const uint8_t mac[6] = {
      2, 0, 0, 0, static_cast<uint8_t>(below(random, 2)), static_cast<uint8_t>(below(random, 200))};
  match.add(Field::eth_dst, mac);
  return match;
}

inline Match five_tuple(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x0800);
  const uint8_t proto = below(random, 2) == 0 ? 6 : 17;
  match.add(Field::ip_proto, &proto);
  add_u32(match, Field::ipv4_src, 0x0a000000 + below(random, 8));
  add_u32(match, Field::ipv4_dst, 0x0a000000 + below(random, 8));
  add_u16(match, proto == 6 ? Field::tcp_dst : Field::udp_dst,
          static_cast<uint16_t>(below(random, 8)));
  return match;
}

/// Six words.
inline Match long_key(Random& random) {
  Match match = five_tuple(random);
  uint8_t address[16] = {0x20, 1};
  address[15] = static_cast<uint8_t>(below(random, 4));
  match.add(Field::ipv6_dst, address);
  const uint8_t metadata[8] = {0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(below(random, 3))};
  match.add(Field::metadata, metadata);
  return match;
}

inline Match ipv4_prefix(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x0800);
  const uint32_t length = below(random, 33);
  // Few networks, so that prefixes nest.
  const uint32_t address = (10 + below(random, 2)) << 24 | below(random, 3) << 16 |
                           below(random, 3) << 8 | below(random, 256);
  add_u32(match, Field::ipv4_dst, address, prefix_mask(length));
  return match;
}

inline Match ipv6_prefix(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x86dd);
  uint8_t address[16] = {0x20, 0x01, 0x0d, 0xb8};
  for (size_t i = 4; i < 16; ++i) address[i] = static_cast<uint8_t>(below(random, 2));
  const uint32_t length = below(random, 129);
  uint8_t mask[16] = {};
  for (uint32_t bit = 0; bit < length; ++bit) {
    mask[bit / 8] = static_cast<uint8_t>(mask[bit / 8] | 0x80 >> bit % 8);
  }
  match.add(Field::ipv6_dst, address, mask);
  return match;
}

inline uint16_t length_priority(Random&, const Match& match) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kFieldWords; ++i) bits += std::popcount(word(match.mask, i));
  return static_cast<uint16_t>(bits * 2);
}

/// A few masks, overlapping.
inline Match wild(Random& random) {
  Match match;
  if (below(random, 2) == 0) add_u32(match, Field::in_port, 1 + below(random, 3));
  if (below(random, 2) == 0) add_u16(match, Field::eth_type, below(random, 2) == 0 ? 0x800 : 0x806);
  if (below(random, 3) == 0) {
    add_u32(match, Field::ipv4_src, 0x0a000000 + below(random, 4),
            prefix_mask(24 + below(random, 9)));
  }
  if (below(random, 3) == 0)
    add_u16(match, Field::udp_dst, static_cast<uint16_t>(below(random, 4)));
  return match;
}

/// Hundreds of masks: pairs of prefixes.
inline Match prefix_pair(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x0800);
  add_u32(match, Field::ipv4_src, 0x0a000000 | below(random, 4) << 14,
          prefix_mask(1 + below(random, 32)));
  add_u32(match, Field::ipv4_dst, 0x0b000000 | below(random, 4) << 9,
          prefix_mask(1 + below(random, 32)));
  return match;
}

/// Rules that all hold a point, of all widths, and others that hold nearly it.
inline Match nested(Random& random) {
  Match match;
  add_u16(match, Field::eth_type, 0x0800);
  add_u32(match, Field::ipv4_src, 0x0a000001 ^ below(random, 2) << below(random, 32),
          prefix_mask(below(random, 33)));
  add_u32(match, Field::ipv4_dst, 0x0b000001 ^ below(random, 2) << below(random, 32),
          prefix_mask(below(random, 33)));
  return match;
}

/// One of few rules as firewalls have them, its ports expanded.
template <bool kIpv6>
Match acl_match(Random& random) {
  static const std::vector<Match> matches = [] {
    std::vector<Match> all;
    for (const AclRule& rule : acl_rules(AclFamily::fw, 600, kIpv6, 9)) {
      for (Match& match : matches_of(rule)) all.push_back(std::move(match));
    }
    return all;
  }();
  return matches[below(random, static_cast<uint32_t>(matches.size()))];
}

/// Packets that match a rule often: a rule's value, with noise outside its mask, sometimes inside.
inline FlowKey packet_for(Random& random, const NaiveTable& naive, const Shape& shape) {
  const Match other = shape.match(random);
  const Match& base =
      !naive.rules.empty() && below(random, 4) != 0
          ? naive.rules[below(random, static_cast<uint32_t>(naive.rules.size()))].match
          : other;
  FlowKey packet = base.value;
  for (size_t i = 0; i < kFieldWords; ++i) {
    const uint64_t noise = uint64_t{random()} << 32 | random();
    const uint64_t small = noise & (other.mask.in_port != 0 ? 0x0303030303030303 : ~uint64_t{0});
    set_word(packet, i, word(packet, i) | (small & ~word(base.mask, i)));
  }
  if (below(random, 8) == 0) {
    const size_t i = below(random, kFieldWords);
    set_word(packet, i, word(packet, i) ^ uint64_t{1} << below(random, 64));
  }
  return packet;
}

/// The words in which packets differ, and by chance some in which they don't.
inline WordSet differing(Random& random, const FlowKey* burst, std::span<const uint8_t> active) {
  WordSet differ = below(random, 4) == 0 ? static_cast<WordSet>(random()) : 0;
  for (const uint8_t slot : active) {
    for (size_t w = 0; w < kFieldWords; ++w) {
      if (word(burst[slot], w) != word(burst[active[0]], w)) differ |= WordSet{1} << w;
    }
  }
  return differ;
}

/// Compares one burst; returns how many packets of it hit a rule.
inline size_t hits_of_burst(Random& random, const Classifier& table, const NaiveTable& naive,
                            const Shape& shape, uint32_t otherwise) {
  FlowKey burst[kBurst];
  for (FlowKey& each : burst) each = packet_for(random, naive, shape);
  std::vector<uint8_t> active;
  for (uint8_t slot = 0; slot < kBurst; ++slot) {
    if (below(random, 4) != 0) active.push_back(slot);
  }
  if (active.empty()) active.push_back(0);
  // Now and then packets that are the same in many words, or in all.
  if (below(random, 3) == 0) {
    const WordSet kept = below(random, 2) == 0 ? 0 : static_cast<WordSet>(random());
    for (FlowKey& each : burst) {
      for (size_t w = 0; w < kFieldWords; ++w) {
        if ((kept >> w & 1) == 0) set_word(each, w, word(burst[active[0]], w));
      }
    }
  }
  uint32_t results[kBurst];
  table.lookup(burst, active, results, differing(random, burst, active));
  size_t hits = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    EXPECT_TRUE(naive.agrees(burst[active[i]], results[i], otherwise))
        << shape.name << ": result " << results[i] << " with " << naive.rules.size() << " rules";
    hits += results[i] != otherwise ? 1 : 0;
  }
  return hits;
}

/// Inserts, erases and replaces at random for `steps`, comparing all the while.
inline void compare(Classifier& table, const Shape& shape, size_t most_rules, int steps,
                    unsigned seed) {
  Random random(seed);
  NaiveTable naive;
  uint32_t next_index = 1;
  table.set_default(4000000);
  size_t refused = 0;
  size_t hits = 0;
  for (int step = 0; step < steps; ++step) {
    const uint32_t dice = below(random, 10);
    if (naive.rules.size() < most_rules && dice < 6) {
      const Match match = shape.match(random);
      const uint16_t priority = shape.priority(random, match);
      if (!naive.has(match, priority)) {
        if (table.insert(match, priority, next_index)) {
          naive.insert(match, priority, next_index);
        } else {
          ++refused;
        }
        ++next_index;
      }
    } else if (!naive.rules.empty() && dice < 9) {
      const size_t victim = below(random, static_cast<uint32_t>(naive.rules.size()));
      const NaiveTable::Rule rule = naive.rules[victim];
      ASSERT_TRUE(table.erase(rule.match, rule.priority));
      ASSERT_FALSE(table.erase(rule.match, rule.priority));
      naive.erase(victim);
    } else if (!naive.rules.empty()) {
      NaiveTable::Rule& rule =
          naive.rules[below(random, static_cast<uint32_t>(naive.rules.size()))];
      ASSERT_TRUE(table.replace(rule.match, rule.priority, next_index));
      rule.index = next_index++;
    }
    ASSERT_EQ(table.size(), naive.rules.size());
    if (step % 7 == 0) hits += hits_of_burst(random, table, naive, shape, 4000000);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(hits, static_cast<size_t>(steps)) << "packets that miss test nothing";
  EXPECT_LT(refused, static_cast<size_t>(steps) / 2);
  while (!naive.rules.empty()) {
    ASSERT_TRUE(table.erase(naive.rules.back().match, naive.rules.back().priority));
    naive.rules.pop_back();
  }
  EXPECT_EQ(hits_of_burst(random, table, naive, shape, 4000000), 0u);
  EXPECT_GT(table.memory_bytes(), 0u);
}

/// Look-ups with each level of vector instructions that the processor has.
class SimdVariantTest : public testing::TestWithParam<Simd> {
 protected:
  SimdVariantTest() { set_simd(GetParam()); }
  ~SimdVariantTest() override { set_simd(Simd::avx512); }
};

}  // namespace headrace::match
