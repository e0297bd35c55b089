// SPDX-License-Identifier: Apache-2.0
// The table of a learning switch: on which port a MAC address was last seen, per VLAN.
//
// Workers learn and look up on the packet path, so both are lock-free and allocate nothing: a fixed
// array of buckets, each two cache lines of eight entries, an entry two 64-bit words (address and
// VLAN; port and time). Eight, since a bucket that overflows loses addresses while others are
// empty: at a sixth of its capacity a table loses about one address in 100,000. No store writes
// both words. An entry that takes another address is therefore reserved by one writer until its
// port is written, a refresh replaces the port only if it is still the one that this address had,
// and find() reads the address again after the port. So find() gives a port on which this very
// address was seen, or nothing. (The exception: a reader interrupted between its loads for so long
// that the entry takes another address and then the first one again.)
//
// A new address takes a free entry of its bucket, else the one that was not refreshed for longest.
// Learning never fails; made-up addresses can evict others, whose packets are then flooded.
// Refreshing an address on its port stores once per tick, so that the line of a busy address stays
// shared between cores.
//
// Buckets take memory when they are used: a switch may have a thousand bridges of which few learn.
//
// Time is in ticks of the caller's choice, modulo 2^32. An entry older than the maximum age is not
// found; expire() removes such entries, for listing.
//
// Thread safety: learn() and find() by any number of workers; the rest by the control thread, at
// the same time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/virtual_array.h"
#include "packet/bytes.h"
#include "packet/mac_address.h"

namespace headrace::packet {

class MacTable {
 public:
  struct Learned {
    MacAddress mac{};
    uint16_t vlan{0};
    uint32_t port{0};
    uint32_t age{0};  ///< ticks since it was seen
  };

  /// Room for at least `capacity` addresses (rounded up to a power of two; sixteen at least), which
  /// are forgotten `max_age` ticks after they were seen last.
  MacTable(size_t capacity, uint32_t max_age);

  /// Control: applies to what was learned before, too.
  void set_max_age(uint32_t max_age) { max_age_.store(max_age, std::memory_order_relaxed); }

  /// An address in a VLAN with its place in the table. Workers that handle bursts find the places
  /// of all packets first, which fetches them, and then learn and look up.
  class Place {
    friend class MacTable;
    uint64_t key_;
    const void* bucket_;

   public:
    bool operator==(const Place& other) const { return key_ == other.key_; }
  };

  /// Worker: `mac` is 6 bytes; `vlan` is any number that distinguishes the VLANs.
  [[nodiscard]] Place place(const uint8_t* mac, uint16_t vlan) const noexcept {
    Place made;
    made.key_ = key_of(mac, vlan);
    made.bucket_ = &bucket_of(made.key_);
    __builtin_prefetch(made.bucket_);
    return made;
  }

  /// Worker: true if learn() has nothing to do, as its first look tells. May be false anyway.
  [[nodiscard]] static bool is_learned(const Place& place, uint32_t port, uint32_t tick) noexcept {
    const auto& first = static_cast<const Bucket*>(place.bucket_)->entries[0];
    return first.key.load(std::memory_order_acquire) == place.key_ &&
           first.seen.load(std::memory_order_relaxed) == seen_at(port, tick);
  }

  /// Worker: notes that an address was seen on `port`. Group addresses and the address of zeros in
  /// VLAN 0 are not learned.
  void learn(const Place& place, uint32_t port, uint32_t tick) noexcept {
    // Most often the address is where it was, in the first entry of its bucket.
    if (is_learned(place, port, tick)) [[likely]] {
      return;
    }
    if (place.key_ != 0 && (place.key_ & 1) == 0) put(place.key_, seen_at(port, tick));
  }
  void learn(const uint8_t* mac, uint16_t vlan, uint32_t port, uint32_t tick) noexcept {
    learn(place(mac, vlan), port, tick);
  }

  /// Worker: the port; nothing if the address is unknown or too old.
  [[nodiscard]] std::optional<uint32_t> find(const Place& place, uint32_t tick) const noexcept {
    for (const Entry& entry : static_cast<const Bucket*>(place.bucket_)->entries) {
      if (entry.key.load(std::memory_order_acquire) != place.key_) continue;
      const uint64_t seen = entry.seen.load(std::memory_order_acquire);
      if (!holds_address(place.key_) || entry.key.load(std::memory_order_relaxed) != place.key_ ||
          aged(seen, tick)) {
        break;
      }
      return static_cast<uint32_t>(seen >> 32);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<uint32_t> find(const uint8_t* mac, uint16_t vlan,
                                             uint32_t tick) const noexcept {
    return find(place(mac, vlan), tick);
  }

  /// Control: removes what is too old.
  void expire(uint32_t tick);
  /// Control: removes what was learned on a port.
  void forget_port(uint32_t port);
  /// Control: removes all that was learned.
  void clear();
  /// Control: learns what `other` has learned, with the age that it has there.
  void merge(const MacTable& other) noexcept;
  /// Control: all that is not too old.
  [[nodiscard]] std::vector<Learned> list(uint32_t tick) const;

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};   ///< VLAN, address; 0: free; kReserved: being written
    std::atomic<uint64_t> seen{0};  ///< port, tick
  };
  static constexpr uint64_t kReserved = UINT64_MAX;  ///< no key: it would be a group address
  static constexpr size_t kWays = 8;
  struct alignas(64) Bucket {
    std::array<Entry, kWays> entries;
  };

  /// None before anything was learned: a look at all of them is a look at as much memory.
  [[nodiscard]] std::span<Bucket> used_buckets() {
    return {buckets_.data(), used_.load(std::memory_order_relaxed) ? count_ : 0};
  }
  [[nodiscard]] std::span<const Bucket> used_buckets() const {
    return {buckets_.data(), used_.load(std::memory_order_relaxed) ? count_ : 0};
  }
  [[nodiscard]] const Bucket& bucket_of(uint64_t key) const noexcept {
    return buckets_[static_cast<size_t>(key * 0x9e3779b97f4a7c15ull >> shift_)];
  }
  /// In the order of the octets in memory, so that the group bit is the lowest.
  static uint64_t key_of(const uint8_t* mac, uint16_t vlan) {
    return load_raw32(mac) | uint64_t{load_raw16(mac + 4)} << 32 | uint64_t{vlan} << 48;
  }
  static uint64_t seen_at(uint32_t port, uint32_t tick) { return uint64_t{port} << 32 | tick; }
  void put(uint64_t key, uint64_t seen) noexcept;
  static bool holds_address(uint64_t key) { return key != 0 && key != kReserved; }
  [[nodiscard]] bool aged(uint64_t seen, uint32_t tick) const {
    const uint32_t age = tick - static_cast<uint32_t>(seen);
    return static_cast<int32_t>(age) > 0 && age > max_age_.load(std::memory_order_relaxed);
  }

  std::atomic<uint32_t> max_age_;
  std::atomic<bool> used_{false};  ///< something was learned, ever
  size_t count_;                   ///< of buckets
  VirtualArray<Bucket> buckets_;
  unsigned shift_;  ///< of a 64-bit hash to a bucket's index
};

}  // namespace headrace::packet
