// SPDX-License-Identifier: Apache-2.0
// Which port a MAC address was last seen on: a bridge's memory.
//
// A hash of buckets of four entries. A full bucket gives up its oldest entry, so learning never
// fails and costs one bucket at most; an attacker who makes up addresses can push others out, and
// their packets are flooded, as in any bridge.
//
// Thread safety: none; the worker owns it. Never allocates after it is made.
#pragma once

#include <cstdint>
#include <vector>

#include "vnf/net/address.h"

namespace headrace::vnf {

class MacTable {
 public:
  static constexpr uint16_t kUnknown = UINT16_MAX;

  /// Room for about `capacity` addresses; entries older than `ageing` (TSC cycles) are unknown.
  MacTable(uint32_t capacity, uint64_t ageing);

  /// Notes that `mac` (6 octets) was seen on `port` at `now`.
  void learn(const uint8_t* mac, uint16_t port, uint64_t now) noexcept;
  /// The port of an address, or kUnknown.
  [[nodiscard]] uint16_t find(const uint8_t* mac, uint64_t now) const noexcept;

  /// Learns all that `other` knows, with the age that it has there.
  void absorb(const MacTable& other) noexcept;

 private:
  static constexpr size_t kWays = 4;
  struct Entry {
    uint64_t key{0};  ///< 48 bits of address, 16 bits of port + 1; 0 = free
    uint64_t seen{0};
  };

  static constexpr uint64_t kMacBits = (uint64_t{1} << 48) - 1;

  void put(uint64_t mac, uint16_t port, uint64_t seen) noexcept;
  [[nodiscard]] size_t bucket_of(uint64_t mac) const noexcept;

  std::vector<Entry> entries_;
  uint64_t bucket_mask_;
  uint64_t ageing_;
};

}  // namespace headrace::vnf
