// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/executor.h"

#include <rte_cycles.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>

#include "packet/edit.h"
#include "pipeline/execute/context.h"
#include "pipeline/execute/edit_inline.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/mirror.h"

namespace headrace::pipeline {
void Executor::Context::begin(const LsiProgram& program, const Port* in_port, PortNo number,
                              unsigned depth, packet::Depth parse_depth) noexcept {
  burst.program = &program;
  burst.in_port = in_port;
  burst.in_port_number = number;
  burst.depth = depth;
  burst.parse_depth = parse_depth;
  burst.counts = program.counters->of_worker(worker);
  burst.worker = &program.counters->worker_counts(worker);
  with_set = 0;
  had_output = 0;
}

void Executor::Context::run_burst(const LsiProgram& program, const Port* in_port, PortNo number,
                                  unsigned depth, std::span<rte_mbuf*> burst_packets,
                                  bool received) noexcept {
  begin(program, in_port, number, depth, program.depth);
  packets = burst_packets.data();
  count = burst_packets.size();
  const bool arrived = received;
  if (program.defragmenter != nullptr) [[unlikely]] {
    if (received) {
      PortCounts& counts = const_cast<Port*>(in_port)->counts[worker];
      add(counts.rx_packets, count);
      for (const rte_mbuf* packet : burst_packets) add(counts.rx_bytes, packet->pkt_len);
      received = false;
    }
    count = reassemble(*program.defragmenter, burst_packets);
    if (count == 0) return;
  }
  burst_metadata =
      program.extract({packets, count}, {number, number}, values.data(), parsed.data());
  if (in_port != nullptr && in_port->looks_at_received.load(std::memory_order_relaxed))
      [[unlikely]] {
    look_at_received(*in_port, arrived);
  }
  burst_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    lengths[i] = packets[i]->pkt_len;
    burst_bytes += lengths[i];
  }
  if (received) {
    PortCounts& counts = const_cast<Port*>(in_port)->counts[worker];
    add(counts.rx_packets, count);
    add(counts.rx_bytes, burst_bytes);
  }
  const PacketSet members = program.drops_fragments ? drop_fragments() : first_packets(count);
  if (members != 0) [[likely]]
    wait_at(0, members);
  run_tables();
}

/// What some ports do with what comes in by them, before the tables.
void Executor::Context::look_at_received(const Port& in_port, bool arrived) noexcept {
  if (in_port.is_tunnel) {
    take_tunnel_fields({packets, count}, values.data(), burst.parse_depth);
    burst_metadata.differ = match::kAllWords;
  }
  const PortMirrors* mirrors = in_port.mirrors.load(std::memory_order_acquire);
  if (mirrors == nullptr) return;
  for (size_t i = 0; i < count; ++i) {
    mirror_mark(packets[i]) = 0;
    if (arrived) runner.mirror(burst, packets[i], in_port, mirrors->received);
  }
}

void Executor::Context::leaving(const Port& port, rte_mbuf* packet) noexcept {
  runner.mirror_sent(burst, packet, port);
}

/// The packets that are no fragments; the others are dropped.
PacketSet Executor::Context::drop_fragments() noexcept {
  PacketSet whole = first_packets(count);
  for (size_t i = 0; i < count; ++i) {
    if (!parsed[i].has(packet::kFragment)) continue;
    whole &= ~(PacketSet{1} << i);
    runner.drop(burst, packets[i], DropReason::fragment);
  }
  return whole;
}

void Executor::Context::run_tables() noexcept {
  for (size_t word = 0; word < tables_waiting.size(); ++word) {
    while (tables_waiting[word] != 0) {
      const auto table = static_cast<uint8_t>(
          word * 64 + static_cast<size_t>(__builtin_ctzll(tables_waiting[word])));
      tables_waiting[word] &= tables_waiting[word] - 1;
      run_table(table, std::exchange(waiting[table], 0));
    }
  }
}

void Executor::Context::run_table(uint8_t table, PacketSet members) noexcept {
  if (members == first_packets(count)) {
    run_members(table, {kIdentity.data(), count}, members);
    return;
  }
  std::array<uint8_t, kBurst> active;
  size_t n = 0;
  for (PacketSet rest = members; rest != 0; rest &= rest - 1) {
    active[n++] = static_cast<uint8_t>(__builtin_ctz(rest));
  }
  run_members(table, {active.data(), n}, members);
}

void Executor::Context::run_members(uint8_t table, std::span<const uint8_t> active,
                                    PacketSet members) noexcept {
  const size_t n = active.size();
  TableCount& table_count = burst.worker->tables[table];
  add(table_count.lookups, n);
  const match::CompiledTable* compiled = burst.program->tables[table];
  const uint64_t begun = timed ? rte_rdtsc() : 0;
  if (compiled == nullptr) {
    std::fill_n(rules.begin(), n, kNoRule);
  } else {
    compiled->lookup(values.data(), active, rules.data(), burst_metadata.differ);
  }
  const uint64_t looked_up = timed ? rte_rdtsc() : 0;
  uint32_t missed = 0;
  uint32_t differ = 0;
  const uint32_t first = rules[0];
  for (size_t k = 0; k < n; ++k) {
    missed += rules[k] == kNoRule ? 1 : 0;
    differ |= rules[k] ^ first;
  }
  add(table_count.matched, n - missed);
  if (differ == 0) {
    run_one(burst.program->rules[first], active, members, bytes_of(active, members));
  } else {
    run_many(active, members, missed != 0);
  }
  if (timed) [[unlikely]] {
    TableTime& time = burst.worker->times[table];
    add(time.packets, n);
    add(time.lookup_cycles, looked_up - begun);
    add(time.action_cycles, rte_rdtsc() - looked_up);
  }
}

/// All packets hit the same rule: it is counted once, and no other is looked at.
void Executor::Context::run_one(const Rule& rule, std::span<const uint8_t> active,
                                PacketSet members, uint64_t bytes) noexcept {
  add(burst.counts[rule.counter], active.size(), bytes);
  if (rule.track_idle != 0) burst.program->counters->note_use(rule.counter, tick);
  if (rule.fast_path == FastPathClass::go) {
    wait_at(rule.next_table, members);
  } else if (rule.fast_path == FastPathClass::meter) {
    run_meters(active, {kIdentity.data(), active.size()});
  } else if (rule.fast_path == FastPathClass::pop) {
    run_pops(active, {kIdentity.data(), active.size()});
  } else if ((with_set & members) != 0) {
    for (uint8_t i : active) run_rule(i, rule);
  } else if (rule.fast_path == FastPathClass::select) {
    run_selects(active, {kIdentity.data(), active.size()});
  } else if (rule.fast_path == FastPathClass::forward && (rule.edits & kEditTunnel) != 0) {
    run_pushes(active, {kIdentity.data(), active.size()});
  } else if (rule.fast_path == FastPathClass::forward) {
    run_homogeneous({burst.program->rules, rules.data(), active, packets, parsed.data(),
                     lengths.data(), nullptr, burst_metadata});
  } else if (rule.fast_path == FastPathClass::drop) {
    for (uint8_t i : active) drop_by(rule, i);
  } else {
    for (uint8_t i : active) run_rule(i, rule);
  }
}

/// Sends packets whose rules are homogeneous: see forward.h.
void Executor::Context::run_homogeneous(const ForwardBurst& homogeneous) noexcept {
  const Port* port =
      homogeneous.all_rules[homogeneous.rules[0]].out->port.load(std::memory_order_acquire);
  const DropReason refusal = refusal_of(port);
  std::array<rte_mbuf*, kBurst> leaving;
  const Forwarded done = forward_homogeneous(homogeneous, leaving.data());
  if (refusal != DropReason::none) [[unlikely]] {
    for (size_t k = 0; k < done.count; ++k) runner.drop(burst, leaving[k], refusal);
  } else if (port->is_tunnel) [[unlikely]] {
    size_t next = 0;
    for (size_t k = 0; k < homogeneous.active.size(); ++k) {
      const uint8_t i = homogeneous.active[k];
      if ((done.expired >> k & 1) != 0) continue;
      runner.send(burst, {leaving[next++], &values[i], &parsed[i]}, *port);
    }
  } else if (done.count != 0) {
    tx.push_many(*port, {leaving.data(), done.count}, done.bytes, burst.depth + 1, *burst.worker);
  }
  for (uint32_t rest = done.expired; rest != 0; rest &= rest - 1) {
    const auto k = static_cast<size_t>(__builtin_ctz(rest));
    run_rule(homogeneous.active[k], homogeneous.all_rules[homogeneous.rules[k]]);
  }
}

/// Runs any rule on one packet, in the order of instructions (section 5.9).
void Executor::Context::run_rule(uint8_t i, const Rule& rule) noexcept {
  const PacketSet self = PacketSet{1} << i;
  const RuleBody& body = *rule.body;
  const PacketView view{packets[i], &values[i], &parsed[i]};
  if (&rule == burst.program->rules + kNoRule) {
    runner.drop(burst, view.packet, DropReason::table_miss);
    return;
  }
  forget_burst_metadata();
  if (body.meter != nullptr &&
      !runner.meter(burst, view, body.meter->meter.load(std::memory_order_acquire))) {
    return;
  }
  const bool final = rule.next_table == kNoTable;
  ActionSet& set = sets[i];
  if (!body.apply.empty()) {
    const bool set_follows = !body.write.empty() || (!body.clear_actions && (with_set & self) != 0);
    const Outcome outcome = runner.run(burst, view, body.apply, body, final && !set_follows);
    if (runner.take_any_output()) had_output |= self;
    if (outcome == Outcome::consumed) return;
    resize(i);
  }
  if (body.clear_actions) with_set &= ~self;
  if (!body.write.empty()) {
    if ((with_set & self) == 0) set.clear();
    with_set |= self;
    for (const Op& op : body.write) set.write(op);
  }
  if (!final) {
    values[i].metadata = (values[i].metadata & ~body.metadata_mask) | body.metadata;
    wait_at(rule.next_table, self);
  } else if ((with_set & self) != 0) {
    runner.run_set(burst, view, set, body, (had_output & self) != 0);
  } else if ((had_output & self) != 0) {
    tx.free(view.packet);
  } else {
    runner.drop(burst, view.packet, DropReason::no_output);
  }
}

Executor::Executor(unsigned worker, PuntQueue& punts)
    : worker_(worker), context_(std::make_unique<Context>(worker, punts)) {}

Executor::~Executor() = default;

void Executor::set_time(uint64_t tsc) noexcept {
  // 0 means "never used".
  context_->tick = std::max<uint32_t>(1, static_cast<uint32_t>(tsc >> kTickShift));
  context_->tsc = tsc;
  context_->runner.set_time(tsc, context_->tick);
}

void Executor::set_timing(bool on) noexcept {
  context_->timed = on;
}

void Executor::run(const LsiProgram& program, PortNo in_port,
                   std::span<rte_mbuf*> packets) noexcept {
  if (packets.empty()) return;
  Context& context = *context_;
  const Port* port = program.port(in_port);
  const DropReason refusal = port == nullptr
                                 ? DropReason::port_missing
                                 : port->receive_refusal.load(std::memory_order_relaxed);
  if (refusal != DropReason::none) [[unlikely]] {
    context.begin(program, port, in_port, 0, program.depth);
    if (port != nullptr) add(const_cast<Port*>(port)->counts[worker_].rx_dropped, packets.size());
    for (rte_mbuf* packet : packets) context.runner.drop(context.burst, packet, refusal);
    return;
  }
  context.run_burst(program, port, in_port, 0, packets, true);
  context.run_patches();
}

void Executor::packet_out(const LsiProgram& program, PortNo in_port, const ActionProgram& actions,
                          rte_mbuf* packet) noexcept {
  static const RuleBody kPacketOut = [] {
    RuleBody body;
    body.cookie = ~uint64_t{0};
    return body;
  }();
  Context& context = *context_;
  const Port* port = program.port(in_port);
  context.begin(program, port, in_port, 0, packet::Depth::full);
  if (g_mirror_mark_at >= 0) mirror_mark(packet) = 0;
  const match::Extractor extract = match::extractor_for(packet::Depth::full);
  extract({&packet, 1}, {in_port, in_port}, context.values.data(), context.parsed.data());
  if (context.runner.run(context.burst, {packet, &context.values[0], &context.parsed[0]},
                         actions.ops(), kPacketOut, true) == Outcome::kept) {
    if (context.runner.take_any_output()) {
      context.tx.free(packet);
    } else {
      context.runner.drop(context.burst, packet, DropReason::no_output);
    }
  }
  (void)context.runner.take_any_output();
  const std::span<rte_mbuf*> to_tables = context.runner.take_table_packets();
  if (!to_tables.empty()) {
    std::array<rte_mbuf*, kBurst> taken;
    std::copy(to_tables.begin(), to_tables.end(), taken.begin());
    context.run_burst(program, port, in_port, 0, {taken.data(), to_tables.size()}, false);
  }
  context.run_patches();
}

void Executor::flush() noexcept {
  context_->tx.flush();
}

}  // namespace headrace::pipeline
