// SPDX-License-Identifier: Apache-2.0
#include "openflow/session/connection.h"

#include <fmt/format.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <cstring>

namespace headrace::openflow {
namespace {
/// Space for more than one message of the maximum length.
constexpr size_t kInputSize = 2 * (kMaxMessage + 1);
constexpr std::chrono::milliseconds kTick{500};
}  // namespace

Connection::Connection(std::unique_ptr<Stream> stream, ConnectionOwner& owner,
                       std::chrono::milliseconds inactivity_probe)
    : stream_(std::move(stream)),
      owner_(&owner),
      probe_(inactivity_probe),
      timer_(stream_->get_executor()),
      input_(kInputSize),
      started_(Clock::now()),
      last_input_(started_),
      last_output_(started_) {}

void Connection::start() {
  send(encode_hello(next_xid()));
  read();
  tick();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  owner_ = nullptr;
  timer_.cancel();
  stream_->close();
}

void Connection::close_when_written(std::string reason) {
  if (state_ == State::closed) return;
  state_ = State::closing;
  closing_reason_ = std::move(reason);
  schedule_flush();
}

void Connection::fail_connection(const std::string& reason) {
  if (state_ == State::closed) return;
  ConnectionOwner* owner = owner_;
  const std::shared_ptr<Connection> self = shared_from_this();
  close();
  if (owner != nullptr) owner->connection_closed(*this, reason);
}

void Connection::send(const Message& message) {
  if (state_ == State::closed || state_ == State::closing) return;
  if (tap_) tap_(message);
  pending_.insert(pending_.end(), message.begin(), message.end());
  schedule_flush();
}

bool Connection::send_droppable(const Message& message) {
  if (queued() > kPauseBytes) return false;
  send(message);
  return true;
}

void Connection::send_notice(const Message& message) {
  if (queued() <= kMaxQueuedBytes) {
    send(message);
    return;
  }
  // Deferred: the owner may be iterating over its connections.
  asio::post(stream_->get_executor(), [self = shared_from_this()] {
    self->fail_connection("peer does not read its notices");
  });
}

void Connection::send_error(uint32_t xid, OfError error, Bytes request) {
  send(encode_error(xid, error, request));
}

void Connection::set_paused(bool paused) {
  paused_ = paused;
  if (state_ == State::ready) read();
}

void Connection::read() {
  if (reading_ || paused_ || state_ == State::closed || state_ == State::closing) return;
  if (queued() > kPauseBytes) return;  // flush() resumes reading
  reading_ = true;
  stream_->async_read_some(asio::buffer(input_.data() + input_used_, input_.size() - input_used_),
                           [self = shared_from_this()](const std::error_code& code, size_t length) {
                             self->reading_ = false;
                             if (self->state_ == State::closed) return;
                             if (code) {
                               self->fail_connection(code == asio::error::eof
                                                         ? "connection closed by peer"
                                                         : code.message());
                               return;
                             }
                             self->received(length);
                           });
}

void Connection::received(size_t length) {
  last_input_ = Clock::now();
  probe_sent_ = false;
  input_used_ += length;
  size_t at = 0;
  while (state_ == State::hello || state_ == State::ready) {
    const Bytes rest(input_.data() + at, input_used_ - at);
    const std::optional<Header> header = decode_header(rest);
    if (!header) break;
    if (header->length < kHeaderSize) {
      send_error(header->xid, error::kBadLen, rest.first(kHeaderSize));
      close_when_written("message shorter than its header");
      return;
    }
    if (rest.size() < header->length) break;
    if (tap_) tap_(rest.first(header->length));
    if (!handle(*header, rest.first(header->length))) return;
    at += header->length;
  }
  std::memmove(input_.data(), input_.data() + at, input_used_ - at);
  input_used_ -= at;
  read();
}

bool Connection::handle(const Header& header, Bytes message) {
  const Bytes body = message.subspan(kHeaderSize);
  if (header.type == Type::hello) {
    if (state_ == State::hello) handle_hello(header, body);
    return state_ == State::ready;
  }
  if (state_ == State::hello) {
    fail_connection("peer did not begin with hello");
    return false;
  }
  if (header.version != kVersion) {
    send_error(header.xid, error::kBadVersion, message);
    return true;
  }
  switch (header.type) {
    case Type::echo_request:
      send(make_message(Type::echo_reply, header.xid, body));
      return true;
    case Type::echo_reply:
      return true;
    default:
      owner_->connection_message(*this, header, message);
      return state_ == State::ready;
  }
}

void Connection::handle_hello(const Header& header, Bytes body) {
  if (!hello_allows_us(header.version, body)) {
    send(encode_hello_failed(header.xid, std::min(header.version, kVersion),
                             "only OpenFlow 1.3 (0x04) is supported"));
    close_when_written(
        fmt::format("peer does not support OpenFlow 1.3 (its hello: {:#04x})", header.version));
    return;
  }
  state_ = State::ready;
  owner_->connection_ready(*this);
}

void Connection::schedule_flush() {
  if (write_active_ || flush_scheduled_) return;
  flush_scheduled_ = true;
  asio::post(stream_->get_executor(), [self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
  });
}

void Connection::flush() {
  if (write_active_ || state_ == State::closed) return;
  if (written_ == writing_.size()) {
    writing_.clear();
    written_ = 0;
    std::swap(writing_, pending_);
  }
  if (writing_.empty()) {
    last_output_ = Clock::now();
    if (state_ == State::closing) fail_connection(closing_reason_);
    return;
  }
  write_active_ = true;
  stream_->async_write_some(
      asio::buffer(writing_.data() + written_, writing_.size() - written_),
      [self = shared_from_this()](const std::error_code& code, size_t length) {
        self->write_active_ = false;
        if (self->state_ == State::closed) return;
        if (code) {
          self->fail_connection(code.message());
          return;
        }
        self->written_ += length;
        self->last_output_ = Clock::now();
        self->flush();
        self->read();
      });
}

void Connection::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([weak = weak_from_this()](const std::error_code& code) {
    const std::shared_ptr<Connection> self = weak.lock();
    if (code || !self || self->state_ == State::closed) return;
    self->check_time();
    if (self->state_ != State::closed) self->tick();
  });
}

void Connection::check_time() {
  const Clock::time_point now = Clock::now();
  if (state_ == State::hello && now - started_ > kHelloTime) {
    fail_connection("no hello from peer");
    return;
  }
  if (queued() > 0 && now - last_output_ > kStallTime) {
    fail_connection("peer does not read");
    return;
  }
  if (probe_.count() == 0 || state_ != State::ready || !reading_) return;
  if (now - last_input_ > 2 * probe_) {
    fail_connection("no response to inactivity probe");
  } else if (now - last_input_ > probe_ && !probe_sent_) {
    probe_sent_ = true;
    send(make_message(Type::echo_request, next_xid()));
  }
}

}  // namespace headrace::openflow
