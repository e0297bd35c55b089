// SPDX-License-Identifier: Apache-2.0
// An agent's extensions: bundles (EXT-230) and flow monitors (EXT-187).
#include <gtest/gtest.h>

#include "openflow/agent/agent_fixture.h"
#include "openflow/agent/bundles.h"
#include "openflow/codec/oxm.h"

namespace headrace::openflow {
namespace {

using match::Field;
using pipeline::test::make_match;
using test::AgentTest;
using test::Client;
using test::error_of;
using test::flow_mod;
using test::octets;
using test::operator+;
using test::output_to;
using test::type_of;
using test::xid_of;

// --- bundles -------------------------------------------------------------------------------------

Message bundle_control(uint32_t xid, uint16_t type, uint16_t flags = 3, uint32_t id = 1) {
  return make_message(Type::experimenter, xid,
                      octets(kOnfExperimenter, uint32_t{2300}, id, type, flags));
}
Message bundle_add(const Message& inner, uint16_t flags = 3) {
  return make_message(
      Type::experimenter, xid_of(inner),
      octets(kOnfExperimenter, uint32_t{2301}, uint32_t{1}, uint16_t{0}, flags) + inner);
}

TEST_F(AgentTest, BundlesAreAllOrNothing) {
  Client client(io_, path_);
  EXPECT_EQ(type_of(client.ask(bundle_control(1, 0))), Type::experimenter);
  client.send(bundle_add(flow_mod(2, 0, 1, make_match({{Field::in_port, 1}}), output_to(2))));
  client.send(bundle_add(flow_mod(3, 0, 1, make_match({{Field::in_port, 2}}), output_to(1))));
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(count_flows(), 0u);
  const Message reply = client.ask(bundle_control(4, 4));
  EXPECT_EQ(type_of(reply), Type::experimenter);
  EXPECT_EQ(Message(reply.begin() + 16, reply.end()),
            octets(uint32_t{1}, uint16_t{5}, uint16_t{3}));
  EXPECT_EQ(count_flows(), 2u);

  // The second message refers to a group that does not exist.
  client.ask(bundle_control(5, 0));
  const pipeline::InstructionList to_group{pipeline::ApplyActions{{pipeline::GroupAction{9}}}};
  client.send(bundle_add(flow_mod(6, 0, 1, make_match({{Field::in_port, 3}}), output_to(1))));
  client.send(bundle_add(flow_mod(7, 0, 2, make_match({}), to_group)));
  client.send(bundle_control(8, 4));
  const std::vector<Message> errors = client.drain();
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(xid_of(errors[0]), 7u);
  EXPECT_EQ(error_of(errors[0]), error::kActionBadOutGroup);
  EXPECT_EQ(xid_of(errors[1]), 8u);
  EXPECT_EQ(error_of(errors[1]), error::kBundleMsgFailed);
  EXPECT_EQ(count_flows(), 2u);
}

TEST_F(AgentTest, BundleMisuseIsNamed) {
  Client client(io_, path_);
  EXPECT_EQ(error_for(client, bundle_control(1, 4)), error::kBundleBadId);
  client.ask(bundle_control(1, 0));
  EXPECT_EQ(error_for(client, bundle_control(1, 0)), error::kBundleExists);
  client.ask(bundle_control(1, 0));
  EXPECT_EQ(error_for(client, bundle_add(make_message(Type::echo_request, 5))),
            error::kBundleMsgUnsupported);
  client.ask(bundle_control(1, 2));
  EXPECT_EQ(error_for(client, bundle_add(flow_mod(6, 0, 1, make_match({}), {}))),
            error::kBundleClosed);
  EXPECT_EQ(error_for(client, bundle_control(1, 99)), error::kBundleBadType);
  EXPECT_EQ(error_for(client, bundle_control(1, 0, 4)), error::kBundleBadFlags);
  // Flags that differ from those of the open request.
  client.ask(bundle_control(1, 0));
  EXPECT_EQ(error_for(client, bundle_add(flow_mod(6, 0, 1, make_match({}), {}), 1)),
            error::kBundleBadFlags);
  client.ask(bundle_control(1, 0));
  EXPECT_EQ(error_for(client, bundle_control(1, 4, 1)), error::kBundleBadFlags);
  Message other_xid = bundle_add(flow_mod(6, 0, 1, make_match({}), {}));
  other_xid[7] = 5;
  EXPECT_EQ(error_for(client, other_xid), error::kBundleMsgBadXid);
  Message cut = bundle_add(flow_mod(6, 0, 1, make_match({}), {}));
  cut[27] = 0xff;  // the low octet of the inner length
  EXPECT_EQ(error_for(client, cut), error::kBundleMsgBadLen);
  Message of_1_0 = bundle_add(flow_mod(6, 0, 1, make_match({}), {}));
  of_1_0[24] = 1;
  EXPECT_EQ(error_for(client, of_1_0), error::kBadVersion);
  for (uint32_t id = 1; id <= Bundles::kMaxBundles; ++id) {
    EXPECT_EQ(type_of(client.ask(bundle_control(1, 0, 3, id))), Type::experimenter);
  }
  EXPECT_EQ(error_for(client, bundle_control(1, 0, 3, 77)), error::kOutOfBundles);
}

TEST(Bundles, TogetherHoldNoMoreThanTheirLimits) {
  const Message message = flow_mod(7, 0, 1, make_match({{Field::in_port, 1}}), output_to(2));
  const auto add = [&](Bundles& bundles, uint32_t id) {
    const BundleAdd request{.bundle_id = id, .flags = 3, .message = message};
    const auto added = bundles.add(request, 7);
    return added ? OfError{} : added.error();
  };
  Bundles few({.messages = 3});
  EXPECT_EQ(add(few, 1), OfError{});
  EXPECT_EQ(add(few, 1), OfError{});
  EXPECT_EQ(add(few, 2), OfError{});
  EXPECT_EQ(add(few, 3), error::kBundleMsgTooMany);
  EXPECT_EQ(add(few, 1), error::kBundleMsgTooMany);
  EXPECT_EQ(add(few, 2), OfError{})
      << "the bundle that exceeded the limit is removed with its messages";
  Bundles small({.octets = 2 * message.size() + 1});
  EXPECT_EQ(add(small, 1), OfError{});
  EXPECT_EQ(add(small, 2), OfError{});
  EXPECT_EQ(add(small, 3), error::kBundleMsgTooMany);
}

TEST_F(AgentTest, ASlaveCommitsNothing) {
  Client client = controller();
  EXPECT_EQ(type_of(client.ask(make_message(Type::role_request, 1,
                                            octets(uint32_t{3}, uint32_t{0}, uint64_t{5})))),
            Type::role_reply);
  EXPECT_EQ(error_for(client, bundle_control(1, 0)), error::kIsSlave);
  EXPECT_EQ(error_for(client, bundle_add(flow_mod(2, 0, 1, {}, output_to(1)))), error::kIsSlave);
  EXPECT_EQ(count_flows(), 0u);
  const Message set_tables = make_message(
      Type::multipart_request, 3, octets(uint16_t{12}, uint16_t{0}, uint32_t{0}) + Message(64));
  EXPECT_EQ(error_for(client, set_tables), error::kIsSlave);
}

TEST_F(AgentTest, PortsOfABundleChangeWithAllTheRestOfIt) {
  Client client(io_, path_);
  const pipeline::PortDesc port = *switch_.lsi.port_desc(2);
  const auto port_mod = [&](uint32_t xid, uint8_t last_of_mac, uint32_t config) {
    const auto& mac = port.mac;
    return make_message(Type::port_mod, xid,
                        octets(uint32_t{2}, uint32_t{0}, mac[0], mac[1], mac[2], mac[3], mac[4],
                               last_of_mac, uint16_t{0}, config, config, uint32_t{0}, uint32_t{0}));
  };
  const auto config = [&] { return switch_.lsi.port_desc(2)->config; };
  const uint32_t no_forward = pipeline::kPortConfigNoForward;
  const auto wrong = static_cast<uint8_t>(port.mac[5] + 1);
  client.ask(bundle_control(1, 0));
  client.send(bundle_add(port_mod(2, port.mac[5], no_forward)));
  client.send(bundle_add(flow_mod(3, 0, 1, {}, output_to(2))));
  client.send(bundle_add(port_mod(4, wrong, no_forward)));
  client.send(bundle_control(5, 4));
  const std::vector<Message> errors = client.drain();
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(error_of(errors[0]), error::kPortModBadHwAddr);
  EXPECT_EQ(error_of(errors[1]), error::kBundleMsgFailed);
  EXPECT_EQ(config(), port.config);
  EXPECT_EQ(count_flows(), 0u);

  client.ask(bundle_control(1, 0));
  client.send(bundle_add(port_mod(2, port.mac[5], no_forward)));
  client.send(bundle_add(flow_mod(3, 0, 1, {}, output_to(2))));
  EXPECT_EQ(config(), port.config);
  EXPECT_EQ(type_of(client.ask(bundle_control(5, 4))), Type::experimenter);
  EXPECT_EQ(config(), port.config | no_forward);
  EXPECT_EQ(count_flows(), 1u);
}

// --- flow monitors -------------------------------------------------------------------------------

Message flow_monitor(uint32_t xid, uint32_t id, uint16_t flags, const match::Match& match = {}) {
  Message matched;
  Writer writer(matched);
  encode_match(writer, match);
  return make_message(
      Type::multipart_request, xid,
      octets(uint16_t{0xffff}, uint16_t{0}, uint32_t{0}, kOnfExperimenter, uint32_t{1870}, id,
             flags, writer.peek16(2), pipeline::kPortAny, uint32_t{0xff000000}) +
          matched);
}
/// The event of the one update in a message; 0xffff if it has none.
uint16_t event_of(const Message& message) {
  constexpr size_t kEventAt = 26;
  return message.size() <= kEventAt ? uint16_t{0xffff} : uint16_t{message[kEventAt + 1]};
}

TEST_F(AgentTest, MonitorsFlows) {
  Client watcher(io_, path_);
  Client other(io_, path_);
  other.send(flow_mod(1, 0, 5, make_match({{Field::in_port, 1}}), output_to(2)));
  other.drain();
  // The initial update: one flow, with its instructions.
  const Message now = watcher.ask(flow_monitor(2, 7, 0b011111));
  EXPECT_EQ(xid_of(now), 2u);
  EXPECT_EQ(event_of(now), 0);
  // A change of another connection in full, an own change abbreviated, and each request once.
  other.send(flow_mod(3, 0, 5, make_match({{Field::in_port, 1}}), output_to(3), 1));
  other.drain();
  std::vector<Message> told = watcher.drain();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(event_of(told[0]), 2);
  watcher.send(flow_mod(4, 0, 6, make_match({{Field::in_port, 2}}), output_to(3)));
  watcher.send(flow_mod(5, 0, 0, {}, {}, 3));
  told = watcher.drain();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(Message(told[1].begin() + 24, told[1].end()),
            octets(uint16_t{8}, uint16_t{3}, uint32_t{5}));
  // Once cancelled, it sends nothing.
  watcher.send(
      make_message(Type::experimenter, 6, octets(kOnfExperimenter, uint32_t{1870}, uint32_t{7})));
  other.send(flow_mod(7, 0, 5, make_match({{Field::in_port, 1}}), output_to(2)));
  other.drain();
  EXPECT_TRUE(watcher.drain().empty());
}

TEST_F(AgentTest, MonitorsOfABundleHearOfWhatWasCommitted) {
  Client watcher(io_, path_);
  watcher.ask(flow_monitor(1, 1, 0b101110));
  Client other(io_, path_);
  other.ask(bundle_control(1, 0));
  other.send(bundle_add(flow_mod(2, 0, 1, make_match({{Field::in_port, 1}}), output_to(2))));
  other.send(bundle_add(flow_mod(3, 0, 1, make_match({{Field::in_port, 2}}), output_to(2))));
  other.drain();
  EXPECT_TRUE(watcher.drain().empty());
  other.ask(bundle_control(4, 4));
  EXPECT_EQ(watcher.drain().size(), 2u);
  // A bundle that fails causes no updates.
  other.ask(bundle_control(5, 0));
  other.send(bundle_add(flow_mod(6, 0, 2, make_match({{Field::in_port, 1}}), output_to(2))));
  const pipeline::InstructionList to_group{pipeline::ApplyActions{{pipeline::GroupAction{9}}}};
  other.send(bundle_add(flow_mod(7, 0, 2, make_match({}), to_group)));
  other.send(bundle_control(8, 4));
  other.drain();
  EXPECT_TRUE(watcher.drain().empty());
}

TEST_F(AgentTest, MonitorMisuseIsNamed) {
  Client client(io_, path_);
  client.ask(flow_monitor(1, 1, 1));
  EXPECT_EQ(error_for(client, flow_monitor(2, 1, 1)), error::kMonitorExists);
  EXPECT_EQ(error_for(client, flow_monitor(2, 2, 0)), error::kMonitorBadFlags);
  EXPECT_EQ(error_for(client, flow_monitor(2, 2, 1 << 6)), error::kMonitorBadFlags);
  EXPECT_EQ(error_for(client, make_message(Type::experimenter, 6,
                                           octets(kOnfExperimenter, uint32_t{1870}, uint32_t{7}))),
            error::kUnknownMonitor);
}

}  // namespace
}  // namespace headrace::openflow
