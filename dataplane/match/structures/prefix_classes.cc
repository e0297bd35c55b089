// SPDX-License-Identifier: Apache-2.0
#include "match/structures/prefix_classes.h"

#include <algorithm>
#include <cstring>

namespace headrace::match {

PrefixClasses::PrefixClasses(size_t bits, TrieNodePool& nodes)
    : bits_(bits),
      root_bits_(bits == 32 ? 16 : 8),
      nodes_(nodes),
      root_((size_t{1} << root_bits_) * sizeof(uint32_t)) {
  numbers_.emplace(ValuePrefix{}, 0);
  prefixes_.emplace_back();
}

PrefixClasses::PrefixClasses(const PrefixClasses& other, TrieNodePool& nodes)
    : bits_(other.bits_),
      root_bits_(other.root_bits_),
      nodes_(nodes),
      root_(other.root_.bytes()),
      numbers_(other.numbers_),
      prefixes_(other.prefixes_) {
  std::memcpy(root_.as<uint32_t>(), other.root(), root_.bytes());
}

std::optional<uint32_t> PrefixClasses::find(const ValuePrefix& prefix) const {
  const auto found = numbers_.find(prefix);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

uint32_t PrefixClasses::parent_of(const ValuePrefix& prefix) const {
  for (size_t length = prefix.length; length-- > 1;) {
    const auto found =
        numbers_.find(ValuePrefix{first_bits(prefix.value, length), static_cast<uint8_t>(length)});
    if (found != numbers_.end()) return found->second;
  }
  return 0;
}

uint32_t PrefixClasses::add(const ValuePrefix& prefix) {
  const auto number = static_cast<uint32_t>(prefixes_.size());
  numbers_.emplace(prefix, number);
  prefixes_.push_back(prefix);
  return number;
}

/// Gives all values behind an entry the class, but those of longer prefixes.
void PrefixClasses::set(uint32_t* entry, uint32_t number) {
  const uint32_t now = *entry;
  if ((now & kNode) != 0) {
    for (uint32_t& each : nodes_[now & ~kNode]) set(&each, number);
    return;
  }
  if (prefixes_[now].length <= prefixes_[number].length) {
    __atomic_store_n(entry, number, __ATOMIC_RELEASE);
  }
}

void PrefixClasses::publish(uint32_t number) {
  const ValuePrefix& prefix = prefixes_[number];
  auto* entries = root_.as<uint32_t>();
  size_t width = root_bits_;  // of what the entries branch on
  size_t below = bits_ - root_bits_;
  while (prefix.length > bits_ - below) {
    uint32_t& entry = entries[prefix.value >> below & ((1u << width) - 1)];
    if ((entry & kNode) == 0) {
      const uint32_t node = nodes_.take();
      nodes_[node].fill(entry);
      __atomic_store_n(&entry, kNode | node, __ATOMIC_RELEASE);
    }
    entries = nodes_[entry & ~kNode].data();
    width = 8;
    below -= 8;
  }
  const size_t first = prefix.value >> below & ((1u << width) - 1);
  const size_t count = size_t{1} << (bits_ - below - prefix.length);
  for (size_t i = first; i < first + count; ++i) set(&entries[i], number);
}

}  // namespace headrace::match
