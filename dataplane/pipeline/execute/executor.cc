// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/executor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "pipeline/execute/classification.h"
#include "pipeline/execute/patches.h"
#include "pipeline/execute/receive_features.h"
#include "pipeline/execute/rule_runner.h"
#include "pipeline/program/mirror.h"

namespace headrace::pipeline {

Executor::Executor(unsigned worker, PuntQueue& punts)
    : worker_(worker), execution_(std::make_unique<Execution>(worker, punts)) {}

Executor::~Executor() = default;

void Executor::set_time(uint64_t tsc) noexcept {
  // 0 means "never used".
  execution_->tick = std::max<uint32_t>(1, static_cast<uint32_t>(tsc >> kTickShift));
  execution_->tsc = tsc;
}

void Executor::set_timing(bool on) noexcept {
  execution_->timed = on;
}

void Executor::set_alone(bool alone) noexcept {
  execution_->alone = alone;
}

void Executor::run(const LsiProgram& program, PortNo in_port,
                   std::span<rte_mbuf*> packets) noexcept {
  if (packets.empty()) return;
  Execution& x = *execution_;
  const Port* port = program.port(in_port);
  const DropReason refusal = port == nullptr
                                 ? DropReason::port_missing
                                 : port->receive_refusal.load(std::memory_order_relaxed);
  if (refusal != DropReason::none) [[unlikely]] {
    begin_burst(x, program, port, in_port, 0, program.depth);
    if (port != nullptr) add(const_cast<Port*>(port)->counts[worker_].rx_dropped, packets.size());
    for (rte_mbuf* packet : packets) x.drop(packet, refusal);
    return;
  }
  if (receive(x, program, port, in_port, 0, packets, true)) run_tables(x);
  run_patches(x);
}

void Executor::packet_out(const LsiProgram& program, PortNo in_port, const ActionProgram& actions,
                          rte_mbuf* packet) noexcept {
  static const RuleBody kPacketOut = [] {
    RuleBody body;
    body.cookie = ~uint64_t{0};
    return body;
  }();
  Execution& x = *execution_;
  const Port* port = program.port(in_port);
  begin_burst(x, program, port, in_port, 0, packet::Depth::full);
  if (g_mirror_mark_at >= 0) mirror_mark(packet) = 0;
  const match::Extractor extract = match::extractor_for(packet::Depth::full);
  x.main = {&packet, x.keys.data(), x.parsed.data(), x.lengths.data()};
  x.burst.count = 1;
  x.burst.bytes = packet->pkt_len;
  x.lengths[0] = packet->pkt_len;
  x.burst.metadata = extract({&packet, 1}, {in_port, in_port}, x.keys.data(), x.parsed.data());
  OpBurst burst;
  burst.block = &x.main;
  burst.nesting = 0;
  burst.count = 0;
  burst.add(0, actions.ops().data(), &kPacketOut);
  run_ops(x, burst, actions.ops().size(), true);
  if (burst.count != 0) {
    if (x.burst.had_output != 0) {
      x.tx.free(packet);
    } else {
      x.drop(packet, DropReason::no_output);
    }
  }
  if (const size_t count = std::exchange(x.n_to_table, 0); count != 0) {
    std::array<rte_mbuf*, kBurst> taken;
    std::copy_n(x.to_table.begin(), count, taken.begin());
    if (receive(x, program, port, in_port, 0, {taken.data(), count}, false)) run_tables(x);
  }
  run_patches(x);
}

void Executor::flush() noexcept {
  execution_->tx.flush();
}

}  // namespace headrace::pipeline
