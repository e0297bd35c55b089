// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/mac_table.h"

#include <rte_hash_crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace headrace::vnf {
namespace {

uint64_t number_of(const uint8_t* mac) {
  uint64_t number = 0;
  std::memcpy(&number, mac, 6);
  return number;
}

}  // namespace

MacTable::MacTable(uint32_t capacity, uint64_t ageing)
    : entries_(std::bit_ceil(std::max<size_t>(capacity, kWays))),
      bucket_mask_(entries_.size() / kWays - 1),
      ageing_(ageing) {}

size_t MacTable::bucket_of(uint64_t mac) const noexcept {
  return (rte_hash_crc_8byte(mac, 0) & bucket_mask_) * kWays;
}

void MacTable::learn(const uint8_t* mac, uint16_t port, uint64_t now) noexcept {
  put(number_of(mac), port, now);
}

void MacTable::absorb(const MacTable& other) noexcept {
  for (const Entry& entry : other.entries_) {
    if (entry.key != 0) {
      put(entry.key & kMacBits, static_cast<uint16_t>((entry.key >> 48) - 1), entry.seen);
    }
  }
}

void MacTable::put(uint64_t number, uint16_t port, uint64_t now) noexcept {
  const uint64_t key = number | (uint64_t{port} + 1) << 48;
  Entry* const bucket = &entries_[bucket_of(number)];
  Entry* oldest = bucket;
  for (Entry* entry = bucket; entry != bucket + kWays; ++entry) {
    if (entry->key != 0 && (entry->key & kMacBits) == number) {
      // The stamp is written only when it matters: a line that is read only stays shared.
      if (entry->key != key || now - entry->seen > ageing_ / 16) *entry = {key, now};
      return;
    }
    if (entry->seen < oldest->seen) oldest = entry;
  }
  *oldest = {key, now};
}

uint16_t MacTable::find(const uint8_t* mac, uint64_t now) const noexcept {
  const uint64_t number = number_of(mac);
  const Entry* const bucket = &entries_[bucket_of(number)];
  for (const Entry* entry = bucket; entry != bucket + kWays; ++entry) {
    if (entry->key != 0 && (entry->key & kMacBits) == number) {
      return now - entry->seen > ageing_ ? kUnknown : static_cast<uint16_t>((entry->key >> 48) - 1);
    }
  }
  return kUnknown;
}

}  // namespace headrace::vnf
