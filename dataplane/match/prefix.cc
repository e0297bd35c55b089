// SPDX-License-Identifier: Apache-2.0
#include "match/prefix.h"

#include <algorithm>
#include <bit>

#include "packet/bytes.h"

namespace headrace::match {

Prefix Prefix::cut(size_t bits) const {
  Prefix shorter{{}, static_cast<uint8_t>(bits)};
  const size_t whole = bits / 8;
  std::copy_n(bytes.begin(), whole, shorter.bytes.begin());
  if (bits % 8 != 0) {
    shorter.bytes[whole] = static_cast<uint8_t>(bytes[whole] & (0xff00u >> (bits % 8)));
  }
  return shorter;
}

bool Prefix::covers(const Prefix& other) const {
  return length <= other.length && other.cut(length) == *this;
}

size_t PrefixHash::operator()(const Prefix& prefix) const noexcept {
  uint64_t hash = prefix.length * 0x9e3779b97f4a7c15ull;
  for (const size_t half : {size_t{0}, size_t{8}}) {
    hash = (hash ^ packet::load_raw64(&prefix.bytes[half])) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  return hash;
}

bool PrefixShape::operator==(const PrefixShape& other) const {
  return field == other.field &&
         std::memcmp(&exact_mask, &other.exact_mask, sizeof exact_mask) == 0 &&
         std::memcmp(&exact_value, &other.exact_value, sizeof exact_value) == 0;
}

PrefixShape shape_of(const Match& match, Field field) {
  PrefixShape shape{field, match.mask, match.value};
  const FieldInfo& entry = info(field);
  std::memset(reinterpret_cast<uint8_t*>(&shape.exact_mask) + entry.offset, 0, entry.bytes);
  std::memset(reinterpret_cast<uint8_t*>(&shape.exact_value) + entry.offset, 0, entry.bytes);
  return shape;
}

std::optional<Prefix> PrefixShape::prefix_of(const Match& match) const {
  if (!(shape_of(match, field) == *this)) return std::nullopt;
  const FieldInfo& entry = info(field);
  const auto* mask = reinterpret_cast<const uint8_t*>(&match.mask) + entry.offset;
  const auto* value = reinterpret_cast<const uint8_t*>(&match.value) + entry.offset;
  Prefix prefix;
  bool ended = false;
  for (size_t i = 0; i < entry.bytes; ++i) {
    const auto ones = static_cast<uint8_t>(std::countl_one(mask[i]));
    const bool contiguous = static_cast<uint8_t>(0xff00u >> ones) == mask[i];
    if (!contiguous || (ended && mask[i] != 0)) return std::nullopt;
    prefix.length = static_cast<uint8_t>(prefix.length + ones);
    ended = ended || ones != 8;
    prefix.bytes[i] = value[i];
  }
  return prefix;
}

bool PrefixSet::admits(const Prefix& prefix, uint16_t priority) const {
  bool suspect_shorter = false;
  bool suspect_longer = false;
  for (size_t length = 0; length < kLengths; ++length) {
    if (!lengths_[length]) continue;
    const auto& priorities = priorities_[length];
    if (length < prefix.length) suspect_shorter |= priorities.rbegin()->first > priority;
    if (length > prefix.length) suspect_longer |= priorities.begin()->first < priority;
  }
  if (suspect_shorter) {
    const Rule* shorter = parent(prefix, 0);
    if (shorter != nullptr && shorter->priority > priority) return false;
  }
  return !suspect_longer || std::none_of(rules_.begin(), rules_.end(), [&](const auto& other) {
    return other.first.length > prefix.length && other.second.priority < priority &&
           prefix.covers(other.first);
  });
}

void PrefixSet::insert(const Prefix& prefix, Rule rule) {
  rules_.emplace(prefix, rule);
  ++priorities_[prefix.length][rule.priority];
  lengths_.set(prefix.length);
}

void PrefixSet::erase(const Prefix& prefix) {
  const auto rule = rules_.find(prefix);
  auto& priorities = priorities_[prefix.length];
  const auto count = priorities.find(rule->second.priority);
  if (--count->second == 0) priorities.erase(count);
  if (priorities.empty()) lengths_.reset(prefix.length);
  rules_.erase(rule);
}

const PrefixSet::Rule* PrefixSet::find(const Prefix& prefix) const {
  const auto rule = rules_.find(prefix);
  return rule == rules_.end() ? nullptr : &rule->second;
}

PrefixSet::Rule* PrefixSet::find(const Prefix& prefix) {
  const auto rule = rules_.find(prefix);
  return rule == rules_.end() ? nullptr : &rule->second;
}

const PrefixSet::Rule* PrefixSet::parent(const Prefix& prefix, size_t shortest) const {
  for (size_t length = prefix.length; length-- > shortest;) {
    if (!lengths_[length]) continue;
    if (const Rule* rule = find(prefix.cut(length)); rule != nullptr) return rule;
  }
  return nullptr;
}

}  // namespace headrace::match
