// SPDX-License-Identifier: Apache-2.0
// Copy-field on the wire, refused, and on packets: the executor beside the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "pipeline/operations/registry.h"
#include "pipeline/terms/of_errors.h"
#include "pipeline/testing/reference.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;
using testing::ElementsAre;

constexpr uint32_t kOnf = 0x4f4e4600;
constexpr uint32_t kNicira = 0x00002320;

/// What follows the experimenter id and subtype.
std::vector<uint8_t> body(bool nicira, Field from, Field to, uint16_t n_bits, uint16_t from_bit,
                          uint16_t to_bit) {
  std::vector<uint8_t> octets(nicira ? 0 : 2);
  octets.reserve(32);
  wire::Writer writer(octets);
  writer.u16(n_bits);
  writer.u16(from_bit);
  writer.u16(to_bit);
  if (!nicira) writer.zeros(2);
  for (const Field field : {from, to}) {
    const match::FieldInfo& entry = match::info(field);
    writer.u16(entry.oxm_class);
    writer.u8(static_cast<uint8_t>(entry.oxm_field << 1));
    writer.u8(entry.bytes);
  }
  while ((octets.size() + 10) % 8 != 0) octets.push_back(0);
  return octets;
}

OfResult<Action> decode(bool nicira, const std::vector<uint8_t>& octets) {
  const FoundForm found =
      find_form(kExperimenterAction, nicira ? kNicira : kOnf, nicira ? 6 : 3200);
  wire::Reader reader(octets);
  return found.form->decode(reader, ActionContext::flow);
}

Action copy(Field from, Field to, uint16_t n_bits, uint16_t from_bit = 0, uint16_t to_bit = 0) {
  return *decode(false, body(false, from, to, n_bits, from_bit, to_bit));
}

TEST(CopyField, IsReportedInTheFormInWhichItCame) {
  for (const bool nicira : {false, true}) {
    const std::vector<uint8_t> octets = body(nicira, Field::eth_src, Field::eth_dst, 48, 0, 0);
    const OfResult<Action> action = decode(nicira, octets);
    ASSERT_TRUE(action);
    std::vector<uint8_t> encoded;
    wire::Writer writer(encoded);
    action->operation().encode(writer, *action);
    ASSERT_EQ(encoded.size(), octets.size() + 10);
    EXPECT_EQ(encoded[3], encoded.size());
    EXPECT_EQ(std::vector<uint8_t>(encoded.begin() + 10, encoded.end()), octets);
  }
}

/// The octets that ovs-ofctl 3.1 sends for move:NXM_OF_IP_SRC[0..7]->NXM_OF_IP_DST[0..7].
TEST(CopyField, TakesTheOlderNumbersOfFields) {
  const std::vector<uint8_t> octets = {0, 8, 0, 0, 0, 0, 0, 0, 0x0e, 4, 0, 0, 0x10, 4};
  const OfResult<Action> action = decode(true, octets);
  ASSERT_TRUE(action);
  EXPECT_EQ(*action, *decode(true, body(true, Field::ipv4_src, Field::ipv4_dst, 8, 0, 0)));
}

TEST(CopyField, RefusesWhatDoesNotFit) {
  const auto error = [](const std::vector<uint8_t>& octets) {
    return decode(false, octets).error();
  };
  EXPECT_EQ(error(body(false, Field::eth_src, Field::in_port, 32, 0, 0)),
            of_error::kBadActionSetType);
  EXPECT_EQ(error(body(false, Field::ipv4_src, Field::eth_dst, 33, 0, 0)),
            of_error::kBadActionArgument);
  EXPECT_EQ(error(body(false, Field::eth_dst, Field::ipv4_src, 16, 0, 17)),
            of_error::kBadActionArgument);
  EXPECT_EQ(error(body(false, Field::eth_dst, Field::eth_src, 0, 0, 0)),
            of_error::kBadActionArgument);
  EXPECT_EQ(error({0, 0, 0, 8, 0, 0}), of_error::kBadActionLength);
  std::vector<uint8_t> dirty = body(false, Field::eth_src, Field::eth_dst, 8, 0, 0);
  dirty.back() = 1;
  EXPECT_EQ(error(dirty), of_error::kBadActionLength);
}

TEST(CopyField, CopiesBitsAndLaterTablesSeeThem) {
  TestSwitch sw(3);
  ASSERT_TRUE(sw.lsi.flow_mod(
      add_flow(0, 1, make_match({{Field::eth_type, 0x0800}}),
               {ApplyActions{{copy(Field::ipv4_src, Field::ipv4_dst, 8, 24, 0)}}, GotoTable{1}})));
  ASSERT_TRUE(sw.lsi.flow_mod(
      add_flow(1, 1, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, 0xc0a8000a}}),
               {ApplyActions{{OutputAction{2}}}})));
  sw.send(1, {make_frame({.ip_src = 0x0a000001, .ip_dst = 0xc0a80063})});
  EXPECT_THAT(sw.take(2), ElementsAre(make_frame({.ip_src = 0x0a000001, .ip_dst = 0xc0a8000a})));
}

/// After an edit that moves headers, the copy reads what the packet holds now.
TEST(CopyField, ReadsThePacketAsItIs) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(
      add_flow(0, 1, {},
               {ApplyActions{{PushVlanAction{0x8100}, set_field(Field::vlan_vid, 0x1000 | 5),
                              PushVlanAction{0x8100}, set_field(Field::vlan_vid, 0x1000 | 9),
                              PopVlanAction{}, copy(Field::vlan_vid, Field::eth_src, 12),
                              OutputAction{2}}}})));
  sw.send(1, {make_frame({})});
  const std::vector<Bytes> sent = sw.take(2);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0][11], 5);
}

TEST(CopyField, DoesWhatTheReferenceDoes) {
  std::mt19937 random(42);
  constexpr Field kFields[] = {Field::eth_dst,  Field::eth_src, Field::ipv4_src,
                               Field::ipv4_dst, Field::ip_dscp, Field::ip_ecn,
                               Field::udp_src,  Field::udp_dst, Field::tunnel_id};
  for (int round = 0; round < 500; ++round) {
    const Field from = kFields[random() % std::size(kFields)];
    const Field to = kFields[random() % std::size(kFields)];
    const auto most = std::min(match::info(from).bits, match::info(to).bits);
    const auto n_bits = static_cast<uint16_t>(1 + random() % most);
    const auto place = [&](Field field) {
      return static_cast<uint16_t>(random() % (match::info(field).bits - n_bits + 1u));
    };
    const FlowMod mod =
        add_flow(0, 1, make_match({{Field::eth_type, 0x0800}, {Field::ip_proto, 17}}),
                 {ApplyActions{{copy(from, to, n_bits, place(from), place(to)), OutputAction{2}}}});
    TestSwitch sw(2);
    Reference reference(2);
    ASSERT_TRUE(sw.lsi.flow_mod(mod));
    reference.flow_mod(mod);
    std::vector<Bytes> frames;
    for (int i = 0; i < 5; ++i) {
      frames.push_back(make_frame({.ip_src = static_cast<uint32_t>(random()),
                                   .ip_dst = static_cast<uint32_t>(random()),
                                   .dscp = static_cast<uint8_t>(random() % 64),
                                   .l4_src = static_cast<uint16_t>(random())}));
      reference.process(1, frames.back());
    }
    sw.send(1, frames);
    ASSERT_EQ(sw.take(2), reference.sent[2]) << "from " << match::info(from).name << " to "
                                             << match::info(to).name << ", bits " << n_bits;
  }
}

}  // namespace
}  // namespace headrace::pipeline::test
