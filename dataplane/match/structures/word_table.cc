// SPDX-License-Identifier: Apache-2.0
#include "match/structures/word_table.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "match/fields/intrinsics.h"
#include "match/structures/block.h"
#include "match/structures/classifier_kind.h"

namespace headrace::match {
namespace {

constexpr size_t kSlots = 4;
constexpr size_t kMinBuckets = 2;
/// Keys per four buckets at most: with Poisson of mean 1.5, 2 % of the buckets overflow.
constexpr size_t kMeanFillOfFour = 6;
/// Buckets that one key may be in, from its own on.
constexpr size_t kMaxProbe = 8;
/// Slots are handed to Defer in batches of this many: a grace period is not free.
constexpr size_t kPendingFreeBatch = 128;
/// In the result of the last slot: the bucket is or was full, keys may lie behind it.
constexpr uint64_t kOverflowed = uint64_t{1} << 62;
/// In the result of a slot that holds a rule, or may not be used again yet.
constexpr uint64_t kUsed = uint64_t{1} << 63;
/// Stores up to this size stay in the first cache: prefetching them costs more than it saves.
constexpr size_t kSmallStore = size_t{16} << 10;

uint64_t draw_word() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

/// The positions of a burst that is at the table whole.
struct Identity {
  size_t operator[](size_t i) const { return i; }
};

inline uint64_t load(const uint64_t& from) {
  return __atomic_load_n(&from, __ATOMIC_RELAXED);
}
inline void store_release(uint64_t& to, uint64_t value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

}  // namespace

struct alignas(kCacheLine) WordTable::Bucket {
  uint64_t key[kSlots];
  uint64_t result[kSlots];  ///< Ranked, and kOverflowed in the last

  /// Bit i set: slot i holds `wanted`.
  [[nodiscard]] unsigned equal_portable(uint64_t wanted) const noexcept {
    unsigned equal = 0;
    for (size_t i = 0; i < kSlots; ++i) equal |= unsigned{load(key[i]) == wanted} << i;
    return equal;
  }
#if HEADRACE_HAS_X86_VECTORS
  [[nodiscard]] HEADRACE_AVX2 unsigned equal_avx2(uint64_t wanted) const noexcept {
    const __m256i keys = _mm256_load_si256(reinterpret_cast<const __m256i*>(key));
    const __m256i equal =
        _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(static_cast<int64_t>(wanted)));
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
  }
#endif
};
/// What readers reach through one pointer.
struct WordTable::Store {
  /// `home`: a power of two.
  Store(size_t home, uint64_t empty)
      : shift(64 - std::countr_zero(home)),
        multiplier(draw_word() | 1),
        buckets(home + kMaxProbe),
        memory(buckets * sizeof(Bucket)),
        bucket(memory.as<Bucket>()) {
    static_assert(sizeof(Bucket) == kCacheLine);
    for (size_t i = 0; i < buckets; ++i) std::fill_n(bucket[i].key, kSlots, empty);
  }

  /// A copy; slots without key are free in it.
  Store(const Store& from, uint64_t empty)
      : shift(from.shift),
        multiplier(from.multiplier),
        buckets(from.buckets),
        memory(buckets * sizeof(Bucket)),
        bucket(memory.as<Bucket>()) {
    std::copy_n(from.bucket, buckets, bucket);
    for (Bucket* each = bucket; each != bucket + buckets; ++each) {
      for (size_t slot = 0; slot < kSlots; ++slot) {
        if (each->key[slot] == empty) each->result[slot] &= kOverflowed;
      }
    }
  }

  [[nodiscard]] size_t home_buckets() const { return buckets - kMaxProbe; }
  [[nodiscard]] Bucket& home(uint64_t key) const { return bucket[key * multiplier >> shift]; }

  /// The result of a key that is not in its home bucket; 0: none.
  [[gnu::noinline]] uint64_t search_behind(const Bucket* full, uint64_t key) const noexcept {
    for (size_t probe = 1; probe < kMaxProbe; ++probe) {
      if ((load(full->result[kSlots - 1]) & kOverflowed) == 0) return 0;
      ++full;
      const unsigned equal = full->equal_portable(key);
      if (equal != 0) return load(full->result[__builtin_ctz(equal)]);
    }
    return 0;
  }

  int shift;
  uint64_t multiplier;
  size_t buckets;
  Block memory;
  Bucket* bucket;
};

/// The store as callbacks of Defer find it: null when the table is gone.
struct WordTable::Slots {
  std::unique_ptr<Store> store;
};

WordTable::WordTable(const FlowKey& mask, size_t expected, Defer defer)
    : mask_(mask),
      words_(mask),
      empty_(~words_.mask(0) != 0 ? ~words_.mask(0) : draw_word()),
      defer_(std::move(defer)),
      slots_(std::make_shared<Slots>()) {
  grow(expected);
}

WordTable::~WordTable() {
  slots_->store.reset();
}

bool WordTable::serves(const FlowKey& mask) {
  return MaskedWords(mask).size() == 1;
}

// --- look-up -----------------------------------------------------------------------------------

/// A look-up's constants. The loops take a copy of their own: the compiler then knows that no store
/// changes it, and keeps it in registers.
struct WordTable::Reader {
  Reader(const Store& from, const MaskedWords& words, uint64_t free_key, uint32_t miss)
      : store(&from),
        position(words.position(0)),
        mask(words.mask(0)),
        multiplier(from.multiplier),
        shift(from.shift),
        bucket(from.bucket),
        empty(free_key),
        otherwise(miss) {}

  [[nodiscard]] uint64_t key_of(const FlowKey& values) const noexcept {
    return word(values, position) & mask;
  }
  [[nodiscard]] const Bucket& home(uint64_t key) const noexcept {
    return bucket[key * multiplier >> shift];
  }
  /// The rule's index, from the slots of the home bucket that hold `key`.
  [[nodiscard]] uint32_t index_at(const Bucket& home, unsigned equal, uint64_t key) const noexcept {
    // No branch depends on whether a packet hits: traffic could make it unpredictable.
    const uint64_t last = load(home.result[kSlots - 1]);
    if ((equal == 0) & ((last & kOverflowed) != 0)) [[unlikely]] {
      const uint64_t behind = store->search_behind(&home, key);
      return behind != 0 && key != empty ? index_of(behind) : otherwise;
    }
    const auto slot = static_cast<size_t>(std::countr_zero(equal | 1u << (kSlots - 1)));
    // Where the mask leaves no bit to tell a free slot by, a packet can have the free slots' key.
    const uint32_t hit = ((equal != 0) & (key != empty)) != 0 ? ~0u : 0;
    return (index_of(load(home.result[slot])) & hit) | (otherwise & ~hit);
  }

  void prefetch(const FlowKey* burst, std::span<const uint8_t> active) const noexcept {
    for (const uint8_t slot : active) __builtin_prefetch(&home(key_of(burst[slot])));
  }
  template <typename At>
  void run_portable(const FlowKey* burst, const At& at, size_t count,
                    uint32_t* results) const noexcept {
    const Reader reader = *this;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t key = reader.key_of(burst[at[i]]);
      const Bucket& home = reader.home(key);
      results[i] = reader.index_at(home, home.equal_portable(key), key);
    }
  }
#if HEADRACE_HAS_X86_VECTORS
  template <typename At>
  HEADRACE_AVX2 void run_avx2(const FlowKey* burst, const At& at, size_t count,
                              uint32_t* results) const noexcept {
    const Reader reader = *this;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t key = reader.key_of(burst[at[i]]);
      const Bucket& home = reader.home(key);
      results[i] = reader.index_at(home, home.equal_avx2(key), key);
    }
  }
#endif
  /// `at[i]`: the position of packet i.
  template <typename At>
  void run(const FlowKey* burst, const At& at, size_t count, uint32_t* results) const noexcept {
#if HEADRACE_HAS_X86_VECTORS
    if (simd() != Simd::portable) return run_avx2(burst, at, count, results);
#endif
    run_portable(burst, at, count, results);
  }

  const Store* store;
  size_t position;
  uint64_t mask;
  uint64_t multiplier;
  int shift;
  const Bucket* bucket;
  uint64_t empty;
  uint32_t otherwise;
};

void WordTable::lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
                       WordSet differ) const noexcept {
  const bool same = (words_.set() & differ) == 0;
  const std::span<const uint8_t> wanted = same ? active.first(1) : active;
  const Reader reader(*store_.load(std::memory_order_acquire), words_, empty_, default_index());
  if (reader.store->memory.bytes() > kSmallStore) reader.prefetch(burst, wanted);
  // Mostly the whole burst is at the table: positions are then not looked up.
  if (wanted.back() + size_t{1} == wanted.size()) {
    reader.run(burst, Identity{}, wanted.size(), results);
  } else {
    reader.run(burst, wanted, wanted.size(), results);
  }
  if (same) std::fill_n(results, active.size(), uint32_t{results[0]});
}

// --- change ------------------------------------------------------------------------------------

/// The slot that holds `key`; null pointers if none does.
WordTable::Slot WordTable::find(uint64_t key) const {
  if (key == empty_) return {};
  Bucket* bucket = &slots_->store->home(key);
  for (size_t probe = 0; probe < kMaxProbe; ++probe, ++bucket) {
    if (const unsigned equal = bucket->equal_portable(key); equal != 0) {
      const int slot = std::countr_zero(equal);
      return {&bucket->key[slot], &bucket->result[slot]};
    }
    if ((bucket->result[kSlots - 1] & kOverflowed) == 0) break;
  }
  return {};
}

/// Publishes a key that is not there. False if all buckets where it may be are full.
bool WordTable::place(Store& store, uint64_t key, Ranked result) {
  Bucket* bucket = &store.home(key);
  for (size_t probe = 0; probe < kMaxProbe; ++probe, ++bucket) {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const uint64_t old = bucket->result[slot];
      if ((old & kUsed) != 0) continue;
      store_release(bucket->result[slot], result | (old & kOverflowed));
      store_release(bucket->key[slot], key);
      return true;
    }
    uint64_t& last = bucket->result[kSlots - 1];
    store_release(last, last | kOverflowed);
  }
  return false;
}

/// Twice the buckets, or as many as `entries` keys need, with another draw; all keys move over.
void WordTable::grow(size_t entries) {
  const Store* old = slots_->store.get();
  size_t buckets = old == nullptr ? kMinBuckets : old->home_buckets() * 2;
  while (buckets * kMeanFillOfFour < entries * kSlots) buckets *= 2;
  for (;; buckets *= 2) {
    auto bigger = std::make_unique<Store>(buckets, empty_);
    bool complete = true;
    for (size_t b = 0; old != nullptr && complete && b < old->buckets; ++b) {
      for (size_t slot = 0; slot < kSlots && complete; ++slot) {
        const Bucket& from = old->bucket[b];
        if (from.key[slot] == empty_) continue;
        complete = place(*bigger, from.key[slot], from.result[slot] & ~kOverflowed);
      }
    }
    if (!complete) continue;  // an unlucky draw
    pending_free_.clear();
    store_.store(bigger.get(), std::memory_order_release);
    std::shared_ptr<Store> gone(slots_->store.release());
    slots_->store = std::move(bigger);
    if (gone != nullptr) defer_([gone] {});
    return;
  }
}

bool WordTable::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (!same_mask(match) || index >= kIndexLimit) return false;
  const uint64_t key = key_of(match);
  if (key == empty_) return false;
  const Ranked rule = ranked(priority, index);
  ++size_;
  if (const Slot slot = find(key); slot.key != nullptr) {
    set(slot, same_match_.add(key, content(slot), rule));
    return true;
  }
  ++keys_;
  if (keys_ * kSlots > slots_->store->home_buckets() * kMeanFillOfFour) grow(0);
  while (!place(*slots_->store, key, rule)) grow(0);
  return true;
}

bool WordTable::erase(const Match& match, uint16_t priority) {
  if (!same_mask(match)) return false;
  const uint64_t key = key_of(match);
  const Slot slot = find(key);
  if (slot.key == nullptr) return false;
  const std::optional<Ranked> next = same_match_.erase(key, content(slot), priority);
  if (!next.has_value()) return false;
  --size_;
  if (*next != 0) {
    set(slot, *next);
    return true;
  }
  --keys_;
  store_release(*slot.key, empty_);
  pending_free_.push_back(slot.result);
  if (pending_free_.size() >= kPendingFreeBatch) flush_pending_free();
  return true;
}

bool WordTable::replace(const Match& match, uint16_t priority, uint32_t index) {
  if (!same_mask(match) || index >= kIndexLimit) return false;
  const uint64_t key = key_of(match);
  const Slot slot = find(key);
  if (slot.key == nullptr) return false;
  const std::optional<Ranked> next = same_match_.replace(key, content(slot), priority, index);
  if (!next.has_value()) return false;
  set(slot, *next);
  return true;
}

/// Slots whose keys were erased may be used again after a grace period, if their store still is.
void WordTable::flush_pending_free() {
  const Store* store = slots_->store.get();
  defer_([slots = slots_, store, results = std::exchange(pending_free_, {})] {
    if (slots->store.get() != store) return;
    for (uint64_t* result : results) store_release(*result, *result & kOverflowed);
  });
}

Ranked WordTable::content(Slot slot) {
  return *slot.result & ~kOverflowed;
}

void WordTable::set(Slot slot, Ranked rule) {
  store_release(*slot.result, rule | (*slot.result & kOverflowed));
}

std::unique_ptr<Classifier> WordTable::clone() const {
  auto made = std::make_unique<WordTable>(mask_, 0, defer_);
  made->slots_->store = std::make_unique<Store>(*slots_->store, empty_);
  made->store_.store(made->slots_->store.get(), std::memory_order_relaxed);
  made->size_ = size_;
  made->keys_ = keys_;
  made->same_match_ = same_match_;
  made->set_default(default_index());
  return made;
}

size_t WordTable::memory_bytes() const {
  return sizeof *this + slots_->store->memory.bytes();
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

std::optional<Fit> plan_word(std::span<const RuleRef> rules) {
  const Match& first = *rules.front().match;
  if (!WordTable::serves(first.mask) || rules.size() > WordTable::kMaxRules ||
      !have_one_mask(rules)) {
    return std::nullopt;
  }
  return Fit{"one mask over " + names_of(first) + ": exact hash of one word",
             [rules](const Defer& defer) {
               const FlowKey& mask = rules.front().match->mask;
               return filled(std::make_unique<WordTable>(mask, rules.size(), defer), rules);
             }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind word_table;
const ClassifierKind word_table{"hash-word", plan_word};
}  // namespace kinds

}  // namespace headrace::match
