// SPDX-License-Identifier: Apache-2.0
#include "pipeline/program/mac_table.h"

#include <cstring>

namespace headrace::pipeline {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

uint64_t seen_at(PortNo port, uint32_t tick) {
  return uint64_t{port} << 32 | tick;
}

}  // namespace

uint64_t MacTable::key_of(const uint8_t* mac, uint16_t vlan) {
  uint64_t key = 0;
  std::memcpy(&key, mac, 6);
  // No address that is learned is zero, so no key is.
  return key | uint64_t{vlan} << 48;
}

size_t MacTable::bucket_of(uint64_t key) {
  return static_cast<size_t>(key * 0x9e3779b97f4a7c15ull >> 52) * kWays;
}
static_assert(4096 == 1u << (64 - 52));

void MacTable::learn(const uint8_t* mac, uint16_t vlan, PortNo port, uint32_t tick) noexcept {
  if ((mac[0] & 1) != 0) return;  // nobody sends from a group address
  const uint64_t key = key_of(mac, vlan);
  if (key == 0) return;
  const uint64_t now = seen_at(port, tick);
  Entry* bucket = &entries_[bucket_of(key)];
  Entry* place = bucket;
  for (Entry* entry = bucket; entry != bucket + kWays; ++entry) {
    const uint64_t present = entry->key.load(std::memory_order_acquire);
    if (present == key) {
      if (entry->seen.load(kRelaxed) != now) entry->seen.store(now, kRelaxed);
      return;
    }
    if (present == 0) {
      if (place->key.load(kRelaxed) != 0) place = entry;
    } else if (place->key.load(kRelaxed) != 0 &&
               static_cast<int32_t>(static_cast<uint32_t>(entry->seen.load(kRelaxed)) -
                                    static_cast<uint32_t>(place->seen.load(kRelaxed))) < 0) {
      place = entry;
    }
  }
  // Free it, fill it, name it: nobody sees the new name with the old port.
  uint64_t old = place->key.load(kRelaxed);
  if (!place->key.compare_exchange_strong(old, 0, std::memory_order_acq_rel)) return;
  place->seen.store(now, std::memory_order_release);
  uint64_t free = 0;
  place->key.compare_exchange_strong(free, key, std::memory_order_release);
}

std::optional<PortNo> MacTable::find(const uint8_t* mac, uint16_t vlan,
                                     uint32_t tick) const noexcept {
  const uint64_t key = key_of(mac, vlan);
  const Entry* bucket = &entries_[bucket_of(key)];
  for (const Entry* entry = bucket; entry != bucket + kWays; ++entry) {
    if (entry->key.load(std::memory_order_acquire) != key) continue;
    const uint64_t seen = entry->seen.load(std::memory_order_acquire);
    if (entry->key.load(kRelaxed) != key || aged(seen, tick)) return std::nullopt;
    return static_cast<PortNo>(seen >> 32);
  }
  return std::nullopt;
}

void MacTable::expire(uint32_t tick) {
  for (size_t i = 0; i < entries_.capacity(); ++i) {
    uint64_t key = entries_[i].key.load(kRelaxed);
    if (key != 0 && aged(entries_[i].seen.load(kRelaxed), tick)) {
      entries_[i].key.compare_exchange_strong(key, 0, kRelaxed);
    }
  }
}

void MacTable::forget_port(PortNo port) {
  for (size_t i = 0; i < entries_.capacity(); ++i) {
    uint64_t key = entries_[i].key.load(kRelaxed);
    if (key != 0 && entries_[i].seen.load(kRelaxed) >> 32 == port) {
      entries_[i].key.compare_exchange_strong(key, 0, kRelaxed);
    }
  }
}

std::vector<LearnedMac> MacTable::list(uint32_t tick) const {
  std::vector<LearnedMac> all;
  for (size_t i = 0; i < entries_.capacity(); ++i) {
    const uint64_t key = entries_[i].key.load(kRelaxed);
    const uint64_t seen = entries_[i].seen.load(kRelaxed);
    if (key == 0 || aged(seen, tick)) continue;
    LearnedMac entry;
    std::memcpy(entry.mac.data(), &key, 6);
    const auto vlan = static_cast<uint16_t>(key >> 48);
    entry.vlan = vlan;
    entry.port = static_cast<PortNo>(seen >> 32);
    all.push_back(entry);
  }
  return all;
}

}  // namespace headrace::pipeline
