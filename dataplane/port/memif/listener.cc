// SPDX-License-Identifier: Apache-2.0
#include "port/memif/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace headrace::port::memif {
namespace {

/// The listeners of this process, by path.
std::map<std::string, std::weak_ptr<Listener>>& listeners() {
  static std::map<std::string, std::weak_ptr<Listener>> all;
  return all;
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return fail("socket '{}': a path must have 1 to {} characters", path,
                sizeof address.sun_path - 1);
  }
  path.copy(address.sun_path, path.size());
  return address;
}

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Result<FileDescriptor> connect_to(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return tl::unexpected(address.error());
  FileDescriptor socket = new_socket();
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return fail("{}: {}", path, std::strerror(errno));
  }
  return socket;
}

Result<std::shared_ptr<Listener>> Listener::at(asio::io_context& io, const std::string& path) {
  if (std::shared_ptr<Listener> known = listeners()[path].lock()) return known;
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return tl::unexpected(address.error());
  if (connect_to(path))
    return fail("socket {}: another process listens on it; end it or choose another", path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return fail("socket {}: a file that is no socket is in the way", path);
    }
    ::unlink(path.c_str());
  }
  FileDescriptor socket = new_socket();
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return fail("socket {}: {}", path, std::strerror(errno));
  }
  std::shared_ptr<Listener> listener(new Listener(io, path, std::move(socket)));
  listeners()[path] = listener;
  listener->accept();
  return listener;
}

Listener::Listener(asio::io_context& io, std::string path, FileDescriptor socket)
    : io_(io), path_(std::move(path)), socket_(io, socket.release()) {}

Listener::~Listener() {
  for (const auto& channel : pending_) channel->close();
  ::unlink(path_.c_str());
  listeners().erase(path_);
}

Result<> Listener::serve(uint32_t id, uint16_t queues, Take take) {
  if (!interfaces_.try_emplace(id, Interface{queues, std::move(take)}).second) {
    return fail("options:id {} is taken on socket {}; give each port there its own", id, path_);
  }
  return {};
}

void Listener::leave(uint32_t id) {
  interfaces_.erase(id);
}

void Listener::accept() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const asio::error_code& error) {
                       const std::shared_ptr<Listener> self = weak.lock();
                       if (!self || error) return;
                       FileDescriptor client(::accept4(self->socket_.native_handle(), nullptr,
                                                       nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
                       if (client) self->greet(std::move(client));
                       self->accept();
                     });
}

void Listener::greet(FileDescriptor socket) {
  const std::shared_ptr<Channel> channel = Channel::make(io_, std::move(socket));
  if (pending_.size() == kMaxPending) {
    channel->refuse("too many connections");
    return;
  }
  uint16_t queues = 1;
  for (const auto& [id, interface] : interfaces_) queues = std::max(queues, interface.queues);
  Message message{};
  message.type = MessageType::hello;
  message.hello = {.name = {},
                   .min_version = kVersion,
                   .max_version = kVersion,
                   .max_region = 255,
                   .max_s2c_ring = static_cast<uint16_t>(queues - 1),
                   .max_c2s_ring = static_cast<uint16_t>(queues - 1),
                   .max_log2_ring_size = 14};
  set_text(message.hello.name, "headrace");
  if (!channel->send(message)) return;
  pending_.push_back(channel);
  const std::weak_ptr<Channel> known = channel;
  channel->listen(
      [this, known](const Message& received, FileDescriptor) {
        if (const auto self = known.lock()) introduce(self, received);
      },
      [this, known](const std::string&) { pending_.remove(known.lock()); });
}

void Listener::introduce(const std::shared_ptr<Channel>& channel, const Message& message) {
  pending_.remove(channel);
  if (message.type != MessageType::init) return channel->refuse("INIT expected");
  const Init& init = message.init;
  if (init.version != kVersion) return channel->refuse("incompatible version");
  if (init.mode != 0) return channel->refuse("only Ethernet mode is served");
  const auto found = interfaces_.find(init.id);
  if (found == interfaces_.end()) {
    log::debug("memif {}: a client asks for id {}, which is not there", path_, uint32_t{init.id});
    return channel->refuse("ID not found");
  }
  const Take take = found->second.take;
  take(channel, init);
}

}  // namespace headrace::port::memif
