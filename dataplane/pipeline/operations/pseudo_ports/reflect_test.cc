// SPDX-License-Identifier: Apache-2.0
// REFLECT sends packets back with their addresses swapped, and changes nothing for later actions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/operations/pseudo_ports/registry.h"
#include "pipeline/testing/reference.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PortNo reflect() {
  for (const PseudoPort* each : pseudo_ports()) {
    if (each->name == "REFLECT") return each->number;
  }
  return 0;
}

constexpr MacAddress kHere{2, 0, 0, 0, 0, 1};
constexpr MacAddress kThere{2, 0, 0, 0, 0, 2};

TEST(Reflect, SwapsAddressesAsTheReferenceDoes) {
  const FlowMod mod = add_flow(0, 1, {}, {ApplyActions{{OutputAction{reflect()}}}});
  TestSwitch sw(2);
  Reference reference(2);
  ASSERT_TRUE(sw.lsi.flow_mod(mod));
  reference.flow_mod(mod);
  std::vector<Bytes> frames;
  for (uint16_t i = 0; i < 40; ++i) {
    frames.push_back(make_frame({.dst = kHere, .src = kThere, .l4_src = i}));
    reference.process(1, frames.back());
  }
  sw.send(1, frames);
  const std::vector<Bytes> returned = sw.take(1);
  EXPECT_EQ(returned, reference.sent[1]);
  EXPECT_EQ(returned.front(), make_frame({.dst = kThere, .src = kHere, .l4_src = 0}));
  EXPECT_THAT(sw.take(2), IsEmpty());
}

TEST(Reflect, WorksOnACopyWhereThePacketGoesOn) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(
      add_flow(0, 1, {}, {ApplyActions{{OutputAction{reflect()}, OutputAction{2}}}})));
  sw.send(1, {make_frame({.dst = kHere, .src = kThere})});
  EXPECT_THAT(sw.take(1), ElementsAre(make_frame({.dst = kThere, .src = kHere})));
  EXPECT_THAT(sw.take(2), ElementsAre(make_frame({.dst = kHere, .src = kThere})));
}

TEST(Reflect, DropsWhatHasNoAddresses) {
  TestSwitch sw(2);
  ASSERT_TRUE(sw.lsi.flow_mod(add_flow(0, 1, {}, {ApplyActions{{OutputAction{reflect()}}}})));
  sw.send(1, {Bytes(11)});
  EXPECT_THAT(sw.take(1), IsEmpty());
  EXPECT_EQ(sw.lsi.drops()[static_cast<size_t>(DropReason::malformed)], 1u);
}

}  // namespace
}  // namespace headrace::pipeline::test
