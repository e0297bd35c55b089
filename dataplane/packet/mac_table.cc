// SPDX-License-Identifier: Apache-2.0
#include "packet/mac_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace headrace::packet {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

uint32_t port_of(uint64_t seen) {
  return static_cast<uint32_t>(seen >> 32);
}

}  // namespace

// At least two buckets: a shift by all 64 bits of the hash would be undefined.
MacTable::MacTable(size_t capacity, uint32_t max_age)
    : max_age_(max_age),
      count_(std::bit_ceil(std::max<size_t>((capacity + kWays - 1) / kWays, 2))),
      buckets_(count_, Pages::as_used),
      shift_(64 - static_cast<unsigned>(std::countr_zero(count_))) {}

void MacTable::put(uint64_t key, uint64_t seen) noexcept {
  auto& entries = const_cast<Bucket&>(bucket_of(key)).entries;
  Entry* place = nullptr;
  uint64_t place_key = 0;
  uint32_t place_tick = 0;
  for (Entry& entry : entries) {
    const uint64_t present = entry.key.load(std::memory_order_acquire);
    uint64_t last = entry.seen.load(std::memory_order_acquire);
    if (present == key) {
      // Fails if the entry has just taken another address: this one is learned with its next
      // packet.
      if (last != seen && entry.key.load(kRelaxed) == key) {
        entry.seen.compare_exchange_strong(last, seen, kRelaxed);
      }
      return;
    }
    if (present == kReserved || (place != nullptr && place_key == 0)) continue;
    const auto tick = static_cast<uint32_t>(last);
    if (place == nullptr || present == 0 || static_cast<int32_t>(tick - place_tick) < 0) {
      place = &entry;
      place_key = present;
      place_tick = tick;
    }
  }
  // Likewise where another worker takes this entry first.
  if (place == nullptr || !place->key.compare_exchange_strong(place_key, kReserved, kRelaxed)) {
    return;
  }
  if (!used_.load(kRelaxed)) used_.store(true, kRelaxed);
  // Released: a reader that sees this port sees the reservation, too, when it reads the key again.
  place->seen.store(seen, std::memory_order_release);
  place->key.store(key, std::memory_order_release);
}

void MacTable::expire(uint32_t tick) {
  for (Bucket& bucket : used_buckets()) {
    for (Entry& entry : bucket.entries) {
      uint64_t key = entry.key.load(kRelaxed);
      if (holds_address(key) && aged(entry.seen.load(kRelaxed), tick)) {
        entry.key.compare_exchange_strong(key, 0, kRelaxed);
      }
    }
  }
}

void MacTable::forget_port(uint32_t port) {
  for (Bucket& bucket : used_buckets()) {
    for (Entry& entry : bucket.entries) {
      uint64_t key = entry.key.load(kRelaxed);
      if (holds_address(key) && port_of(entry.seen.load(kRelaxed)) == port) {
        entry.key.compare_exchange_strong(key, 0, kRelaxed);
      }
    }
  }
}

void MacTable::clear() {
  for (Bucket& bucket : used_buckets()) {
    for (Entry& entry : bucket.entries) {
      uint64_t key = entry.key.load(kRelaxed);
      if (holds_address(key)) entry.key.compare_exchange_strong(key, 0, kRelaxed);
    }
  }
}

void MacTable::merge(const MacTable& other) noexcept {
  for (const Bucket& bucket : other.used_buckets()) {
    for (const Entry& entry : bucket.entries) {
      const uint64_t key = entry.key.load(kRelaxed);
      if (holds_address(key)) put(key, entry.seen.load(kRelaxed));
    }
  }
}

std::vector<MacTable::Learned> MacTable::list(uint32_t tick) const {
  std::vector<Learned> all;
  for (const Bucket& bucket : used_buckets()) {
    for (const Entry& entry : bucket.entries) {
      const uint64_t key = entry.key.load(kRelaxed);
      const uint64_t seen = entry.seen.load(kRelaxed);
      if (!holds_address(key) || aged(seen, tick)) continue;
      // Workers may be a tick ahead.
      const auto age = static_cast<int32_t>(tick - static_cast<uint32_t>(seen));
      Learned learned{.vlan = static_cast<uint16_t>(key >> 48),
                      .port = port_of(seen),
                      .age = static_cast<uint32_t>(std::max(age, 0))};
      std::memcpy(learned.mac.data(), &key, learned.mac.size());
      all.push_back(learned);
    }
  }
  return all;
}

}  // namespace headrace::packet
