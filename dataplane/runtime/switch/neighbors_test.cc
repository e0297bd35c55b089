// SPDX-License-Identifier: Apache-2.0
// ARP and neighbor discovery: what is asked is understood and answered, and what is invalid is
// learnt from by nobody.
#include "runtime/switch/neighbors.h"

#include <gtest/gtest.h>

#include "packet/headers.h"
#include "packet/parse.h"

namespace headrace::runtime {
namespace {

using namespace std::chrono_literals;
using pipeline::MacAddress;
using port::IpAddress;

constexpr uint32_t kUnderlay = 7;
constexpr MacAddress kOurMac = {2, 0, 0, 0, 0, 1};
constexpr MacAddress kTheirMac = {2, 0, 0, 0, 0, 2};

struct Pair {
  const char* ours;
  const char* theirs;
};

class NeighborsTest : public testing::TestWithParam<Pair> {
 protected:
  const IpAddress ours_ = *port::parse_ip(GetParam().ours);
  const IpAddress theirs_ = *port::parse_ip(GetParam().theirs);
  const Neighbors::Clock::time_point start_ = Neighbors::Clock::now();
  Neighbors neighbors_;
};

INSTANTIATE_TEST_SUITE_P(BothVersions, NeighborsTest,
                         testing::Values(Pair{"192.0.2.1", "192.0.2.2"},
                                         Pair{"2001:db8::1", "2001:db8::12:3456"}));

TEST_P(NeighborsTest, ARequestIsUnderstoodAnsweredAndTheAnswerLearnt) {
  ASSERT_TRUE(neighbors_.should_ask(kUnderlay, theirs_, start_));
  EXPECT_FALSE(neighbors_.should_ask(kUnderlay, theirs_, start_ + 500ms)) << "asked already";
  EXPECT_TRUE(neighbors_.should_ask(kUnderlay, theirs_, start_ + 2s)) << "nobody answered";

  const std::vector<uint8_t> request = neighbor_request(kOurMac, ours_, theirs_);
  const auto asked = read_neighbor_message(request);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->asks_for, theirs_);
  EXPECT_EQ(asked->of, ours_);
  EXPECT_EQ(asked->mac, kOurMac);

  const std::vector<uint8_t> reply = neighbor_reply(request, kTheirMac, theirs_);
  const auto told = read_neighbor_message(reply);
  ASSERT_TRUE(told);
  EXPECT_FALSE(told->asks_for);
  EXPECT_TRUE(std::equal(kOurMac.begin(), kOurMac.end(), reply.begin())) << "to who asked";
  EXPECT_FALSE(neighbors_.learn(kUnderlay + 1, *told, start_)) << "nobody needs it there";
  EXPECT_TRUE(neighbors_.learn(kUnderlay, *told, start_));
  EXPECT_FALSE(neighbors_.learn(kUnderlay, *told, start_)) << "nothing new";
  EXPECT_EQ(neighbors_.find(kUnderlay, theirs_), kTheirMac);
  EXPECT_FALSE(neighbors_.should_ask(kUnderlay, theirs_, start_ + 29s));
  EXPECT_TRUE(neighbors_.should_ask(kUnderlay, theirs_, start_ + 31s)) << "asked for again";
  neighbors_.expire(start_ + 121s);
  EXPECT_EQ(neighbors_.find(kUnderlay, theirs_), std::nullopt);
}

TEST_P(NeighborsTest, CutMessagesAreNotRead) {
  for (const auto& frame :
       {neighbor_request(kOurMac, ours_, theirs_),
        neighbor_reply(neighbor_request(kOurMac, ours_, theirs_), kTheirMac, theirs_)}) {
    // ARP is padded: what is cut there is not missed.
    const size_t needed = ours_.ipv6 ? frame.size() : 14 + sizeof(packet::ArpHeader);
    for (size_t size = 0; size < needed; ++size) {
      EXPECT_FALSE(read_neighbor_message(std::span(frame).first(size))) << size;
    }
    EXPECT_TRUE(read_neighbor_message(frame));
  }
}

class DiscoveryTest : public testing::Test {
 protected:
  const IpAddress ours_ = *port::parse_ip("2001:db8::1");
  const IpAddress theirs_ = *port::parse_ip("2001:db8::2");
  std::vector<uint8_t> advertisement_ =
      neighbor_reply(neighbor_request(kOurMac, ours_, theirs_), kTheirMac, theirs_);
};

TEST_F(DiscoveryTest, SolicitationsGoToTheGroupOfTheTarget) {
  const auto target = *port::parse_ip("2001:db8::12:3456");
  const std::vector<uint8_t> frame = neighbor_request(kOurMac, ours_, target);
  const std::vector<uint8_t> to(frame.begin(), frame.begin() + 6);
  EXPECT_EQ(to, (std::vector<uint8_t>{0x33, 0x33, 0xff, 0x12, 0x34, 0x56}));
  IpAddress group{.octets = {}, .ipv6 = true};
  std::copy_n(frame.begin() + 14 + 24, 16, group.octets.begin());
  EXPECT_EQ(port::format(group), "ff02::1:ff12:3456");
}

TEST_F(DiscoveryTest, InvalidMessagesAreNotRead) {
  ASSERT_TRUE(read_neighbor_message(advertisement_));
  constexpr size_t kHopLimit = 14 + 7;
  constexpr size_t kCode = 14 + 40 + 1;
  constexpr size_t kTarget = 14 + 40 + 8;
  constexpr size_t kOptionLength = kTarget + 16 + 1;
  for (const size_t at : {kHopLimit, kCode, kTarget, kOptionLength, kOptionLength + 1}) {
    std::vector<uint8_t> wrong = advertisement_;
    wrong[at] ^= 1;
    EXPECT_FALSE(read_neighbor_message(wrong)) << at;
  }
}

TEST_F(DiscoveryTest, WhoChecksThatItsAddressIsFreeTeachesNothingAndIsAnsweredToAll) {
  const IpAddress nobody{.octets = {}, .ipv6 = true};
  const std::vector<uint8_t> probe = neighbor_request(kTheirMac, nobody, ours_);
  const auto message = read_neighbor_message(probe);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->asks_for, ours_);
  EXPECT_FALSE(message->mac);
  const std::vector<uint8_t> reply = neighbor_reply(probe, kOurMac, ours_);
  const std::vector<uint8_t> to(reply.begin(), reply.begin() + 6);
  EXPECT_EQ(to, (std::vector<uint8_t>{0x33, 0x33, 0, 0, 0, 1}));
  EXPECT_EQ(read_neighbor_message(reply)->mac, kOurMac);
}

}  // namespace
}  // namespace headrace::runtime
