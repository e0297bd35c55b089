// SPDX-License-Identifier: Apache-2.0
// Rules of the fast-path classes that need more than the rule's own line (meters, groups, tunnels),
// on all of a burst's packets that hit them: step by step for all, so that their cache misses
// overlap.
#include <rte_prefetch.h>

#include "match/fields/extract.h"
#include "packet/edit.h"
#include "pipeline/execute/context.h"
#include "pipeline/execute/edit_inline.h"
#include "pipeline/execute/tunnel_actions.h"
#include "pipeline/program/meter.h"

namespace headrace::pipeline {

/// Packets that go on to a table, noted together while it is the same one.
class Executor::Context::NextTableBatch {
 public:
  explicit NextTableBatch(Context& context) : context_(context) {}
  ~NextTableBatch() {
    if (members_ != 0) context_.wait_at(table_, members_);
  }
  NextTableBatch(const NextTableBatch&) = delete;
  NextTableBatch& operator=(const NextTableBatch&) = delete;

  void add(uint8_t i, uint8_t table) {
    if (table != table_) [[unlikely]] {
      if (members_ != 0) context_.wait_at(table_, members_);
      members_ = 0;
      table_ = table;
    }
    members_ |= PacketSet{1} << i;
  }

 private:
  Context& context_;
  PacketSet members_{0};
  uint8_t table_{kNoTable};
};

/// Charges packets to the meters of their rules, then sends them on to the next tables.
void Executor::Context::run_meters(std::span<const uint8_t> active,
                                   std::span<const uint8_t> positions) noexcept {
  const Rule* all_rules = burst.program->rules;
  std::array<const MeterProgram*, kBurst> meters;
  for (size_t j = 0; j < positions.size(); ++j) {
    meters[j] = all_rules[rules[positions[j]]].meter->meter.load(std::memory_order_acquire);
    rte_prefetch0(meters[j]);
  }
  for (size_t j = 0; j < positions.size(); ++j) {
    if (meters[j] != nullptr) rte_prefetch0(&burst.counts[meters[j]->counter]);
  }
  NextTableBatch onward(*this);
  for (size_t j = 0; j < positions.size(); ++j) {
    const uint8_t k = positions[j];
    const uint8_t i = active[k];
    const uint8_t dscp = values[i].ip_dscp;
    if (runner.meter(burst, {packets[i], &values[i], &parsed[i]}, meters[j])) {
      onward.add(i, all_rules[rules[k]].next_table);
    }
    if (values[i].ip_dscp != dscp) [[unlikely]] {
      forget_burst_metadata();
    }
  }
}

/// Takes tunnels off, and parses what they carried.
void Executor::Context::run_pops(std::span<const uint8_t> active,
                                 std::span<const uint8_t> positions) noexcept {
  PacketSet popped = 0;
  NextTableBatch onward(*this);
  for (uint8_t k : positions) {
    const Rule& rule = burst.program->rules[rules[k]];
    const uint8_t i = active[k];
    const PacketView view{packets[i], &values[i], &parsed[i]};
    const DropReason reason = pipeline::pop_tunnel(view, rule.popped, burst.parse_depth);
    if (reason != DropReason::none) [[unlikely]] {
      runner.drop(burst, view.packet, reason);
      continue;
    }
    resize(i);
    popped |= PacketSet{1} << i;
    onward.add(i, rule.next_table);
  }
  parse_again(popped);
}

/// Parses packets whose headers have changed; what else is known of them stays.
void Executor::Context::parse_again(PacketSet members) noexcept {
  forget_burst_metadata();
  if (members != first_packets(count) || burst.parse_depth == packet::Depth::full) {
    for (PacketSet rest = members; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<size_t>(__builtin_ctz(rest));
      match::refresh(burst.parse_depth, packets[i], values[i], parsed[i]);
    }
    return;
  }
  // The whole burst at once. An extractor begins words 5 and 6 anew.
  struct Kept {
    uint64_t metadata;
    uint64_t tunnel_id;
  };
  std::array<Kept, kBurst> kept;
  for (size_t i = 0; i < count; ++i) kept[i] = {values[i].metadata, values[i].tunnel_id};
  burst.program->extract({packets, count}, {burst.in_port_number, burst.in_port_number},
                         values.data(), parsed.data());
  for (size_t i = 0; i < count; ++i) {
    values[i].metadata = kept[i].metadata;
    values[i].tunnel_id = kept[i].tunnel_id;
  }
}

/// Packets that go to a group and nowhere else.
void Executor::Context::run_selects(std::span<const uint8_t> active,
                                    std::span<const uint8_t> positions) noexcept {
  const Rule* all_rules = burst.program->rules;
  struct Chosen {
    const GroupProgram* group;
    const BucketProgram* bucket;
    uint64_t hash;
    uint8_t k;
  };
  std::array<Chosen, kBurst> chosen;
  size_t n_chosen = 0;
  for (uint8_t k : positions) {
    const Rule& rule = all_rules[rules[k]];
    const uint8_t i = active[k];
    const GroupProgram* group = rule.group->group.load(std::memory_order_acquire);
    const uint64_t hash = flow_hash64(packets[i], parsed[i]);
    const BucketProgram* bucket =
        group == nullptr ? nullptr : runner.choose(*group, select_hash(packets[i], hash));
    // Every other way, and every reason to drop, is the runner's.
    if (bucket == nullptr) {
      run_rule(i, rule);
      continue;
    }
    rte_prefetch0(&bucket->rule);
    chosen[n_chosen++] = {group, bucket, hash, k};
  }
  std::array<Delivery, kBurst> deliveries;
  size_t n_deliveries = 0;
  for (const Chosen& each : std::span(chosen.data(), n_chosen)) {
    const uint8_t i = active[each.k];
    const Rule& rule = each.bucket->rule;
    if (rule.fast_path != FastPathClass::forward ||
        ((rule.edits & kEditTtl) != 0 &&
         ttl_expires(rte_pktmbuf_mtod(packets[i], const uint8_t*), parsed[i]))) [[unlikely]] {
      run_rule(i, all_rules[rules[each.k]]);
      continue;
    }
    add(burst.counts[each.group->counter], 1, lengths[i]);
    if ((rule.edits & kEditTunnel) != 0) rte_prefetch0(rule.tunnel);
    deliveries[n_deliveries++] = {&rule, each.hash, i};
  }
  for (const Delivery& each : std::span(deliveries.data(), n_deliveries)) {
    add(burst.counts[each.rule->counter], 1, lengths[each.i]);
  }
  deliver({deliveries.data(), n_deliveries});
}

/// Packets that leave through a tunnel's push.
void Executor::Context::run_pushes(std::span<const uint8_t> active,
                                   std::span<const uint8_t> positions) noexcept {
  std::array<Delivery, kBurst> deliveries;
  size_t n_deliveries = 0;
  for (uint8_t k : positions) {
    const Rule& rule = burst.program->rules[rules[k]];
    const uint8_t i = active[k];
    if ((rule.edits & kEditTtl) != 0 &&
        ttl_expires(rte_pktmbuf_mtod(packets[i], const uint8_t*), parsed[i])) [[unlikely]] {
      run_rule(i, rule);
      continue;
    }
    deliveries[n_deliveries++] = {&rule, flow_hash64(packets[i], parsed[i]), i};
  }
  deliver({deliveries.data(), n_deliveries});
}

/// Edits packets and sends them. TTLs last.
void Executor::Context::deliver(std::span<const Delivery> deliveries) noexcept {
  const PortHandle* handle = nullptr;
  const Port* port = nullptr;
  DropReason refusal = DropReason::none;
  // Packets for one port in a row leave together.
  std::array<rte_mbuf*, kBurst> run;
  size_t n_run = 0;
  uint64_t run_bytes = 0;
  for (const Delivery& each : deliveries) {
    const Rule& rule = *each.rule;
    const uint8_t i = each.i;
    rte_mbuf* packet = packets[i];
    if ((rule.edits & kEditTtl) != 0) packet::dec_nw_ttl(packet, parsed[i]);
    if ((rule.edits & kEditL2) != 0) rewrite_l2(rte_pktmbuf_mtod(packet, uint8_t*), rule);
    if ((rule.edits & kEditTunnel) != 0 && !push_tunnel(each)) [[unlikely]] {
      continue;
    }
    if (rule.out != handle) [[unlikely]] {
      if (n_run != 0) {
        tx.push_many(*port, {run.data(), n_run}, run_bytes, burst.depth + 1, *burst.worker);
      }
      n_run = 0;
      run_bytes = 0;
      handle = rule.out;
      port = handle->port.load(std::memory_order_acquire);
      refusal = refusal_of(port);
    }
    if (refusal != DropReason::none) [[unlikely]] {
      runner.drop(burst, packet, refusal);
    } else if (port->is_tunnel) [[unlikely]] {
      if ((rule.edits & kEditTunnel) != 0) parse_again(PacketSet{1} << i);
      runner.send(burst, {packet, &values[i], &parsed[i]}, *port);
    } else {
      run[n_run++] = packet;
      run_bytes += packet->pkt_len;
    }
  }
  if (n_run != 0) {
    tx.push_many(*port, {run.data(), n_run}, run_bytes, burst.depth + 1, *burst.worker);
  }
}

/// False: it was dropped.
bool Executor::Context::push_tunnel(const Delivery& delivery) noexcept {
  const Rule& rule = *delivery.rule;
  const uint8_t i = delivery.i;
  rte_mbuf* packet = packets[i];
  const uint64_t id = (rule.edits & kEditTunnelId) != 0 ? __builtin_bswap64(values[i].tunnel_id)
                                                        : rule.tunnel->spec().id;
  // MAC addresses count where there is no IP: then they may have been rewritten since.
  const uint64_t hash =
      parsed[i].has(packet::kIpv4 | packet::kIpv6) ? delivery.hash : flow_hash64(packet, parsed[i]);
  const DropReason reason = drop_reason(rule.tunnel->push(packet, parsed[i], id, entropy_of(hash)));
  if (reason == DropReason::none) [[likely]]
    return true;
  runner.drop(burst, packet, reason);
  return false;
}

}  // namespace headrace::pipeline
