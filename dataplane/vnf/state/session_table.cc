// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/session_table.h"

#include <rte_errno.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>

#include <tuple>

#include "packet/headers.h"

namespace headrace::vnf {
namespace {

/// The same for both directions, without padding.
struct Key {
  uint64_t low_address_high_address;
  uint32_t low_port_high_port;
  uint32_t proto;
};
static_assert(sizeof(Key) == 16);

Key key_of(const FiveTuple& tuple) {
  const auto ends = std::tuple(tuple.src, tuple.src_port);
  const FiveTuple& t = ends <= std::tuple(tuple.dst, tuple.dst_port) ? tuple : tuple.reversed();
  return {uint64_t{t.src} << 32 | t.dst, uint32_t{t.src_port} << 16 | t.dst_port, t.proto};
}

}  // namespace

Result<std::unique_ptr<SessionTable>> SessionTable::make(uint32_t capacity,
                                                         const SessionTimeouts& timeouts) {
  static unsigned serial = 0;
  const auto name = fmt::format("sessions{}", serial++);
  rte_hash_parameters parameters{};
  parameters.name = name.c_str();
  parameters.entries = capacity;
  parameters.key_len = sizeof(Key);
  parameters.hash_func = rte_hash_crc;
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE;
  rte_hash* hash = rte_hash_create(&parameters);
  if (hash == nullptr) {
    return fail("no memory for {} sessions: {}; raise eal.memory_mb", capacity,
                rte_strerror(rte_errno));
  }
  return std::unique_ptr<SessionTable>(new SessionTable(hash, capacity, timeouts));
}

SessionTable::SessionTable(rte_hash* hash, uint32_t capacity, const SessionTimeouts& timeouts)
    : hash_(hash),
      capacity_(capacity),
      timeouts_(timeouts),
      sessions_(static_cast<size_t>(rte_hash_max_key_id(hash)) + 1) {}

uint32_t SessionTable::find(const FiveTuple& tuple) const noexcept {
  const Key key = key_of(tuple);
  const int position = rte_hash_lookup(hash_.get(), &key);
  return position < 0 ? kNone : static_cast<uint32_t>(position);
}

uint32_t SessionTable::add(const FiveTuple& tuple, uint64_t now) noexcept {
  if (in_use_ == capacity_) return kNone;
  const Key key = key_of(tuple);
  const int position = rte_hash_add_key(hash_.get(), &key);
  if (position < 0) return kNone;
  const auto index = static_cast<uint32_t>(position);
  sessions_[index] = {.state = Session::State::opening, .opener = tuple, .last_seen = now};
  ++in_use_;
  return index;
}

void SessionTable::touch(uint32_t index, const FiveTuple& tuple, uint8_t tcp_flags,
                         uint64_t now) noexcept {
  using State = Session::State;
  Session& session = sessions_[index];
  session.last_seen = now;
  const bool answer = tuple != session.opener;
  if (tuple.proto != packet::kProtoTcp) {
    if (answer) session.state = State::established;
    return;
  }
  if ((tcp_flags & (kTcpFin | kTcpRst)) != 0) {
    session.state = State::closing;
  } else if ((tcp_flags & (kTcpSyn | kTcpAck)) == kTcpSyn && !answer) {
    session.state = State::opening;  // a new connection of the same ports
  } else if (answer && (tcp_flags & kTcpAck) != 0 && session.state == State::opening) {
    session.state = State::established;
  }
}

uint64_t SessionTable::timeout_of(const Session& session) const noexcept {
  if (session.state == Session::State::opening) return timeouts_.opening;
  if (session.opener.proto != packet::kProtoTcp) return timeouts_.other;
  return session.state == Session::State::established ? timeouts_.tcp_established
                                                      : timeouts_.tcp_closing;
}

void SessionTable::sweep(uint64_t now) noexcept {
  const size_t part = sessions_.size() / 1000 + 1;
  for (size_t i = 0; i < part; ++i) {
    next_swept_ = next_swept_ + 1 < sessions_.size() ? next_swept_ + 1 : 0;
    Session& session = sessions_[next_swept_];
    if (session.state == Session::State::free || now - session.last_seen <= timeout_of(session)) {
      continue;
    }
    const Key key = key_of(session.opener);
    rte_hash_del_key(hash_.get(), &key);
    session.state = Session::State::free;
    --in_use_;
  }
}

void SessionTable::copy_from(const SessionTable& other) noexcept {
  for (const Session& session : other.sessions_) {
    if (session.state == Session::State::free) continue;
    const uint32_t index = add(session.opener, session.last_seen);
    if (index == kNone) return;
    sessions_[index] = session;
  }
}

}  // namespace headrace::vnf
