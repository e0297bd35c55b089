// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "openflow/codec/actions.h"

namespace headrace::openflow {
namespace {

using Octets = std::vector<uint8_t>;
using packet::TunnelKind;
using pipeline::ActionList;
using pipeline::PopTunnelAction;
using pipeline::PushTunnelAction;

// clang-format off
const Octets kPushVxlan = {
    0xff, 0xff, 0, 72, 0x00, 0x52, 0x41, 0x43,
    0, 1, 1, 0x08, 0x2e, 64, 0x12, 0xb5,
    0, 0, 0, 0, 0, 0, 0x13, 0x88,
    2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0,
    192, 168, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    192, 168, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
const Octets kPopGtpu = {0xff, 0xff, 0, 16, 0x00, 0x52, 0x41, 0x43, 0, 2, 3, 0, 0, 0, 0, 0};
// clang-format on

Octets as_note(const Octets& action) {
  Octets note = {0xff, 0xff, 0, 0, 0x00, 0x00, 0x23, 0x20, 0, 8};
  for (size_t i = 4; i < action.size(); ++i) note.push_back(action[i]);
  while (note.size() % 8 != 0) note.push_back(0);
  note[3] = static_cast<uint8_t>(note.size());
  return note;
}

Octets encoded(const ActionList& actions) {
  Octets octets;
  Writer writer(octets);
  encode_actions(writer, actions);
  return octets;
}

OfResult<ActionList> decoded(const Octets& octets) {
  return decode_actions(octets, ActionContext::flow);
}

TEST(ExperimenterActions, PushIsDecodedAndEchoed) {
  const auto actions = decoded(kPushVxlan);
  ASSERT_TRUE(actions);
  ASSERT_EQ(actions->size(), 1u);
  const auto& push = actions->front().arguments<PushTunnelAction>();
  EXPECT_EQ(push.spec.kind, TunnelKind::vxlan);
  EXPECT_EQ(push.spec.id, 5000u);
  EXPECT_EQ(push.spec.tos, 0x2e);
  EXPECT_EQ(push.spec.dst_port, 4789);
  EXPECT_TRUE(push.spec.dont_fragment);
  EXPECT_FALSE(push.spec.ipv6 || push.spec.checksum || push.id_from_field);
  EXPECT_EQ(actions->front().form(), pipeline::Action::Form::own);
  EXPECT_EQ(push.spec.dst_mac[5], 2);
  EXPECT_EQ(push.spec.remote[3], 2);
  EXPECT_EQ(encoded(*actions), kPushVxlan);
}

TEST(ExperimenterActions, EveryFlagHasItsPlace) {
  for (unsigned bit = 0; bit < 8; ++bit) {
    Octets octets = kPushVxlan;
    octets[11] = static_cast<uint8_t>(1u << bit);
    const auto actions = decoded(octets);
    ASSERT_TRUE(actions);
    EXPECT_EQ(encoded(*actions), octets);
  }
}

TEST(ExperimenterActions, PopIsDecodedAndEchoed) {
  const auto actions = decoded(kPopGtpu);
  ASSERT_TRUE(actions);
  EXPECT_EQ(actions->front().arguments<PopTunnelAction>().kind, TunnelKind::gtpu);
  EXPECT_EQ(encoded(*actions), kPopGtpu);
}

TEST(ExperimenterActions, ANoteThatHoldsOneIsOneAndStaysANote) {
  for (const Octets& action : {kPushVxlan, kPopGtpu}) {
    const Octets note = as_note(action);
    const auto actions = decoded(note);
    ASSERT_TRUE(actions);
    EXPECT_TRUE(actions->front().is<PushTunnelAction>() || actions->front().is<PopTunnelAction>());
    EXPECT_EQ(encoded(*actions), note);
  }
}

OfError error_of(const Octets& octets) {
  const auto actions = decoded(octets);
  return actions ? OfError{} : actions.error();
}

TEST(ExperimenterActions, ErrorsAreTheOnesOfTheSpecification) {
  Octets octets = kPopGtpu;
  octets[9] = 99;
  EXPECT_EQ(error_of(octets), error::kActionBadExpType);
  octets = kPopGtpu;
  octets[7] = 0x44;
  EXPECT_EQ(error_of(octets), error::kActionBadExperimenter);
  octets = kPopGtpu;
  octets[10] = 4;
  EXPECT_EQ(error_of(octets), error::kActionBadArgument);
  octets = kPopGtpu;
  octets[15] = 1;
  EXPECT_EQ(error_of(octets), error::kActionBadArgument);
  octets = kPopGtpu;
  octets.resize(24);
  octets[3] = 24;
  EXPECT_EQ(error_of(octets), error::kActionBadLen);
  octets = kPushVxlan;
  octets.resize(64);
  octets[3] = 64;
  EXPECT_EQ(error_of(octets), error::kActionBadLen);
  octets = kPushVxlan;
  octets[13] = 0;  // TTL
  EXPECT_EQ(error_of(octets), error::kActionBadArgument);
  octets = kPushVxlan;
  octets[20] = 1;  // a VNI of more than 24 bits
  EXPECT_EQ(error_of(octets), error::kActionBadArgument);
  octets = kPushVxlan;
  octets[50] = 1;  // a fifth octet of an IPv4 address
  EXPECT_EQ(error_of(octets), error::kActionBadArgument);
  octets = as_note(kPopGtpu);
  octets.back() = 1;
  EXPECT_EQ(error_of(octets), error::kActionBadLen);
  octets = as_note(kPopGtpu);
  octets[11] = 0;  // another vendor's note
  EXPECT_EQ(error_of(octets), error::kActionBadExperimenter);
}

}  // namespace
}  // namespace headrace::openflow
