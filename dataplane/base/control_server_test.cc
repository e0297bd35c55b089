// SPDX-License-Identifier: Apache-2.0
#include "base/control_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/executor_work_guard.hpp>
#include <fstream>
#include <thread>

#include "base/control_client.h"

namespace headrace {
namespace {

using nlohmann::json;

/// A server in its own thread, on a socket of its own.
class ControlServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "headrace-control-" + std::to_string(::getpid());
    auto server = ControlServer::open(io_, path_,
                                      {"test",
                                       [] {
                                         return json{{"mode", "none"}};
                                       },
                                       [this] { io_.stop(); }, "use test.1.ctl"});
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->on("echo", [](const json& params) -> Result<json> { return params; });
    server_->on("double",
                [](const json& params) -> Result<json> { return params.at("n").get<int>() * 2; });
    server_->on("refuse", [](const json&) -> Result<json> {
      return fail_as("not_found", "no {} here; look elsewhere", "port");
    });
    server_->on_async("later", [this](const json&, const ControlServer::Reply& reply) {
      helper_ = std::thread([reply] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        reply(json("done"));
      });
    });
    thread_ = std::thread([this] { io_.run(); });
  }

  void TearDown() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    if (helper_.joinable()) helper_.join();
    server_.reset();
    EXPECT_NE(::access(path_.c_str(), F_OK), 0) << "the socket must be gone";
  }

  ControlClient connect() {
    auto client = ControlClient::connect(path_);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::string path_;
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
  std::thread helper_;
};

TEST_F(ControlServerTest, AnswersPing) {
  const auto pong = connect().call("ping");
  ASSERT_TRUE(pong) << pong.error().message;
  EXPECT_EQ((*pong)["program"], "test");
  EXPECT_EQ((*pong)["pid"], ::getpid());
  EXPECT_EQ((*pong)["version"], HEADRACE_VERSION);
  EXPECT_EQ((*pong)["eal"]["mode"], "none");
}

TEST_F(ControlServerTest, PassesParamsAndErrors) {
  ControlClient client = connect();
  EXPECT_EQ(client.call("echo", {{"a", 1}}).value(), (json{{"a", 1}}));
  EXPECT_EQ(client.call("double", {{"n", 21}}).value(), 42);
  const auto refused = client.call("refuse");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "not_found");
  EXPECT_EQ(refused.error().message, "no port here; look elsewhere");
  EXPECT_EQ(client.call("double").error().code, "bad_params");
  EXPECT_EQ(client.call("double", {{"n", "x"}}).error().code, "bad_params");
  EXPECT_EQ(client.call("nonsense").error().code, "unknown_method");
}

TEST_F(ControlServerTest, AnswersWhileALongCallRuns) {
  ControlClient client = connect();
  ASSERT_TRUE(
      client.send("{\"id\":\"slow\",\"method\":\"later\"}\n{\"id\":1,\"method\":\"echo\"}\n"));
  EXPECT_EQ(client.receive().value()["id"], 1);
  const json slow = client.receive().value();
  EXPECT_EQ(slow["id"], "slow");
  EXPECT_EQ(slow["result"], "done");
}

TEST_F(ControlServerTest, ReplyAfterTheClientLeftIsHarmless) {
  { ASSERT_TRUE(connect().send("{\"id\":1,\"method\":\"later\"}\n")); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(connect().call("ping"));
}

TEST_F(ControlServerTest, RefusesWhatIsNoRequest) {
  ControlClient client = connect();
  const auto code_of = [&](std::string_view line) {
    EXPECT_TRUE(client.send(line));
    return client.receive().value()["error"]["code"].get<std::string>();
  };
  EXPECT_EQ(code_of("{\"id\":1,\n"), "bad_json");
  EXPECT_EQ(code_of("\xff\xfe\n"), "bad_json");
  EXPECT_EQ(code_of("[1,2]\n"), "bad_request");
  EXPECT_EQ(code_of("{\"id\":1}\n"), "bad_request");
  EXPECT_EQ(code_of("{\"id\":1,\"method\":7}\n"), "bad_request");
  EXPECT_EQ(code_of("{\"id\":1,\"method\":\"echo\",\"params\":[]}\n"), "bad_params");
  EXPECT_TRUE(client.call("ping")) << "the connection survives bad requests";
}

TEST_F(ControlServerTest, TellsAClientOfTheUnixctlProtocolAtOnce) {
  ControlClient client = connect();
  ASSERT_TRUE(client.send(R"({"id":0,"method":"list-commands","params":[]})"));
  const json reply = client.receive().value();
  EXPECT_EQ(reply["id"], 0);
  EXPECT_EQ(reply["result"], nullptr);
  EXPECT_NE(reply["error"].get<std::string>().find("not for ovs-appctl; use test.1.ctl"),
            std::string::npos)
      << reply;
  EXPECT_EQ(client.receive().error().code, "closed");
}

TEST_F(ControlServerTest, ServesALineThatComesInPieces) {
  ControlClient client = connect();
  for (const char c : std::string("{\"id\":5,\"method\":\"echo\"}\n")) {
    ASSERT_TRUE(client.send(std::string_view(&c, 1)));
  }
  EXPECT_EQ(client.receive().value()["id"], 5);
}

TEST_F(ControlServerTest, ClosesOnAnEndlessLine) {
  ControlClient client = connect();
  const std::string chunk(1 << 20, 'x');
  for (size_t sent = 0; sent <= ControlServer::kMaxLine; sent += chunk.size()) {
    if (!client.send(chunk)) break;  // the server may already have closed
  }
  const auto reply = client.receive();
  if (reply) {
    EXPECT_EQ((*reply)["error"]["code"], "line_too_long");
    EXPECT_EQ(client.receive().error().code, "closed");
  }
  EXPECT_TRUE(connect().call("ping")) << "others are not disturbed";
}

TEST_F(ControlServerTest, SocketIsPrivate) {
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ControlServerTest, DoesNotTakeASocketInUse) {
  asio::io_context other;
  const auto second = ControlServer::open(other, path_, {"second", nullptr, [] {}});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
}

TEST_F(ControlServerTest, ShutdownRepliesFirst) {
  EXPECT_TRUE(connect().call("shutdown"));
  thread_.join();
}

TEST(ControlServerPath, ReplacesADeadSocketButNoFile) {
  asio::io_context io;
  const std::string path = ::testing::TempDir() + "headrace-dead-" + std::to_string(::getpid());
  std::ofstream(path) << "precious";
  const auto over_file = ControlServer::open(io, path, {"test", nullptr, [] {}});
  ASSERT_FALSE(over_file);
  ::unlink(path.c_str());
  { asio::local::stream_protocol::acceptor dead(io, asio::local::stream_protocol::endpoint(path)); }
  ASSERT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_TRUE(ControlServer::open(io, path, {"test", nullptr, [] {}}));
  EXPECT_FALSE(ControlServer::open(io, std::string(200, 'x'), {"test", nullptr, [] {}}));
}

}  // namespace
}  // namespace headrace
