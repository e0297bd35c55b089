// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/defragmenter.h"

#include <gmock/gmock.h>

#include "packet/checksum.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr PortNo kDefragPort = 9;

/// Part of an IPv4 frame's payload as a fragment; `offset` and `size` in octets behind the IP
/// header.
Bytes fragment4(const Bytes& frame, size_t offset, size_t size, bool more) {
  Bytes part;
  part.reserve(34 + size);
  for (size_t i = 0; i < 34; ++i) part.push_back(frame[i]);
  for (size_t i = 0; i < size; ++i) part.push_back(frame[34 + offset + i]);
  const size_t total = 20 + size;
  part[16] = static_cast<uint8_t>(total >> 8);
  part[17] = static_cast<uint8_t>(total);
  part[18] = 0x12;  // an identification
  const size_t field = offset / 8 | (more ? 0x2000 : 0);
  part[20] = static_cast<uint8_t>(field >> 8);
  part[21] = static_cast<uint8_t>(field);
  part[24] = part[25] = 0;
  packet::store_raw16(&part[24], packet::checksum(std::span(part).subspan(14, 20)));
  return part;
}

/// Port 1 to the defragmenter; whole packets to port 2.
struct Reassembling : TestSwitch {
  Reassembling() : TestSwitch(2) {
    auto made = Defragmenter::make(1, kHz);
    EXPECT_TRUE(made);
    EXPECT_TRUE(lsi.add_defragmenter({.number = kDefragPort, .name = "defrag"}, *made));
    EXPECT_TRUE(lsi.flow_mod(add_flow(0, 1, make_match({{match::Field::in_port, 1}}),
                                      {ApplyActions{{OutputAction{kDefragPort}}}})));
    EXPECT_TRUE(lsi.flow_mod(add_flow(0, 1,
                                      make_match({{match::Field::in_port, kDefragPort},
                                                  {match::Field::eth_type, 0x0800},
                                                  {match::Field::ip_proto, 17},
                                                  {match::Field::udp_dst, 2000}}),
                                      {ApplyActions{{OutputAction{2}}}})));
  }
};

TEST(Defragmenter, FragmentsComeBackWholeInAnyOrder) {
  Reassembling sw;
  Bytes whole = make_frame({.size = 1000});
  sw.send(1, {fragment4(whole, 800, 166, false), fragment4(whole, 0, 400, true)});
  EXPECT_THAT(sw.take(2), SizeIs(0));
  sw.send(1, {fragment4(whole, 400, 400, true)});
  // What differs from the original is the identification, and the checksum over it.
  whole[18] = 0x12;
  whole[24] = whole[25] = 0;
  packet::store_raw16(&whole[24], packet::checksum(std::span(whole).subspan(14, 20)));
  EXPECT_THAT(sw.take(2), ElementsAre(whole));
}

TEST(Defragmenter, OtherPacketsPassUnchanged) {
  Reassembling sw;
  const Bytes frame = make_frame({});
  sw.send(1, {frame});
  EXPECT_THAT(sw.take(2), ElementsAre(frame));
}

TEST(Defragmenter, AnIncompletePacketIsDroppedInTime) {
  Reassembling sw;
  const Bytes whole = make_frame({.size = 1000});
  sw.send(1, {fragment4(whole, 0, 400, true)});
  sw.now += 10 * TestSwitch::kHz;
  sw.send(1, {make_frame({})});
  EXPECT_EQ(sw.lsi.drops()[static_cast<size_t>(DropReason::fragment)], 1u);
}

TEST(Defragmenter, Ipv6) {
  Reassembling sw;
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 2,
                                       make_match({{match::Field::in_port, kDefragPort},
                                                   {match::Field::eth_type, 0x86dd},
                                                   {match::Field::ip_proto, 17},
                                                   {match::Field::udp_dst, 2000}}),
                                       {ApplyActions{{OutputAction{2}}}})));
  Bytes head = make_frame({.eth_type = 0x86dd});
  head.resize(14);
  const Bytes ip = {0x60, 0, 0, 0, 0,    24, 44, 64, 0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0,    0, 0, 1, 0x20, 1,  0,  0,  0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  const Bytes udp = {0x07, 0xd0, 0x07, 0xd0, 0, 32, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Bytes rest = {9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
  const auto join = [](std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts) {
      for (const uint8_t octet : part) all.push_back(octet);
    }
    return all;
  };
  sw.send(1, {join({head, ip, {17, 0, 0, 1, 0, 0, 0, 7}, udp}),
              join({head, ip, {17, 0, 0, 16, 0, 0, 0, 7}, rest})});
  Bytes whole_ip = ip;
  whole_ip[5] = 32;
  whole_ip[6] = 17;
  EXPECT_THAT(sw.take(2), ElementsAre(join({head, whole_ip, udp, rest})));
}

/// How an LSI as a whole deals with fragments (OFPT_SET_CONFIG): port 1 to port 2.
struct Configured : TestSwitch {
  Configured() : TestSwitch(2) {
    EXPECT_TRUE(lsi.flow_mod(add_flow(0, 1, make_match({{match::Field::in_port, 1}}),
                                      {ApplyActions{{OutputAction{2}}}})));
  }
  const Bytes whole = make_frame({.size = 1000});
  const std::vector<Bytes> parts{fragment4(whole, 0, 400, true), fragment4(whole, 400, 566, false)};
};

TEST(Fragments, PassAsTheyAreUnlessConfigured) {
  Configured sw;
  sw.send(1, sw.parts);
  EXPECT_EQ(sw.take(2), sw.parts);
}

TEST(Fragments, AreDroppedFromAmongOthers) {
  Configured sw;
  sw.lsi.set_fragments(FragmentMode::drop);
  const Bytes other = make_frame({});
  sw.send(1, {sw.parts[0], other, sw.parts[1], sw.whole});
  EXPECT_THAT(sw.take(2), ElementsAre(other, sw.whole));
  EXPECT_EQ(sw.lsi.drops()[static_cast<size_t>(DropReason::fragment)], 2u);
  sw.send(1, sw.parts);
  EXPECT_THAT(sw.take(2), SizeIs(0));
  EXPECT_EQ((*sw.lsi.port_stats(1))[0].rx_packets, 6u);
  sw.lsi.set_fragments(FragmentMode::normal);
  sw.send(1, sw.parts);
  EXPECT_EQ(sw.take(2), sw.parts);
}

TEST(Fragments, AreReassembledBeforeTheTables) {
  Configured sw;
  // A later fragment has no ports: only the whole can match.
  FlowMod all;
  all.command = FlowMod::Command::remove;
  all.table_id = kTableAll;
  ASSERT_TRUE(sw.lsi.flow_mod(all));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1,
                                       make_match({{match::Field::in_port, 1},
                                                   {match::Field::eth_type, 0x0800},
                                                   {match::Field::ip_proto, 17},
                                                   {match::Field::udp_dst, 2000}}),
                                       {ApplyActions{{OutputAction{2}}}})));
  auto made = Defragmenter::make(1, TestSwitch::kHz);
  ASSERT_TRUE(made);
  sw.lsi.set_fragments(FragmentMode::reassemble, *made);
  sw.send(1, {sw.parts[1]});
  EXPECT_THAT(sw.take(2), SizeIs(0));
  sw.send(1, {sw.parts[0]});
  const std::vector<Bytes> sent = sw.take(2);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].size(), sw.whole.size());
  const PortStats stats = (*sw.lsi.port_stats(1))[0];
  EXPECT_EQ(stats.rx_packets, 2u);
  EXPECT_EQ(stats.rx_bytes, sw.parts[0].size() + sw.parts[1].size());
}

TEST(SelectGroup, AStatefulGroupKeepsItsFlowsWhenBucketsComeAndGo) {
  TestSwitch sw(5);
  const auto bucket = [](PortNo port) {
    return Bucket{
        .weight = 1, .watch_port = port, .actions = {SelectMemoryAction{60}, OutputAction{port}}};
  };
  GroupMod group;
  group.group_id = 1;
  group.type = GroupMod::Type::select;
  group.buckets = {bucket(2), bucket(3)};
  ASSERT_TRUE(sw.lsi.group_mod(group));
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{GroupAction{1}}}})));
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 300; ++i) frames.push_back(make_frame({.ip_src = i * 7919}));
  sw.send(1, frames);
  const std::vector<Bytes> second = sw.take(2);
  const std::vector<Bytes> third = sw.take(3);
  EXPECT_EQ(second.size() + third.size(), 300u);

  // Two more buckets, one of them first: known flows stay, new ones use all four.
  group.command = GroupMod::Command::modify;
  group.buckets = {bucket(4), bucket(2), bucket(5), bucket(3)};
  ASSERT_TRUE(sw.lsi.group_mod(group));
  sw.send(1, frames);
  EXPECT_EQ(sw.take(2), second);
  EXPECT_EQ(sw.take(3), third);
  std::vector<Bytes> fresh;
  for (uint32_t i = 0; i < 400; ++i) fresh.push_back(make_frame({.ip_src = 0x50000000 + i * 31}));
  sw.send(1, fresh);
  for (const PortNo port : {2, 3, 4, 5}) EXPECT_NEAR(double(sw.take(port).size()), 100, 50);

  // A dead bucket's flows move, the others stay; and they stay moved when it comes back.
  sw.lsi.set_link(2, false, 0);
  sw.send(1, frames);
  EXPECT_THAT(sw.take(2), SizeIs(0));
  (void)sw.take(3), (void)sw.take(4), (void)sw.take(5);
  sw.lsi.set_link(2, true, 0);
  sw.send(1, frames);
  EXPECT_THAT(sw.take(2), SizeIs(0));
}

TEST(SelectGroup, MemoryIsForBucketsOnly) {
  TestSwitch sw(2);
  const auto done = sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{SelectMemoryAction{60}}}}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), (OfError{2, 5}));
}

}  // namespace
}  // namespace headrace::pipeline::test
