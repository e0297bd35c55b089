// SPDX-License-Identifier: Apache-2.0
#include "match/structures/bit_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <unordered_set>

#include "match/fields/simd.h"
#include "match/structures/fold.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

/// Memory is handed to Defer in batches: a grace period is not free.
constexpr size_t kRetiredBatch = 128;
/// The words that vectors and groups look at.
constexpr WordSet kVectorWords = WordSet{1} << kAddressWord | WordSet{1} << kPortWord;
static_assert(std::endian::native == std::endian::little, "halves of words");

VectorSearch* search_for(Simd level) {
  switch (level) {
    case Simd::avx512:
      return search_vectors_avx512;
    case Simd::avx2:
      return search_vectors_avx2;
    case Simd::portable:
      return search_vectors;
  }
  return search_vectors;
}

/// The leading bits that a mask asks for, of a field of `bits`, host order.
ValuePrefix prefix_of(uint32_t value, uint32_t mask, unsigned bits) {
  const auto length = static_cast<uint8_t>(std::countl_one(mask << (32 - bits)));
  const uint32_t kept = length == 0 ? 0 : ~uint32_t{0} << (bits - length);
  return {value & kept, length};
}

uint32_t low_half(uint64_t bits) {
  return static_cast<uint32_t>(bits);
}
uint32_t high_half(uint64_t bits) {
  return static_cast<uint32_t>(bits >> 32);
}
uint32_t first_port(uint32_t ports) {
  return packet::swap16(static_cast<uint16_t>(ports));
}
uint32_t second_port(uint32_t ports) {
  return packet::swap16(static_cast<uint16_t>(ports >> 16));
}

}  // namespace

BitVectors::BitVectors(std::span<const RuleRef> rules, Defer defer)
    : defer_(std::move(defer)), search_(search_for(simd())), shared_(std::make_shared<Shared>()) {
  used_ = kVectorWords;
  for (const RuleRef& rule : rules) used_ |= rule.match->words;
  same_ = SameWords(rules, used_ & ~kVectorWords);
}

BitVectors::~BitVectors() = default;

// --- look-up -----------------------------------------------------------------------------------

void BitVectors::rank(const FlowKey* burst, std::span<const uint8_t> active,
                      Ranked* best) const noexcept {
  Ranked ranked[kBurst];
  uint8_t slots[kBurst]{};
  uint8_t positions[kBurst];
  const size_t left = same_.select(burst, active, slots, positions);
  BitVectorView view = view_;
  view.blocks = blocks_in_use_.load(std::memory_order_acquire);
  search_(view, burst, slots, left, ranked);
  for (size_t k = 0; k < left; ++k) {
    best[positions[k]] = std::max(best[positions[k]], ranked[k]);
  }
}

// --- rules and their groups --------------------------------------------------------------------

size_t BitVectors::KeyHash::operator()(const GroupKey& key) const {
  constexpr uint64_t kFirst = 0x9e3779b97f4a7c15u;
  constexpr uint64_t kSecond = 0xbf58476d1ce4e5b9u;
  const uint64_t addresses = fold(key.addresses ^ kFirst, key.address_mask ^ kSecond);
  const uint64_t protocol = uint64_t{key.protocol} << 32 | key.protocol_mask;
  return fold(addresses ^ key.priority, protocol ^ kFirst);
}

BitVectors::GroupKey BitVectors::key_of(const Match& match, uint16_t priority) {
  return {word(match.value, kAddressWord), word(match.mask, kAddressWord),
          low_half(word(match.value, kPortWord)), low_half(word(match.mask, kPortWord)), priority};
}

BitVectors::PortRule BitVectors::port_rule_of(const Match& match, uint32_t index) {
  return {high_half(word(match.value, kPortWord)), high_half(word(match.mask, kPortWord)), index};
}

BitVectors::Prefixes BitVectors::prefixes_of(const GroupKey& key, const PortRule& rule) {
  Prefixes prefixes;
  prefixes[kSource] = prefix_of(packet::swap32(low_half(key.addresses)),
                                packet::swap32(low_half(key.address_mask)), 32);
  prefixes[kDestination] = prefix_of(packet::swap32(high_half(key.addresses)),
                                     packet::swap32(high_half(key.address_mask)), 32);
  prefixes[kSourcePort] = prefix_of(first_port(rule.ports), first_port(rule.mask), 16);
  prefixes[kDestinationPort] = prefix_of(second_port(rule.ports), second_port(rule.mask), 16);
  prefixes[kProtocol] = prefix_of(key.protocol & 0xff, key.protocol_mask & 0xff, 8);
  return prefixes;
}

bool BitVectors::in_form(const Match& match) const {
  return (match.words & ~used_) == 0 && same_.holds(match);
}

std::vector<BitVectors::PortRule> BitVectors::rules_in(const RuleGroup& group) {
  std::vector<PortRule> rules;
  for (const RuleGroup* each = &group; each <= &group + group.further; ++each) {
    for (size_t i = 0; i < each->count; ++i) {
      rules.push_back({each->ports[i], each->port_masks[i], each->indices[i]});
    }
  }
  return rules;
}

RuleGroup* BitVectors::make_group(const GroupKey& key, std::span<const PortRule> rules) {
  const size_t parts = (rules.size() + RuleGroup::kRules - 1) / RuleGroup::kRules;
  auto* const group = static_cast<RuleGroup*>(shared_->arena.take(parts * sizeof(RuleGroup)));
  for (size_t part = 0; part < parts; ++part) {
    RuleGroup made{.addresses = key.addresses,
                   .address_mask = key.address_mask,
                   .protocol = key.protocol,
                   .protocol_mask = key.protocol_mask,
                   .priority = key.priority,
                   .further = static_cast<uint16_t>(parts - 1 - part)};
    for (const PortRule& rule : rules.subspan(part * RuleGroup::kRules)) {
      if (made.count == RuleGroup::kRules) break;
      made.ports[made.count] = rule.ports;
      made.port_masks[made.count] = rule.mask;
      made.indices[made.count] = rule.index;
      ++made.count;
    }
    group[part] = made;
  }
  return group;
}

void BitVectors::set_group(uint32_t place, RuleGroup* group) {
  __atomic_store_n(&groups_[place], group, __ATOMIC_RELEASE);
}

std::optional<BitVectors::Position> BitVectors::position_of(const GroupKey& key,
                                                            const PortRule& rule) const {
  const auto found = places_of_key_.find(key);
  if (found == places_of_key_.end()) return std::nullopt;
  for (const uint32_t place : found->second) {
    const std::vector<PortRule> rules = rules_in(*groups_[place]);
    for (size_t i = 0; i < rules.size(); ++i) {
      if (rules[i].ports == rule.ports && rules[i].mask == rule.mask) return Position{place, i};
    }
  }
  return std::nullopt;
}

// --- places ------------------------------------------------------------------------------------

/// A free place from `begin` on and before `end`, behind `near` if there is one.
std::optional<uint32_t> BitVectors::free_between(size_t begin, size_t end, size_t near) const {
  const auto search = [this](size_t from, size_t to) -> std::optional<uint32_t> {
    while (from < to) {
      const uint64_t free = ~taken_[from / 64] >> from % 64;
      if (free != 0) {
        const size_t place = from + static_cast<size_t>(std::countr_zero(free));
        if (place < to) return static_cast<uint32_t>(place);
        return std::nullopt;
      }
      from = from / 64 * 64 + 64;
    }
    return std::nullopt;
  };
  const std::optional<uint32_t> behind = search(near, end);
  return behind.has_value() ? behind : search(begin, near);
}

/// A place for a group: between those of higher and of lower priority, else one that is not
/// ordered.
std::optional<uint32_t> BitVectors::free_place(uint16_t priority) const {
  const size_t ordered = ordered_ * BitBlock::kPlaces;
  const auto higher = by_priority_.upper_bound(priority);
  auto lower = by_priority_.lower_bound(priority);
  const size_t begin = higher == by_priority_.end() ? 0 : *higher->second.rbegin() + 1;
  const size_t end = lower == by_priority_.begin() ? ordered : *(--lower)->second.begin();
  // Who adds rules by descending priority comes to the end again and again.
  const size_t near = end == ordered ? begin : begin + (end - begin) / 2;
  const std::optional<uint32_t> place = free_between(begin, end, near);
  if (place.has_value()) return place;
  return free_between(ordered, blocks_ * BitBlock::kPlaces, ordered);
}

void BitVectors::take_place(uint32_t place, const GroupKey& key) {
  taken_[place / 64] |= uint64_t{1} << place % 64;
  places_of_key_[key].push_back(place);
  if (place < ordered_ * BitBlock::kPlaces) {
    by_priority_[key.priority].insert(place);
  } else if (unordered_taken_++ == 0) {
    blocks_in_use_.store(blocks_, std::memory_order_release);
  }
}

void BitVectors::give_place(uint32_t place, const GroupKey& key) {
  taken_[place / 64] &= ~(uint64_t{1} << place % 64);
  std::vector<uint32_t>& places = places_of_key_[key];
  std::erase(places, place);
  if (places.empty()) places_of_key_.erase(key);
  if (place >= ordered_ * BitBlock::kPlaces) {
    if (--unordered_taken_ == 0) blocks_in_use_.store(ordered_, std::memory_order_release);
    return;
  }
  const auto found = by_priority_.find(key.priority);
  found->second.erase(place);
  if (found->second.empty()) by_priority_.erase(found);
}

// --- vectors -----------------------------------------------------------------------------------

BitBlock& BitVectors::block(size_t field, size_t at, uint32_t number) const {
  const Field& of = fields_[field];
  return of.blocks.as<BitBlock>()[at * of.capacity + number];
}

bool BitVectors::has_room_for(const Prefixes& prefixes) const {
  for (size_t f = 0; f < kVectorFields; ++f) {
    const Field& field = fields_[f];
    if (field.classes.find(prefixes[f]).has_value()) continue;
    if (field.classes.size() == field.capacity) return false;
  }
  return nodes_.has_room(kVectorFields * PrefixClasses::kNodes);
}

/// Gives the prefix a class, with the vector of the prefix that covers it.
void BitVectors::add_class(size_t f, const ValuePrefix& prefix) {
  Field& field = fields_[f];
  if (field.classes.find(prefix).has_value()) return;
  const uint32_t parent = field.classes.parent_of(prefix);
  const uint32_t number = field.classes.add(prefix);
  for (size_t b = 0; b < blocks_; ++b) block(f, b, number) = block(f, b, parent);
  auto* const summaries = field.summaries.as<uint64_t>();
  summaries[number] = summaries[parent];
  field.classes.publish(number);
}

void BitVectors::set_bit(size_t f, uint32_t number, uint32_t place) {
  const size_t b = place / BitBlock::kPlaces;
  uint64_t& bits = block(f, b, number).words[place % BitBlock::kPlaces / 64];
  __atomic_store_n(&bits, bits | uint64_t{1} << place % 64, __ATOMIC_RELEASE);
  uint64_t& summary = fields_[f].summaries.as<uint64_t>()[number];
  __atomic_store_n(&summary, summary | uint64_t{1} << b, __ATOMIC_RELEASE);
}

void BitVectors::clear_bit(size_t f, uint32_t number, uint32_t place) {
  const size_t b = place / BitBlock::kPlaces;
  BitBlock& all = block(f, b, number);
  uint64_t& bits = all.words[place % BitBlock::kPlaces / 64];
  __atomic_store_n(&bits, bits & ~(uint64_t{1} << place % 64), __ATOMIC_RELEASE);
  if (std::any_of(std::begin(all.words), std::end(all.words), std::identity())) return;
  uint64_t& summary = fields_[f].summaries.as<uint64_t>()[number];
  __atomic_store_n(&summary, summary & ~(uint64_t{1} << b), __ATOMIC_RELEASE);
}

/// Calls visit(class) for all classes whose values a prefix covers.
template <typename Visit>
void BitVectors::for_each_class(size_t f, const ValuePrefix& prefix, Visit&& visit) const {
  const PrefixClasses& classes = fields_[f].classes;
  if (prefix.length != 0) return classes.for_each_covered(prefix, visit);
  for (uint32_t number = 0; number < classes.size(); ++number) visit(number);
}

/// Takes the place's bit out of what `prefix` covers and none of `others` does.
void BitVectors::clear_bits(size_t f, const ValuePrefix& prefix, uint32_t place,
                            std::span<const Prefixes> others) {
  const PrefixClasses& classes = fields_[f].classes;
  for_each_class(f, prefix, [&](uint32_t number) {
    const bool kept = std::any_of(others.begin(), others.end(), [&](const Prefixes& each) {
      return classes.covers(each[f], classes.prefix(number));
    });
    if (!kept) clear_bit(f, number, place);
  });
}

// --- change ------------------------------------------------------------------------------------

void BitVectors::retire(RuleGroup* group) {
  retired_.push_back(group);
  if (retired_.size() < kRetiredBatch) return;
  defer_([shared = shared_, retired = std::exchange(retired_, {})] {
    for (RuleGroup* each : retired) {
      shared->arena.give_back(each, (size_t{1} + each->further) * sizeof(RuleGroup));
    }
  });
}

bool BitVectors::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (!in_form(match) || index >= kIndexLimit) return false;
  const GroupKey key = key_of(match, priority);
  const PortRule rule = port_rule_of(match, index);
  const Prefixes prefixes = prefixes_of(key, rule);
  if (!has_room_for(prefixes)) return false;
  std::optional<uint32_t> place;
  if (const auto found = places_of_key_.find(key); found != places_of_key_.end()) {
    const auto room = std::find_if(found->second.begin(), found->second.end(), [this](uint32_t at) {
      return rules_in(*groups_[at]).size() < kGroupRules;
    });
    if (room != found->second.end()) place = *room;
  }
  std::vector<PortRule> rules;
  if (place.has_value()) {
    rules = rules_in(*groups_[*place]);
  } else {
    place = free_place(priority);
    if (!place.has_value()) return false;
    take_place(*place, key);
  }
  rules.push_back(rule);
  RuleGroup* const old = groups_[*place];
  set_group(*place, make_group(key, rules));
  for (size_t f = 0; f < kVectorFields; ++f) {
    add_class(f, prefixes[f]);
    for_each_class(f, prefixes[f], [&](uint32_t number) { set_bit(f, number, *place); });
  }
  if (old != &nothing_) retire(old);
  ++size_;
  return true;
}

bool BitVectors::erase(const Match& match, uint16_t priority) {
  if (!in_form(match)) return false;
  const GroupKey key = key_of(match, priority);
  const PortRule rule = port_rule_of(match, 0);
  const std::optional<Position> at = position_of(key, rule);
  if (!at.has_value()) return false;
  RuleGroup* const old = groups_[at->place];
  std::vector<PortRule> rules = rules_in(*old);
  rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(at->rule));
  std::vector<Prefixes> others;
  for (const PortRule& each : rules) others.push_back(prefixes_of(key, each));
  if (!rules.empty()) set_group(at->place, make_group(key, rules));
  const Prefixes prefixes = prefixes_of(key, rule);
  for (size_t f = 0; f < kVectorFields; ++f) clear_bits(f, prefixes[f], at->place, others);
  if (rules.empty()) {
    set_group(at->place, &nothing_);
    give_place(at->place, key);
  }
  retire(old);
  --size_;
  return true;
}

bool BitVectors::replace(const Match& match, uint16_t priority, uint32_t index) {
  if (!in_form(match) || index >= kIndexLimit) return false;
  const std::optional<Position> at = position_of(key_of(match, priority), port_rule_of(match, 0));
  if (!at.has_value()) return false;
  RuleGroup& group = groups_[at->place][at->rule / RuleGroup::kRules];
  __atomic_store_n(&group.indices[at->rule % RuleGroup::kRules], index, __ATOMIC_RELEASE);
  return true;
}

size_t BitVectors::memory_bytes() const {
  size_t bytes = sizeof *this + shared_->arena.bytes() + nodes_.memory_bytes() +
                 groups_.size() * sizeof groups_[0];
  for (const Field& field : fields_) {
    bytes += field.classes.memory_bytes() + field.blocks.bytes() + field.summaries.bytes();
  }
  return bytes;
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

/// Fewer rules than these are left to a tuple space, as decision trees leave them.
constexpr size_t kManyRules = 128;
/// A rule that asks for fewer bits of an address leaves it open.
constexpr int kOpenBits = 8;

}  // namespace

/// In cycles per packet as match_acl_bench found them for rules of three kinds and 200 to 20 000
/// groups (README.md): vectors cost by their blocks; decision trees by how many rules there are
/// and, more so, by how many of them leave an address open.
BitVectors::Estimate BitVectors::estimate(std::span<const RuleRef> rules) {
  std::unordered_set<GroupKey, KeyHash> groups;
  size_t open = 0;
  for (const RuleRef& rule : rules) {
    const GroupKey key = key_of(*rule.match, rule.priority);
    if (!groups.insert(key).second) continue;
    const int asked[] = {std::popcount(low_half(key.address_mask)),
                         std::popcount(high_half(key.address_mask))};
    open += std::min(asked[0], asked[1]) < kOpenBits ? 1 : 0;
  }
  const auto count = static_cast<double>(groups.size());
  const double share = static_cast<double>(open) / count;
  return {.groups = groups.size(),
          .open = open,
          .cost = 45 + 9 * static_cast<double>(blocks_for(groups.size())),
          .cost_of_trees = 150 * share + (40 + 85 * share) * std::sqrt(count / 1000)};
}

namespace {

std::optional<Fit> plan_vectors(std::span<const RuleRef> rules) {
  if (rules.size() < kManyRules || !BitVectors::serves(rules)) return std::nullopt;
  const BitVectors::Estimate estimate = BitVectors::estimate(rules);
  if (estimate.cost >= estimate.cost_of_trees) return std::nullopt;
  return Fit{fmt::format("{} of {} rules and ranges leave an address open: bit vectors",
                         estimate.open, estimate.groups),
             [rules](const Defer& defer) { return BitVectors::make(rules, defer); }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind bit_vectors;
const ClassifierKind bit_vectors{"bit-vectors", plan_vectors};
}  // namespace kinds

}  // namespace headrace::match
