// SPDX-License-Identifier: Apache-2.0
#include "match/structures/prefix.h"

#include <algorithm>
#include <bit>

#include "packet/bytes.h"

namespace headrace::match {

PrefixKey Prefix::key() const {
  return {packet::load_be64(bytes.data()), packet::load_be64(&bytes[8]), length};
}

PrefixForm prefix_form_of(const Match& match, Field field) {
  PrefixForm form{field, match.mask, match.value, {}};
  std::memset(reinterpret_cast<uint8_t*>(&form.outside), 0xff, sizeof form.outside);
  const FieldInfo& entry = info(field);
  std::memset(reinterpret_cast<uint8_t*>(&form.exact_mask) + entry.offset, 0, entry.bytes);
  std::memset(reinterpret_cast<uint8_t*>(&form.exact_value) + entry.offset, 0, entry.bytes);
  std::memset(reinterpret_cast<uint8_t*>(&form.outside) + entry.offset, 0, entry.bytes);
  return form;
}

std::optional<Prefix> PrefixForm::prefix_of(const Match& match) const {
  uint64_t difference = 0;
  for (size_t i = 0; i < kFieldWords; ++i) {
    difference |= (word(match.mask, i) & word(outside, i)) ^ word(exact_mask, i);
    difference |= (word(match.value, i) & word(outside, i)) ^ word(exact_value, i);
  }
  if (difference != 0) return std::nullopt;
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
  return !suspect_longer ||
         !rules_.any_of([&, key = prefix.key()](const PrefixKey& other, const Rule& rule) {
           return other.length > key.length && rule.priority < priority && key.covers(other);
         });
}

void PrefixSet::insert(const PrefixKey& prefix, Rule rule) {
  rules_.insert(prefix, rule);
  ++priorities_[prefix.length][rule.priority];
  lengths_.set(prefix.length);
}

void PrefixSet::erase(const Prefix& prefix) {
  const PrefixKey key = prefix.key();
  auto& priorities = priorities_[prefix.length];
  const auto count = priorities.find(rules_.find(key)->priority);
  if (--count->second == 0) priorities.erase(count);
  if (priorities.empty()) lengths_.reset(prefix.length);
  rules_.erase(key);
}

const PrefixSet::Rule* PrefixSet::find(const Prefix& prefix) const {
  return rules_.find(prefix.key());
}

PrefixSet::Rule* PrefixSet::find(const Prefix& prefix) {
  return rules_.find(prefix.key());
}

const PrefixSet::Rule* PrefixSet::parent(const Prefix& prefix, size_t shortest) const {
  const PrefixKey key = prefix.key();
  for (size_t length = prefix.length; length-- > shortest;) {
    if (!lengths_[length]) continue;
    if (const Rule* rule = rules_.find(key.cut(length)); rule != nullptr) return rule;
  }
  return nullptr;
}

}  // namespace headrace::match
