// SPDX-License-Identifier: Apache-2.0
// What NORMAL has learned: by which port a MAC address was last seen.
//
// Workers write and read it on the packet path, so it takes no lock and no memory: a fixed array of
// buckets of four entries, an entry two words: the address (with its VLAN), and the port with the
// time. A new address takes a free or aged place in its bucket, or the one longest unseen. The two
// words are not written together, so a reader looks at the address again after it has read the
// port; what it can see then is the port of this very address, or nothing. Learning the same
// address on the same port again writes only once per tick, so that busy addresses stay shared
// between cores.
//
// Addresses age as NormalConfig says; expire() is for listing and for entries of ports that
// are gone, look-ups check the age themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/program/virtual_array.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

class MacTable {
 public:
  /// `max_age` in ticks.
  explicit MacTable(uint32_t max_age) : max_age_(max_age) {}
  /// Control: changes the age, of what was learned before, too.
  void set_max_age(uint32_t max_age) { max_age_.store(max_age, std::memory_order_relaxed); }

  /// Worker: `mac` is six bytes, `vlan` any number that tells the VLANs apart.
  void learn(const uint8_t* mac, uint16_t vlan, PortNo port, uint32_t tick) noexcept;
  /// Worker: the port, or nothing if it is unknown or too old.
  [[nodiscard]] std::optional<PortNo> find(const uint8_t* mac, uint16_t vlan,
                                           uint32_t tick) const noexcept;

  /// Worker: fetches what learn() and find() of this address will read.
  void prefetch(const uint8_t* mac, uint16_t vlan) const noexcept {
    __builtin_prefetch(&entries_[bucket_of(key_of(mac, vlan))]);
  }

  /// Control: forgets what is too old.
  void expire(uint32_t tick);
  /// Control: forgets what was learned on a port.
  void forget_port(PortNo port);
  [[nodiscard]] std::vector<LearnedMac> list(uint32_t tick) const;

 private:
  struct Entry {
    std::atomic<uint64_t> key;   ///< VLAN, address; 0: free
    std::atomic<uint64_t> seen;  ///< port, tick
  };
  static constexpr size_t kWays = 4;
  static constexpr size_t kBuckets = 4096;

  static uint64_t key_of(const uint8_t* mac, uint16_t vlan);
  static size_t bucket_of(uint64_t key);
  [[nodiscard]] bool aged(uint64_t seen, uint32_t tick) const {
    const uint32_t age = tick - static_cast<uint32_t>(seen);
    return static_cast<int32_t>(age) > 0 && age > max_age_.load(std::memory_order_relaxed);
  }

  std::atomic<uint32_t> max_age_;
  VirtualArray<Entry> entries_{kBuckets * kWays};
};

}  // namespace headrace::pipeline
