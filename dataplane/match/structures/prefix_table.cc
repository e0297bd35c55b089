// SPDX-License-Identifier: Apache-2.0
#include "match/structures/prefix_table.h"

#include <algorithm>
#include <cassert>

namespace headrace::match {
namespace {

inline uint32_t load_entry(const uint32_t& entry) {
  return __atomic_load_n(&entry, __ATOMIC_RELAXED);
}
inline void store_entry(uint32_t& entry, uint32_t value) {
  __atomic_store_n(&entry, value, __ATOMIC_RELEASE);
}

/// The node that an entry leads to; 0, whose memory is always there, if it leads to none. Without a
/// branch: whether an address has a long prefix is as random as the traffic.
inline uint32_t node_of(uint32_t entry) {
  const auto all_if_node = static_cast<uint32_t>(static_cast<int32_t>(entry) >> 31);
  return entry & all_if_node & ~kNode;
}

/// The words of a form's field and exact part.
WordSet words_of(const PrefixForm& form) {
  const FieldInfo& field = info(form.field);
  const size_t first = field.offset;
  const size_t last = first + field.bytes - 1;
  WordSet words = MaskedWords(form.exact_mask).set();
  for (size_t i = first / 8; i <= last / 8; ++i) words |= WordSet{1} << i;
  return words;
}

/// The root's entry of an address.
template <size_t kRootOctets>
inline size_t root_entry(const uint8_t* address) {
  size_t index = size_t{address[0]} << 8 | address[1];
  if constexpr (kRootOctets == 3) index = index << 8 | address[2];
  return index;
}

}  // namespace

/// The nodes, and how many prefixes end in each or in a node below it. Readers need the arena only.
template <size_t kRootOctets>
struct PrefixTable<kRootOctets>::Nodes {
  TrieNodePool arena;
  std::vector<uint32_t> ends;
};

template <size_t kRootOctets>
PrefixTable<kRootOctets>::PrefixTable(const PrefixForm& form, Defer defer)
    : form_(form),
      exact_words_(form.exact_mask),
      field_offset_(info(form.field).offset),
      used_(words_of(form)),
      defer_(std::move(defer)),
      root_memory_(kRootSize * sizeof(uint32_t)),
      root_(root_memory_.template as<uint32_t>()),
      nodes_(std::make_shared<Nodes>()),
      whole_(kNone),
      gather_(info(form.field).bytes % 4 == 0 ? prefix_lookup<kRootOctets>() : nullptr) {
  assert(info(form.field).bytes >= kRootOctets);
  for (size_t i = 0; i < exact_words_.size(); ++i) {
    exact_key_.push_back(exact_words_.key_word(form.exact_value, i));
  }
  std::fill_n(root_, kRootSize, kNone);
}

template <size_t kRootOctets>
PrefixTable<kRootOctets>::~PrefixTable() = default;

// --- look-up -----------------------------------------------------------------------------------

template <size_t kRootOctets>
bool PrefixTable<kRootOctets>::exact_part_matches(const FlowKey& values) const {
  uint64_t difference = 0;
  for (size_t i = 0; i < exact_key_.size(); ++i) {
    difference |= exact_words_.key_word(values, i) ^ exact_key_[i];
  }
  return difference == 0;
}

template <size_t kRootOctets>
template <bool kOneExactWord>
void PrefixTable<kRootOctets>::lookup_exact(const FlowKey* burst, std::span<const uint8_t> active,
                                            uint32_t* results) const noexcept {
  const uint32_t* root = root_;
  const size_t offset = field_offset_;
  const auto address_of = [burst, offset](uint8_t slot) {
    return reinterpret_cast<const uint8_t*>(&burst[slot]) + offset;
  };
  const size_t count = active.size();
  if constexpr (kRootOctets == 3) {
    for (size_t i = 0; i < count; ++i) {
      __builtin_prefetch(root + root_entry<kRootOctets>(address_of(active[i])));
    }
  }

  const size_t exact_position = kOneExactWord ? exact_words_.position(0) : 0;
  const uint64_t exact_mask = kOneExactWord ? exact_words_.mask(0) : 0;
  const uint64_t exact_key = kOneExactWord ? exact_key_[0] : 0;
  const Node* nodes = nodes_->arena.base();
  uint32_t any_node = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t slot = active[i];
    bool mine;
    if constexpr (kOneExactWord) {
      mine = (word(burst[slot], exact_position) & exact_mask) == exact_key;
    } else {
      mine = exact_part_matches(burst[slot]);
    }
    const uint8_t* address = address_of(slot);
    const uint32_t entry = load_entry(root[root_entry<kRootOctets>(address)]);
    const uint32_t result = mine ? entry : kForeign;
    results[i] = result;
    any_node |= result;
    __builtin_prefetch(&nodes[node_of(result)][address[kRootOctets]]);
  }
  // Level by level, until no packet is at a node. Those that are done read node 0, and drop what
  // they read: cheaper than a branch per packet.
  for (size_t level = kRootOctets; (any_node & kNode) != 0; ++level) {
    any_node = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* address = address_of(active[i]);
      const uint32_t before = results[i];
      const uint32_t below = load_entry(nodes[node_of(before)][address[level]]);
      const uint32_t result = (before & kNode) != 0 ? below : before;
      results[i] = result;
      any_node |= result;
    }
  }

  const uint32_t foreign = default_index();
  const uint32_t whole = load_entry(whole_);
  const uint32_t none = whole == kNone ? foreign : whole;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t result = results[i];
    results[i] = result == kNone ? none : result == kForeign ? foreign : result;
  }
}

template <size_t kRootOctets>
void PrefixTable<kRootOctets>::lookup(const FlowKey* burst, std::span<const uint8_t> active,
                                      uint32_t* results, WordSet differ) const noexcept {
  if ((used_ & differ) == 0) {
    lookup_each(burst, active.first(1), results, differ);
    std::fill_n(results, active.size(), uint32_t{results[0]});
  } else {
    lookup_each(burst, active, results, differ);
  }
}

template <size_t kRootOctets>
void PrefixTable<kRootOctets>::lookup_each(const FlowKey* burst, std::span<const uint8_t> active,
                                           uint32_t* results, WordSet differ) const noexcept {
  if (exact_key_.size() == 1) {
    if (gather_ != nullptr) {
      return gather_({.root = root_,
                      .nodes = nodes_->arena.base(),
                      .field_offset = field_offset_,
                      .exact_position = exact_words_.position(0),
                      .exact_mask = exact_words_.mask(0),
                      .exact_key = exact_key_[0],
                      .exact_same = (exact_words_.set() & differ) == 0,
                      .whole = load_entry(whole_),
                      .otherwise = default_index()},
                     burst, active, results);
    }
    return lookup_exact<true>(burst, active, results);
  }
  return lookup_exact<false>(burst, active, results);
}

// --- change ------------------------------------------------------------------------------------

/// Turns all entries that hold `from` into `to`, in the nodes below too.
template <size_t kRootOctets>
void PrefixTable<kRootOctets>::repaint(uint32_t* entries, size_t count, uint32_t from,
                                       uint32_t to) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t entry = entries[i];
    if ((entry & kNode) != 0) {
      Node& node = nodes_->arena[entry & ~kNode];
      repaint(node.data(), node.size(), from, to);
    } else if (entry == from) {
      store_entry(entries[i], to);
    }
  }
}

/// The number of the node below an entry; it is made where it is missing.
template <size_t kRootOctets>
uint32_t PrefixTable<kRootOctets>::open_node(uint32_t& entry) {
  if ((entry & kNode) != 0) return entry & ~kNode;
  const uint32_t number = nodes_->arena.take();
  if (number >= nodes_->ends.size()) nodes_->ends.resize(number + 1);
  nodes_->ends[number] = 0;
  nodes_->arena[number].fill(entry);
  store_entry(entry, number | kNode);
  return number;
}

/// Repaints the range of `prefix`; nodes on the way are made where they are missing.
template <size_t kRootOctets>
void PrefixTable<kRootOctets>::paint(const Prefix& prefix, uint32_t from, uint32_t to) {
  uint32_t* entries = root_;
  size_t index = root_entry<kRootOctets>(prefix.bytes.data());
  size_t bits = kRootBits;
  while (prefix.length > bits) {
    entries = nodes_->arena[open_node(entries[index])].data();
    index = prefix.bytes[bits / 8];
    bits += 8;
  }
  repaint(entries + index, size_t{1} << (bits - prefix.length), from, to);
}

/// Counts one prefix less in the nodes on its way, and folds the first that none ends in: all of it
/// holds what covers the prefix, `parent`.
template <size_t kRootOctets>
void PrefixTable<kRootOctets>::fold(const Prefix& prefix, uint32_t parent) {
  uint32_t* entries = root_;
  size_t index = root_entry<kRootOctets>(prefix.bytes.data());
  uint32_t* place = nullptr;  // the entry that becomes a leaf
  std::vector<uint32_t> empty;
  for (size_t bits = kRootBits; prefix.length > bits; bits += 8) {
    const uint32_t number = entries[index] & ~kNode;
    if (--nodes_->ends[number] == 0) {
      if (place == nullptr) place = &entries[index];
      empty.push_back(number);
    }
    entries = nodes_->arena[number].data();
    index = prefix.bytes[bits / 8];
  }
  if (place == nullptr) return;
  store_entry(*place, parent);
  defer_([nodes = nodes_, empty = std::move(empty)] {
    for (const uint32_t number : empty) nodes->arena.give(number);
  });
}

template <size_t kRootOctets>
uint32_t PrefixTable<kRootOctets>::parent_of(const Prefix& prefix) const {
  const PrefixSet::Rule* parent = set_.parent(prefix, 1);
  return parent == nullptr ? kNone : parent->index;
}

template <size_t kRootOctets>
bool PrefixTable<kRootOctets>::insert(const Match& match, uint16_t priority, uint32_t index) {
  const std::optional<Prefix> prefix = form_.prefix_of(match);
  if (!prefix.has_value() || index >= kIndexLimit || set_.find(*prefix) != nullptr ||
      !nodes_->arena.has_room(sizeof prefix->bytes) || !set_.admits(*prefix, priority)) {
    return false;
  }
  if (prefix->length == 0) {
    store_entry(whole_, index);
  } else {
    paint(*prefix, parent_of(*prefix), index);
    uint32_t entry = root_[root_entry<kRootOctets>(prefix->bytes.data())];
    for (size_t bits = kRootBits; prefix->length > bits; bits += 8) {
      ++nodes_->ends[entry & ~kNode];
      entry = nodes_->arena[entry & ~kNode][prefix->bytes[bits / 8]];
    }
  }
  set_.insert(prefix->key(), {priority, index});
  return true;
}

template <size_t kRootOctets>
bool PrefixTable<kRootOctets>::load(std::span<const PrefixRef> in_order) {
  assert(set_.size() == 0);
  set_.reserve(in_order.size());
  for (const PrefixRef& each : in_order) {
    if (!nodes_->arena.has_room(sizeof(Prefix::bytes))) return false;
    set_.insert(each.key, {each.priority, each.index});
    if (each.key.length == 0) {
      whole_ = each.index;
      continue;
    }
    uint32_t* entries = root_;
    size_t index = 0;
    for (size_t i = 0; i < kRootOctets; ++i) index = index << 8 | each.key.octet(i);
    size_t bits = kRootBits;
    for (; each.key.length > bits; bits += 8) {
      const uint32_t number = open_node(entries[index]);
      ++nodes_->ends[number];
      entries = nodes_->arena[number].data();
      index = each.key.octet(bits / 8);
    }
    // What lies in it comes later, so that nothing of its range is another's yet.
    std::fill_n(entries + index, size_t{1} << (bits - each.key.length), each.index);
  }
  return true;
}

template <size_t kRootOctets>
bool PrefixTable<kRootOctets>::erase(const Match& match, uint16_t priority) {
  const std::optional<Prefix> prefix = form_.prefix_of(match);
  const PrefixSet::Rule* rule = prefix.has_value() ? set_.find(*prefix) : nullptr;
  if (rule == nullptr || rule->priority != priority) return false;
  if (prefix->length == 0) {
    store_entry(whole_, kNone);
  } else {
    const uint32_t parent = parent_of(*prefix);
    paint(*prefix, rule->index, parent);
    fold(*prefix, parent);
  }
  set_.erase(*prefix);
  return true;
}

template <size_t kRootOctets>
bool PrefixTable<kRootOctets>::replace(const Match& match, uint16_t priority, uint32_t index) {
  const std::optional<Prefix> prefix = form_.prefix_of(match);
  PrefixSet::Rule* rule = prefix.has_value() ? set_.find(*prefix) : nullptr;
  if (rule == nullptr || rule->priority != priority || index >= kIndexLimit) return false;
  if (prefix->length == 0) {
    store_entry(whole_, index);
  } else {
    paint(*prefix, rule->index, index);
  }
  rule->index = index;
  return true;
}

template <size_t kRootOctets>
std::unique_ptr<Classifier> PrefixTable<kRootOctets>::clone() const {
  auto made = std::make_unique<PrefixTable>(form_, defer_);
  if (!made->nodes_->arena.copy(nodes_->arena)) return nullptr;
  made->nodes_->ends = nodes_->ends;
  // Nodes in which nothing ends are free, also those that readers of the original may still see.
  for (uint32_t number = 0; number < nodes_->arena.used(); ++number) {
    if (nodes_->ends[number] == 0) made->nodes_->arena.give(number);
  }
  std::copy_n(root_, kRootSize, made->root_);
  made->whole_ = whole_;
  made->set_ = set_;
  made->set_default(default_index());
  return made;
}

template <size_t kRootOctets>
size_t PrefixTable<kRootOctets>::memory_bytes() const {
  return sizeof *this + root_memory_.bytes() + nodes_->arena.memory_bytes();
}

template class PrefixTable<2>;
template class PrefixTable<3>;

}  // namespace headrace::match
