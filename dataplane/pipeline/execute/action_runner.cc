// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/action_runner.h"

#include <algorithm>

#include "packet/edit.h"
#include "pipeline/execute/tunnel_actions.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/program/meter.h"
#include "pipeline/terms/packet_queue.h"

namespace headrace::pipeline {

using packet::TtlResult;

void ActionSet::write(const Op& op) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (ops[i]->set_slot != op.set_slot) ops[kept++] = ops[i];
  }
  ops[kept++] = &op;
  count = kept;
}

void ActionSet::arrange() {
  // Insertion sort: stable, and sets are short.
  bool grouped = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Op* op = ops[i];
    grouped = grouped || op->code == OpCode::group;
    uint32_t at = i;
    for (; at > 0 && ops[at - 1]->order > op->order; --at) ops[at] = ops[at - 1];
    ops[at] = op;
  }
  if (!grouped) return;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (ops[i]->order != SetOrder::output) ops[kept++] = ops[i];
  }
  count = kept;
}

rte_mbuf* ActionRunner::copy(const BurstContext& burst, rte_mbuf* packet) noexcept {
  rte_mbuf* made = rte_pktmbuf_copy(packet, packet->pool, 0, UINT32_MAX);
  if (made == nullptr) add(burst.worker->drops[static_cast<size_t>(DropReason::no_buffer)], 1);
  return made;
}

bool ActionRunner::edit(const BurstContext& burst, PacketView& view, const Op& op,
                        const RuleBody& rule, bool& dropped) noexcept {
  using Header = PushAction::Header;
  rte_mbuf* packet = view.packet;
  packet::ParsedPacket& parsed = *view.parsed;
  const packet::Depth depth = burst.parse_depth;
  TtlResult ttl = TtlResult::done;
  bool done = true;
  bool refresh = false;
  DropReason reason = DropReason::bad_action;
  switch (op.code) {
    case OpCode::set_field:
      done = op.set(packet, parsed, *view.values, op.bytes.data());
      break;
    case OpCode::push: {
      const uint16_t need = op.header == Header::pbb ? 18 : 4;
      if (rte_pktmbuf_headroom(packet) < need) reason = DropReason::no_headroom;
      done = op.header == Header::vlan   ? packet::push_vlan(packet, parsed, op.ethertype, depth)
             : op.header == Header::mpls ? packet::push_mpls(packet, parsed, op.ethertype, depth)
                                         : packet::push_pbb(packet, parsed, depth);
      refresh = true;
      break;
    }
    case OpCode::pop:
      done = op.header == Header::vlan   ? packet::pop_vlan(packet, parsed, depth)
             : op.header == Header::mpls ? packet::pop_mpls(packet, parsed, op.ethertype, depth)
                                         : packet::pop_pbb(packet, parsed, depth);
      refresh = true;
      break;
    case OpCode::set_mpls_ttl:
      done = packet::set_mpls_ttl(packet, parsed, op.ttl);
      break;
    case OpCode::set_nw_ttl:
      done = packet::set_nw_ttl(packet, parsed, op.ttl);
      break;
    case OpCode::dec_nw_ttl:
      ttl = packet::dec_nw_ttl(packet, parsed);
      break;
    case OpCode::dec_mpls_ttl:
      ttl = packet::dec_mpls_ttl(packet, parsed);
      break;
    case OpCode::copy_ttl_out:
      done = packet::copy_ttl_out(packet, parsed);
      break;
    case OpCode::copy_ttl_in:
      done = packet::copy_ttl_in(packet, parsed);
      break;
    case OpCode::push_tunnel:
      reason = push_tunnel(view, op);
      done = reason == DropReason::none;
      if (done) parsed = packet::parse(packet::frame_of(packet), depth);
      refresh = true;
      break;
    case OpCode::pop_tunnel:
      reason = pop_tunnel(view, static_cast<packet::TunnelKind>(op.argument), depth);
      done = reason == DropReason::none;
      if (done) parsed = packet::parse(packet::frame_of(packet), depth);
      refresh = true;
      break;
    default:
      return false;
  }
  if (ttl == TtlResult::expired) {
    add(burst.worker->drops[static_cast<size_t>(DropReason::ttl_expired)], 1);
    punt(burst, view, rule, PuntReason::invalid_ttl, kNoBufferLength);
    dropped = true;
    return true;
  }
  if (!done) {
    drop(burst, packet, reason);
    dropped = true;
    return true;
  }
  if (refresh) match::refresh_values(depth, packet, *view.values, parsed);
  return true;
}

Outcome ActionRunner::run(const BurstContext& burst, PacketView view, std::span<const Op> ops,
                          const RuleBody& rule, bool may_consume) noexcept {
  return run_ops(burst, view, ops, rule, may_consume, 0);
}

Outcome ActionRunner::run_ops(const BurstContext& burst, PacketView view, std::span<const Op> ops,
                              const RuleBody& rule, bool may_consume, unsigned nesting) noexcept {
  for (const Op& op : ops) {
    bool dropped = false;
    if (edit(burst, view, op, rule, dropped)) {
      if (dropped) return Outcome::consumed;
      continue;
    }
    const bool consume = may_consume && &op == &ops.back();
    if (op.code == OpCode::set_queue) {
      set_queue(*view.packet, op.argument);
      continue;
    }
    if (op.code == OpCode::group) {
      group(burst, view, *op.group, rule, consume, nesting);
    } else {
      run_output(burst, view, op, rule, consume);
    }
    if (consume) return Outcome::consumed;
  }
  return Outcome::kept;
}

void ActionRunner::run_set(const BurstContext& burst, PacketView view, ActionSet& set,
                           const RuleBody& rule, bool had_output) noexcept {
  set.arrange();
  for (uint32_t i = 0; i < set.count; ++i) {
    const bool last = i + 1 == set.count;
    if (run_ops(burst, view, {set.ops[i], 1}, rule, last, 0) == Outcome::consumed) return;
  }
  if (take_any_output() || had_output) {
    tx_.free(view.packet);
  } else {
    drop(burst, view.packet, DropReason::no_output);
  }
}

void ActionRunner::output(const BurstContext& burst, PacketView view,
                          const PortHandle& handle) noexcept {
  const Port* port = handle.port.load(std::memory_order_acquire);
  any_output_ = true;
  DropReason refusal = DropReason::port_missing;
  if (port != nullptr) {
    refusal = port == burst.in_port ? DropReason::input_port
                                    : port->send_refusal.load(std::memory_order_relaxed);
  }
  if (refusal != DropReason::none) {
    drop(burst, view.packet, refusal);
    return;
  }
  send(burst, view, *port);
}

void ActionRunner::send(const BurstContext& burst, PacketView view, const Port& port) noexcept {
  if (!port.is_tunnel) [[likely]] {
    tx_.push(port, view.packet, burst.depth + 1, *burst.worker);
    return;
  }
  if (port.tx_hook.load(std::memory_order_relaxed) == TxHook::mirror) [[unlikely]] {
    mirror_sent(burst, view.packet, port);
  }
  const TunnelEgress* tunnel = port.egress_tunnel.load(std::memory_order_acquire);
  const bool fields_known = burst.parse_depth == packet::Depth::full;
  const DropReason reason =
      tunnel == nullptr ? DropReason::tunnel_unresolved
                        : tunnel->push(view.packet, *view.parsed, *view.values, fields_known);
  if (reason == DropReason::none) {
    tx_.push(port, view.packet, burst.depth + 1, *burst.worker);
    return;
  }
  add(const_cast<Port&>(port).counts[worker_].tx_dropped, 1);
  add(burst.worker->drops[static_cast<size_t>(reason)], 1);
  // A far end that a flow names is to be resolved.
  if (reason != DropReason::tunnel_unresolved || tunnel == nullptr || !tunnel->remote_from_flow) {
    tx_.free(view.packet);
    return;
  }
  const RemoteEndpoint remote_endpoint = remote_endpoint_of(*view.values);
  const PuntInfo info{.lsi_id = burst.program->lsi_id,
                      .in_port = port.number,
                      .in_phy_port = port.number,
                      .table_id = 0,
                      .reason = PuntReason::underlay,
                      .max_len = 0,
                      .cookie = 0,
                      .metadata = remote_endpoint[0],
                      .tunnel_id = remote_endpoint[1]};
  if (!punts_.punt(view.packet, info)) tx_.free(view.packet);
}

void ActionRunner::tell_of_neighbor(const BurstContext& burst, rte_mbuf* packet) noexcept {
  rte_mbuf* made = rte_pktmbuf_copy(packet, packet->pool, 0, UINT32_MAX);
  if (made == nullptr) return;  // neighbors are asked again
  const PuntInfo info{.lsi_id = burst.program->lsi_id,
                      .in_port = kPortLocal,
                      .in_phy_port = kPortLocal,
                      .table_id = 0,
                      .reason = PuntReason::underlay,
                      .max_len = kNoBufferLength,
                      .cookie = 0,
                      .metadata = 0,
                      .tunnel_id = 0};
  if (!punts_.punt(made, info)) tx_.free(made);
}

void ActionRunner::run_output(const BurstContext& burst, PacketView view, const Op& op,
                              const RuleBody& rule, bool consume) noexcept {
  any_output_ = true;
  if (op.code == OpCode::output_normal) {
    normal(burst, view, consume);
    return;
  }
  if (op.code == OpCode::output_all || op.code == OpCode::output_flood) {
    flood(burst, view, consume);
    return;
  }
  rte_mbuf* packet = consume ? view.packet : copy(burst, view.packet);
  if (packet == nullptr) return;
  switch (op.code) {
    case OpCode::output:
      output(burst, {packet, view.values, view.parsed}, *op.port);
      break;
    case OpCode::output_in_port: {
      const Port* port = burst.in_port;
      const DropReason refusal = port == nullptr
                                     ? DropReason::port_missing
                                     : port->send_refusal.load(std::memory_order_relaxed);
      if (refusal != DropReason::none) {
        drop(burst, packet, refusal);
      } else {
        send(burst, {packet, view.values, view.parsed}, *port);
      }
      break;
    }
    case OpCode::output_controller:
      punt(burst, {packet, view.values, view.parsed}, rule,
           rule.table_miss ? PuntReason::no_match : PuntReason::action,
           static_cast<uint16_t>(op.argument));
      break;
    case OpCode::output_table:
      if (n_table_packets_ == table_packets_.size()) {
        drop(burst, packet, DropReason::no_buffer);
      } else {
        table_packets_[n_table_packets_++] = packet;
      }
      break;
    default:
      drop(burst, packet, DropReason::bad_action);
      break;
  }
}

void ActionRunner::flood(const BurstContext& burst, PacketView view, bool consume) noexcept {
  for (const Port* port : burst.program->ports) {
    if (port == burst.in_port ||
        port->send_refusal.load(std::memory_order_relaxed) != DropReason::none) {
      continue;
    }
    rte_mbuf* made = copy(burst, view.packet);
    if (made != nullptr) send(burst, {made, view.values, view.parsed}, *port);
  }
  if (consume) tx_.free(view.packet);
}

void ActionRunner::punt(const BurstContext& burst, PacketView view, const RuleBody& rule,
                        PuntReason reason, uint16_t max_len) noexcept {
  if (burst.in_port != nullptr && !burst.in_port->packet_in.load(std::memory_order_relaxed)) {
    drop(burst, view.packet, DropReason::punt_disabled);
    return;
  }
  const PuntInfo info{.lsi_id = burst.program->lsi_id,
                      .in_port = burst.in_port_number,
                      .in_phy_port = burst.in_port_number,
                      .table_id = rule.table_id,
                      .reason = reason,
                      .max_len = max_len,
                      .cookie = rule.cookie,
                      .metadata = __builtin_bswap64(view.values->metadata),
                      .tunnel_id = __builtin_bswap64(view.values->tunnel_id)};
  if (!punts_.punt(view.packet, info)) drop(burst, view.packet, DropReason::punt_queue_full);
}

bool ActionRunner::meter(const BurstContext& burst, PacketView view,
                         const MeterProgram* meter) noexcept {
  if (meter == nullptr) {
    drop(burst, view.packet, DropReason::meter_missing);
    return false;
  }
  const uint32_t bytes = view.packet->pkt_len;
  add(burst.counts[meter->counter], 1, bytes);
  const BandProgram* band = meter->charge(tsc_, bytes);
  if (band == nullptr) return true;
  add(burst.counts[band->counter], 1, bytes);
  if (band->type == MeterBand::Type::drop) {
    drop(burst, view.packet, DropReason::meter);
    return false;
  }
  if (view.parsed->has(packet::kIpv4 | packet::kIpv6)) {
    const uint8_t dscp = remark_dscp(view.values->ip_dscp, band->prec_level);
    if (dscp != view.values->ip_dscp && packet::set_ip_dscp(view.packet, *view.parsed, &dscp)) {
      view.values->ip_dscp = dscp;
    }
  }
  return true;
}

uint8_t remark_dscp(uint8_t dscp, uint8_t prec_level) noexcept {
  const unsigned af_class = dscp >> 3;
  const unsigned precedence = (dscp & 7u) >> 1;
  if (af_class < 1 || af_class > 4 || precedence == 0 || (dscp & 1u) != 0) return dscp;
  const unsigned raised = std::min(3u, precedence + prec_level);
  return static_cast<uint8_t>(af_class << 3 | raised << 1);
}

}  // namespace headrace::pipeline
