// SPDX-License-Identifier: Apache-2.0
#include "match/structures/tuple_filter.h"

#include <algorithm>

namespace headrace::match {
namespace {

/// An octet that leaves more than this share of the tuples in is not worth its load.
constexpr double kDense = 0.9;

bool tells_kind_only(size_t offset) {
  constexpr size_t kEthType = offsetof(FlowKey, eth_type);
  return offset == kEthType || offset == kEthType + 1 || offset == offsetof(FlowKey, ip_proto);
}

uint8_t octet(const FlowKey& values, size_t offset) {
  return reinterpret_cast<const uint8_t*>(&values)[offset];
}

/// The octets that leave fewest tuples in, for a packet of random octets.
std::vector<uint8_t> chosen_octets(std::span<const TupleProfile* const> tuples) {
  std::vector<std::pair<double, uint8_t>> dense;
  for (size_t offset = 0; offset < sizeof(FlowKey); ++offset) {
    if (tells_kind_only(offset)) continue;
    double allowed = 0;
    for (const TupleProfile* tuple : tuples) {
      const std::bitset<256>* values = tuple->values_at(offset);
      allowed += values == nullptr ? 256.0 : static_cast<double>(values->count());
    }
    const double density = allowed / (256.0 * static_cast<double>(tuples.size()));
    if (density < kDense) dense.emplace_back(density, static_cast<uint8_t>(offset));
  }
  std::sort(dense.begin(), dense.end());
  dense.resize(std::min(dense.size(), TupleFilter::kMaxOctets));
  std::vector<uint8_t> offsets;
  for (const auto& [density, offset] : dense) offsets.push_back(offset);
  return offsets;
}

}  // namespace

TupleProfile::TupleProfile(const FlowKey& mask) {
  for (size_t offset = 0; offset < sizeof(FlowKey); ++offset) {
    if (octet(mask, offset) == 0) continue;
    octets_.push_back({static_cast<uint8_t>(offset), octet(mask, offset), {}});
  }
}

bool TupleProfile::add(const FlowKey& value) {
  bool wider = false;
  for (Octet& each : octets_) {
    const uint8_t wanted = octet(value, each.offset);
    if (each.values[wanted]) continue;
    wider = true;
    // Every value that agrees under the mask: the subsets of the bits that it leaves free.
    const unsigned free = ~each.mask & 0xffu;
    unsigned bits = free;
    for (;;) {
      each.values.set(wanted | bits);
      if (bits == 0) break;
      bits = (bits - 1) & free;
    }
  }
  return wider;
}

const std::bitset<256>* TupleProfile::values_at(size_t offset) const {
  const auto found = std::find_if(octets_.begin(), octets_.end(),
                                  [offset](const Octet& each) { return each.offset == offset; });
  return found == octets_.end() ? nullptr : &found->values;
}

TupleFilter::TupleFilter(std::span<const TupleProfile* const> tuples)
    : chosen_for_(tuples.size()),
      words_(std::clamp<size_t>((2 * tuples.size() + 63) / 64, 1, kMaxWords)),
      offsets_(chosen_octets(tuples)),
      classes_(offsets_.size() * 256),
      n_classes_(offsets_.size(), 1),
      rows_(offsets_.size() * 256 * words_) {
  for (const TupleProfile* tuple : tuples) {
    if (!add(*tuple)) break;
  }
}

std::optional<uint16_t> TupleFilter::add(const TupleProfile& profile) {
  if (used_ == words_ * 64) return std::nullopt;
  const auto tuple = static_cast<uint16_t>(used_++);
  widen(tuple, profile);
  return tuple;
}

void TupleFilter::widen(uint16_t tuple, const TupleProfile& profile) {
  const std::bitset<256> all = ~std::bitset<256>{};
  for (size_t i = 0; i < offsets_.size(); ++i) {
    const std::bitset<256>* values = profile.values_at(offsets_[i]);
    widen_octet(i, tuple, values == nullptr ? all : *values);
  }
}

/// Adds the tuple to the sets of some values of the chosen octet.
void TupleFilter::widen_octet(size_t chosen, uint16_t tuple, const std::bitset<256>& values) {
  uint8_t* const classes = &classes_[chosen * 256];
  uint64_t* const rows = &rows_[chosen * 256 * words_];
  const uint64_t bit = uint64_t{1} << (tuple % 64);
  std::array<uint16_t, 256> others{};  // members of a class that do not get the bit
  for (size_t value = 0; value < 256; ++value) others[classes[value]] += values[value] ? 0 : 1;
  std::array<uint16_t, 256> parted{};  // the new class of those that do; 0: none
  for (size_t value = 0; value < 256; ++value) {
    if (!values[value]) continue;
    const uint8_t old = classes[value];
    uint64_t& word = rows[old * words_ + tuple / 64];
    if ((word & bit) != 0) continue;
    if (others[old] == 0) {
      __atomic_store_n(&word, word | bit, __ATOMIC_RELEASE);
      continue;
    }
    if (parted[old] == 0) {
      parted[old] = n_classes_[chosen]++;
      std::copy_n(&rows[old * words_], words_, &rows[parted[old] * words_]);
      rows[parted[old] * words_ + tuple / 64] |= bit;
    }
    __atomic_store_n(&classes[value], static_cast<uint8_t>(parted[old]), __ATOMIC_RELEASE);
  }
}

}  // namespace headrace::match
