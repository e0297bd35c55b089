// SPDX-License-Identifier: Apache-2.0
// An agent, its LSI and real sockets: requests, roles, asynchronous messages, bundles.
#include "openflow/agent/agent.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <filesystem>

#include "base/test_certificates.h"
#include "openflow/agent/agent_fixture.h"
#include "openflow/agent/test_client.h"

namespace headrace::openflow {
namespace {

using namespace std::chrono_literals;
using match::Field;
using pipeline::test::make_frame;
using pipeline::test::make_match;
using test::AgentTest;
using test::Client;
using test::error_of;
using test::flow_mod;
using test::octets;
using test::operator+;
using test::output_to;
using test::packet_out;
using test::type_of;
using test::xid_of;

TEST_F(AgentTest, AnswersFeatures) {
  Client client(io_, path_);
  const Message reply = client.ask(make_message(Type::features_request, 77));
  EXPECT_EQ(type_of(reply), Type::features_reply);
  EXPECT_EQ(xid_of(reply), 77u);
  Reader reader(Bytes(reply).subspan(kHeaderSize));
  EXPECT_EQ(reader.u64(), 0xabcdefu);
  reader.skip(4);
  EXPECT_EQ(reader.u8(), pipeline::kTableCount);
}

TEST_F(AgentTest, UnknownAndMalformedRequestsGetErrors) {
  Client client(io_, path_);
  EXPECT_EQ(error_for(client, make_message(static_cast<Type>(99), 5)), error::kBadType);
  EXPECT_EQ(error_for(client, make_message(Type::features_request, 5, Message(4))), error::kBadLen);
  EXPECT_EQ(
      error_for(client, make_message(Type::experimenter, 5, octets(uint32_t{0x1234}, uint32_t{1}))),
      error::kBadExperimenter);
  const Message unknown_part =
      make_message(Type::multipart_request, 5, octets(uint16_t{99}, uint16_t{0}, uint32_t{0}));
  EXPECT_EQ(error_for(client, unknown_part), error::kBadMultipart);
}

TEST_F(AgentTest, FlowsAreInstalledReportedAndForward) {
  Client client(io_, path_);
  client.send(flow_mod(1, 0, 100, make_match({{Field::in_port, 1}}), output_to(2)));
  EXPECT_TRUE(client.drain().empty());
  const auto frame = make_frame({});
  switch_.send(1, {frame});
  EXPECT_EQ(switch_.take(2).size(), 1u);

  const Message request =
      octets(uint16_t{1}, uint16_t{0}, uint32_t{0}) +
      octets(uint8_t{0xff}, uint8_t{0}, uint16_t{0}) +
      octets(pipeline::kPortAny, pipeline::kGroupAny, uint32_t{0}, uint64_t{0}, uint64_t{0}) +
      octets(uint16_t{1}, uint16_t{4}, uint32_t{0});
  const Message reply = client.ask(make_message(Type::multipart_request, 9, request));
  Reader entry(Bytes(reply).subspan(16));
  EXPECT_EQ(entry.left(), 88u);
  EXPECT_EQ(entry.u16(), 88u);
  entry.skip(10);
  EXPECT_EQ(entry.u16(), 100);
  entry.skip(10);
  EXPECT_EQ(entry.u64(), 0xc0u);
  EXPECT_EQ(entry.u64(), 1u);
  EXPECT_EQ(entry.u64(), frame.size());
}

TEST_F(AgentTest, BigRepliesComeInParts) {
  Client client(io_, path_);
  Message stream;
  constexpr uint32_t kFlows = 5000;
  for (uint32_t i = 0; i < kFlows; ++i) {
    stream =
        std::move(stream) + flow_mod(i, i % 8, 1, make_match({{Field::metadata, i}}), output_to(1));
  }
  client.send(stream);
  EXPECT_TRUE(client.drain().empty());
  const Message request =
      octets(uint16_t{1}, uint16_t{0}, uint32_t{0}) +
      octets(uint8_t{0xff}, uint8_t{0}, uint16_t{0}) +
      octets(pipeline::kPortAny, pipeline::kGroupAny, uint32_t{0}, uint64_t{0}, uint64_t{0}) +
      octets(uint16_t{1}, uint16_t{4}, uint32_t{0});
  client.send(Type::multipart_request, 9, request);
  size_t entries = 0;
  const std::vector<Message> parts = client.drain();
  ASSERT_GT(parts.size(), 5u);
  for (const Message& part : parts) {
    EXPECT_EQ(part[11], &part == &parts.back() ? 0 : kMultipartMore);
    Reader reader(Bytes(part).subspan(16));
    while (reader.left() > 0) {
      const uint16_t length = reader.u16();
      reader.skip(length - 2u);
      ++entries;
    }
    EXPECT_TRUE(reader.ok());
  }
  EXPECT_EQ(entries, kFlows);
}

TEST_F(AgentTest, TablesMayBeRenamedAndAskedForNoMoreThanTheyOffer) {
  Client client(io_, path_);
  const Message ask = octets(uint16_t{12}, uint16_t{0}, uint32_t{0});
  const auto all_of = [&client](const std::vector<Message>& requests) {
    for (const Message& request : requests) client.send(Type::multipart_request, 9, request);
    std::vector<Message> parts = client.drain();
    for (Message& part : parts) {
      EXPECT_EQ(type_of(part), Type::multipart_reply);
      part.erase(part.begin(), part.begin() + kHeaderSize);
    }
    return parts;
  };
  // The agent's own table features are a valid request, in as many parts.
  std::vector<Message> parts = all_of({ask});
  ASSERT_GT(parts.size(), 1u) << "otherwise no request spans messages";
  constexpr size_t kFirstName = 8 + 8;
  parts[0][kFirstName] = 'L';
  parts[0][kFirstName + 1] = '2';
  EXPECT_EQ(all_of(parts), parts);
  EXPECT_EQ(all_of({ask}), parts) << "the name stays";

  // A subset is accepted, too: the first table's instructions, one of them twice and one not at
  // all.
  constexpr size_t kFirstType = 8 + 64 + 4 + 1;
  std::vector<Message> narrower = parts;
  narrower[0][kFirstType + 4] = narrower[0][kFirstType];
  EXPECT_EQ(all_of(narrower), parts);

  // A superset is not, and the parts of a request without an end are not kept.
  std::vector<Message> more = parts;
  more[0][kFirstType] = 77;
  for (const Message& part : more) client.send(Type::multipart_request, 9, part);
  EXPECT_EQ(error_of(client.receive()), error::kFeaturesBadArgument);
  const Message endless = octets(uint16_t{12}, kMultipartMore, uint32_t{0}) + Message(60000);
  for (int i = 0; i < 18; ++i) client.send(Type::multipart_request, 10, endless);
  EXPECT_EQ(error_of(client.receive()), error::kMultipartOverflow);
  EXPECT_EQ(all_of({ask}), parts);
}

TEST_F(AgentTest, PacketInOnlyWhereWanted) {
  Client silent(io_, path_);
  Client client = controller();
  client.send(flow_mod(1, 0, 1, make_match({}), output_to(pipeline::kPortController)));
  client.drain();
  const auto frame = make_frame({});
  punt_next(frame);
  const Message message = client.receive();
  ASSERT_EQ(type_of(message), Type::packet_in);
  EXPECT_EQ(Message(message.end() - static_cast<ptrdiff_t>(frame.size()), message.end()), frame);
  EXPECT_TRUE(silent.drain().empty());

  // Masks: no packet-ins from now on.
  client.send(
      Type::set_async, 2,
      octets(uint32_t{0}, uint32_t{0}, uint32_t{7}, uint32_t{7}, uint32_t{15}, uint32_t{0}));
  client.drain();
  punt_next(frame);
  EXPECT_TRUE(client.drain().empty());
}

TEST_F(AgentTest, BuffersWhatTheControllerGetsOnlyTheHeadOf) {
  Client client = controller();
  client.send(flow_mod(1, 0, 1, make_match({}), output_to(pipeline::kPortController, 20)));
  client.drain();
  const auto frame = make_frame({.size = 200});
  punt_next(frame);
  const Message message = client.receive();
  ASSERT_EQ(type_of(message), Type::packet_in);
  Reader reader(Bytes(message).subspan(kHeaderSize));
  const uint32_t buffer_id = reader.u32();
  EXPECT_NE(buffer_id, pipeline::kNoBuffer);
  EXPECT_EQ(reader.u16(), frame.size());
  EXPECT_EQ(Message(message.end() - 20, message.end()), Message(frame.begin(), frame.begin() + 20));

  const Message release =
      packet_out(5, buffer_id, pipeline::kPortController, {pipeline::OutputAction{3}}, {});
  client.send(release);
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(switch_.take(3), std::vector<Message>(1, frame));
  EXPECT_EQ(error_for(client, release), error::kBufferEmpty);
  EXPECT_EQ(error_for(client, packet_out(5, 200, pipeline::kPortController, {}, {})),
            error::kBufferUnknown);
}

/// The connection's miss_send_len limits a packet-in that no output action causes (7.3.2).
TEST_F(AgentTest, APacketWhoseTtlEndedIsSizedByTheConnection) {
  const auto configured = [this](uint16_t miss_send_len) {
    Client client(io_, path_);
    client.send(Type::set_config, 1, octets(uint16_t{0}, miss_send_len));
    client.send(
        Type::set_async, 2,
        octets(uint32_t{7}, uint32_t{7}, uint32_t{7}, uint32_t{7}, uint32_t{15}, uint32_t{15}));
    EXPECT_TRUE(client.drain().empty());
    return client;
  };
  Client brief = configured(20);
  Client whole = configured(pipeline::kNoBufferLength);
  whole.send(flow_mod(1, 0, 1, make_match({{Field::eth_type, 0x0800}}),
                      {pipeline::ApplyActions{{pipeline::DecNwTtlAction{}}}}));
  EXPECT_TRUE(whole.drain().empty());
  const auto frame = make_frame({.ttl = 1, .size = 200});
  punt_next(frame);
  for (const auto& [client, length] : {std::pair(&brief, 20l), std::pair(&whole, 200l)}) {
    const Message message = client->receive();
    ASSERT_EQ(type_of(message), Type::packet_in);
    Reader reader(Bytes(message).subspan(kHeaderSize));
    EXPECT_EQ(reader.u32() == pipeline::kNoBuffer, length == 200)
        << "a truncated packet-in has a buffer";
    EXPECT_EQ(reader.u16(), frame.size());
    EXPECT_EQ(reader.u8(), static_cast<uint8_t>(pipeline::PuntReason::invalid_ttl));
    EXPECT_EQ(Message(message.end() - length, message.end()),
              Message(frame.begin(), frame.begin() + length));
  }
}

TEST_F(AgentTest, FlowModReleasesItsBufferThroughTheTables) {
  Client client = controller();
  client.send(flow_mod(1, 0, 1, make_match({}), output_to(pipeline::kPortController, 20)));
  client.drain();
  punt_next(make_frame({}));
  const Message message = client.receive();
  const uint32_t buffer_id = Reader(Bytes(message).subspan(kHeaderSize)).u32();
  client.send(flow_mod(2, 0, 9, make_match({}), output_to(2), 0, 0, buffer_id));
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(switch_.take(2).size(), 1u);
}

TEST_F(AgentTest, PacketOutThroughTablesAndBadOnes) {
  Client client(io_, path_);
  client.send(flow_mod(1, 0, 1, make_match({{Field::in_port, 1}}), output_to(3)));
  client.drain();
  const auto frame = make_frame({});
  const pipeline::ActionList through{pipeline::OutputAction{pipeline::kPortTable}};
  client.send(packet_out(2, pipeline::kNoBuffer, 1, through, frame));
  EXPECT_TRUE(client.drain().empty());
  EXPECT_EQ(switch_.take(3), std::vector<Message>(1, frame));
  EXPECT_EQ(error_for(client, packet_out(3, pipeline::kNoBuffer, 1, through, Message(5))),
            error::kBadPacket);
  EXPECT_EQ(error_for(client, packet_out(3, pipeline::kNoBuffer, 0, through, frame)),
            error::kBadPort);
}

TEST_F(AgentTest, TellsOfRemovedFlowsAndChangedPorts) {
  Client client = controller();
  client.send(flow_mod(1, 0, 7, make_match({{Field::in_port, 1}}), output_to(2), 0,
                       pipeline::kFlowSendRemoved));
  client.send(flow_mod(2, 0, 7, make_match({}), {}, 3));
  const std::vector<Message> removed = client.drain();
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(type_of(removed.front()), Type::flow_removed);

  ASSERT_TRUE(switch_.lsi.remove_port(3));
  const Message status = client.receive();
  ASSERT_EQ(type_of(status), Type::port_status);
  EXPECT_EQ(status[8], static_cast<uint8_t>(pipeline::PortChange::removed));
}

TEST_F(AgentTest, FragmentsAreTreatedAlikeForAll) {
  Client first(io_, path_);
  Client second(io_, path_);
  for (const uint16_t mode : {uint16_t{1}, uint16_t{2}, uint16_t{0}}) {
    first.send(Type::set_config, 1, octets(mode, uint16_t{77}));
    EXPECT_TRUE(first.drain().empty());
    const Message config = second.ask(make_message(Type::get_config_request, 2));
    EXPECT_EQ(Message(config.begin() + 8, config.end()), octets(mode, uint16_t{0}));
  }
  const Message own = first.ask(make_message(Type::get_config_request, 2));
  EXPECT_EQ(Message(own.begin() + 8, own.end()), octets(uint16_t{0}, uint16_t{77}));
}

TEST_F(AgentTest, TellsOfQueues) {
  host_.port_2_queues = {{.id = 0}, {.id = 7, .max_rate_bps = 1, .tx_packets = 3, .tx_bytes = 4}};
  Client client(io_, path_);
  const auto queue_stats = [](uint32_t port, uint32_t queue) {
    return make_message(Type::multipart_request, 1,
                        octets(uint16_t{5}, uint16_t{0}, uint32_t{0}, port, queue));
  };
  constexpr size_t kHead = 16;
  constexpr size_t kEntry = 40;
  // Queue 0 of each port, and port 2's other queue.
  EXPECT_EQ(client.ask(queue_stats(pipeline::kPortAny, kQueueAll)).size(), kHead + 4 * kEntry);
  const Message one = client.ask(queue_stats(2, 7));
  ASSERT_EQ(one.size(), kHead + kEntry);
  EXPECT_EQ(Message(one.begin() + kHead, one.begin() + kHead + 24),
            octets(uint32_t{2}, uint32_t{7}, uint64_t{4}, uint64_t{3}));
  EXPECT_EQ(error_for(client, queue_stats(2, 8)), error::kQueueBadQueue);
  EXPECT_EQ(error_for(client, queue_stats(9, 0)), error::kQueueBadPort);
  const auto config = [](uint32_t port) {
    return make_message(Type::queue_get_config_request, 1, octets(port, uint32_t{0}));
  };
  EXPECT_EQ(client.ask(config(2)).size(), kHead + 2 * 16u);
  EXPECT_EQ(error_for(client, config(9)), error::kQueueBadPort);
}

// --- roles ---------------------------------------------------------------------------------------

Message role_request(uint32_t xid, Role role, uint64_t generation) {
  return make_message(Type::role_request, xid,
                      octets(static_cast<uint32_t>(role), uint32_t{0}, generation));
}

TEST_F(AgentTest, OneMasterAndSlavesMayOnlyRead) {
  Client first = controller();
  Client second = controller();
  EXPECT_EQ(type_of(first.ask(role_request(1, Role::master, 10))), Type::role_reply);
  EXPECT_EQ(type_of(second.ask(role_request(1, Role::master, 11))), Type::role_reply);
  // It is notified that it is no longer master (EXT-191).
  const std::vector<Message> notices = first.drain();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(Message(notices[0].begin() + 8, notices[0].end()),
            octets(kOnfExperimenter, uint32_t{1911}, uint32_t{3}, uint32_t{0}, uint64_t{11}));
  const Message change = flow_mod(3, 0, 1, make_match({}), output_to(1));
  EXPECT_EQ(error_for(first, change), error::kIsSlave);
  second.send(change);
  EXPECT_TRUE(second.drain().empty());
  EXPECT_EQ(count_flows(), 1u);
  // A slave can read, and gets port-status messages only.
  EXPECT_EQ(type_of(first.ask(make_message(Type::features_request, 4))), Type::features_reply);
  const Message now = first.ask(role_request(5, Role::no_change, 0));
  EXPECT_EQ(Reader(Bytes(now).subspan(kHeaderSize)).u32(), static_cast<uint32_t>(Role::slave));
}

TEST_F(AgentTest, OldGenerationsAreStale) {
  Client client = controller();
  client.ask(role_request(1, Role::master, 10));
  EXPECT_EQ(error_for(client, role_request(2, Role::slave, 9)), error::kRoleStale);
  // The distance wraps around.
  client.ask(role_request(3, Role::master, 10 + (uint64_t{1} << 63) - 1));
  EXPECT_EQ(error_for(client, role_request(4, Role::master, 10)), error::kRoleStale);
  EXPECT_EQ(error_for(client, make_message(Type::role_request, 5,
                                           octets(uint32_t{9}, uint32_t{0}, uint64_t{0}))),
            error::kBadRole);
}

// --- controllers ---------------------------------------------------------------------------------

TEST_F(AgentTest, ConnectsAndConnectsAgain) {
  const std::string path = directory_ + "/controller";
  Client::Local::acceptor acceptor(io_, Client::Local::endpoint(path));
  acceptor.non_blocking(true);
  const auto accept = [&] {
    Client::Local::socket socket(io_);
    std::error_code code;
    test::run_until(io_, [&] { return !acceptor.accept(socket, code); });
    return socket;
  };
  const ControllerConfig config{"unix:" + path, 0ms, 1000ms};
  agent_.set_controllers({config});
  auto client = std::make_unique<Client>(io_, accept());
  EXPECT_TRUE(test::run_until(io_, [&] { return agent_.is_connected(); }));
  EXPECT_EQ(agent_.status().front().state, "ACTIVE");
  // The same list again: the connection is kept.
  agent_.set_controllers({config});
  EXPECT_TRUE(client->drain().empty());
  client.reset();
  EXPECT_TRUE(test::run_until(io_, [&] { return !agent_.is_connected(); }));
  EXPECT_EQ(agent_.status().front().state, "BACKOFF");
  EXPECT_FALSE(agent_.status().front().last_error.empty());
  Client again(io_, accept());
  EXPECT_TRUE(test::run_until(io_, [&] { return agent_.is_connected(); }));
  agent_.set_controllers({});
  EXPECT_TRUE(again.closed());
}

TEST_F(AgentTest, CountsPacketInsThatAControllerIsTooSlowFor) {
  const std::string path = directory_ + "/controller";
  Client::Local::acceptor acceptor(io_, Client::Local::endpoint(path));
  acceptor.non_blocking(true);
  agent_.set_controllers({{"unix:" + path, 0ms, 1000ms}});
  Client::Local::socket socket(io_);
  std::error_code code;
  ASSERT_TRUE(test::run_until(io_, [&] {
    if (!socket.is_open()) acceptor.accept(socket, code);
    return socket.is_open();
  }));
  Client client(io_, std::move(socket));
  ASSERT_TRUE(test::run_until(io_, [&] { return agent_.is_connected(); }));
  pipeline::PuntInfo info{};
  info.reason = pipeline::PuntReason::action;
  info.max_len = pipeline::kNoBufferLength;
  const Message packet(1400);
  uint64_t sent = 0;
  while (agent_.status().front().packet_ins_dropped < 10 && sent < 100'000) {
    agent_.packet_in(info, packet);  // the agent does not write meanwhile
    ++sent;
  }
  EXPECT_EQ(agent_.status().front().packet_ins_dropped, 10u);
  EXPECT_EQ(client.drain().size() + 10, sent);
}

TEST_F(AgentTest, ShowsSnoopersWhatControllersSay) {
  const std::string path = directory_ + "/snoop";
  ASSERT_TRUE(agent_.listen_for_snoopers(path));
  agent_.set_controllers({{"punix:" + directory_ + "/passive"}});
  Client operators_tool(io_, path_);
  Client early(io_, directory_ + "/passive");
  Client snooper(io_, path);
  EXPECT_EQ(error_of(snooper.ask(make_message(Type::features_request, 1))),
            error::kRequestNotPermitted);
  Client late(io_, directory_ + "/passive");
  // The hellos of the second connection.
  EXPECT_EQ(type_of(snooper.receive()), Type::hello);
  EXPECT_EQ(type_of(snooper.receive()), Type::hello);
  for (Client* client : {&operators_tool, &early, &late}) {
    EXPECT_EQ(type_of(client->ask(make_message(Type::features_request, 7))), Type::features_reply);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(type_of(snooper.receive()), Type::features_request);
    EXPECT_EQ(type_of(snooper.receive()), Type::features_reply);
  }
}

TEST_F(AgentTest, ListensForControllers) {
  const std::string path = directory_ + "/passive";
  agent_.set_controllers({{"punix:" + path}, {"tcp:nonsense"}, {"pssl:0:127.0.0.1"}});
  Client client(io_, path);
  EXPECT_TRUE(test::run_until(io_, [&] { return agent_.is_connected(); }));
  const std::vector<ControllerStatus> status = agent_.status();
  EXPECT_TRUE(status[0].is_connected);
  EXPECT_NE(status[1].last_error.find("not an IP address"), std::string::npos);
  EXPECT_NE(status[2].last_error.find("TLS"), std::string::npos);
}

TEST_F(AgentTest, SpeaksTlsWithControllersThatShowACertificate) {
  headrace::test::Certificates authority;
  TlsCredentials ours;
  Agent agent(io_, switch_.lsi, host_, {1, "br1", "", "None", &ours});
  asio::ip::tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
  agent.set_controllers({{fmt::format("ssl:127.0.0.1:{}", acceptor.local_endpoint().port())}});
  // Without a certificate the error is in the status, and the link retries.
  EXPECT_TRUE(test::run_until(io_, [&] { return !agent.status().front().last_error.empty(); }));
  EXPECT_NE(agent.status().front().last_error.find("certificate"), std::string::npos);
  ours.set_files(authority.make("switch"));
  acceptor.non_blocking(true);
  TlsCredentials theirs;
  theirs.set_files(authority.make("controller"));
  std::unique_ptr<Stream> stream;
  EXPECT_TRUE(test::run_until(io_, [&] {
    asio::ip::tcp::socket socket(io_);
    std::error_code code;
    if (!acceptor.accept(socket, code)) {
      secure(std::move(socket), *theirs.context(), TlsRole::server, [&](auto secured) {
        if (secured) stream = std::move(*secured);
      });
    }
    return stream != nullptr;
  }));
  ASSERT_NE(stream, nullptr);
  const Message hello = encode_hello(1);
  stream->async_write_some(asio::buffer(hello), [](const std::error_code&, size_t) {});
  EXPECT_TRUE(test::run_until(io_, [&] { return agent.is_connected(); }));
  stream->close();
  EXPECT_TRUE(test::run_until(io_, [&] { return !agent.is_connected(); }));
}

TEST_F(AgentTest, RefusesAFloodOfConnections) {
  std::vector<std::unique_ptr<Client::Local::socket>> flood;
  for (int i = 0; i < 80; ++i) {
    flood.push_back(std::make_unique<Client::Local::socket>(io_));
    flood.back()->connect(Client::Local::endpoint(path_));
  }
  flood.back()->non_blocking(true);
  // The agent's hello, or the end of the connection.
  std::array<uint8_t, 64> octets{};
  std::error_code code;
  EXPECT_TRUE(test::run_until(io_, [&] {
    flood.back()->read_some(asio::buffer(octets), code);
    return code == asio::error::eof;
  }));
  flood.clear();
  io_.restart();
  io_.run_for(50ms);
  Client client(io_, path_);
  EXPECT_EQ(type_of(client.ask(make_message(Type::features_request, 1))), Type::features_reply);
}

TEST_F(AgentTest, SecondAgentDoesNotStealTheSocket) {
  Agent other(io_, switch_.lsi, host_, {1, "other"});
  EXPECT_FALSE(other.listen(path_));
  Client client(io_, path_);
  EXPECT_EQ(type_of(client.ask(make_message(Type::features_request, 1))), Type::features_reply);
}

}  // namespace
}  // namespace headrace::openflow
