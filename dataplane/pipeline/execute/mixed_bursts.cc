// SPDX-License-Identifier: Apache-2.0
// Bursts whose packets hit several rules of a table.
//
// If one packet in a hundred misses, or hits another rule, every third burst is mixed, and senders
// can cause this at will. So the other packets of such a burst keep their fast paths: a burst of
// two rules is split into two uniform ones, and packets that are only dropped are separated from
// homogeneous routes.
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <rte_prefetch.h>

#include <array>
#include <cstring>

#include "packet/edit.h"
#include "pipeline/execute/context.h"
#include "pipeline/execute/edit_inline.h"

namespace headrace::pipeline {
namespace {

/// Some packets, by their positions in a list.
struct Positions {
  size_t count{0};
  std::array<uint8_t, kBurst> at;

  void add(size_t position) { at[count++] = static_cast<uint8_t>(position); }
  [[nodiscard]] std::span<const uint8_t> span() const { return {at.data(), count}; }
};

/// True if a burst may be of no more than two rules: of any three packets two have the same then.
inline bool may_be_two(const uint32_t* rules, size_t n) {
  const uint32_t first = rules[0];
  const uint32_t middle = rules[n / 2];
  const uint32_t last = rules[n - 1];
  return first == middle || first == last || middle == last;
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

/// The octets of some packets that are at a table.
uint64_t Executor::Context::bytes_of(std::span<const uint8_t> active,
                                     PacketSet members) const noexcept {
  if (members == first_packets(count)) return burst_bytes;
  uint64_t bytes = 0;
  for (uint8_t i : active) bytes += lengths[i];
  return bytes;
}

void Executor::Context::run_many(std::span<const uint8_t> active, PacketSet members,
                                 bool missed) noexcept {
  if (may_be_two(rules.data(), active.size()) && run_two(active, members)) return;
  const Rule* all_rules = burst.program->rules;
  const bool sets = (with_set & members) != 0;
  if (!sets) {
    const ForwardBurst packets_and_rules{all_rules,    rules.data(),  active,
                                         packets,      parsed.data(), lengths.data(),
                                         burst.counts, burst_metadata};
    if (!missed && is_homogeneous(packets_and_rules)) {
      run_homogeneous(packets_and_rules);
      return;
    }
    if (drop_misses(active)) return;
  }
  for (size_t k = 0; k < active.size(); ++k) rte_prefetch0(&all_rules[rules[k]]);
  run_mixed(active, sets);
}

/// Runs a burst of two rules as two bursts of one each; false, and nothing done, if there are more.
bool Executor::Context::run_two(std::span<const uint8_t> active, PacketSet members) noexcept {
  const size_t n = active.size();
  const PacketSet all = first_packets(n);
  const uint32_t first = rules[0];
  const PacketSet with_first = positions_of(rules, first) & all;
  const uint32_t second = rules[static_cast<size_t>(__builtin_ctz(all & ~with_first))];
  if (((with_first | positions_of(rules, second)) & all) != all) return false;
  const bool first_is_rare = 2 * static_cast<size_t>(__builtin_popcount(with_first)) <= n;
  const PacketSet rare_at = first_is_rare ? with_first : all & ~with_first;
  // The many are copied in runs, each of fixed length: what it has too much is overwritten.
  std::array<uint8_t, 2 * kBurst> whole{};
  std::array<uint8_t, 2 * kBurst> many;
  std::array<uint8_t, kBurst> few;
  std::copy_n(active.begin(), n, whole.begin());
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
    few_bytes += lengths[i];
    std::memcpy(&many[n_many], &whole[next], kBurst);
    n_many += k - next;
    next = k + 1;
  }
  std::memcpy(&many[n_many], &whole[next], kBurst);
  n_many += n - next;
  const uint64_t many_bytes = bytes_of(active, members) - few_bytes;
  const uint32_t rare = first_is_rare ? first : second;
  const uint32_t usual = first_is_rare ? second : first;
  rules.fill(rare);
  run_one(burst.program->rules[rare], {few.data(), n_few}, few_members, few_bytes);
  rules.fill(usual);
  run_one(burst.program->rules[usual], {many.data(), n_many}, members & ~few_members, many_bytes);
  return true;
}

/// What a rule that only drops does to a packet, which is counted already.
void Executor::Context::drop_by(const Rule& rule, uint8_t i) noexcept {
  if (&rule == burst.program->rules + kNoRule) {
    runner.drop(burst, packets[i], DropReason::table_miss);
  } else if ((had_output >> i & 1) != 0) {
    tx.free(packets[i]);
  } else {
    runner.drop(burst, packets[i], DropReason::no_output);
  }
}

/// Drops the packets whose rules do nothing else, and deals with the rest, if there are such and
/// the rest is homogeneous; else false, and nothing is done.
bool Executor::Context::drop_misses(std::span<const uint8_t> active) noexcept {
  const Rule* all_rules = burst.program->rules;
  const size_t count_here = active.size();
  std::array<uint8_t, kBurst> kept;
  std::array<uint32_t, kBurst> kept_rules;
  PacketSet misses = 0;
  size_t n = 0;
  // Without a branch on what a packet is: misses may come at any place.
  for (size_t k = 0; k < count_here; ++k) {
    const bool miss = all_rules[rules[k]].fast_path == FastPathClass::drop;
    misses |= PacketSet{miss} << k;
    kept[n] = active[k];
    kept_rules[n] = rules[k];
    n += miss ? 0 : 1;
  }
  if (misses == 0) return false;
  const std::span<const uint8_t> rest(kept.data(), n);
  const ForwardBurst packets_and_rules{all_rules,    kept_rules.data(), rest,
                                       packets,      parsed.data(),     lengths.data(),
                                       burst.counts, burst_metadata};
  if (n != 0 && !is_homogeneous(packets_and_rules)) return false;
  for (PacketSet left = misses; left != 0; left &= left - 1) {
    const auto k = static_cast<size_t>(__builtin_ctz(left));
    const uint8_t i = active[k];
    const Rule& rule = all_rules[rules[k]];
    add(burst.counts[rule.counter], 1, lengths[i]);
    if (rule.track_idle != 0) burst.program->counters->note_use(rule.counter, tick);
    drop_by(rule, i);
  }
  if (n != 0) run_homogeneous(packets_and_rules);
  return true;
}

/// Deals with rules of any fast-path classes, in one loop with its state in registers: counts,
/// rewrites, decrements and sends packets of the forward class, and notes others for the loops
/// behind it.
void Executor::Context::run_mixed(std::span<const uint8_t> active, bool sets) noexcept {
  const Rule* all_rules = burst.program->rules;
  Count* counts = burst.counts;
  const PortHandle* handle = nullptr;
  const Port* port = nullptr;
  DropReason refusal = DropReason::none;
  bool alone = false;  // packets for the port can't just be sent together
  // Packets for one port in a row leave together.
  std::array<rte_mbuf*, kBurst> run;
  size_t n_run = 0;
  uint64_t run_bytes = 0;
  // Packets of other fast-path classes, by position in `active`, while what they need is on its
  // way.
  Positions metered;
  Positions popped;
  Positions grouped;
  Positions pushed;
  Positions others;
  for (size_t k = 0; k < active.size(); ++k) {
    const uint8_t i = active[k];
    const Rule* rule = &all_rules[rules[k]];
    add(counts[rule->counter], 1, lengths[i]);
    if (rule->track_idle != 0) burst.program->counters->note_use(rule->counter, tick);
    if (rule->fast_path != FastPathClass::forward || sets || (rule->edits & kEditTunnel) != 0) {
      if (rule->fast_path == FastPathClass::go) {
        wait_at(rule->next_table, PacketSet{1} << i);
      } else if (rule->fast_path == FastPathClass::meter) {
        rte_prefetch0(rule->meter);
        metered.add(k);
      } else if (rule->fast_path == FastPathClass::pop) {
        popped.add(k);
      } else if (rule->fast_path == FastPathClass::select && !sets) {
        rte_prefetch0(rule->group);
        grouped.add(k);
      } else if (rule->fast_path == FastPathClass::forward && !sets) {
        rte_prefetch0(rule->tunnel);
        pushed.add(k);
      } else {
        rte_prefetch0(rule->body);
        others.add(k);
      }
      continue;
    }
    rte_mbuf* packet = packets[i];
    auto* frame = rte_pktmbuf_mtod(packet, uint8_t*);
    if ((rule->edits & kEditTtl) != 0) {
      if (ttl_expires(frame, parsed[i])) [[unlikely]] {
        run_rule(i, *rule);
        continue;
      }
      packet::dec_nw_ttl(packet, parsed[i]);
    }
    rewrite_l2(frame, *rule);
    if (rule->out != handle) [[unlikely]] {
      if (n_run != 0) {
        tx.push_many(*port, {run.data(), n_run}, run_bytes, burst.depth + 1, *burst.worker);
      }
      n_run = 0;
      run_bytes = 0;
      handle = rule->out;
      port = handle->port.load(std::memory_order_acquire);
      refusal = refusal_of(port);
      alone = refusal != DropReason::none || port->is_tunnel;
    }
    if (alone) [[unlikely]] {
      if (refusal != DropReason::none) {
        runner.drop(burst, packet, refusal);
      } else {
        runner.send(burst, {packet, &values[i], &parsed[i]}, *port);
      }
      continue;
    }
    run[n_run++] = packet;
    run_bytes += lengths[i];
  }
  if (n_run != 0) {
    tx.push_many(*port, {run.data(), n_run}, run_bytes, burst.depth + 1, *burst.worker);
  }
  if (metered.count != 0) run_meters(active, metered.span());
  if (popped.count != 0) run_pops(active, popped.span());
  if (grouped.count != 0) run_selects(active, grouped.span());
  if (pushed.count != 0) run_pushes(active, pushed.span());
  for (uint8_t k : others.span()) run_rule(active[k], all_rules[rules[k]]);
}

}  // namespace headrace::pipeline
