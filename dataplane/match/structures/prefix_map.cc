// SPDX-License-Identifier: Apache-2.0
#include "match/structures/prefix_map.h"

#include <bit>
#include <cassert>

#include "match/structures/fold.h"

namespace headrace::match {
namespace {

constexpr size_t kFirstCapacity = 16;

uint64_t hash_of(const PrefixKey& key) {
  const uint64_t first = fold(key.high ^ 0xa0761d6478bd642full, key.length ^ 0xe7037ed1a0b428dbull);
  return fold(first ^ key.low, 0x8ebc6af09c88c6e3ull);
}

uint32_t tag_of(uint64_t hash) {
  return static_cast<uint32_t>(hash >> 32) | 1;
}

}  // namespace

PrefixKey PrefixKey::cut(size_t bits) const {
  const auto ones = [](size_t n) { return n == 0 ? 0 : ~uint64_t{0} << (64 - n); };
  if (bits <= 64) return {high & ones(bits), 0, static_cast<uint8_t>(bits)};
  return {high, low & ones(bits - 64), static_cast<uint8_t>(bits)};
}

PrefixMap::PrefixMap() : tags_(kFirstCapacity, kEmpty), slots_(kFirstCapacity) {}

size_t PrefixMap::place_of(const PrefixKey& key) const {
  const uint64_t hash = hash_of(key);
  const uint32_t tag = tag_of(hash);
  const size_t mask = tags_.size() - 1;
  for (size_t at = hash & mask; tags_[at] != kEmpty; at = (at + 1) & mask) {
    if (tags_[at] == tag && slots_[at].key == key) return at;
  }
  return kNowhere;
}

const PrefixRule* PrefixMap::find(const PrefixKey& key) const {
  const size_t at = place_of(key);
  return at == kNowhere ? nullptr : &slots_[at].rule;
}

PrefixRule* PrefixMap::find(const PrefixKey& key) {
  const size_t at = place_of(key);
  return at == kNowhere ? nullptr : &slots_[at].rule;
}

void PrefixMap::put(const Slot& slot) {
  const uint64_t hash = hash_of(slot.key);
  const size_t mask = tags_.size() - 1;
  size_t at = hash & mask;
  while (tags_[at] != kEmpty) at = (at + 1) & mask;
  tags_[at] = tag_of(hash);
  slots_[at] = slot;
}

void PrefixMap::insert(const PrefixKey& key, PrefixRule rule) {
  if (2 * (size_ + 1) > tags_.size()) grow();
  put({key, rule});
  ++size_;
}

void PrefixMap::erase(const PrefixKey& key) {
  const size_t mask = tags_.size() - 1;
  size_t gap = place_of(key);
  for (size_t at = (gap + 1) & mask; tags_[at] != kEmpty; at = (at + 1) & mask) {
    // What would be probed for through the gap moves into it.
    const size_t home = hash_of(slots_[at].key) & mask;
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    tags_[gap] = tags_[at];
    slots_[gap] = slots_[at];
    gap = at;
  }
  tags_[gap] = kEmpty;
  --size_;
}

void PrefixMap::reserve(size_t prefixes) {
  assert(size_ == 0);
  if (2 * prefixes <= tags_.size()) return;
  const size_t capacity = std::bit_ceil(2 * prefixes);
  tags_.assign(capacity, kEmpty);
  slots_.assign(capacity, Slot{});
}

void PrefixMap::grow() {
  std::vector<uint32_t> tags(tags_.size() * 2, kEmpty);
  std::vector<Slot> slots(tags.size());
  tags.swap(tags_);
  slots.swap(slots_);
  for (size_t at = 0; at < tags.size(); ++at) {
    if (tags[at] != kEmpty) put(slots[at]);
  }
}

}  // namespace headrace::match
