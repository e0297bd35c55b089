// SPDX-License-Identifier: Apache-2.0
// Exact match under one mask: a bucketised hash with bulk, prefetched look-up.
//
// Layout. A bucket is one cache line: eight 16-bit signatures, eight entry numbers, and the number
// of an overflow bucket. An entry is the key (the masked words) and one result word, {priority,
// index}. A look-up runs in three passes over the burst, so that cache misses of different packets
// overlap: (1) cut out the keys, hash, prefetch the buckets; (2) compare the signatures, eight at a
// time, prefetch the entry of the first that agrees; (3) compare the key. A signature that agrees
// by chance (1 in 8192 per look-up of a full bucket) or a chained bucket costs a scalar walk.
//
// Hash. Folded 64x64 -> 128 bit multiplication of pairs of words, each offset by a secret of the
// process. It costs less than a CRC32c per word once a key has two words, needs no special
// instruction, gives 64 good bits (bucket and signature are independent), and is keyed: without the
// secret, rules that fall into one bucket can't be crafted, which a CRC, being linear, allows.
//
// Change in place. Entries are immutable while a reader can reach them, but for the result word,
// which is replaced by one store. Insert writes the entry, then its number, then the signature;
// erase clears the signature. An entry is used again only after a grace period. Signatures are no
// more than a hint: whatever mixture of old and new a reader sees, only an equal key makes a hit.
// The table grows by building twice the buckets aside and publishing them with one pointer.
//
// Rules of one match but several priorities share an entry; it holds the highest, the others wait.
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <atomic>
#include <memory>
#include <vector>

#include "match/fields/masked_words.h"
#include "match/structures/block.h"
#include "match/structures/classifier.h"
#include "match/structures/ranked.h"
#include "match/structures/same_match.h"

namespace headrace::match {

class HashTable final : public Classifier {
 public:
  /// `mask`: of all rules; without any word, all packets are alike. `expected`: rules to make room
  /// for.
  HashTable(const FlowKey& mask, size_t expected, Defer defer);
  ~HashTable() override;

  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept override;

  /// Worker, for tuple space: the results of `active`, in its order; 0 where there is none.
  void find_all(const FlowKey* burst, std::span<const uint8_t> active,
                Ranked* results) const noexcept;

  /// The same, beside what other tables found: best[slot] becomes the greater of itself and this
  /// table's result, for every slot in `active`.
  void improve(const FlowKey* burst, std::span<const uint8_t> active, Ranked* best) const noexcept;

  /// True only for a match of the table's own mask.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override { return copy(); }
  [[nodiscard]] std::unique_ptr<HashTable> copy() const;

  [[nodiscard]] size_t size() const override { return size_; }
  [[nodiscard]] size_t memory_bytes() const override;

  [[nodiscard]] bool same_mask(const Match& match) const {
    return std::memcmp(&match.mask, &mask_, sizeof mask_) == 0;
  }

 private:
  struct Bucket;
  struct Store;
  struct Freed;
  using Key = std::array<uint64_t, kFieldWords>;
  using Secret = std::array<uint64_t, kFieldWords>;

  template <size_t kWords, typename Found>
  void search(const FlowKey* burst, std::span<const uint8_t> active, Found&& found) const noexcept;
  template <typename Found>
  void search_any(const FlowKey* burst, std::span<const uint8_t> active,
                  Found&& found) const noexcept;

  [[nodiscard]] static Ranked search_chain(const Store& store, const Bucket* bucket,
                                           uint16_t signature, const uint64_t* key,
                                           size_t words) noexcept;

  [[nodiscard]] Key key_of(const FlowKey& values) const;
  [[nodiscard]] uint32_t find(const Key& key) const;
  [[nodiscard]] uint32_t take_entry();
  bool link(Store& store, uint64_t hash, uint32_t entry);
  void unlink(const Key& key, uint32_t entry);
  void release_entry(uint32_t entry);
  void flush_pending_free();
  void grow(size_t entries);
  void find_free_entries();

  static const Secret secret_;  ///< of the hash; drawn once per process

  FlowKey mask_;
  MaskedWords words_;
  Defer defer_;
  std::atomic<Store*> store_{nullptr};
  size_t size_{0};
  uint32_t entries_used_{1};            ///< entry 0 means "none"
  std::vector<uint32_t> pending_free_;  ///< unlinked entries that readers may still see
  std::shared_ptr<Freed> freed_;        ///< entries to use again; outlives the table in callbacks
  SameMatchRules waiting_;              ///< lower priorities, by entry
};

/// Entries of a bucket.
inline constexpr size_t kBucketSlots = 8;

/// The signatures of a bucket that equal `signature`, as bits 0..7.
inline unsigned equal_signatures_portable(const uint16_t* signatures, uint16_t signature) noexcept {
  unsigned equal = 0;
  for (size_t i = 0; i < kBucketSlots; ++i) equal |= unsigned{signatures[i] == signature} << i;
  return equal;
}

/// Its variant for SSE2.
inline unsigned equal_signatures(const uint16_t* signatures, uint16_t signature) noexcept {
#if defined(__SSE2__)
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(signatures));
  const __m128i equal = _mm_cmpeq_epi16(all, _mm_set1_epi16(static_cast<short>(signature)));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())));
#else
  return equal_signatures_portable(signatures, signature);
#endif
}

}  // namespace headrace::match
