// SPDX-License-Identifier: Apache-2.0
// Each error of the specification (OpenFlow 1.3.5, section 7.4.4) that can occur here, and a
// message that provokes it. Tested elsewhere: versions (connection_test.cc), bundles and flow
// monitors (agent_extensions_test.cc). Not tested: the limit of a bundle's messages, which takes a
// million of them. Errors that can't occur: those of features that are all supported or whose
// absence has another code (UNSUP_*, CANT_*, BAD_METADATA...), and BAD_QUEUE, since a queue may be
// created after the flow that sets it.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "openflow/agent/agent.h"
#include "openflow/agent/test_client.h"
#include "openflow/codec/oxm.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::openflow {
namespace {

using match::Field;
using pipeline::test::make_match;
using test::octets;
using test::operator+;
namespace of_error = pipeline::of_error;

// --- raw parts of messages -----------------------------------------------------------------------

/// An ofp_match of these OXM octets.
Message raw_match(const Message& oxm, uint16_t type = 1) {
  Message match = octets(type, static_cast<uint16_t>(4 + oxm.size())) + oxm;
  match.resize((match.size() + 7) / 8 * 8);
  return match;
}
/// An OXM of the basic class.
Message oxm(uint8_t field, const Message& value, bool masked = false) {
  return octets(uint16_t{0x8000}, static_cast<uint8_t>(field << 1 | (masked ? 1 : 0)),
                static_cast<uint8_t>(value.size())) +
         value;
}
Message flow(const Message& match, const Message& instructions, uint8_t table = 0,
             uint8_t command = 0, uint16_t flags = 0) {
  return make_message(
      Type::flow_mod, 1,
      octets(uint64_t{0}, uint64_t{0}, table, command, uint16_t{0}, uint16_t{0}, uint16_t{1},
             pipeline::kNoBuffer, pipeline::kPortAny, pipeline::kGroupAny, flags, uint16_t{0}) +
          match + instructions);
}
Message with_match(const Message& oxms) {
  return flow(raw_match(oxms), {});
}
Message instruction(uint16_t type, const Message& body) {
  return octets(type, static_cast<uint16_t>(4 + body.size())) + body;
}
Message with_instructions(const Message& instructions) {
  return flow(raw_match({}), instructions);
}
/// Applies raw actions.
Message with_actions(const Message& actions, const Message& match = raw_match({})) {
  return flow(match, instruction(4, octets(uint32_t{0}) + actions));
}
Message group(uint16_t command, uint8_t type, uint32_t id, const Message& buckets = {}) {
  return make_message(Type::group_mod, 1, octets(command, type, uint8_t{0}, id) + buckets);
}
Message bucket(const Message& actions, uint16_t weight = 0) {
  return octets(static_cast<uint16_t>(16 + actions.size()), weight, pipeline::kPortAny,
                pipeline::kGroupAny, uint32_t{0}) +
         actions;
}
Message to_group(uint32_t id) {
  return octets(uint16_t{22}, uint16_t{8}, id);
}
Message meter(uint16_t command, uint16_t flags, uint32_t id, const Message& bands = {}) {
  return make_message(Type::meter_mod, 1, octets(command, flags, id) + bands);
}
Message band(uint16_t type, uint32_t rate, uint8_t level = 0) {
  return octets(type, uint16_t{16}, rate, uint32_t{0}, level, uint8_t{0}, uint16_t{0});
}
Message multipart(uint16_t type, const Message& body, uint16_t flags = 0) {
  return make_message(Type::multipart_request, 1, octets(type, flags, uint32_t{0}) + body);
}
Message port_mod(uint32_t port, uint8_t mac, uint32_t config, uint32_t advertise) {
  return make_message(Type::port_mod, 1,
                      octets(port, uint32_t{0}, uint32_t{0x02000000}, uint8_t{0}, mac, uint16_t{0},
                             config, config, advertise, uint32_t{0}));
}
Message set_field(const Message& field) {
  Message action = octets(uint16_t{25}, static_cast<uint16_t>((4 + field.size() + 7) / 8 * 8));
  action = action + field;
  action.resize((action.size() + 7) / 8 * 8);
  return action;
}
Message experimenter(uint32_t id, uint32_t type, const Message& body = {}) {
  return make_message(Type::experimenter, 1, octets(id, type) + body);
}

/// An ofp_table_features.
Message features(uint8_t table, const Message& properties = {}, uint32_t max_entries = 1000) {
  return octets(static_cast<uint16_t>(64 + properties.size()), table, uint8_t{0}, uint32_t{0}) +
         Message(32) + octets(uint64_t{0}, uint64_t{0}, uint32_t{0}, max_entries) + properties;
}

const Message kIp = oxm(5, octets(uint16_t{0x0800}));
const Message kPacket(60);

// --- the cases -----------------------------------------------------------------------------------

struct Case {
  const char* name;
  OfError error;
  Message message;
};

std::vector<Case> requests() {
  return {
      {"BadType", error::kBadType, make_message(static_cast<Type>(99), 1)},
      {"BadMultipart", error::kBadMultipart, multipart(99, {})},
      {"BadExperimenter", error::kBadExperimenter, experimenter(0x1234, 1)},
      {"BadExpType", error::kBadExpType, experimenter(kOnfExperimenter, 1)},
      {"MultipartBadExperimenter", error::kBadExperimenter,
       multipart(0xffff, octets(uint32_t{1}, uint32_t{1}))},
      {"Eperm", error::kRequestNotPermitted,
       experimenter(kNiciraExperimenter, 16, octets(uint32_t{2}))},
      {"BadLen", error::kBadLen, make_message(Type::barrier_request, 1, Message(4))},
      {"BufferUnknown", error::kBufferUnknown, test::packet_out(1, 77, 1, {}, {})},
      {"BadTableId", error::kRequestBadTableId,
       multipart(1, octets(uint32_t{0xfe000000}, pipeline::kPortAny, pipeline::kGroupAny,
                           uint32_t{0}, uint64_t{0}, uint64_t{0}) +
                        raw_match({}))},
      {"BadPort", error::kBadPort, test::packet_out(1, pipeline::kNoBuffer, 0, {}, kPacket)},
      {"StatsBadPort", error::kBadPort, multipart(4, octets(uint32_t{77}, uint32_t{0}))},
      {"BadPacket", error::kBadPacket, test::packet_out(1, pipeline::kNoBuffer, 1, {}, Message(5))},
      {"MultipartOverflow", error::kMultipartOverflow, multipart(0, {}, kMultipartMore)},
      {"ConfigBadFlags", error::kConfigBadFlags,
       make_message(Type::set_config, 1, octets(uint16_t{8}, uint16_t{0}))},
      {"ConfigBadLen", error::kBadLen, make_message(Type::set_config, 1, Message(2))},
      {"AsyncBadLen", error::kBadLen, make_message(Type::set_async, 1, Message(20))},
      {"GetAsyncBadLen", error::kBadLen, make_message(Type::get_async_request, 1, Message(4))},
      {"RoleBadLen", error::kBadLen, make_message(Type::role_request, 1, Message(8))},
      {"FlowModBadLen", error::kBadLen, make_message(Type::flow_mod, 1, Message(20))},
      {"PortModBadLen", error::kBadLen, make_message(Type::port_mod, 1, Message(8))},
      {"PacketTooLong", error::kBadPacket,
       test::packet_out(1, pipeline::kNoBuffer, 1, {}, Message(10'001))},
      {"PacketOutBadLen", error::kBadLen, make_message(Type::packet_out, 1, Message(8))},
      {"MultipartBadLen", error::kBadLen, multipart(0, Message(4))},
      {"QueueConfigBadPort", error::kQueueBadPort,
       make_message(Type::queue_get_config_request, 1, octets(uint32_t{77}, uint32_t{0}))},
      {"ReplyAsRequest", error::kBadType, make_message(Type::features_reply, 1, Message(24))},
      {"BadRole", error::kBadRole,
       make_message(Type::role_request, 1, octets(uint32_t{9}, uint32_t{0}, uint64_t{0}))},
      {"FeaturesEperm", error::kFeaturesNotPermitted, multipart(12, features(0))},
      {"FeaturesBadTable", error::kFeaturesBadTable, multipart(12, features(255))},
      {"FeaturesTableTwice", error::kFeaturesBadTable, multipart(12, features(3) + features(3))},
      {"FeaturesBadType", error::kFeaturesBadType,
       multipart(12, features(0, octets(uint16_t{9}, uint16_t{4}, uint32_t{0})))},
      {"FeaturesBadLen", error::kFeaturesBadLen, multipart(12, Message(64))},
      {"FeaturesPropertyBadLen", error::kFeaturesBadLen,
       multipart(12, features(0, octets(uint16_t{0}, uint16_t{9}, uint32_t{0})))},
      {"FeaturesBadArgument", error::kFeaturesBadArgument,
       multipart(12, features(5, octets(uint16_t{2}, uint16_t{5}, uint32_t{0x05000000})))},
      {"FeaturesTooManyEntries", error::kFeaturesBadArgument, multipart(12, features(0, {}, 1001))},
      {"QueueBadPort", error::kQueueBadPort, multipart(5, octets(uint32_t{77}, uint32_t{0}))},
      {"QueueBadQueue", error::kQueueBadQueue, multipart(5, octets(uint32_t{1}, uint32_t{7}))},
      {"TableModBadTable", error::kTableModBadTable,
       make_message(Type::table_mod, 1, octets(uint32_t{0xfe000000}, uint32_t{0}))},
      {"TableModBadConfig", error::kTableModBadConfig,
       make_message(Type::table_mod, 1, octets(uint32_t{0}, uint32_t{4}))},
      {"PortModBadPort", of_error::kPortModBadPort, port_mod(77, 1, 0, 0)},
      {"PortModBadHwAddr", of_error::kPortModBadHwAddr, port_mod(1, 0x77, 0, 0)},
      {"PortModBadConfig", error::kPortModBadConfig, port_mod(1, 1, 2, 0)},
      {"PortModBadAdvertise", error::kPortModBadAdvertise, port_mod(1, 1, 0, 1)},
  };
}

std::vector<Case> flows() {
  const Message goto_same = instruction(1, octets(uint8_t{0}, uint8_t{0}, uint16_t{0}));
  const Message clear = instruction(5, octets(uint32_t{0}));
  return {
      {"MatchBadType", error::kMatchBadType, flow(raw_match({}, 0), {})},
      {"MatchBadLen", error::kMatchBadLen, with_match(oxm(5, octets(uint8_t{8})))},
      {"MatchBadField", error::kMatchBadField, with_match(oxm(99, octets(uint16_t{1})))},
      {"MatchBadValue", error::kMatchBadValue, with_match(oxm(6, octets(uint16_t{0x2001})))},
      {"MatchBadMask", error::kMatchBadMask,
       with_match(oxm(5, octets(uint16_t{0x0800}, uint16_t{0xff00}), true))},
      {"MatchBadWildcards", error::kMatchBadWildcards,
       with_match(oxm(3, Message(6, 0x11) + Message(6, 0), true))},
      {"MatchBadPrereq", error::kMatchBadPrereq, with_match(oxm(11, octets(uint32_t{1})))},
      {"MatchDupField", error::kMatchDupField, with_match(kIp + kIp)},
      {"UnknownInstruction", error::kUnknownInstruction,
       with_instructions(instruction(77, octets(uint32_t{0})))},
      {"InstructionBadTableId", error::kInstructionBadTableId, with_instructions(goto_same)},
      {"InstructionBadExperimenter", error::kInstructionBadExperimenter,
       with_instructions(instruction(0xffff, octets(uint32_t{1})))},
      {"InstructionBadLen", error::kInstructionBadLen,
       with_instructions(octets(uint16_t{5}, uint16_t{4}))},
      {"InstructionTwice", error::kDuplicateInstruction, with_instructions(clear + clear)},
      {"UnknownMeter", error::kUnknownMeter,
       with_instructions(instruction(6, octets(uint32_t{7})))},
      {"FlowModBadTableId", error::kFlowModBadTableId, flow(raw_match({}), {}, 254)},
      {"FlowModBadCommand", error::kFlowModBadCommand, flow(raw_match({}), {}, 0, 9)},
      {"FlowModBadFlags", error::kFlowModBadFlags, flow(raw_match({}), {}, 0, 0, 1 << 7)},
  };
}

std::vector<Case> actions() {
  const auto short_action = [](uint16_t type, uint16_t value) {
    return octets(type, uint16_t{8}, value, uint16_t{0});
  };
  const auto output = [](uint32_t port) {
    return octets(uint16_t{0}, uint16_t{16}, port, uint32_t{0}, uint32_t{0});
  };
  Message many = with_actions({});
  Message outputs;
  while (outputs.size() + many.size() < kMaxMessage - 16) outputs = std::move(outputs) + output(1);
  return {
      {"ActionBadType", error::kActionBadType, with_actions(short_action(99, 0))},
      {"ActionBadLen", error::kActionBadLen, with_actions(octets(uint16_t{0}, uint16_t{8}, 1u))},
      {"ActionBadExperimenter", error::kActionBadExperimenter,
       with_actions(octets(uint16_t{0xffff}, uint16_t{8}, uint32_t{1}))},
      {"ActionBadExpType", error::kActionBadExpType,
       with_actions(octets(uint16_t{0xffff}, uint16_t{16}, uint32_t{0x00524143}, uint16_t{99},
                           uint16_t{0}, uint32_t{0}))},
      {"ActionBadOutPort", error::kActionBadOutPort, with_actions(output(0))},
      {"ActionBadArgument", error::kActionBadArgument, with_actions(short_action(17, 0x1234))},
      {"ActionTooMany", error::kActionTooMany, with_actions(outputs)},
      {"ActionBadOutGroup", error::kActionBadOutGroup, with_actions(to_group(9))},
      {"ActionMatchInconsistent", error::kActionMatchInconsistent,
       with_actions(set_field(oxm(11, octets(uint32_t{1}))))},
      {"ActionBadSetType", error::kActionBadSetType,
       with_actions(set_field(oxm(0, octets(uint32_t{1}))))},
      {"ActionBadSetLen", error::kActionBadSetLen,
       with_actions(octets(uint16_t{25}, uint16_t{16}) + oxm(11, octets(uint16_t{1})) +
                    Message(6))},
      {"ActionBadSetArgument", error::kActionBadSetArgument,
       with_actions(set_field(oxm(8, octets(uint8_t{0x40}))), raw_match(kIp))},
  };
}

std::vector<Case> groups_and_meters() {
  Message bands;
  for (int i = 0; i < 17; ++i) bands = std::move(bands) + band(1, 5);
  Message buckets;
  for (int i = 0; i < 1025; ++i) buckets = std::move(buckets) + bucket({});
  return {
      {"GroupInvalid", error::kInvalidGroup, group(0, 0, 0xffffff01)},
      {"IndirectGroupOfTwo", error::kInvalidGroup, group(0, 2, 9, bucket({}) + bucket({}))},
      {"GroupWeight", error::kInvalidGroup, group(0, 0, 9, bucket({}, 1))},
      {"GroupUnknown", of_error::kGroupUnknown, group(1, 0, 9)},
      {"GroupLoop", of_error::kGroupLoop, group(0, 0, 9, bucket(to_group(9)))},
      {"GroupBadType", error::kGroupBadType, group(0, 9, 9)},
      {"GroupBadCommand", error::kGroupBadCommand, group(9, 0, 9)},
      {"GroupOutOfBuckets", of_error::kGroupOutOfBuckets, group(0, 0, 9, buckets)},
      {"GroupBadBucket", error::kGroupBadBucket, group(0, 0, 9, Message(16))},
      {"GroupBadWatch", error::kGroupBadWatch, group(0, 3, 9, bucket({}))},
      {"MeterInvalid", error::kInvalidMeter, meter(0, 1, 0, band(1, 5))},
      {"MeterUnknown", error::kUnknownMeter, meter(1, 1, 9, band(1, 5))},
      {"MeterStatsUnknown", error::kUnknownMeter, multipart(9, octets(uint32_t{9}, uint32_t{0}))},
      {"MeterBadCommand", error::kMeterBadCommand, meter(9, 1, 9)},
      {"MeterBadFlags", error::kMeterBadFlags, meter(0, 3, 9, band(1, 5))},
      {"MeterBadRate", of_error::kMeterBadRate, meter(0, 1, 9, band(1, 0))},
      {"MeterBadBand", error::kMeterBadBand, meter(0, 1, 9, band(9, 5))},
      {"MeterBadBandValue", error::kMeterBadBandValue, meter(0, 1, 9, band(2, 5, 7))},
      {"MeterOutOfBands", of_error::kMeterOutOfBands, meter(0, 1, 9, bands)},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& some : {requests(), flows(), actions(), groups_and_meters()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

class Errors : public testing::TestWithParam<Case> {
 protected:
  Errors() {
    char name[] = "/tmp/headrace-errors-XXXXXX";
    directory_ = ::mkdtemp(name);
    EXPECT_TRUE(agent_.listen(directory_ + "/br.mgmt"));
  }
  ~Errors() override { std::filesystem::remove_all(directory_); }
  /// The one error with which a message is answered.
  OfError error_for(test::Client& client, const Message& message) {
    client.send(message);
    const std::vector<Message> answers = client.drain();
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? OfError{0xfffd, 0} : test::error_of(answers.front());
  }
  test::Client connect() { return {io_, directory_ + "/br.mgmt"}; }

  std::string directory_;
  asio::io_context io_;
  pipeline::test::TestSwitch switch_{3};
  test::DirectHost host_{switch_};
  Agent agent_{io_, switch_.lsi, host_, {1, "br0"}};
};

TEST_P(Errors, IsNamed) {
  test::Client client = connect();
  const OfError error = error_for(client, GetParam().message);
  EXPECT_EQ(error.type, GetParam().error.type);
  EXPECT_EQ(error.code, GetParam().error.code);
}

INSTANTIATE_TEST_SUITE_P(Specification, Errors, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Errors that require existing state.
class ErrorsAfterwards : public Errors {};

TEST_F(ErrorsAfterwards, Flows) {
  test::Client client = connect();
  client.send(flow(raw_match(kIp), {}));
  EXPECT_EQ(error_for(client, flow(raw_match(oxm(0, octets(uint32_t{1}))), {}, 0, 0,
                                   pipeline::kFlowCheckOverlap)),
            error::kOverlap);
}

TEST_F(ErrorsAfterwards, Groups) {
  test::Client client = connect();
  client.send(group(0, 0, 1));
  client.send(group(0, 0, 2, bucket(to_group(1))));
  EXPECT_EQ(error_for(client, group(0, 0, 1)), error::kGroupExists);
  EXPECT_EQ(error_for(client, group(2, 0, 1)), of_error::kGroupChained);
  EXPECT_EQ(error_for(client, group(1, 0, 1, bucket(to_group(2)))), of_error::kGroupLoop);
}

TEST_F(ErrorsAfterwards, Meters) {
  test::Client client = connect();
  client.send(meter(0, 1, 9, band(1, 5)));
  EXPECT_EQ(error_for(client, meter(0, 1, 9, band(1, 5))), of_error::kMeterExists);
}

/// The test's LSI has a capacity of 1000 each.
TEST_F(ErrorsAfterwards, FullTables) {
  test::Client client = connect();
  const auto nth = [](uint32_t n) { return flow(raw_match(oxm(0, octets(n))), {}); };
  for (uint32_t n = 1; n <= 1000; ++n) client.send(nth(n));
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(error_for(client, nth(1001)), of_error::kFlowModTableFull);
  client.send(nth(7));
  EXPECT_TRUE(client.drain().empty()) << "an existing flow is replaced";
}

TEST_F(ErrorsAfterwards, OutOfGroups) {
  test::Client client = connect();
  for (uint32_t id = 1; id <= 1000; ++id) client.send(group(0, 0, id));
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(error_for(client, group(0, 0, 1001)), of_error::kGroupOutOfGroups);
  client.send(group(2, 0, 7));
  client.send(group(0, 0, 1001));
  EXPECT_TRUE(client.drain().empty()) << "there is space again";
}

TEST_F(ErrorsAfterwards, OutOfMeters) {
  test::Client client = connect();
  for (uint32_t id = 1; id <= 1000; ++id) client.send(meter(0, 1, id, band(1, 5)));
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(error_for(client, meter(0, 1, 1001, band(1, 5))), of_error::kMeterOutOfMeters);
  client.send(meter(2, 1, 7));
  client.send(meter(0, 1, 1001, band(1, 5)));
  EXPECT_TRUE(client.drain().empty()) << "there is space again";
}

TEST_F(ErrorsAfterwards, Roles) {
  test::Client client = connect();
  const auto role = [](uint32_t which, uint64_t generation) {
    return make_message(Type::role_request, 1, octets(which, uint32_t{0}, generation));
  };
  client.ask(role(3, 5));
  EXPECT_EQ(error_for(client, role(3, 4)), error::kRoleStale);
  EXPECT_EQ(error_for(client, flow(raw_match({}), {})), error::kIsSlave);
}

}  // namespace
}  // namespace headrace::openflow
