// SPDX-License-Identifier: Apache-2.0
// Bursts whose packets hit several rules of a table need care: one packet in a hundred of another
// kind makes every third burst a mixed one, and traffic that hits no rule comes at its sender's
// choice. So the packets among which it came keep the fast path that they have alone: a burst of
// two rules becomes two that are uniform, and packets that rules only drop are taken out of bursts
// that are homogeneous otherwise.
#include "pipeline/execute/classification.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <rte_cycles.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "pipeline/execute/forward_runner.h"
#include "pipeline/execute/rule_runner.h"

namespace headrace::pipeline {
namespace {

constexpr match::WordSet kMetadataWord = 1u << offsetof(match::FlowKey, metadata) / 8;

/// Packets at a table.
struct AtTable {
  std::span<const uint8_t> active;  ///< positions, ascending; rules[k] is active[k]'s
  PacketSet members;                ///< the same as a set
};

/// True if a burst may be of no more than two rules: of any three packets two have the same then.
inline bool may_be_two(const uint32_t* rules, size_t n) {
  const uint32_t first = rules[0];
  const uint32_t middle = rules[n / 2];
  const uint32_t last = rules[n - 1];
  return first == middle || first == last || middle == last;
}

/// The octets of some packets that are at a table.
uint64_t bytes_of(const Execution& x, const AtTable& here) noexcept {
  if (here.members == first_packets(x.burst.count)) return x.burst.bytes;
  uint64_t bytes = 0;
  for (const uint8_t i : here.active) bytes += x.lengths[i];
  return bytes;
}

void count_hit(const Execution& x, const Rule& rule, uint64_t packets, uint64_t bytes) noexcept {
  add(x.burst.counts[rule.counter], packets, bytes);
  if (rule.track_idle != 0) x.burst.program->counters->note_use(rule.counter, x.tick);
}

/// Goto, with metadata, for packets that all hit one rule.
void go(Execution& x, const Rule& rule, const AtTable& here) noexcept {
  const GeneralRule& general = rule.general;
  if (general.metadata_mask != 0) {
    for (const uint8_t i : here.active) {
      uint64_t& metadata = x.keys[i].metadata;
      metadata = (metadata & ~general.metadata_mask) | general.metadata;
    }
    if (here.members != first_packets(x.burst.count)) {
      x.burst.metadata.differ |= kMetadataWord;
    } else if (general.metadata_mask == ~uint64_t{0}) {
      x.burst.metadata.differ &= ~kMetadataWord;
    }
  }
  x.wait_at(rule.next_table, here.members);
}

/// All packets hit the same rule: it is counted once, and no other is looked at.
void run_one(Execution& x, const Rule& rule, const AtTable& here, uint64_t bytes) noexcept {
  count_hit(x, rule, here.active.size(), bytes);
  if (rule.fast_path == FastPathClass::go) {
    go(x, rule, here);
    return;
  }
  if ((x.burst.with_set & here.members) == 0 || &rule == x.burst.program->rules + kNoRule) {
    if (rule.fast_path == FastPathClass::forward) {
      forward_one_rule(x, rule, here.active);
      return;
    }
    if (rule.fast_path == FastPathClass::drop) {
      for (const uint8_t i : here.active) drop_by(x, rule, i);
      return;
    }
  }
  RuleBurst burst;
  for (const uint8_t i : here.active) burst.add(i, &rule);
  run_rules(x, burst);
}

/// Runs a burst of two rules as two bursts of one each; false, and nothing done, if there are more.
bool run_two(Execution& x, const AtTable& here) noexcept {
  const size_t n = here.active.size();
  const PacketSet all = first_packets(n);
  const uint32_t first = x.rules[0];
  const PacketSet with_first = positions_of(x.rules, first) & all;
  const uint32_t second = x.rules[static_cast<size_t>(__builtin_ctz(all & ~with_first))];
  if (((with_first | positions_of(x.rules, second)) & all) != all) return false;
  const bool first_is_rare = 2 * static_cast<size_t>(__builtin_popcount(with_first)) <= n;
  const PacketSet rare_at = first_is_rare ? with_first : all & ~with_first;
  // The many are copied in runs, each of fixed length: what it has too much is overwritten.
  std::array<uint8_t, 2 * kBurst> whole{};
  std::array<uint8_t, 2 * kBurst> many;
  std::array<uint8_t, kBurst> few;
  std::copy_n(here.active.begin(), n, whole.begin());
  size_t n_many = 0;
  size_t n_few = 0;
  size_t next = 0;
  PacketSet few_members = 0;
  uint64_t few_bytes = 0;
  for (PacketSet left = rare_at; left != 0; left &= left - 1) {
    const auto k = static_cast<size_t>(__builtin_ctz(left));
    const uint8_t i = whole[k];
    few[n_few++] = i;
    few_members |= PacketSet{1} << i;
    few_bytes += x.lengths[i];
    std::memcpy(&many[n_many], &whole[next], kBurst);
    n_many += k - next;
    next = k + 1;
  }
  std::memcpy(&many[n_many], &whole[next], kBurst);
  n_many += n - next;
  const uint64_t many_bytes = bytes_of(x, here) - few_bytes;
  const Rule* all_rules = x.burst.program->rules;
  const uint32_t rare = first_is_rare ? first : second;
  const uint32_t usual = first_is_rare ? second : first;
  x.rules.fill(rare);
  run_one(x, all_rules[rare], {{few.data(), n_few}, few_members}, few_bytes);
  x.rules.fill(usual);
  run_one(x, all_rules[usual], {{many.data(), n_many}, here.members & ~few_members}, many_bytes);
  return true;
}

/// Drops the packets whose rules do nothing else, and forwards the rest, if there are such and the
/// rest is homogeneous; else false, and nothing is done.
bool drop_misses(Execution& x, const AtTable& here) noexcept {
  const Rule* all_rules = x.burst.program->rules;
  std::array<uint8_t, kBurst> kept;
  std::array<uint32_t, kBurst> kept_rules;
  PacketSet misses = 0;
  size_t n = 0;
  // Without a branch on what a packet is: misses may come at any place.
  for (size_t k = 0; k < here.active.size(); ++k) {
    const bool miss = all_rules[x.rules[k]].fast_path == FastPathClass::drop;
    misses |= PacketSet{miss} << k;
    kept[n] = here.active[k];
    kept_rules[n] = x.rules[k];
    n += miss ? 0 : 1;
  }
  if (misses == 0) return false;
  const ForwardBurst rest = forward_burst(x, kept_rules.data(), {kept.data(), n});
  if (n != 0 && !is_homogeneous(rest)) return false;
  for (PacketSet left = misses; left != 0; left &= left - 1) {
    const auto k = static_cast<size_t>(__builtin_ctz(left));
    const uint8_t i = here.active[k];
    const Rule& rule = all_rules[x.rules[k]];
    count_hit(x, rule, 1, x.lengths[i]);
    drop_by(x, rule, i);
  }
  if (n != 0) run_homogeneous(x, rest);
  return true;
}

/// Rules of any classes: each packet is counted and goes to the packets of its class, which then
/// run together.
void run_mixed(Execution& x, const AtTable& here) noexcept {
  const Rule* all_rules = x.burst.program->rules;
  const PacketSet with_set = x.burst.with_set;
  RuleBurst forwards;
  RuleBurst others;
  NextTableBatch onward(x);
  uint64_t metadata_written = 0;
  for (size_t k = 0; k < here.active.size(); ++k) {
    const uint8_t i = here.active[k];
    const Rule& rule = all_rules[x.rules[k]];
    count_hit(x, rule, 1, x.lengths[i]);
    if (rule.fast_path == FastPathClass::go) {
      uint64_t& metadata = x.keys[i].metadata;
      metadata = (metadata & ~rule.general.metadata_mask) | rule.general.metadata;
      metadata_written |= rule.general.metadata_mask;
      onward.add(i, rule.next_table);
      continue;
    }
    const bool has_set = (with_set >> i & 1) != 0;
    if (rule.fast_path == FastPathClass::forward && !has_set) {
      if ((rule.edits & kEditTunnel) != 0) rte_prefetch0(rule.forward.tunnel);
      forwards.add(i, &rule);
    } else if (rule.fast_path == FastPathClass::drop && (!has_set || x.rules[k] == kNoRule)) {
      drop_by(x, rule, i);
    } else {
      // An address that is null, or of no use, is no fault.
      if (rule.fast_path == FastPathClass::general) {
        rte_prefetch0(rule.general.meter);
        rte_prefetch0(rule.general.ops);
      }
      others.add(i, &rule);
    }
  }
  if (metadata_written != 0) x.burst.metadata.differ |= kMetadataWord;
  if (forwards.count != 0) forward_rules(x, forwards);
  if (others.count != 0) run_rules(x, others);
}

/// Goto for packets of several rules, if all have the first's next table and none notes its use;
/// else false, and nothing is done.
bool go_together(Execution& x, const AtTable& here) noexcept {
  const Rule* all_rules = x.burst.program->rules;
  const Rule& first = all_rules[x.rules[0]];
  unsigned differ = first.track_idle;
  for (size_t k = 0; k < here.active.size(); ++k) {
    const Rule& rule = all_rules[x.rules[k]];
    differ |= unsigned(rule.fast_path) ^ unsigned(first.fast_path);
    differ |= unsigned{rule.next_table} ^ unsigned { first.next_table };
    differ |= rule.track_idle;
  }
  if (differ != 0) return false;
  uint64_t written = 0;
  for (size_t k = 0; k < here.active.size(); ++k) {
    const uint8_t i = here.active[k];
    const Rule& rule = all_rules[x.rules[k]];
    add(x.burst.counts[rule.counter], 1, x.lengths[i]);
    uint64_t& metadata = x.keys[i].metadata;
    metadata = (metadata & ~rule.general.metadata_mask) | rule.general.metadata;
    written |= rule.general.metadata_mask;
  }
  if (written != 0) x.burst.metadata.differ |= kMetadataWord;
  x.wait_at(first.next_table, here.members);
  return true;
}

void run_many(Execution& x, const AtTable& here, bool missed) noexcept {
  if (may_be_two(x.rules.data(), here.active.size()) && run_two(x, here)) return;
  const Rule* all_rules = x.burst.program->rules;
  const FastPathClass first = all_rules[x.rules[0]].fast_path;
  if (first == FastPathClass::go && go_together(x, here)) return;
  const bool may_forward = first == FastPathClass::forward || first == FastPathClass::drop;
  if (may_forward && (x.burst.with_set & here.members) == 0) {
    const ForwardBurst all = forward_burst(x, x.rules.data(), here.active);
    if (!missed && is_homogeneous(all)) {
      run_homogeneous(x, all);
      return;
    }
    if (drop_misses(x, here)) return;
  }
  for (size_t k = 0; k < here.active.size(); ++k) rte_prefetch0(&all_rules[x.rules[k]]);
  run_mixed(x, here);
}

void run_members(Execution& x, uint8_t table, const AtTable& here) noexcept {
  const size_t n = here.active.size();
  TableCount& table_count = x.burst.worker->tables[table];
  add(table_count.lookups, n);
  const match::CompiledTable* compiled = x.burst.program->tables[table];
  const uint64_t begun = x.timed ? rte_rdtsc() : 0;
  if (compiled == nullptr) {
    std::fill_n(x.rules.begin(), n, kNoRule);
  } else {
    compiled->lookup(x.keys.data(), here.active, x.rules.data(), x.burst.metadata.differ);
  }
  const uint64_t looked_up = x.timed ? rte_rdtsc() : 0;
  uint32_t missed = 0;
  uint32_t differ = 0;
  const uint32_t first = x.rules[0];
  for (size_t k = 0; k < n; ++k) {
    missed += x.rules[k] == kNoRule ? 1 : 0;
    differ |= x.rules[k] ^ first;
  }
  add(table_count.matched, n - missed);
  if (differ == 0) {
    run_one(x, x.burst.program->rules[first], here, bytes_of(x, here));
  } else {
    run_many(x, here, missed != 0);
  }
  if (x.timed) [[unlikely]] {
    TableTime& time = x.burst.worker->times[table];
    add(time.packets, n);
    add(time.lookup_cycles, looked_up - begun);
    add(time.action_cycles, rte_rdtsc() - looked_up);
  }
}

void run_table(Execution& x, uint8_t table, PacketSet members) noexcept {
  if (members == first_packets(x.burst.count)) {
    run_members(x, table, {{kIdentity.data(), x.burst.count}, members});
    return;
  }
  std::array<uint8_t, kBurst> active;
  size_t n = 0;
  for (PacketSet rest = members; rest != 0; rest &= rest - 1) {
    active[n++] = static_cast<uint8_t>(__builtin_ctz(rest));
  }
  run_members(x, table, {{active.data(), n}, members});
}

}  // namespace

PacketSet positions_of(const std::array<uint32_t, kBurst>& rules, uint32_t rule) noexcept {
#ifdef __SSE2__
  static_assert(kBurst == 32);
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(rule));
  const auto equal = [&](size_t quad) {
    const auto* at = reinterpret_cast<const __m128i*>(rules.data()) + quad;
    return _mm_cmpeq_epi32(_mm_loadu_si128(at), wanted);
  };
  // Lanes of 32 bits narrowed to octets, in order; then the top bit of each.
  const auto sixteen = [&](size_t quad) {
    const __m128i low = _mm_packs_epi32(equal(quad), equal(quad + 1));
    const __m128i high = _mm_packs_epi32(equal(quad + 2), equal(quad + 3));
    return static_cast<PacketSet>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  };
  return sixteen(0) | sixteen(4) << 16;
#else
  return positions_of_portable(rules, rule);
#endif
}

void run_tables(Execution& x) noexcept {
  for (size_t word = 0; word < x.tables_waiting.size(); ++word) {
    while (x.tables_waiting[word] != 0) {
      const auto table = static_cast<uint8_t>(
          word * 64 + static_cast<size_t>(__builtin_ctzll(x.tables_waiting[word])));
      x.tables_waiting[word] &= x.tables_waiting[word] - 1;
      run_table(x, table, std::exchange(x.waiting[table], 0));
    }
  }
}

}  // namespace headrace::pipeline
