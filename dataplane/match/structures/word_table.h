// SPDX-License-Identifier: Apache-2.0
// Exact match on one word of the flow key, under one mask: a bucketised hash that holds the keys in
// its buckets. MAC addresses, MPLS labels, tunnel ids and exact IPv4 addresses are of this kind.
//
// Layout. A bucket is one cache line: four keys, then the results of the four. A look-up reads that
// one line: it compares the four keys at once and takes the result of the equal one. HashTable
// (hash_table.h), which serves keys of several words, needs a signature, an entry number and the
// entry for it: two lines and twice the instructions.
//
// Hash. Multiply-shift: the upper bits of the product of key and a random odd number, which each
// store draws anew. For any two keys the probability of one bucket is at most 2/buckets over the
// draw (Dietzfelbinger et al., "A Reliable Randomized Algorithm for the Closest-Pair Problem",
// 1997), so rules that fall into one bucket can't be crafted.
//
// A bucket that is full is marked, and its further keys go to the buckets behind it, kMaxProbe at
// most; where that is not enough, the table grows with another draw.
//
// Change in place. Insert writes the result, then the key: a reader that sees the key sees its
// result. Erase replaces the key by that of free slots, which no packet has (a bit outside of the
// mask is set; a number drawn at random where the mask has no such bit, and then look-ups compare
// it) and leaves the result; the slot is used again only after a grace period. The table grows by
// building twice the buckets aside and publishing them with one pointer.
//
// Rules of one match but several priorities share a slot; it holds the highest, the others wait.
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "match/fields/masked_words.h"
#include "match/structures/classifier.h"
#include "match/structures/same_match.h"

namespace headrace::match {

class WordTable final : public Classifier {
 public:
  /// Beyond, a HashTable is faster: buckets with keys take twice the memory, and miss caches that
  /// HashTable's stay in (match_classifier_bench, a million addresses: 99 cycles beside 49).
  static constexpr size_t kMaxRules = size_t{1} << 17;

  /// `mask`: of all rules; serves() it. `expected`: rules to make room for.
  WordTable(const FlowKey& mask, size_t expected, Defer defer);
  ~WordTable() override;

  /// True for a mask with bits in one word only.
  [[nodiscard]] static bool serves(const FlowKey& mask);

  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept override;

  /// True only for a match of the table's own mask; with a mask of all 64 bits, false for one key,
  /// drawn at random, which marks free slots: a table built anew draws another.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override;

  [[nodiscard]] bool outgrown() const override { return size_ > kMaxRules; }
  [[nodiscard]] size_t size() const override { return size_; }
  [[nodiscard]] size_t memory_bytes() const override;

 private:
  struct Bucket;
  struct Store;
  struct Slots;
  struct Reader;
  struct Slot {
    uint64_t* key{nullptr};
    uint64_t* result{nullptr};
  };

  [[nodiscard]] bool same_mask(const Match& match) const {
    return std::memcmp(&match.mask, &mask_, sizeof mask_) == 0;
  }
  [[nodiscard]] uint64_t key_of(const Match& match) const {
    return words_.key_word(match.value, 0);
  }
  [[nodiscard]] Slot find(uint64_t key) const;
  [[nodiscard]] static Ranked content(Slot slot);
  static void set(Slot slot, Ranked rule);
  static bool place(Store& store, uint64_t key, Ranked result);
  void grow(size_t entries);
  void flush_pending_free();

  FlowKey mask_;
  MaskedWords words_;
  uint64_t empty_;  ///< the key of a slot without rule
  Defer defer_;
  std::shared_ptr<Slots> slots_;         ///< the store; outlives the table in callbacks
  std::atomic<Store*> store_{nullptr};   ///< the same, for readers
  size_t size_{0};                       ///< rules
  size_t keys_{0};                       ///< different ones
  std::vector<uint64_t*> pending_free_;  ///< results of erased keys that readers may still use
  SameMatchRules same_match_;            ///< lower priorities, by key
};

}  // namespace headrace::match
