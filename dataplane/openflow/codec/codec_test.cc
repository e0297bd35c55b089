// SPDX-License-Identifier: Apache-2.0
// The codec compared with messages encoded by os-ken (testdata/codec.txt).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "openflow/codec/actions.h"
#include "openflow/codec/flows.h"
#include "openflow/codec/groups.h"
#include "openflow/codec/instructions.h"
#include "openflow/codec/meters.h"
#include "openflow/codec/multipart.h"
#include "openflow/codec/oxm.h"
#include "openflow/codec/packet_in.h"
#include "openflow/codec/packet_out.h"
#include "openflow/codec/ports.h"
#include "openflow/codec/switch_config.h"
#include "openflow/codec/table_features.h"

namespace headrace::openflow {
namespace {

struct Fixture {
  std::string kind;
  std::string name;
  OfError error{};
  Message message;
};

Message from_hex(const std::string& hex) {
  Message octets;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    octets.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return octets;
}

std::vector<Fixture> load_fixtures(const std::string& kind) {
  std::ifstream file(HEADRACE_TESTDATA "/codec.txt");
  std::vector<Fixture> fixtures;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    Fixture fixture;
    std::string hex;
    words >> fixture.kind >> fixture.name;
    if (fixture.kind == "error") words >> fixture.error.type >> fixture.error.code;
    words >> hex;
    fixture.message = from_hex(hex);
    if (fixture.kind == kind) fixtures.push_back(fixture);
  }
  EXPECT_FALSE(fixtures.empty()) << kind;
  return fixtures;
}

Message reply_fixture(const std::string& kind) {
  return load_fixtures(kind).front().message;
}

Bytes body(const Message& message) {
  return Bytes(message).subspan(kHeaderSize);
}
Message tail(const Message& message, size_t from) {
  return {message.begin() + static_cast<ptrdiff_t>(from), message.end()};
}

pipeline::FlowStats stats_of(const pipeline::FlowMod& mod) {
  return {mod.table_id,
          mod.priority,
          mod.idle_timeout,
          mod.hard_timeout,
          mod.flags,
          mod.cookie,
          11,
          13,
          {7, 8},
          0,
          mod.match,
          mod.instructions};
}

TEST(Codec, FlowModsAreEchoedOctetForOctet) {
  for (const Fixture& fixture : load_fixtures("flow_mod")) {
    SCOPED_TRACE(fixture.name);
    const auto mod = decode_flow_mod(body(fixture.message));
    ASSERT_TRUE(mod) << mod.error().type << "/" << mod.error().code;
    EXPECT_EQ(mod->cookie, 0x1122334455667788u);
    EXPECT_EQ(mod->table_id, 3);
    EXPECT_EQ(mod->priority, 1000);
    EXPECT_EQ(mod->idle_timeout, 10);
    EXPECT_EQ(mod->hard_timeout, 20);
    EXPECT_EQ(mod->flags, pipeline::kFlowSendRemoved);
    Message stats;
    Writer writer(stats);
    encode_flow_stats(writer, stats_of(*mod));
    // ofp_flow_stats has 48 octets before the match, ofp_flow_mod as many with its header.
    EXPECT_EQ(tail(stats, 48), tail(fixture.message, 48));
  }
}

TEST(Codec, GroupModsAreEchoedOctetForOctet) {
  for (const Fixture& fixture : load_fixtures("group_mod")) {
    SCOPED_TRACE(fixture.name);
    const auto mod = decode_group_mod(body(fixture.message));
    ASSERT_TRUE(mod);
    EXPECT_EQ(mod->group_id, 50u + static_cast<unsigned>(mod->type));
    Message desc;
    Writer writer(desc);
    encode_group_desc(writer, {mod->group_id, mod->type, mod->buckets});
    EXPECT_EQ(tail(desc, 8), tail(fixture.message, 16));
  }
}

TEST(Codec, MeterModsAreEchoedOctetForOctet) {
  for (const Fixture& fixture : load_fixtures("meter_mod")) {
    const auto mod = decode_meter_mod(body(fixture.message));
    ASSERT_TRUE(mod);
    EXPECT_EQ(mod->meter_id, 6u);
    Message config;
    Writer writer(config);
    encode_meter_config(writer, {mod->meter_id, mod->flags, mod->bands});
    EXPECT_EQ(tail(config, 2), [&] {
      Message wanted = tail(fixture.message, 8);  // command, flags, meter, bands
      return Message(wanted.begin() + 2, wanted.end());
    }());
  }
}

TEST(Codec, PacketOut) {
  const Message message = reply_fixture("packet_out");
  const auto out = decode_packet_out(body(message));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->buffer_id, pipeline::kNoBuffer);
  EXPECT_EQ(out->in_port, 4u);
  ASSERT_EQ(out->actions.size(), 1u);
  EXPECT_EQ(out->packet.size(), 28u);
}

TEST(Codec, ErrorsAreTheOnesOfTheSpecification) {
  for (const Fixture& fixture : load_fixtures("error")) {
    SCOPED_TRACE(fixture.name);
    const auto mod = decode_flow_mod(body(fixture.message));
    ASSERT_FALSE(mod);
    EXPECT_EQ(mod.error().type, fixture.error.type);
    EXPECT_EQ(mod.error().code, fixture.error.code);
  }
}

TEST(Codec, Features) {
  EXPECT_EQ(encode_features(9, {0xab, 256, 254, 0, 0x4f}), reply_fixture("features"));
}

TEST(Codec, PacketIn) {
  Message frame(60);
  for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(i);
  const pipeline::PuntInfo info{0, 5, 5, 2, pipeline::PuntReason::action, 20, 0xc0, 0x10, 0x20};
  EXPECT_EQ(encode_packet_in(info, frame, 77, 20), reply_fixture("packet_in"));
}

pipeline::PortDesc sample_port() {
  return {5, "memif5", {2, 0, 0, 0, 0, 5}, 4, 1, 2, 3, 4, 5, 6, 7};
}

TEST(Codec, PortStatus) {
  EXPECT_EQ(encode_port_status(pipeline::PortChange::modified, sample_port()),
            reply_fixture("port_status"));
}

TEST(Codec, LongPortNameIsCutAndTerminated) {
  pipeline::PortDesc port = sample_port();
  port.name = "a-name-of-more-than-sixteen-octets";
  Message encoded;
  Writer writer(encoded);
  encode_port(writer, port);
  ASSERT_EQ(encoded.size(), 64u);
  EXPECT_EQ(encoded[16 + 15], 0);
  EXPECT_EQ(encoded[16 + 14], '-');
}

TEST(Codec, FlowRemoved) {
  match::Match match;
  const uint8_t type[] = {0x08, 0x00};
  const uint8_t address[] = {10, 0, 0, 1};
  match.add(match::Field::eth_type, type);
  match.add(match::Field::ipv4_dst, address);
  const pipeline::InstructionList none;
  const pipeline::FlowStats flow{3, 1000, 10, 20, 1, 0xc0, 11, 13, {7, 8}, 0, match, none};
  EXPECT_EQ(encode_flow_removed(flow, pipeline::FlowRemovedReason::hard_timeout),
            reply_fixture("flow_removed"));
}

TEST(Codec, PortStats) {
  MultipartReply reply(9, MultipartType::port_stats);
  const pipeline::PortStats stats{5, 1, 2, 3, 4, 3, 6, 0, {7, 8}};
  const DeviceCounters device{2, 7, 8, 9, 10, 11, 12};
  reply.add([&](Writer& writer) { encode_port_stats(writer, stats, device); });
  EXPECT_EQ(reply.finish().front(), reply_fixture("port_stats"));
}

TEST(Codec, RoleAndAsync) {
  EXPECT_EQ(encode_role_reply(9, {Role::master, 66}), reply_fixture("role"));
  const AsyncConfig config{{1, 2}, {3, 4}, {5, 6}};
  const Message encoded = encode_async(9, config);
  EXPECT_EQ(encoded, reply_fixture("async"));
  const auto decoded = decode_async(body(encoded));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->flow_removed, config.flow_removed);
}

TEST(Codec, RepliesAreCutBetweenEntries) {
  MultipartReply reply(5, MultipartType::flow);
  constexpr size_t kEntry = 1000;
  for (int i = 0; i < 200; ++i) {
    reply.add([](Writer& writer) { writer.zeros(kEntry); });
  }
  const std::vector<Message> messages = reply.finish();
  ASSERT_EQ(messages.size(), 4u);
  size_t entries = 0;
  for (const Message& message : messages) {
    const std::optional<Header> header = decode_header(message);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->length, message.size());
    EXPECT_EQ(header->xid, 5u);
    EXPECT_EQ(message[11] & kMultipartMore, &message == &messages.back() ? 0 : kMultipartMore);
    EXPECT_EQ((message.size() - 16) % kEntry, 0u);
    entries += (message.size() - 16) / kEntry;
  }
  EXPECT_EQ(entries, 200u);
}

TEST(Codec, HelloBitmapDecidesWhereThereIsOne) {
  const Message ours = encode_hello(1);
  EXPECT_TRUE(hello_allows_us(4, body(ours)));
  EXPECT_TRUE(hello_allows_us(6, {}));
  EXPECT_FALSE(hello_allows_us(1, {}));
  const Message only_10_and_15 = from_hex("0001000800000042");
  EXPECT_FALSE(hello_allows_us(6, only_10_and_15));
  const Message includes_13 = from_hex("0001000800000052");
  EXPECT_TRUE(hello_allows_us(6, includes_13));
}

TEST(Codec, ErrorQuotesTheRequestAndNamesOnf) {
  const Message request(100, 0x5a);
  const Message plain = encode_error(3, error::kBadType, request);
  EXPECT_EQ(plain.size(), 12 + request.size());
  const Message onf = encode_error(3, error::kBundleBadId, request);
  EXPECT_EQ(tail(onf, 8).size(), 8 + request.size());
  const Message longest = encode_error(3, error::kBundleBadId, Message(kMaxMessage, 0x5a));
  EXPECT_EQ(longest.size(), kMaxMessage);
  EXPECT_EQ(decode_header(longest)->length, kMaxMessage);
  EXPECT_EQ(Message(onf.begin() + 8, onf.begin() + 16), from_hex("ffff08fe4f4e4600"));
}

TEST(Codec, TableFeaturesFitAndAreWellFormed) {
  Message encoded;
  Writer writer(encoded);
  pipeline::TableStats table;
  table.table_id = 3;
  table.max_entries = 1000;
  encode_table_features(writer, table, "");
  Reader reader(encoded);
  EXPECT_EQ(reader.u16(), encoded.size());
  reader.skip(62);
  std::map<uint16_t, size_t> properties;
  while (reader.left() > 0) {
    const uint16_t type = reader.u16();
    const uint16_t length = reader.u16();
    ASSERT_GE(length, 4);
    properties[type] = length;
    reader.skip(length - 4u + (8 - length % 8) % 8);
    ASSERT_TRUE(reader.ok());
  }
  EXPECT_EQ(properties.size(), 14u);
  EXPECT_EQ(properties[2], 4u + 250u);  // tables 4..253
}

// --- properties ------------------------------------------------------------------------------

/// Decoding any octets returns a value or an error, and never reads out of bounds (ASan).
TEST(CodecProperty, MutatedMessagesNeverBreakTheDecoder) {
  std::mt19937 random(1);
  std::vector<Fixture> fixtures = load_fixtures("flow_mod");
  for (const char* kind : {"error", "group_mod", "meter_mod", "packet_out"}) {
    for (Fixture& fixture : load_fixtures(kind)) fixtures.push_back(std::move(fixture));
  }
  size_t accepted = 0;
  for (int round = 0; round < 300; ++round) {
    for (const Fixture& fixture : fixtures) {
      Message message = fixture.message;
      for (int change = 0; change < 3; ++change) {
        message[8 + random() % (message.size() - 8)] = static_cast<uint8_t>(random());
      }
      message.resize(8 + random() % (message.size() - 7));
      const Bytes octets = body(message);
      accepted += decode_flow_mod(octets).has_value() + decode_group_mod(octets).has_value() +
                  decode_meter_mod(octets).has_value() + decode_packet_out(octets).has_value() +
                  decode_flow_filter(octets).has_value() + decode_port_mod(octets).has_value();
    }
  }
  EXPECT_GT(accepted, 0u);
}

/// A flow-mod that can be decoded can be reported and read again with the same meaning.
TEST(CodecProperty, WhatDecodesEncodesToItself) {
  std::mt19937 random(2);
  const std::vector<Fixture> fixtures = load_fixtures("flow_mod");
  size_t compared = 0;
  for (int round = 0; round < 1000; ++round) {
    for (const Fixture& fixture : fixtures) {
      Message message = fixture.message;
      message[48 + random() % (message.size() - 48)] ^= static_cast<uint8_t>(1u << random() % 8);
      const auto mod = decode_flow_mod(body(message));
      if (!mod) continue;
      Message encoded = {message.begin(), message.begin() + 48};
      Writer writer(encoded);
      encode_match(writer, mod->match);
      encode_instructions(writer, mod->instructions);
      const auto again = decode_flow_mod(body(encoded));
      ASSERT_TRUE(again) << fixture.name;
      EXPECT_EQ(again->match.fields, mod->match.fields);
      EXPECT_TRUE(again->match.same_as(mod->match));
      EXPECT_EQ(again->instructions, mod->instructions);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000u);
}

}  // namespace
}  // namespace headrace::openflow
