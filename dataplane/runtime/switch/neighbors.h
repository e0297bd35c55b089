// SPDX-License-Identifier: Apache-2.0
// Who has which address on the underlays of tunnels: the book of next hops, filled from ARP and
// neighbor discovery (runtime/switch/neighbor_messages.h).
//
// Control thread only. Requests are paced: one per second and address; an answer is asked for again
// after kFresh, and forgotten after kStale without one.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "runtime/switch/neighbor_messages.h"

namespace headrace::runtime {

class Neighbors {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kAskAgain{1};
  static constexpr std::chrono::seconds kFresh{30};
  static constexpr std::chrono::seconds kStale{120};

  /// The MAC address of `ip` on the underlay with this LSI id, if it is known.
  [[nodiscard]] std::optional<pipeline::MacAddress> find(uint32_t underlay,
                                                         const port::IpAddress& ip) const;

  /// Notes that `ip` is needed; true if a request is due (and is taken as sent).
  bool should_ask(uint32_t underlay, const port::IpAddress& ip, Clock::time_point now);

  /// Takes in what a neighbor said; true if an address that is needed became known or changed.
  bool learn(uint32_t underlay, const NeighborMessage& message, Clock::time_point now);

  /// Removes entries that were not confirmed in time.
  void expire(Clock::time_point now);
  void forget(uint32_t underlay);

 private:
  struct Entry {
    std::optional<pipeline::MacAddress> mac;
    Clock::time_point learned{};
    Clock::time_point asked{};
  };
  std::map<std::pair<uint32_t, port::IpAddress>, Entry> entries_;
};

}  // namespace headrace::runtime
