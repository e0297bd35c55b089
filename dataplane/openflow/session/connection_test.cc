// SPDX-License-Identifier: Apache-2.0
// Connections over a socket pair whose other end each test controls.
#include "openflow/session/connection.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

namespace headrace::openflow {
namespace {

using namespace std::chrono_literals;
using Local = asio::local::stream_protocol;

class Recorder : public ConnectionOwner {
 public:
  void connection_ready(Connection&) override { ready = true; }
  void connection_message(Connection& connection, const Header& header, Bytes message) override {
    types.push_back(header.type);
    sizes.push_back(message.size());
    if (answer) connection.send(Message(answer_size));
  }
  void connection_closed(Connection&, const std::string& why) override { reason = why; }

  bool ready{false};
  bool answer{false};
  size_t answer_size{100'000};
  std::vector<Type> types;
  std::vector<size_t> sizes;
  std::string reason;
};

class ConnectionTest : public testing::Test {
 protected:
  void open(std::chrono::milliseconds probe = 0ms) {
    Local::socket ours(io_);
    asio::local::connect_pair(ours, peer_);
    connection_ = std::make_shared<Connection>(plain_stream(std::move(ours)), owner_, probe);
    connection_->start();
  }
  void TearDown() override {
    if (connection_) connection_->close();
    io_.poll();
  }

  void write(const Message& message) { asio::write(peer_, asio::buffer(message)); }
  /// Runs until `condition` or two seconds have passed.
  template <typename Condition>
  bool run_until(Condition condition, std::chrono::milliseconds limit = 2s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io_.restart();
      io_.run_for(5ms);
    }
    return condition();
  }
  /// The next complete message that the connection sent.
  Message read() {
    Message message(kHeaderSize);
    run_until([this] { return peer_.available() >= kHeaderSize; });
    asio::read(peer_, asio::buffer(message));
    const size_t length = decode_header(message)->length;
    run_until([&] { return peer_.available() >= length - kHeaderSize; });
    message.resize(length);
    asio::read(peer_, asio::buffer(message.data() + kHeaderSize, length - kHeaderSize));
    return message;
  }
  void shake_hands() {
    EXPECT_EQ(read(), encode_hello(1));
    write(encode_hello(7));
    EXPECT_TRUE(run_until([this] { return owner_.ready; }));
  }

  asio::io_context io_;
  Recorder owner_;
  Local::socket peer_{io_};
  std::shared_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, NegotiatesAndAnswersEcho) {
  open();
  shake_hands();
  const Message data = {1, 2, 3};
  write(make_message(Type::echo_request, 42, data));
  EXPECT_EQ(read(), make_message(Type::echo_reply, 42, data));
}

TEST_F(ConnectionTest, RefusesOtherVersions) {
  open();
  EXPECT_EQ(read(), encode_hello(1));
  write({0x01, 0, 0, 8, 0, 0, 0, 9});
  const Message refusal = read();
  EXPECT_EQ(refusal[0], 0x01);
  EXPECT_EQ(refusal[1], static_cast<uint8_t>(Type::error));
  EXPECT_EQ(Message(refusal.begin() + 8, refusal.begin() + 12), Message(4, 0));
  EXPECT_TRUE(run_until([this] { return !owner_.reason.empty(); }));
  EXPECT_FALSE(owner_.ready);
}

TEST_F(ConnectionTest, FramesWhateverTheCuts) {
  open();
  shake_hands();
  Message stream;
  for (size_t size : {0u, 100u, 65527u, 1u}) {
    const Message message = make_message(Type::barrier_request, 1, Message(size));
    stream.insert(stream.end(), message.begin(), message.end());
  }
  for (size_t at = 0; at < stream.size(); at += 9999) {
    write({stream.begin() + static_cast<ptrdiff_t>(at),
           stream.begin() + static_cast<ptrdiff_t>(std::min(at + 9999, stream.size()))});
    io_.restart();
    io_.run_for(1ms);
  }
  EXPECT_TRUE(run_until([this] { return owner_.sizes.size() == 4; }));
  EXPECT_EQ(owner_.sizes, (std::vector<size_t>{8, 108, 65535, 9}));
}

TEST_F(ConnectionTest, LengthBelowTheHeaderEndsIt) {
  open();
  shake_hands();
  write({4, 20, 0, 4, 0, 0, 0, 5});
  const Message answer = read();
  EXPECT_EQ(answer[1], static_cast<uint8_t>(Type::error));
  EXPECT_TRUE(run_until([this] { return !owner_.reason.empty(); }));
}

TEST_F(ConnectionTest, WrongVersionAfterHelloIsAnError) {
  open();
  shake_hands();
  write({1, 20, 0, 8, 0, 0, 0, 5});
  const Message answer = read();
  EXPECT_EQ(Message(answer.begin() + 4, answer.begin() + 12), (Message{0, 0, 0, 5, 0, 1, 0, 0}));
  EXPECT_TRUE(owner_.types.empty());
}

TEST_F(ConnectionTest, ProbesTheSilentAndDropsTheDead) {
  open(600ms);
  shake_hands();
  const Message probe = read();
  EXPECT_EQ(probe[1], static_cast<uint8_t>(Type::echo_request));
  EXPECT_TRUE(connection_->idle());
  EXPECT_TRUE(run_until([this] { return !owner_.reason.empty(); }, 4s));
  EXPECT_EQ(owner_.reason, "no response to inactivity probe");
}

TEST_F(ConnectionTest, PeerThatDoesNotReadIsNotReadFrom) {
  open();
  shake_hands();
  owner_.answer = true;
  Message stream;
  for (int i = 0; i < 1000; ++i) {
    const Message request = make_message(Type::barrier_request, 1, Message(1000));
    stream.insert(stream.end(), request.begin(), request.end());
  }
  peer_.non_blocking(true);
  size_t at = 0;
  for (int turn = 0; turn < 200; ++turn) {
    std::error_code code;
    at += peer_.write_some(asio::buffer(stream.data() + at, stream.size() - at), code);
    io_.restart();
    io_.run_for(1ms);
  }
  // The requests of one read may be answered beyond the limit, no more.
  EXPECT_LT(owner_.types.size(), 300u);
  EXPECT_GT(connection_->queued(), Connection::kPauseBytes);
  EXPECT_FALSE(connection_->send_droppable(Message(100)));

  // It reads again: everything arrives.
  size_t got = 0;
  std::vector<uint8_t> sink(1 << 20);
  EXPECT_TRUE(run_until(
      [&] {
        std::error_code code;
        if (at < stream.size()) {
          at += peer_.write_some(asio::buffer(stream.data() + at, stream.size() - at), code);
        }
        got += peer_.read_some(asio::buffer(sink), code);
        return got == 1000 * owner_.answer_size;
      },
      10s));
  EXPECT_EQ(owner_.types.size(), 1000u);
}

TEST_F(ConnectionTest, NoticesThatPileUpEndIt) {
  open();
  shake_hands();
  const Message notice(60'000);
  for (size_t sent = 0; sent < 2 * Connection::kMaxQueuedBytes; sent += notice.size()) {
    connection_->send_notice(notice);
  }
  EXPECT_LE(connection_->queued(), Connection::kMaxQueuedBytes + notice.size());
  EXPECT_TRUE(run_until([this] { return !owner_.reason.empty(); }));
}

}  // namespace
}  // namespace headrace::openflow
