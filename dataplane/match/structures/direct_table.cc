// SPDX-License-Identifier: Apache-2.0
#include "match/structures/direct_table.h"

#include <algorithm>
#include <optional>
#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

#include "match/fields/intrinsics.h"
#include "match/structures/block.h"
#include "match/structures/classifier_kind.h"

namespace headrace::match {

unsigned zero_lanes(Pair words) noexcept {
#if defined(__SSE4_1__)
  const __m128i equal = _mm_cmpeq_epi64(reinterpret_cast<__m128i>(words), _mm_setzero_si128());
  return static_cast<unsigned>(_mm_movemask_pd(_mm_castsi128_pd(equal)));
#else
  return zero_lanes_portable(words);
#endif
}

/// The rules as readers see them: rule r's mask and value of union word w are mask[w][r],
/// value[w][r]. Lanes without a rule can't match: value 1 under mask 0.
struct alignas(kCacheLine) DirectTable::Compiled {
  using Lookup = void (*)(const Compiled&, const FlowKey*, std::span<const uint8_t>, uint32_t,
                          uint32_t*) noexcept;

  explicit Compiled(const std::vector<Rule>& rules) {
    for (size_t i = 0; i < kFieldWords; ++i) {
      const bool used_by_rule = std::any_of(
          rules.begin(), rules.end(), [i](const Rule& rule) { return word(rule.mask, i) != 0; });
      if (!used_by_rule) continue;
      used |= WordSet{1} << i;
      position[words++] = static_cast<uint8_t>(i);
    }
    const size_t rows = std::max<size_t>(words, 1);
    for (size_t w = 0; w < rows; ++w) {
      for (size_t r = 0; r < kRules; ++r) {
        const bool rule = r < rules.size();
        mask[w][r / 2][r % 2] = rule ? word(rules[r].mask, position[w]) : 0;
        value[w][r / 2][r % 2] = rule ? word(rules[r].value, position[w]) : 1;
      }
    }
    words = rows;
    for (size_t r = 0; r < rules.size(); ++r) index[r] = rules[r].index;
#if HEADRACE_HAS_X86_VECTORS
    if (simd() != Simd::portable) {
      const bool in_line = rules.size() == 1 && position[rows - 1] < kLineWords;
      for (size_t w = 0; w < rows && in_line; ++w) {
        line_mask[position[w]] = mask[w][0][0];
        line_value[position[w]] = value[w][0][0];
      }
      lookup = simd() == Simd::avx512 ? (in_line ? run_one_avx512 : run_avx512)
               : in_line              ? run_one_avx2
               : rules.size() <= 4    ? run_avx2<4>
                                      : run_avx2<8>;
      return;
    }
#endif
    lookup = rules.size() <= 1   ? run<1>
             : rules.size() <= 2 ? run<2>
             : rules.size() <= 4 ? run<4>
                                 : run<8>;
  }

  template <size_t lanes>
  static void run(const Compiled& table, const FlowKey* burst, std::span<const uint8_t> active,
                  uint32_t otherwise, uint32_t* results) noexcept {
    std::array<uint32_t, lanes + 1> outcome;
    std::copy_n(table.index.begin(), lanes, outcome.begin());
    outcome[lanes] = otherwise;
    const size_t words = table.words;
    for (size_t i = 0; i < active.size(); ++i) {
      const FlowKey& values = burst[active[i]];
      // As many vectors as the rules fill; a vector type, since a compiler that is left to find out
      // by itself may write words and read them back as vectors, which stalls.
      constexpr size_t kVectors = (lanes + 1) / 2;
      Pair difference[kVectors] = {};
      for (size_t w = 0; w < words; ++w) {
        const uint64_t bits = word(values, table.position[w]);
        const Pair both = {bits, bits};
        for (size_t v = 0; v < kVectors; ++v) {
          difference[v] |= (both & table.mask[w][v]) ^ table.value[w][v];
        }
      }
      unsigned matching = 0;
      for (size_t v = 0; v < kVectors; ++v) matching |= zero_lanes(difference[v]) << (2 * v);
      constexpr unsigned kLanes = (1u << lanes) - 1;
      const unsigned first = (matching & kLanes) | 1u << lanes;
      results[i] = outcome[static_cast<size_t>(__builtin_ctz(first))];
    }
  }

#if HEADRACE_HAS_X86_VECTORS
  /// Words 4v..4v+3 of a line: of a row of rules, or of a FlowKey.
  HEADRACE_AVX2 static __m256i four_of(const void* line, size_t v) {
    return _mm256_load_si256(static_cast<const __m256i*>(line) + v);
  }

  /// Bit i set: lane i is 0.
  HEADRACE_AVX2 static unsigned zero_lanes_avx2(__m256i lanes) {
    const __m256i zero = _mm256_cmpeq_epi64(lanes, _mm256_setzero_si256());
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(zero)));
  }

  /// `rules`: 4 or 8.
  template <size_t rules>
  HEADRACE_AVX2 static void run_avx2(const Compiled& table, const FlowKey* burst,
                                     std::span<const uint8_t> active, uint32_t otherwise,
                                     uint32_t* results) noexcept {
    constexpr size_t kVectors = rules / 4;
    std::array<uint32_t, rules + 1> outcome;
    std::copy_n(table.index.begin(), rules, outcome.begin());
    outcome[rules] = otherwise;
    const size_t words = table.words;
    for (size_t i = 0; i < active.size(); ++i) {
      const FlowKey& values = burst[active[i]];
      __m256i difference[kVectors] = {};
      for (size_t w = 0; w < words; ++w) {
        const auto bits = static_cast<int64_t>(word(values, table.position[w]));
        const __m256i all = _mm256_set1_epi64x(bits);
        for (size_t v = 0; v < kVectors; ++v) {
          const __m256i masked = _mm256_and_si256(all, four_of(&table.mask[w], v));
          difference[v] =
              _mm256_or_si256(difference[v], _mm256_xor_si256(masked, four_of(&table.value[w], v)));
        }
      }
      unsigned first = 1u << rules;
      for (size_t v = 0; v < kVectors; ++v) first |= zero_lanes_avx2(difference[v]) << (4 * v);
      results[i] = outcome[static_cast<size_t>(__builtin_ctz(first))];
    }
  }

  /// As run_one_avx512(), in two halves.
  HEADRACE_AVX2 static void run_one_avx2(const Compiled& table, const FlowKey* burst,
                                         std::span<const uint8_t> active, uint32_t otherwise,
                                         uint32_t* results) noexcept {
    constexpr size_t kHalves = 2;
    __m256i mask[kHalves];
    __m256i value[kHalves];
    __m256i difference[kHalves];
    for (size_t half = 0; half < kHalves; ++half) {
      mask[half] = four_of(table.line_mask.data(), half);
      value[half] = four_of(table.line_value.data(), half);
      difference[half] = _mm256_setzero_si256();
    }
    for (const uint8_t slot : active) {
      for (size_t half = 0; half < kHalves; ++half) {
        const __m256i masked = _mm256_and_si256(four_of(&burst[slot], half), mask[half]);
        difference[half] = _mm256_or_si256(difference[half], _mm256_xor_si256(masked, value[half]));
      }
    }
    const __m256i any = _mm256_or_si256(difference[0], difference[1]);
    if (_mm256_testz_si256(any, any) == 0) {
      return run_avx2<4>(table, burst, active, otherwise, results);
    }
    std::fill_n(results, active.size(), table.index[0]);
  }

  /// (a & mask) ^ value
  HEADRACE_AVX512 static __m512i difference_of(__m512i a, __m512i mask, __m512i value) {
    return _mm512_ternarylogic_epi64(a, mask, value, 0x6a);
  }

  /// The rules of word w as the eight lanes of a register.
  HEADRACE_AVX512 static __m512i lanes_of(const std::array<Pair, kRules / 2>& row) {
    static_assert(sizeof row == sizeof(__m512i));
    return _mm512_load_si512(row.data());
  }

  /// Which rules match: bit r for rule r.
  HEADRACE_AVX512 static unsigned matching_avx512(const Compiled& table, const FlowKey& values) {
    __m512i difference = _mm512_setzero_si512();
    for (size_t w = 0; w < table.words; ++w) {
      const auto bits = static_cast<int64_t>(word(values, table.position[w]));
      difference = _mm512_or_si512(difference,
                                   difference_of(_mm512_set1_epi64(bits), lanes_of(table.mask[w]),
                                                 lanes_of(table.value[w])));
    }
    return _mm512_testn_epi64_mask(difference, difference);
  }

  HEADRACE_AVX512 static void run_avx512(const Compiled& table, const FlowKey* burst,
                                         std::span<const uint8_t> active, uint32_t otherwise,
                                         uint32_t* results) noexcept {
    std::array<uint32_t, kRules + 1> outcome;
    std::copy_n(table.index.begin(), kRules, outcome.begin());
    outcome[kRules] = otherwise;
    for (size_t i = 0; i < active.size(); ++i) {
      const unsigned first = matching_avx512(table, burst[active[i]]) | 1u << kRules;
      results[i] = outcome[static_cast<size_t>(__builtin_ctz(first))];
    }
  }

  /// One rule is mostly one that all packets match: the differences of all of them are gathered,
  /// and packets told apart only if there is any. For rules on the first line of FlowKey.
  HEADRACE_AVX512 static void run_one_avx512(const Compiled& table, const FlowKey* burst,
                                             std::span<const uint8_t> active, uint32_t otherwise,
                                             uint32_t* results) noexcept {
    const __m512i mask = _mm512_load_si512(table.line_mask.data());
    const __m512i value = _mm512_load_si512(table.line_value.data());
    __m512i difference = _mm512_setzero_si512();
    for (const uint8_t slot : active) {
      const __m512i line = _mm512_load_si512(&burst[slot]);
      difference = _mm512_or_si512(difference, difference_of(line, mask, value));
    }
    if (_mm512_test_epi64_mask(difference, difference) != 0) {
      return run_avx512(table, burst, active, otherwise, results);
    }
    std::fill_n(results, active.size(), table.index[0]);
  }
#endif

  using Row = std::array<Pair, kRules / 2>;
  alignas(kCacheLine) std::array<Row, kFieldWords> mask{};
  alignas(kCacheLine) std::array<Row, kFieldWords> value{};
  static constexpr size_t kLineWords = kCacheLine / sizeof(uint64_t);
  /// Of a single rule: mask and value as the first line of FlowKey has them.
  alignas(kCacheLine) std::array<uint64_t, kLineWords> line_mask{};
  alignas(kCacheLine) std::array<uint64_t, kLineWords> line_value{};
  std::array<uint32_t, kRules> index{};
  std::array<uint8_t, kFieldWords> position{};
  size_t words{0};
  WordSet used{0};  ///< the same words as a set
  Lookup lookup{nullptr};
};

DirectTable::DirectTable(Defer defer) : defer_(std::move(defer)) {
  publish();
}

DirectTable::~DirectTable() {
  delete compiled_.load(std::memory_order_relaxed);
}

void DirectTable::lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
                         WordSet differ) const noexcept {
  const Compiled& table = *compiled_.load(std::memory_order_acquire);
  const bool same = (table.used & differ) == 0;
  table.lookup(table, burst, same ? active.first(1) : active, default_index(), results);
  if (same) std::fill_n(results, active.size(), uint32_t{results[0]});
}

void DirectTable::publish() {
  Compiled* old = compiled_.exchange(new Compiled(rules_), std::memory_order_acq_rel);
  if (old != nullptr) defer_([old] { delete old; });
}

std::vector<DirectTable::Rule>::iterator DirectTable::find(const Match& match, uint16_t priority) {
  return std::find_if(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return rule.priority == priority &&
           std::memcmp(&rule.value, &match.value, sizeof(FlowKey)) == 0 &&
           std::memcmp(&rule.mask, &match.mask, sizeof(FlowKey)) == 0;
  });
}

bool DirectTable::insert(const Match& match, uint16_t priority, uint32_t index) {
  if (rules_.size() == kRules || index >= kIndexLimit) return false;
  const auto behind = std::find_if(rules_.begin(), rules_.end(), [priority](const Rule& rule) {
    return rule.priority < priority;
  });
  rules_.insert(behind, Rule{match.value, match.mask, priority, index});
  publish();
  return true;
}

bool DirectTable::erase(const Match& match, uint16_t priority) {
  const auto rule = find(match, priority);
  if (rule == rules_.end()) return false;
  rules_.erase(rule);
  publish();
  return true;
}

bool DirectTable::replace(const Match& match, uint16_t priority, uint32_t index) {
  const auto rule = find(match, priority);
  if (rule == rules_.end() || index >= kIndexLimit) return false;
  rule->index = index;
  publish();
  return true;
}

size_t DirectTable::memory_bytes() const {
  return sizeof *this + sizeof(Compiled);
}

// --- kind ---------------------------------------------------------------------------------------

namespace {

std::optional<Fit> plan_direct(std::span<const RuleRef> rules) {
  if (rules.size() > DirectTable::kRules) return std::nullopt;
  return Fit{"a few rules: compared directly", [rules](const Defer& defer) {
               return filled(std::make_unique<DirectTable>(defer), rules);
             }};
}

}  // namespace

namespace kinds {
extern const ClassifierKind direct_table;
const ClassifierKind direct_table{"direct", plan_direct};
}  // namespace kinds

}  // namespace headrace::match
