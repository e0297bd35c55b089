// SPDX-License-Identifier: Apache-2.0
// The control connection of two memif peers: messages, with at most one file descriptor each.
//
// Thread safety: the thread of the io_context. Both callbacks may drop the last reference to the
// channel.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "port/memif/protocol.h"
#include "port/memif/region.h"

namespace headrace::port::memif {

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Received = std::function<void(const Message& message, FileDescriptor file)>;
  /// Why the connection is over: the peer's reason, or what happened to the socket.
  using Ended = std::function<void(const std::string& reason)>;

  /// `socket` is a connected, non-blocking SOCK_SEQPACKET socket.
  static std::shared_ptr<Channel> make(asio::io_context& io, FileDescriptor socket);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Whom to tell from now on; reading starts with the first call. `ended` is told once, and
  /// nothing after close().
  void listen(Received received, Ended ended);

  /// False if the peer does not take it (it is gone, or does not read).
  bool send(const Message& message, int file = -1);
  /// Sends DISCONNECT with `reason` if that is possible, and closes.
  void refuse(std::string_view reason);
  void close();
  /// True if the peer has closed the connection, even before `ended` was called.
  [[nodiscard]] bool is_over() const;

 private:
  Channel(asio::io_context& io, FileDescriptor socket);
  void wait();
  bool read();
  void end(const std::string& reason);

  asio::posix::stream_descriptor socket_;
  Received received_;
  Ended ended_;
  bool reading_{false};
};

/// Copies `text` with an end into a field of a message.
template <size_t kSize>
void set_text(char (&field)[kSize], std::string_view text) {
  field[text.copy(field, kSize - 1)] = '\0';
}
/// The text of a field, whose end may be missing.
template <size_t kSize>
std::string_view get_text(const char (&field)[kSize]) {
  const std::string_view all(field, kSize);
  return all.substr(0, all.find('\0'));
}

}  // namespace headrace::port::memif
