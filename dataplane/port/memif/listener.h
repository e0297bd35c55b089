// SPDX-License-Identifier: Apache-2.0
// A socket on which memif clients connect: several interfaces may share one, distinguished by
// their ids.
//
// Thread safety: the thread of the io_context.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "port/memif/channel.h"

namespace headrace::port::memif {

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  /// What a client said of itself; the channel is the taker's.
  using Take = std::function<void(std::shared_ptr<Channel> channel, const Init& init)>;

  /// The socket of `path`: the one that this process listens on already, or a new one. A dead
  /// socket there is replaced; one that another process listens on is an error.
  static Result<std::shared_ptr<Listener>> at(asio::io_context& io, const std::string& path);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Clients of interface `id` go to `take`; an error if the id is taken. `hello` is what they are
  /// told first: with several interfaces, the greatest of their limits.
  Result<> serve(uint32_t id, uint16_t queues, Take take);
  void leave(uint32_t id);

 private:
  /// Clients that have not named their interface yet. More are refused.
  static constexpr size_t kMaxPending = 64;

  struct Interface {
    uint16_t queues;
    Take take;
  };

  Listener(asio::io_context& io, std::string path, FileDescriptor socket);
  void accept();
  void greet(FileDescriptor socket);
  void introduce(const std::shared_ptr<Channel>& channel, const Message& message);

  asio::io_context& io_;
  std::string path_;
  asio::posix::stream_descriptor socket_;
  std::map<uint32_t, Interface> interfaces_;
  std::list<std::shared_ptr<Channel>> pending_;
};

/// A Unix socket of type SOCK_SEQPACKET connected to `path`, non-blocking.
Result<FileDescriptor> connect_to(const std::string& path);

}  // namespace headrace::port::memif
