// SPDX-License-Identifier: Apache-2.0
// How bit vectors are made of many rules at once: groups by descending priority over the ordered
// places, then field by field the prefixes and their vectors, each from the one that covers it.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "match/structures/bit_vectors.h"

namespace headrace::match {
namespace {

/// Memory of all vectors, at most.
constexpr size_t kMostBytes = size_t{64} << 20;
/// So many blocks or more have an eighth of their places left free; few are filled nearly, so that
/// there is no further one to look at.
constexpr size_t kSpacious = 8;

}  // namespace

/// Ordered blocks for so many groups.
size_t BitVectors::blocks_for(size_t groups) {
  const size_t spread = groups < kSpacious * BitBlock::kPlaces ? groups / 64 : groups / 8;
  return std::max<size_t>((groups + spread + BitBlock::kPlaces - 1) / BitBlock::kPlaces, 1);
}

bool BitVectors::serves(std::span<const RuleRef> rules) {
  WordSet used = 0;
  for (const RuleRef& rule : rules) used |= rule.match->words;
  const WordSet others = used & ~(WordSet{1} << kAddressWord | WordSet{1} << kPortWord);
  return !rules.empty() && SameWords(rules, others).set() == others;
}

std::unique_ptr<BitVectors> BitVectors::make(std::span<const RuleRef> rules, Defer defer) {
  std::unique_ptr<BitVectors> made(new BitVectors(rules, std::move(defer)));
  if (!made->build(rules)) return nullptr;
  return made;
}

/// Makes the groups in order of priority; groups_ has them, without places.
void BitVectors::make_groups(std::span<const RuleRef> rules) {
  struct Each {
    GroupKey key;
    PortRule rule;
  };
  std::vector<Each> all;
  for (const RuleRef& rule : rules) {
    all.push_back({key_of(*rule.match, rule.priority), port_rule_of(*rule.match, rule.index)});
  }
  std::sort(all.begin(), all.end(), [](const Each& a, const Each& b) {
    if (a.key.priority != b.key.priority) return a.key.priority > b.key.priority;
    return std::tie(a.key, a.rule.mask, a.rule.ports) < std::tie(b.key, b.rule.mask, b.rule.ports);
  });
  for (size_t from = 0; from < all.size();) {
    std::vector<PortRule> group;
    size_t to = from;
    for (; to < all.size() && all[to].key == all[from].key && group.size() < kGroupRules; ++to) {
      group.push_back(all[to].rule);
    }
    groups_.push_back(make_group(all[from].key, group));
    from = to;
  }
}

/// Memory for vectors; false if it is too much.
bool BitVectors::reserve() {
  size_t bytes = 0;
  for (Field& field : fields_) {
    field.capacity = field.classes.size() + field.classes.size() / 4 + 64;
    bytes += field.capacity * blocks_ * sizeof(BitBlock);
  }
  if (bytes > kMostBytes) return false;
  for (Field& field : fields_) {
    field.blocks = Block(field.capacity * blocks_ * sizeof(BitBlock));
    field.summaries = Block(field.capacity * sizeof(uint64_t));
  }
  return true;
}

/// Makes the vectors of a field's classes, what covers a prefix before it.
void BitVectors::fill(size_t f) {
  Field& field = fields_[f];
  std::vector<std::vector<uint32_t>> places(field.classes.size());
  for (const auto& [key, places_of] : places_of_key_) {
    for (const uint32_t place : places_of) {
      for (const PortRule& rule : rules_in(*groups_[place])) {
        places[*field.classes.find(prefixes_of(key, rule)[f])].push_back(place);
      }
    }
  }
  auto* const summaries = field.summaries.as<uint64_t>();
  std::vector<uint32_t> covering;  // the prefixes that cover the one at hand
  field.classes.for_each_covered({}, [&](uint32_t number) {
    const ValuePrefix& prefix = field.classes.prefix(number);
    while (!covering.empty() &&
           !field.classes.covers(field.classes.prefix(covering.back()), prefix)) {
      covering.pop_back();
    }
    for (size_t b = 0; b < blocks_ && !covering.empty(); ++b) {
      block(f, b, number) = block(f, b, covering.back());
    }
    if (!covering.empty()) summaries[number] = summaries[covering.back()];
    for (const uint32_t place : places[number]) set_bit(f, number, place);
    covering.push_back(number);
    field.classes.publish(number);
  });
}

bool BitVectors::build(std::span<const RuleRef> rules) {
  make_groups(rules);
  const std::vector<RuleGroup*> groups = std::exchange(groups_, {});
  ordered_ = blocks_for(groups.size());
  blocks_ = ordered_ + 1 + ordered_ / 8;
  if (blocks_ > kMostBlocks) return false;
  const size_t places = blocks_ * BitBlock::kPlaces;
  groups_.assign(places + 1, &nothing_);
  taken_.assign(places / 64, 0);
  for (size_t i = 0; i < groups.size(); ++i) {
    const RuleGroup& group = *groups[i];
    const auto place = static_cast<uint32_t>(i * ordered_ * BitBlock::kPlaces / groups.size());
    groups_[place] = groups[i];
    take_place(place, {group.addresses, group.address_mask, group.protocol, group.protocol_mask,
                       group.priority});
  }
  fields_.reserve(kVectorFields);
  constexpr size_t kBits[kVectorFields] = {32, 32, 16, 16, 8};
  for (const size_t bits : kBits) fields_.push_back({PrefixClasses(bits, nodes_)});
  for (const auto& [key, places_of] : places_of_key_) {
    for (const uint32_t place : places_of) {
      for (const PortRule& rule : rules_in(*groups_[place])) {
        const Prefixes prefixes = prefixes_of(key, rule);
        for (size_t f = 0; f < kVectorFields; ++f) {
          if (!fields_[f].classes.find(prefixes[f]).has_value())
            fields_[f].classes.add(prefixes[f]);
        }
      }
    }
  }
  if (!reserve()) return false;
  for (size_t f = 0; f < kVectorFields; ++f) fill(f);
  blocks_in_use_.store(ordered_, std::memory_order_release);
  size_ = rules.size();
  set_view();
  return true;
}

void BitVectors::set_view() {
  for (size_t f = 0; f < kVectorFields; ++f) {
    const Field& field = fields_[f];
    view_.fields[f] = {field.classes.root(), field.blocks.as<BitBlock>(),
                       field.summaries.as<uint64_t>(), field.capacity};
  }
  view_.nodes = nodes_.base();
  view_.groups = groups_.data();
  view_.ordered = ordered_;
  view_.none = blocks_ * BitBlock::kPlaces;
}

std::unique_ptr<BitVectors> BitVectors::copy() const {
  std::unique_ptr<BitVectors> made(new BitVectors({}, defer_));
  if (!made->nodes_.copy(nodes_)) return nullptr;
  made->used_ = used_;
  made->same_ = same_;
  made->set_default(default_index());
  made->fields_.reserve(kVectorFields);
  for (const Field& field : fields_) {
    made->fields_.push_back({PrefixClasses(field.classes, made->nodes_),
                             Block(field.blocks.bytes()), Block(field.summaries.bytes()),
                             field.capacity});
    const Field& to = made->fields_.back();
    std::memcpy(to.blocks.as<BitBlock>(), field.blocks.as<BitBlock>(), field.blocks.bytes());
    std::memcpy(to.summaries.as<uint64_t>(), field.summaries.as<uint64_t>(),
                field.summaries.bytes());
  }
  for (RuleGroup* const group : groups_) {
    RuleGroup* to = &made->nothing_;
    if (group != &nothing_) {
      const size_t parts = size_t{1} + group->further;
      to = static_cast<RuleGroup*>(made->shared_->arena.take(parts * sizeof(RuleGroup)));
      std::copy_n(group, parts, to);
    }
    made->groups_.push_back(to);
  }
  made->size_ = size_;
  made->ordered_ = ordered_;
  made->blocks_ = blocks_;
  made->taken_ = taken_;
  made->unordered_taken_ = unordered_taken_;
  made->blocks_in_use_.store(blocks_in_use_.load(std::memory_order_relaxed),
                             std::memory_order_release);
  made->by_priority_ = by_priority_;
  made->places_of_key_ = places_of_key_;
  made->set_view();
  return made;
}

}  // namespace headrace::match
