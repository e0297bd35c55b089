// SPDX-License-Identifier: Apache-2.0
// One OpenFlow connection: framing, version negotiation, keep-alive, bounded output.
//
// Both sides send hello; if the peer's hello allows 1.3, the connection is ready and its messages
// are passed to the owner; otherwise the peer gets HELLO_FAILED and the connection is closed. A
// peer that sends nothing for the time of the inactivity probe is sent an echo request, and the
// connection is closed after the same time again.
//
// Bounds on a faulty or hostile peer:
// * A message has at most 65535 octets (the 16 bits of its length field); a length under 8 ends the
// connection, because the start of the next message is unknown.
// * A peer that sends requests but does not read the replies: its requests are not read while
// kPauseBytes of replies are queued, so it can hold at most the memory of these and of the replies
// to one read.
// * A peer that does not read asynchronous messages: packet-ins to it are dropped while kPauseBytes
// are queued, and it is disconnected if another message is due while kMaxQueuedBytes are queued.
// * A peer that reads nothing from a non-empty queue for kStallTime is disconnected.
// * Each iteration of the io_context handles the messages of one read, so that peers are served
// fairly.
//
// Thread safety: none; used by the control thread only. Connections are shared_ptr because pending
// operations refer to them; close() releases them.
#pragma once

#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/stream.h"
#include "openflow/codec/message.h"

namespace headrace::openflow {

class Connection;

/// The owner of connections.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  /// Hello is done: messages may be sent.
  virtual void connection_ready(Connection& connection) = 0;
  /// A complete message (header included) other than hello and echo.
  virtual void connection_message(Connection& connection, const Header& header, Bytes message) = 0;
  /// The connection ended by itself (not by close()); the owner releases it.
  virtual void connection_closed(Connection& connection, const std::string& reason) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kPauseBytes = 1 << 20;
  static constexpr size_t kMaxQueuedBytes = 16 << 20;
  static constexpr std::chrono::seconds kStallTime{20};
  static constexpr std::chrono::seconds kHelloTime{10};

  /// `owner` must outlive the connection or close() it. A probe of zero means never.
  Connection(std::unique_ptr<Stream> stream, ConnectionOwner& owner,
             std::chrono::milliseconds inactivity_probe);

  /// Sends hello and begins reading.
  void start();
  /// Calls `tap` with each message received or sent from now on; null: none. The tap must not close
  /// this connection.
  using Tap = std::function<void(Bytes message)>;
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  /// Ends the connection; the owner is not called any more.
  void close();
  /// Ends the connection once all queued messages are written.
  void close_when_written(std::string reason);

  /// No more of the peer's messages are read while paused, keep-alive included.
  void set_paused(bool paused);

  /// Queues a reply to a request of the peer.
  void send(const Message& message);
  /// Queues an asynchronous message that must not be lost: if too much is queued, the peer is
  /// disconnected instead (asynchronously).
  void send_notice(const Message& message);
  /// Queues a message unless too much is queued already; false if it was dropped.
  bool send_droppable(const Message& message);
  /// Answers a request with an error that quotes it.
  void send_error(uint32_t xid, OfError error, Bytes request);

  [[nodiscard]] bool ready() const { return state_ == State::ready; }
  /// True while an inactivity probe is unanswered.
  [[nodiscard]] bool idle() const { return probe_sent_; }
  [[nodiscard]] size_t queued() const { return pending_.size() + writing_.size() - written_; }

 private:
  enum class State : uint8_t { hello, ready, closing, closed };

  void read();
  void received(size_t length);
  bool handle(const Header& header, Bytes message);
  void handle_hello(const Header& header, Bytes body);
  void schedule_flush();
  void flush();
  void tick();
  void check_time();
  void fail_connection(const std::string& reason);
  uint32_t next_xid() { return ++xid_; }

  std::unique_ptr<Stream> stream_;
  ConnectionOwner* owner_;
  Tap tap_;
  std::chrono::milliseconds probe_;
  asio::steady_timer timer_;
  State state_{State::hello};
  std::string closing_reason_;

  std::vector<uint8_t> input_;
  size_t input_used_{0};
  bool reading_{false};
  bool paused_{false};

  std::vector<uint8_t> pending_;  ///< to be written next
  std::vector<uint8_t> writing_;  ///< being written
  size_t written_{0};             ///< octets of writing_ already written
  bool write_active_{false};
  bool flush_scheduled_{false};

  Clock::time_point started_;
  Clock::time_point last_input_;
  Clock::time_point last_output_;  ///< when octets were last written, or the queue was empty
  bool probe_sent_{false};
  uint32_t xid_{0};
};

}  // namespace headrace::openflow
