// SPDX-License-Identifier: Apache-2.0
// The sessions of a stateful function: by five-tuple, the same for both directions.
//
// Thread safety: none; the worker owns it. Nothing here allocates once it is made.
#pragma once

#include <rte_hash.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "vnf/net/transport.h"

namespace headrace::vnf {

struct Session {
  /// TCP: opening until the answerer's ACK, then established, closing from the first FIN or RST.
  /// Others: opening until the first answer.
  enum class State : uint8_t { free, opening, established, closing };
  State state{State::free};
  FiveTuple opener;       ///< as the first packet had it
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
  /// Makes a session opened by this tuple; kNone if the table is full.
  uint32_t add(const FiveTuple& tuple, uint64_t now) noexcept;
  /// Notes a packet of a session and follows its state.
  void touch(uint32_t index, const FiveTuple& tuple, uint8_t tcp_flags, uint64_t now) noexcept;
  /// Ends sessions whose time is up: looks at a part of the table each time; all of it in about a
  /// thousand calls.
  void sweep(uint64_t now) noexcept;
  /// Takes over all sessions of another table, as far as they fit.
  void absorb(const SessionTable& other) noexcept;

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
