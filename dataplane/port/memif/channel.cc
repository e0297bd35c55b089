// SPDX-License-Identifier: Apache-2.0
#include "port/memif/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace headrace::port::memif {

std::shared_ptr<Channel> Channel::make(asio::io_context& io, FileDescriptor socket) {
  return std::shared_ptr<Channel>(new Channel(io, std::move(socket)));
}

Channel::Channel(asio::io_context& io, FileDescriptor socket) : socket_(io, socket.release()) {}

Channel::~Channel() {
  close();
}

void Channel::close() {
  received_ = nullptr;
  ended_ = nullptr;
  asio::error_code ignored;
  if (socket_.is_open()) socket_.close(ignored);
}

void Channel::listen(Received received, Ended ended) {
  received_ = std::move(received);
  ended_ = std::move(ended);
  if (!reading_) {
    reading_ = true;
    wait();
  }
}

void Channel::wait() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const asio::error_code& error) {
                       const std::shared_ptr<Channel> self = weak.lock();
                       if (!self || error || !self->socket_.is_open()) return;
                       if (self->read()) self->wait();
                     });
}

bool Channel::read() {
  Message message;
  iovec part{&message, sizeof message};
  // Room for more descriptors than the protocol allows: those in excess are closed, not leaked.
  alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket_.native_handle(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size < 0) {
    end(std::strerror(errno));
    return false;
  }
  FileDescriptor file;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof fd);
      file = FileDescriptor(fd);  // closes the one before
    }
  }
  if (size == 0) {
    end("the peer hung up");
    return false;
  }
  if (size != sizeof message) {
    end("a message of the wrong size");
    return false;
  }
  if (message.type == MessageType::disconnect) {
    end("the peer says: " + std::string(get_text(message.disconnect.reason)));
    return false;
  }
  const Received received = received_;  // it may replace itself
  if (received) received(message, std::move(file));
  return socket_.is_open();
}

void Channel::end(const std::string& reason) {
  const Ended ended = std::move(ended_);
  close();
  if (ended) ended(reason);
}

bool Channel::send(const Message& message, int file) {
  if (!socket_.is_open()) return false;
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (file >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(item), &file, sizeof file);
  }
  return ::sendmsg(socket_.native_handle(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof message;
}

void Channel::refuse(std::string_view reason) {
  Message message{};
  message.type = MessageType::disconnect;
  set_text(message.disconnect.reason, reason);
  send(message);
  close();
}

bool Channel::is_over() const {
  auto& socket = const_cast<asio::posix::stream_descriptor&>(socket_);
  if (!socket.is_open()) return true;
  char byte = 0;
  return ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace headrace::port::memif
