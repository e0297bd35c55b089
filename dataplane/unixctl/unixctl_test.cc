// SPDX-License-Identifier: Apache-2.0
// The protocol on a real socket, the registry's errors, the pidfile. The real ovs-appctl:
// tests/switch/test_switch_unixctl.py.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/connect.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_splitter.h"
#include "unixctl/command.h"
#include "unixctl/pidfile.h"
#include "unixctl/server.h"

namespace headrace::unixctl {
namespace {

using nlohmann::json;
using Stream = asio::local::stream_protocol;

class Unixctl : public testing::Test {
 protected:
  Unixctl() {
    std::filesystem::create_directory(dir_);
    commands_.add({.name = "join",
                   .usage = "A [B]",
                   .min_arguments = 1,
                   .max_arguments = 2,
                   .run = [](Command::Arguments arguments) -> Result<std::string> {
                     std::string joined;
                     for (const std::string& each : arguments) joined += each + "+";
                     return joined;
                   }});
    commands_.add({.name = "stp/show", .instead = "there is no spanning tree"});
  }
  ~Unixctl() override { std::filesystem::remove_all(dir_); }

  std::string dir_ = testing::TempDir() + "unixctl" + std::to_string(::getpid());
  std::string path_ = dir_ + "/test.ctl";
  Commands commands_{"test 1.0"};
};

TEST_F(Unixctl, TheRegistryChecksNamesAndCounts) {
  const auto error = [this](std::string_view name, std::vector<std::string> arguments) {
    const Result<std::string> result = commands_.run(name, arguments);
    return result ? "served: " + *result : result.error().message;
  };
  EXPECT_EQ(error("join", {"x", "y"}), "served: x+y+");
  EXPECT_EQ(error("join", {}), "\"join\" command requires at least 1 arguments");
  EXPECT_EQ(error("join", {"x", "y", "z"}), "\"join\" command takes at most 2 arguments");
  EXPECT_EQ(error("version", {}), "served: test 1.0");
  EXPECT_EQ(
      error("joi", {}),
      "\"joi\" is not a valid command (use \"list-commands\" to see a list of valid commands)");
  EXPECT_EQ(error("stp/show", {"br0", "x"}),
            "\"stp/show\" is not served by headrace-switch: there is no spanning tree");
  EXPECT_EQ(error("list-commands", {}),
            "served: The available commands are:\n"
            "  join                    A [B]\n"
            "  list-commands           \n"
            "  version                 \n");
}

TEST_F(Unixctl, RequestsAreAnsweredInOrderHoweverTheyAreCut) {
  asio::io_context io;
  auto server = Server::open(io, path_, commands_);
  ASSERT_TRUE(server) << server.error().message;
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  std::thread serving([&io] { io.run(); });

  asio::io_context own;
  Stream::socket client(own);
  client.connect(Stream::endpoint(path_));
  const std::string requests =
      R"({"id":0,"method":"join","params":["a\n"]}{"id":"x","method":"nope","params":[]})"
      R"({"id":2,"method":"join","params":[7]})";
  for (size_t cut : {size_t{1}, size_t{20}, requests.size() - 30, requests.size()}) {
    for (size_t at = 0; at < requests.size(); at += cut) {
      asio::write(client, asio::buffer(requests.data() + at, std::min(cut, requests.size() - at)));
    }
    JsonSplitter splitter;
    std::vector<std::string> replies;
    while (replies.size() < 3) {
      std::array<char, 4096> chunk;
      const size_t size = client.read_some(asio::buffer(chunk));
      ASSERT_TRUE(splitter.feed({chunk.data(), size}, replies));
    }
    EXPECT_EQ(json::parse(replies[0]), json({{"id", 0}, {"result", "a\n+\n"}, {"error", nullptr}}));
    const json refused = json::parse(replies[1]);
    EXPECT_EQ(refused["id"], "x");
    EXPECT_EQ(refused["result"], nullptr);
    EXPECT_EQ(json::parse(replies[2])["error"], "\"join\" command has non-string argument\n");
  }
  // What is no request ends the connection.
  asio::write(client, asio::buffer(std::string_view("ping\n")));
  std::array<char, 16> rest;
  asio::error_code error;
  asio::read(client, asio::buffer(rest), error);
  EXPECT_EQ(error, asio::error::eof);
  asio::post(io, [&server] { server->reset(); });
  serving.join();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Unixctl, ASecondServerIsRefusedAndADeadSocketReplaced) {
  asio::io_context io;
  auto first = Server::open(io, path_, commands_);
  ASSERT_TRUE(first);
  const auto second = Server::open(io, path_, commands_);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another process listens on it"), std::string::npos);
  first->reset();
  {  // a socket that nobody listens on
    Stream::acceptor dead(io, Stream::endpoint(path_));
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(Server::open(io, path_, commands_));
}

TEST_F(Unixctl, ThePidfileNamesTheProcessAndEndsWithIt) {
  const std::string path = dir_ + "/test.pid";
  std::ofstream(path) << "1\n";  // left behind: nobody holds its lock
  auto pidfile = Pidfile::make(path);
  ASSERT_TRUE(pidfile) << pidfile.error().message;
  // Another process reads it (this one must not: closing the file would end its lock) and is
  // refused while this one runs.
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    pid_t pid = 0;
    std::ifstream(path) >> pid;
    if (pid != self) ::_exit(2);
    const auto taken = Pidfile::make(path);
    ::_exit(!taken && taken.error().message.find(std::to_string(pid)) != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  pidfile->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace headrace::unixctl
