// SPDX-License-Identifier: Apache-2.0
#include "match/structures/hash_table.h"

#include <algorithm>
#include <cassert>
#include <random>
#include <string>

#include "match/structures/classifier_kind.h"

namespace headrace::match {
namespace {

constexpr size_t kSlots = kBucketSlots;
constexpr size_t kMinBuckets = 2;
/// Mean entries per bucket at most. With Poisson of mean 4, 2% of the buckets overflow.
constexpr size_t kMeanFill = 4;
/// One overflow bucket for this many.
constexpr size_t kOverflowShare = 8;
/// Entries are handed to Defer in batches of this many: a grace period is not free.
constexpr size_t kPendingFreeBatch = 128;

/// Random words that stay inside the process.
std::array<uint64_t, kFieldWords> draw_secret() {
  std::array<uint64_t, kFieldWords> words{};
  std::random_device random;
  for (uint64_t& each : words) each = uint64_t{random()} << 32 | random() | 1;
  return words;
}

inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// The hash of `words` key words; a constant count unrolls.
inline uint64_t hash_of(const uint64_t* key, size_t words,
                        const std::array<uint64_t, kFieldWords>& seed) {
  uint64_t hash = 0;
  size_t i = 0;
  for (; i + 2 <= words; i += 2) {
    hash = (hash << 1 | hash >> 63) ^ fold_multiply(key[i] ^ seed[i], key[i + 1] ^ seed[i + 1]);
  }
  if (i < words) {
    hash = (hash << 1 | hash >> 63) ^ fold_multiply(key[i] ^ seed[i], seed[(i + 1) % kFieldWords]);
  }
  return hash;
}

/// 0 marks an empty slot.
inline uint16_t signature_of(uint64_t hash) {
  const auto signature = static_cast<uint16_t>(hash >> 48);
  return signature == 0 ? 1 : signature;
}

inline bool equal_keys(const uint64_t* a, const uint64_t* b, size_t words) {
  uint64_t difference = 0;
  for (size_t i = 0; i < words; ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

inline uint32_t load_relaxed(const uint32_t& from) {
  return __atomic_load_n(&from, __ATOMIC_RELAXED);
}

}  // namespace

struct alignas(kCacheLine) HashTable::Bucket {
  uint16_t signature[kSlots];
  uint32_t entry[kSlots];
  uint32_t next;  ///< number of the overflow bucket; 0: none
  uint32_t pad[3];
};

/// What readers reach through one pointer: buckets, overflow buckets behind them, entries.
struct HashTable::Store {
  Store(size_t buckets, size_t words)
      : bucket_mask(buckets - 1),
        overflow_end(static_cast<uint32_t>(buckets + buckets / kOverflowShare + 1)),
        overflow_used(static_cast<uint32_t>(buckets)),
        entry_words(words + 1),
        entry_limit(static_cast<uint32_t>(buckets * kMeanFill) + 1),
        bucket_memory(overflow_end * sizeof(Bucket)),
        entry_memory(size_t{entry_limit} * entry_words * sizeof(uint64_t)),
        bucket(bucket_memory.as<Bucket>()),
        entries(entry_memory.as<uint64_t>()) {}

  [[nodiscard]] uint64_t* result(uint32_t entry) const { return entries + entry * entry_words; }
  [[nodiscard]] uint64_t* key(uint32_t entry) const { return result(entry) + 1; }

  uint64_t bucket_mask;
  uint32_t overflow_end;
  uint32_t overflow_used;
  size_t entry_words;
  uint32_t entry_limit;  ///< numbers below it exist
  Block bucket_memory;
  Block entry_memory;
  Bucket* bucket;
  uint64_t* entries;
};

struct HashTable::Freed {
  std::vector<uint32_t> entries;
};

const HashTable::Secret HashTable::secret_ = draw_secret();

HashTable::HashTable(const FlowKey& mask, size_t expected, Defer defer)
    : mask_(mask), words_(mask), defer_(std::move(defer)), freed_(std::make_shared<Freed>()) {
  grow(expected);
}

HashTable::~HashTable() {
  delete store_.load(std::memory_order_relaxed);
}

// --- look-up -----------------------------------------------------------------------------------

/// The whole walk: all slots of the bucket that the signature agrees with, and its overflow
/// buckets.
[[gnu::noinline]] Ranked HashTable::search_chain(const Store& store, const Bucket* bucket,
                                                 uint16_t signature, const uint64_t* key,
                                                 size_t words) noexcept {
  for (;;) {
    for (unsigned equal = equal_signatures(bucket->signature, signature); equal != 0;
         equal &= equal - 1) {
      const uint32_t entry = load_relaxed(bucket->entry[__builtin_ctz(equal)]);
      if (entry == 0 || !equal_keys(store.key(entry), key, words)) continue;
      return __atomic_load_n(store.result(entry), __ATOMIC_RELAXED);
    }
    const uint32_t next = __atomic_load_n(&bucket->next, __ATOMIC_ACQUIRE);
    if (next == 0) return 0;
    bucket = &store.bucket[next];
  }
}

/// Calls found(i, slot, result) for every packet; i counts in `active`, result 0 is none.
template <size_t kWords, typename Found>
void HashTable::search(const FlowKey* burst, std::span<const uint8_t> active,
                       Found&& found) const noexcept {
  const Store& store = *store_.load(std::memory_order_acquire);
  // Copies on the stack: the compiler knows that no store of the loops below changes them.
  const size_t words = kWords != 0 ? kWords : words_.size();
  const size_t entry_words = words + 1;
  constexpr size_t kKeyWords = kWords != 0 ? kWords : kFieldWords;
  const MaskedWords masked = words_;
  const Secret& seed = secret_;
  const uint64_t bucket_mask = store.bucket_mask;
  const Bucket* const all_buckets = store.bucket;
  const uint64_t* const entries = store.entries;

  uint64_t keys[kBurst][kKeyWords];
  const Bucket* buckets[kBurst];
  uint16_t signatures[kBurst];
  uint32_t candidates[kBurst];
  const size_t count = active.size();

  for (size_t i = 0; i < count; ++i) {
    const FlowKey& values = burst[active[i]];
    for (size_t k = 0; k < words; ++k) keys[i][k] = masked.key_word(values, k);
    const uint64_t hash = hash_of(keys[i], words, seed);
    signatures[i] = signature_of(hash);
    buckets[i] = &all_buckets[hash & bucket_mask];
    __builtin_prefetch(buckets[i]);
  }
  // No branch from here on depends on whether a packet hits: in a tuple space that is a coin's
  // toss. Entry 0 stands for none; its result is 0.
  for (size_t i = 0; i < count; ++i) {
    const unsigned equal = equal_signatures(buckets[i]->signature, signatures[i]);
    const auto first = static_cast<unsigned>(__builtin_ctz(equal | 1u << kSlots));
    const uint32_t any = equal != 0 ? ~0u : 0;
    candidates[i] = load_relaxed(buckets[i]->entry[first % kSlots]) & any;
    __builtin_prefetch(entries + candidates[i] * entry_words);
  }
  for (size_t i = 0; i < count; ++i) {
    const uint64_t* entry = entries + candidates[i] * entry_words;
    uint64_t difference = 0;
    for (size_t k = 0; k < words; ++k) difference |= entry[1 + k] ^ keys[i][k];
    const uint64_t all_if_equal = difference == 0 ? ~uint64_t{0} : 0;
    Ranked result = __atomic_load_n(entry, __ATOMIC_RELAXED) & all_if_equal;
    const uint32_t elsewhere = candidates[i] | load_relaxed(buckets[i]->next);
    if (result == 0 && elsewhere != 0) [[unlikely]] {
      result = search_chain(store, buckets[i], signatures[i], keys[i], words);
    }
    found(i, active[i], result);
  }
}

/// Chooses the search that is unrolled for the key's length: usual keys have one to four words.
template <typename Found>
void HashTable::search_any(const FlowKey* burst, std::span<const uint8_t> active,
                           Found&& found) const noexcept {
  switch (words_.size()) {
    case 1:
      return search<1>(burst, active, found);
    case 2:
      return search<2>(burst, active, found);
    case 3:
      return search<3>(burst, active, found);
    case 4:
      return search<4>(burst, active, found);
    default:
      return search<0>(burst, active, found);
  }
}

void HashTable::lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
                       WordSet differ) const noexcept {
  const bool same = (words_.set() & differ) == 0;
  search_any(burst, same ? active.first(1) : active,
             [results, otherwise = default_index()](size_t i, uint8_t, Ranked result) {
               results[i] = result != 0 ? index_of(result) : otherwise;
             });
  if (same) std::fill_n(results, active.size(), uint32_t{results[0]});
}

void HashTable::find_all(const FlowKey* burst, std::span<const uint8_t> active,
                         Ranked* results) const noexcept {
  search_any(burst, active, [results](size_t i, uint8_t, Ranked result) { results[i] = result; });
}

void HashTable::improve(const FlowKey* burst, std::span<const uint8_t> active,
                        Ranked* best) const noexcept {
  search_any(burst, active, [best](size_t, uint8_t slot, Ranked result) {
    best[slot] = std::max(best[slot], result);
  });
}

// --- change ------------------------------------------------------------------------------------

HashTable::Key HashTable::key_of(const FlowKey& values) const {
  Key key{};
  for (size_t i = 0; i < words_.size(); ++i) key[i] = words_.key_word(values, i);
  return key;
}

/// The entry that holds `key`; 0 if none does.
uint32_t HashTable::find(const Key& key) const {
  const Store& store = *store_.load(std::memory_order_relaxed);
  const uint64_t hash = hash_of(key.data(), words_.size(), secret_);
  const uint16_t signature = signature_of(hash);
  for (const Bucket* bucket = &store.bucket[hash & store.bucket_mask];;
       bucket = &store.bucket[bucket->next]) {
    for (unsigned equal = equal_signatures(bucket->signature, signature); equal != 0;
         equal &= equal - 1) {
      const uint32_t entry = bucket->entry[__builtin_ctz(equal)];
      if (equal_keys(store.key(entry), key.data(), words_.size())) return entry;
    }
    if (bucket->next == 0) return 0;
  }
}

/// A free entry number; the table grows if there is none.
uint32_t HashTable::take_entry() {
  for (int attempt = 0;; ++attempt) {
    if (!freed_->entries.empty()) {
      const uint32_t entry = freed_->entries.back();
      freed_->entries.pop_back();
      return entry;
    }
    if (entries_used_ < store_.load(std::memory_order_relaxed)->entry_limit) {
      return entries_used_++;
    }
    if (attempt == 0 && !pending_free_.empty()) {
      flush_pending_free();  // where no worker looks, the entries are free at once
      continue;
    }
    grow(0);
  }
}

/// Publishes an entry that is written. False if the overflow buckets are used up.
bool HashTable::link(Store& store, uint64_t hash, uint32_t entry) {
  Bucket* bucket = &store.bucket[hash & store.bucket_mask];
  for (;;) {
    const unsigned empty = equal_signatures(bucket->signature, 0);
    if (empty != 0) {
      const auto slot = static_cast<size_t>(__builtin_ctz(empty));
      __atomic_store_n(&bucket->entry[slot], entry, __ATOMIC_RELEASE);
      __atomic_store_n(&bucket->signature[slot], signature_of(hash), __ATOMIC_RELEASE);
      return true;
    }
    if (bucket->next == 0) {
      if (store.overflow_used == store.overflow_end) return false;
      __atomic_store_n(&bucket->next, store.overflow_used++, __ATOMIC_RELEASE);
    }
    bucket = &store.bucket[bucket->next];
  }
}

/// Doubles the buckets, at least until `entries` have room, and moves all entries over. Entry
/// numbers stay.
void HashTable::grow(size_t entries) {
  Store* old = store_.load(std::memory_order_relaxed);
  size_t buckets = old == nullptr ? kMinBuckets : (old->bucket_mask + 1) * 2;
  while (buckets * kMeanFill < entries) buckets *= 2;
  for (;; buckets *= 2) {
    auto bigger = std::make_unique<Store>(buckets, words_.size());
    bool complete = true;
    if (old != nullptr) {
      std::memcpy(bigger->entries, old->entries,
                  size_t{entries_used_} * old->entry_words * sizeof(uint64_t));
      for (uint32_t b = 0; b < old->overflow_used && complete; ++b) {
        for (size_t slot = 0; slot < kSlots && complete; ++slot) {
          if (old->bucket[b].signature[slot] == 0) continue;
          const uint32_t entry = old->bucket[b].entry[slot];
          const uint64_t hash = hash_of(old->key(entry), words_.size(), secret_);
          complete = link(*bigger, hash, entry);
        }
      }
    }
    if (!complete) continue;  // an unlucky draw of the hash: twice the buckets again
    store_.store(bigger.release(), std::memory_order_release);
    if (old != nullptr) defer_([old] { delete old; });
    return;
  }
}

bool HashTable::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (!same_mask(match) || index >= kIndexLimit) return false;
  const Key key = key_of(match.value);
  const Ranked result = ranked(priority, index);
  ++size_;
  if (const uint32_t entry = find(key); entry != 0) {
    uint64_t* current = store_.load(std::memory_order_relaxed)->result(entry);
    __atomic_store_n(current, waiting_.add(entry, *current, result), __ATOMIC_RELEASE);
    return true;
  }
  const uint32_t entry = take_entry();
  const uint64_t hash = hash_of(key.data(), words_.size(), secret_);
  for (;;) {
    Store& store = *store_.load(std::memory_order_relaxed);
    *store.result(entry) = result;
    std::copy_n(key.begin(), words_.size(), store.key(entry));
    if (link(store, hash, entry)) return true;
    grow(0);
  }
}

std::unique_ptr<HashTable> HashTable::copy() const {
  const Store& from = *store_.load(std::memory_order_relaxed);
  auto made = std::make_unique<HashTable>(mask_, 0, defer_);
  auto store = std::make_unique<Store>(from.bucket_mask + 1, words_.size());
  std::memcpy(store->bucket, from.bucket, size_t{from.overflow_used} * sizeof(Bucket));
  std::memcpy(store->entries, from.entries,
              size_t{entries_used_} * from.entry_words * sizeof(uint64_t));
  store->overflow_used = from.overflow_used;
  delete made->store_.exchange(store.release(), std::memory_order_relaxed);
  made->size_ = size_;
  made->entries_used_ = entries_used_;
  made->waiting_ = waiting_;
  made->find_free_entries();
  made->set_default(default_index());
  return made;
}

/// Entries that are in no bucket, also those that readers of the original may still see.
void HashTable::find_free_entries() {
  const Store& store = *store_.load(std::memory_order_relaxed);
  std::vector<bool> linked(entries_used_, false);
  for (uint32_t b = 0; b < store.overflow_used; ++b) {
    const Bucket& bucket = store.bucket[b];
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (bucket.signature[slot] != 0) linked[bucket.entry[slot]] = true;
    }
  }
  for (uint32_t entry = 1; entry < entries_used_; ++entry) {
    if (!linked[entry]) freed_->entries.push_back(entry);
  }
}

void HashTable::unlink(const Key& key, uint32_t entry) {
  Store& store = *store_.load(std::memory_order_relaxed);
  const uint64_t hash = hash_of(key.data(), words_.size(), secret_);
  for (Bucket* bucket = &store.bucket[hash & store.bucket_mask];;
       bucket = &store.bucket[bucket->next]) {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (bucket->entry[slot] != entry || bucket->signature[slot] == 0) continue;
      __atomic_store_n(&bucket->signature[slot], uint16_t{0}, __ATOMIC_RELEASE);
      return;
    }
    assert(bucket->next != 0);
  }
}

void HashTable::release_entry(uint32_t entry) {
  pending_free_.push_back(entry);
  if (pending_free_.size() >= kPendingFreeBatch) flush_pending_free();
}

void HashTable::flush_pending_free() {
  defer_([freed = freed_, entries = std::exchange(pending_free_, {})] {
    freed->entries.insert(freed->entries.end(), entries.begin(), entries.end());
  });
}

bool HashTable::erase(const Match& match, uint16_t priority) {
  if (!same_mask(match)) return false;
  const Key key = key_of(match.value);
  const uint32_t entry = find(key);
  if (entry == 0) return false;
  uint64_t* current = store_.load(std::memory_order_relaxed)->result(entry);
  const std::optional<Ranked> next = waiting_.erase(entry, *current, priority);
  if (!next.has_value()) return false;
  --size_;
  if (*next != 0) {
    __atomic_store_n(current, *next, __ATOMIC_RELEASE);
    return true;
  }
  unlink(key, entry);
  release_entry(entry);
  return true;
}

bool HashTable::replace(const Match& match, uint16_t priority, uint32_t index) {
  if (!same_mask(match) || index >= kIndexLimit) return false;
  const uint32_t entry = find(key_of(match.value));
  if (entry == 0) return false;
  uint64_t* current = store_.load(std::memory_order_relaxed)->result(entry);
  const std::optional<Ranked> next = waiting_.replace(entry, *current, priority, index);
  if (!next.has_value()) return false;
  __atomic_store_n(current, *next, __ATOMIC_RELEASE);
  return true;
}

size_t HashTable::memory_bytes() const {
  const Store& store = *store_.load(std::memory_order_relaxed);
  return sizeof *this + store.bucket_memory.bytes() + store.entry_memory.bytes();
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

std::optional<Fit> plan_hash(std::span<const RuleRef> rules) {
  const Match& first = *rules.front().match;
  if (first.words == 0 || !have_one_mask(rules)) return std::nullopt;
  return Fit{"one mask over " + names_of(first) + ": exact hash", [rules](const Defer& defer) {
               const FlowKey& mask = rules.front().match->mask;
               return filled(std::make_unique<HashTable>(mask, rules.size(), defer), rules);
             }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind hash_table;
const ClassifierKind hash_table{"hash", plan_hash};
}  // namespace kinds

}  // namespace headrace::match
