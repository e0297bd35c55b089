// SPDX-License-Identifier: Apache-2.0
// For tests: an agent on an LSI whose packets stay in memory, and OpenFlow clients.
#pragma once

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "openflow/agent/agent.h"
#include "openflow/codec/message.h"
#include "pipeline/program/action_program.h"
#include "pipeline/testing/test_support.h"

namespace headrace::openflow::test {

/// Executes packet-outs at once, on the test's executor.
class DirectHost final : public AgentHost {
 public:
  explicit DirectHost(pipeline::test::TestSwitch& of) : switch_(of) {}
  bool packet_out(pipeline::PortNo in_port, std::unique_ptr<pipeline::ActionProgram> actions,
                  Bytes packet) override;
  [[nodiscard]] size_t largest_packet() const override { return 10'000; }
  [[nodiscard]] DeviceCounters device_counters(pipeline::PortNo) const override { return {}; }
  bool set_fragments(pipeline::FragmentMode mode) override;
  [[nodiscard]] std::vector<QueueState> queues(pipeline::PortNo port) const override {
    return port == 2 ? port_2_queues : std::vector<QueueState>{};
  }
  std::vector<QueueState> port_2_queues;

 private:
  pipeline::test::TestSwitch& switch_;
};

/// Runs `io` until `condition` holds or the limit has passed; returns whether it holds.
template <typename Condition>
bool run_until(asio::io_context& io, Condition condition,
               std::chrono::milliseconds limit = std::chrono::seconds(5)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    io.restart();
    io.run_for(std::chrono::milliseconds(2));
  }
  return condition();
}

/// The controller's end of a connection, after hello. Echo requests are answered.
class Client {
 public:
  using Local = asio::local::stream_protocol;

  /// Connects to a Unix socket.
  Client(asio::io_context& io, const std::string& path);
  /// Takes an accepted socket.
  Client(asio::io_context& io, Local::socket socket);

  void send(const Message& message);
  void send(Type type, uint32_t xid, const Message& body = {}) {
    send(make_message(type, xid, body));
  }
  /// The next message; empty if none comes within the limit.
  Message receive(std::chrono::milliseconds limit = std::chrono::seconds(5));
  /// Sends a message and returns the next one received.
  Message ask(const Message& message) {
    send(message);
    return receive();
  }
  /// Sends a barrier and returns all messages before its reply.
  std::vector<Message> drain();
  /// True once the agent has closed the connection.
  bool closed();

 private:
  void shake_hands();
  void fill();

  asio::io_context& io_;
  Local::socket socket_;
  std::vector<uint8_t> buffer_;
  uint32_t barrier_{0xb0000000};
  bool closed_{false};
};

inline Type type_of(const Message& message) {
  return static_cast<Type>(message.at(1));
}
inline uint32_t xid_of(const Message& message) {
  return decode_header(message)->xid;
}
/// The error that a message reports; {0xfffe, 0} if it isn't an error.
OfError error_of(const Message& message);

/// Concatenates numbers of 1, 2, 4 or 8 octets, depending on their types.
template <typename... Numbers>
Message octets(Numbers... numbers) {
  Message out;
  const auto add = [&out](auto number) {
    for (size_t i = sizeof number; i-- > 0;) {
      out.push_back(static_cast<uint8_t>(static_cast<uint64_t>(number) >> 8 * i));
    }
  };
  (add(numbers), ...);
  return out;
}
inline Message operator+(Message left, const Message& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// An OFPT_FLOW_MOD: add, or another `command`.
Message flow_mod(uint32_t xid, uint8_t table, uint16_t priority, const match::Match& match,
                 const pipeline::InstructionList& instructions, uint8_t command = 0,
                 uint16_t flags = 0, uint32_t buffer_id = pipeline::kNoBuffer);
/// An OFPT_PACKET_OUT.
Message packet_out(uint32_t xid, uint32_t buffer_id, pipeline::PortNo in_port,
                   const pipeline::ActionList& actions, Bytes packet);
/// Applies one output.
pipeline::InstructionList output_to(pipeline::PortNo port, uint16_t max_len = 0xffff);

}  // namespace headrace::openflow::test
