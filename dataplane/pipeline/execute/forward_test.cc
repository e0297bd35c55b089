// SPDX-License-Identifier: Apache-2.0
// Homogeneous bursts: all variants do the same edits, and the right ones.
#include "pipeline/execute/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <vector>

#include "match/fields/extract.h"
#include "match/fields/simd.h"
#include "packet/bytes.h"
#include "packet/test_packet.h"
#include "pipeline/terms/port_io.h"

namespace headrace::pipeline {
namespace {

using packet::FrameBuilder;
using packet::TestPacket;

constexpr size_t kIp = 14;
constexpr size_t kRules = 4;

/// An IPv4 frame with a random TTL, often small, and a checksum that is often about to carry.
std::vector<uint8_t> random_frame(std::mt19937& random) {
  std::vector<uint8_t> frame =
      FrameBuilder().ethernet(0x0800).ipv4(17).udp(1, 2).payload(18).frame();
  frame[kIp + 8] = static_cast<uint8_t>(random() % 2 == 0 ? random() % 4 : random());
  const auto sum = static_cast<uint16_t>(random() % 2 == 0 ? 0xfffc + random() % 4 : random());
  std::memcpy(&frame[kIp + 10], &sum, sizeof sum);
  return frame;
}

struct Result {
  std::vector<std::vector<uint8_t>> frames;  ///< after it, by position
  std::vector<size_t> leaving;               ///< positions
  Forwarded done;
  std::array<Count, kRules> counts{};
};

class ForwardTest : public testing::Test {
 protected:
  ForwardTest() {
    for (size_t i = 0; i < kRules; ++i) {
      rules_[i].fast_path = FastPathClass::forward;
      rules_[i].counter = static_cast<CounterIndex>(i);
      rules_[i].forward.out = &handle_;
      for (size_t at = 0; at < 12; ++at) {
        rules_[i].forward.l2_value[at] = static_cast<uint8_t>(16 * i + at);
        rules_[i].forward.l2_mask[at] = 0xff;
      }
    }
  }
  ~ForwardTest() override { match::set_simd(match::Simd::avx512); }

  Result run(const std::vector<std::vector<uint8_t>>& frames, const std::vector<uint8_t>& active,
             const std::vector<uint32_t>& hit, match::Simd simd) {
    match::set_simd(simd);
    std::vector<std::unique_ptr<TestPacket>> made;
    std::array<rte_mbuf*, kBurst> packets;
    std::array<uint32_t, kBurst> lengths;
    for (size_t i = 0; i < frames.size(); ++i) {
      made.push_back(std::make_unique<TestPacket>(frames[i]));
      packets[i] = made.back()->mbuf();
      lengths[i] = packets[i]->pkt_len;
    }
    std::array<match::FlowKey, kBurst> values;
    std::array<packet::ParsedPacket, kBurst> parsed;
    const match::BurstMetadata burst_metadata = match::extractor_for(packet::Depth::l3)(
        {packets.data(), frames.size()}, {1, 1}, values.data(), parsed.data());
    Result result;
    std::array<rte_mbuf*, kBurst> leaving;
    const ForwardBurst burst{rules_.data(),        hit.data(),    active,
                             packets.data(),       parsed.data(), lengths.data(),
                             result.counts.data(), burst_metadata};
    lasting_ += burst_metadata.ttl_lasts ? 1 : 0;
    EXPECT_TRUE(is_homogeneous(burst));
    result.done = forward_homogeneous(burst, leaving.data());
    for (size_t i = 0; i < result.done.count; ++i) {
      const auto found = std::find(packets.begin(), packets.end(), leaving[i]);
      result.leaving.push_back(static_cast<size_t>(found - packets.begin()));
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      const auto* bytes = rte_pktmbuf_mtod(packets[i], const uint8_t*);
      result.frames.emplace_back(bytes, bytes + lengths[i]);
    }
    return result;
  }

  void set_edits(uint8_t edits) {
    for (Rule& rule : rules_) rule.edits = edits;
  }

  PortHandle handle_;
  std::array<Rule, kRules> rules_{};
  size_t lasting_{0};  ///< bursts known to have no TTL that expires
};

/// For each level of vector instructions that the processor has.
class ForwardLevelTest : public ForwardTest, public testing::WithParamInterface<match::Simd> {};

INSTANTIATE_TEST_SUITE_P(AllSimd, ForwardLevelTest, testing::ValuesIn(match::simd_levels()),
                         [](const auto& level) { return std::string(name(level.param)); });

TEST_P(ForwardLevelTest, AgreesWithPortableAndEditsWhatTheRulesSay) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto edits = static_cast<uint8_t>(random() % 4);
    set_edits(edits);
    std::vector<std::vector<uint8_t>> frames;
    std::vector<uint8_t> active;
    std::vector<uint32_t> hit;
    const size_t count = 1 + random() % kBurst;
    for (uint8_t i = 0; i < count; ++i) {
      frames.push_back(random_frame(random));
      if (round % 2 == 0) frames.back()[kIp + 8] |= 2;
      if (i != 0 && random() % 4 == 0) continue;
      active.push_back(i);
      hit.push_back(static_cast<uint32_t>(random() % kRules));
    }
    const Result portable = run(frames, active, hit, match::Simd::portable);
    const Result vector = run(frames, active, hit, GetParam());
    ASSERT_EQ(portable.frames, vector.frames);
    ASSERT_EQ(portable.leaving, vector.leaving);
    ASSERT_EQ(portable.done.bytes, vector.done.bytes);
    ASSERT_EQ(portable.done.expired, vector.done.expired);
    uint64_t counted = 0;
    for (size_t r = 0; r < kRules; ++r) {
      ASSERT_EQ(portable.counts[r].packets, vector.counts[r].packets);
      ASSERT_EQ(portable.counts[r].bytes, vector.counts[r].bytes);
      counted += vector.counts[r].packets;
    }
    ASSERT_EQ(counted, active.size());
    for (size_t k = 0; k < active.size(); ++k) {
      const std::vector<uint8_t>& before = frames[active[k]];
      const std::vector<uint8_t>& after = vector.frames[active[k]];
      const bool expires = (edits & kEditTtl) != 0 && before[kIp + 8] <= 1;
      ASSERT_EQ((vector.done.expired >> k & 1u) != 0, expires);
      if (expires) {
        ASSERT_EQ(after, before);
        continue;
      }
      ASSERT_EQ(after[kIp + 8], before[kIp + 8] - ((edits & kEditTtl) != 0 ? 1 : 0));
      const uint8_t mac = (edits & kEditL2) != 0 ? static_cast<uint8_t>(16 * hit[k]) : before[0];
      ASSERT_EQ(after[0], mac);
    }
  }
  if (match::simd() != match::Simd::portable) {
    EXPECT_GE(lasting_, 1000u);
  }
}

TEST_P(ForwardLevelTest, RulesOfOtherKindsOrPortsAreNotAlike) {
  match::set_simd(GetParam());
  const std::vector<uint8_t> active = {0, 1};
  const std::vector<uint32_t> hit = {0, 1};
  const ForwardBurst burst{rules_.data(), hit.data(), active, nullptr, nullptr, nullptr, nullptr};
  rules_[1].counter = 1;
  EXPECT_TRUE(is_homogeneous(burst));
  rules_[1].edits = kEditTtl;
  EXPECT_FALSE(is_homogeneous(burst));
  rules_[1].edits = 0;
  PortHandle other;
  rules_[1].forward.out = &other;
  EXPECT_FALSE(is_homogeneous(burst));
  rules_[1].forward.out = &handle_;
  rules_[0].track_idle = rules_[1].track_idle = 1;
  EXPECT_FALSE(is_homogeneous(burst));
}

}  // namespace
}  // namespace headrace::pipeline
