// SPDX-License-Identifier: Apache-2.0
// Who has which IPv4 address on the underlays of tunnels: ARP (RFC 826) for next hops, and for our
// own addresses where no kernel answers.
//
// Control thread only. Requests are paced: one per second and address; an answer is asked for again
// after kFresh, and forgotten after kStale without one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/terms/stats.h"

namespace headrace::runtime {

/// An IPv4 address as it lies in memory of a packet.
using RawIpv4 = uint32_t;

class Neighbors {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kAskAgain{1};
  static constexpr std::chrono::seconds kFresh{30};
  static constexpr std::chrono::seconds kStale{120};

  /// The address of `ip` on the underlay with this LSI id, if it is known.
  [[nodiscard]] std::optional<pipeline::MacAddress> find(uint32_t underlay, RawIpv4 ip) const;

  /// Notes that `ip` is needed; true if it is time to ask for it (and takes it as asked).
  bool should_ask(uint32_t underlay, RawIpv4 ip, Clock::time_point now);

  /// Takes in an ARP packet; true if an address that is needed became known or changed.
  bool learn(uint32_t underlay, std::span<const uint8_t> frame, Clock::time_point now);

  /// Forgets what nobody confirmed.
  void expire(Clock::time_point now);
  void forget(uint32_t underlay);

 private:
  struct Entry {
    std::optional<pipeline::MacAddress> mac;
    Clock::time_point learned{};
    Clock::time_point asked{};
  };
  std::map<std::pair<uint32_t, RawIpv4>, Entry> entries_;
};

/// A request for `target` by `mac` and `ip`, 60 octets.
[[nodiscard]] std::vector<uint8_t> arp_request(const pipeline::MacAddress& mac, RawIpv4 ip,
                                               RawIpv4 target);
/// If `frame` asks by ARP for an address: which one.
[[nodiscard]] std::optional<RawIpv4> arp_asks_for(std::span<const uint8_t> frame);
/// The answer to a request for `ip`.
[[nodiscard]] std::vector<uint8_t> arp_reply(std::span<const uint8_t> request,
                                             const pipeline::MacAddress& mac, RawIpv4 ip);

}  // namespace headrace::runtime
