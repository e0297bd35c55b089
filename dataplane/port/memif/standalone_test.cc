// SPDX-License-Identifier: Apache-2.0
#include "port/memif/standalone.h"

#include <gtest/gtest.h>

#include <thread>

namespace headrace::port::memif {
namespace {

using namespace std::chrono_literals;

TEST(NetMemif, ReadsTheDriversArguments) {
  const auto read = read_net_memif(
      "net_memif3,role=server,id=7,socket=/run/x.sock,socket-abstract=no,secret=s,rsize=11,"
      "bsize=4096");
  ASSERT_TRUE(read && *read) << (read ? "" : read.error().message);
  const EndpointConfig& config = **read;
  EXPECT_EQ(config.name, "net_memif3");
  EXPECT_EQ(config.role, Role::server);
  EXPECT_EQ(config.id, 7U);
  EXPECT_EQ(config.socket, "/run/x.sock");
  EXPECT_EQ(config.secret, "s");
  EXPECT_EQ(config.log2_ring_size, 11U);
  EXPECT_EQ(config.buffer_size, 4096U);
  const auto plain = read_net_memif("net_memif0,socket-abstract=no");
  ASSERT_TRUE(plain && *plain);
  EXPECT_EQ((*plain)->role, Role::client);
  EXPECT_EQ((*plain)->socket, "/run/memif.sock");
}

TEST(NetMemif, LeavesTheDriverWhatOnlyItHas) {
  for (const char* devargs : {"net_ring0", "net_memif0,socket=/x", "net_memif0",
                              "net_memif0,socket-abstract=no,zero-copy=yes"}) {
    const auto read = read_net_memif(devargs);
    ASSERT_TRUE(read) << devargs;
    EXPECT_FALSE(*read) << devargs;
  }
}

TEST(NetMemif, SaysWhichArgumentIsWrong) {
  for (const auto& [argument, word] :
       {std::pair("role=slave", "role"), std::pair("id=x", "id"), std::pair("rsize=15", "rsize"),
        std::pair("rsize=", "rsize"), std::pair("bsize=64", "bsize"),
        std::pair("mac=02:00:00:00:00:01", "mac"), std::pair("socket", "socket"),
        std::pair("id=1,id=2", "id"), std::pair("secret=123456789012345678901234", "secret")}) {
    const auto read = read_net_memif(std::string("net_memif0,socket-abstract=no,") + argument);
    ASSERT_FALSE(read) << argument;
    EXPECT_NE(read.error().message.find(word), std::string::npos) << read.error().message;
  }
}

TEST(UseReclaimer, WaitsForAUseUnderWay) {
  asio::io_context io;
  UseReclaimer reclaimer(io);
  bool freed = false;
  {
    const UseReclaimer::Use use(reclaimer, UseReclaimer::sender);
    reclaimer.defer([&] { freed = true; });
    io.run_for(20ms);
    EXPECT_FALSE(freed);
  }
  io.restart();
  io.run_for(1s);
  EXPECT_TRUE(freed);
  EXPECT_EQ(reclaimer.pending(), 0U);
}

TEST(UseReclaimer, WaitsForNobodyWhoLooksNotAtIt) {
  asio::io_context io;
  UseReclaimer reclaimer(io);
  int freed = 0;
  reclaimer.defer([&] { ++freed; });
  reclaimer.defer([&] { ++freed; });
  EXPECT_EQ(freed, 0) << "never at once: the caller may still be in the middle of it";
  io.run_for(1s);
  EXPECT_EQ(freed, 2);
  reclaimer.defer([&] { ++freed; });
}

/// Two users read what the control thread replaces and frees; ASan and the check see a late look.
TEST(UseReclaimer, NobodySeesWhatIsFreed) {
  asio::io_context io;
  UseReclaimer reclaimer(io);
  std::atomic<std::atomic<int>*> published{new std::atomic<int>(1)};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const auto look = [&](UseReclaimer::User user) {
    while (!stop.load()) {
      const UseReclaimer::Use use(reclaimer, user);
      const auto* seen = published.load(std::memory_order_acquire);
      for (int i = 0; i < 20; ++i) wrong += seen->load(std::memory_order_relaxed) != 1;
    }
  };
  std::thread receives(look, UseReclaimer::receiver);
  std::thread sends(look, UseReclaimer::sender);
  for (int i = 0; i < 300; ++i) {
    auto* old = published.exchange(new std::atomic<int>(1));
    reclaimer.defer([old] {
      old->store(0);
      delete old;
    });
    io.restart();
    io.run_for(1ms);
  }
  stop = true;
  receives.join();
  sends.join();
  EXPECT_EQ(wrong.load(), 0);
  delete published.load();
}

}  // namespace
}  // namespace headrace::port::memif
