// SPDX-License-Identifier: Apache-2.0
// For tests: an agent that listens, its LSI, and helpers for its clients.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "openflow/agent/agent.h"
#include "openflow/agent/test_client.h"

namespace headrace::openflow::test {

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    char name[] = "/tmp/headrace-agent-XXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/br.mgmt";
    EXPECT_TRUE(agent_.listen(path_));
  }
  ~AgentTest() override { std::filesystem::remove_all(directory_); }

  /// A connection that gets asynchronous messages, like a controller's.
  Client controller() {
    Client client(io_, path_);
    client.send(Type::set_config, 1, octets(uint16_t{0}, uint16_t{0xffff}));
    EXPECT_TRUE(client.drain().empty());
    return client;
  }
  OfError error_for(Client& client, const Message& message) {
    client.send(message);
    const std::vector<Message> answers = client.drain();
    return answers.size() == 1 ? error_of(answers.front()) : OfError{0xfffd, 0};
  }
  /// The number of flows.
  size_t count_flows() {
    size_t flows = 0;
    EXPECT_TRUE(switch_.lsi.for_each_flow({}, [&](const pipeline::FlowStats&) { ++flows; }));
    return flows;
  }
  void punt_next(const pipeline::test::Bytes& frame) {
    switch_.send(1, {frame});
    for (const auto& [info, packet] : switch_.punts.punted) agent_.packet_in(info, packet);
    switch_.punts.punted.clear();
  }

  std::string directory_;
  std::string path_;
  asio::io_context io_;
  pipeline::test::TestSwitch switch_{3};
  test::DirectHost host_{switch_};
  Agent agent_{io_, switch_.lsi, host_, {0xabcdef, "br0"}};
};

}  // namespace headrace::openflow::test
