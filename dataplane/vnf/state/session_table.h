// SPDX-License-Identifier: Apache-2.0
// The sessions of a stateful function by five-tuple, the same for both directions.
//
// Thread safety: none; used by the worker only. Nothing allocates after make().
#pragma once

#include <rte_hash.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "vnf/net/transport.h"

namespace headrace::vnf {

struct Session {
  /// TCP: opening until the responder's ACK, then established, closing from the first FIN or RST.
  /// Others: opening until the first reply.
  enum class State : uint8_t { free, opening, established, closing };
  State state{State::free};
  FiveTuple opener;       ///< tuple of the first packet
  uint64_t last_seen{0};  ///< TSC
};

/// Timeouts in TSC cycles.
struct SessionTimeouts {
  uint64_t opening;
  uint64_t tcp_established;
  uint64_t tcp_closing;
  uint64_t other;
};

class SessionTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  static Result<std::unique_ptr<SessionTable>> make(uint32_t capacity,
                                                    const SessionTimeouts& timeouts);

  /// The index of the session that a packet belongs to, in either direction, or kNone.
  [[nodiscard]] uint32_t find(const FiveTuple& tuple) const noexcept;
  /// Adds a session opened by this tuple; kNone if the table is full.
  uint32_t add(const FiveTuple& tuple, uint64_t now) noexcept;
  /// Updates a session's state and time for a packet.
  void touch(uint32_t index, const FiveTuple& tuple, uint8_t tcp_flags, uint64_t now) noexcept;
  /// Removes expired sessions: checks a part of the table each time; all of it in about a thousand
  /// calls.
  void sweep(uint64_t now) noexcept;
  /// Copies all sessions of another table that fit.
  void copy_from(const SessionTable& other) noexcept;

  [[nodiscard]] const Session& operator[](uint32_t index) const noexcept {
    return sessions_[index];
  }
  [[nodiscard]] uint32_t in_use() const noexcept { return in_use_; }

 private:
  struct Free {
    void operator()(rte_hash* hash) const { rte_hash_free(hash); }
  };
  SessionTable(rte_hash* hash, uint32_t capacity, const SessionTimeouts& timeouts);
  [[nodiscard]] uint64_t timeout_of(const Session& session) const noexcept;

  std::unique_ptr<rte_hash, Free> hash_;
  uint32_t capacity_;
  SessionTimeouts timeouts_;
  std::vector<Session> sessions_;  ///< by the hash's position
  uint32_t in_use_{0};
  uint32_t next_swept_{0};
};

}  // namespace headrace::vnf
