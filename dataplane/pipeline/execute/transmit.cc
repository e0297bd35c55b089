// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/transmit.h"

#include <rte_mbuf.h>

#include <cstring>

#include "packet/copy_pool.h"
#include "packet/offload.h"
#include "pipeline/execute/mirror_copies.h"
#include "pipeline/execute/tunnel_port.h"

namespace headrace::pipeline {

void Execution::leaving(const Port& port, rte_mbuf* packet) noexcept {
  mirror_sent(*this, packet, port);
}

void send(Execution& x, PacketView view, const Port& port) noexcept {
  const Burst& burst = x.burst;
  if (!port.is_tunnel) [[likely]] {
    x.tx.push(port, view.packet, burst.depth + 1, *burst.worker);
    return;
  }
  if (port.tx_hook.load(std::memory_order_relaxed) == TxHook::mirror) [[unlikely]] {
    mirror_sent(x, view.packet, port);
  }
  const TunnelEgress* tunnel = port.egress_tunnel.load(std::memory_order_acquire);
  const bool fields_known = burst.parse_depth == packet::Depth::full;
  const DropReason reason = tunnel == nullptr
                                ? DropReason::tunnel_unresolved
                                : tunnel->push(view.packet, *view.parsed, *view.key, fields_known);
  if (reason == DropReason::none) {
    x.tx.push(port, view.packet, burst.depth + 1, *burst.worker);
    return;
  }
  add(const_cast<Port&>(port).counts[x.worker].tx_dropped, 1);
  x.count_drop(reason);
  // A remote endpoint that a flow names is to be resolved.
  if (reason != DropReason::tunnel_unresolved || tunnel == nullptr || !tunnel->remote_from_flow) {
    x.tx.free(view.packet);
    return;
  }
  const RemoteEndpoint remote_endpoint = remote_endpoint_of(*view.key);
  const PuntInfo info{.lsi_id = burst.program->lsi_id,
                      .in_port = port.number,
                      .in_phy_port = port.number,
                      .table_id = 0,
                      .reason = PuntReason::underlay,
                      .max_len = 0,
                      .cookie = 0,
                      .metadata = remote_endpoint[0],
                      .tunnel_id = remote_endpoint[1]};
  if (!x.punts.punt(view.packet, info)) x.tx.free(view.packet);
}

namespace {

/// A controller gets what a wire would carry: segments one by one, and whole checksums.
void punt_unfinished(Execution& x, rte_mbuf* packet, const PuntInfo& info) noexcept {
  if (!packet::segments_left(packet)) {
    packet::finish_checksum(packet);
    if (!x.punts.punt(packet, info)) x.drop(packet, DropReason::punt_queue_full);
    return;
  }
  packet::Segments segments(packet);
  while (rte_mbuf* segment = segments.next()) {
    if (!x.punts.punt(segment, info)) x.drop(segment, DropReason::punt_queue_full);
  }
  if (segments.left() != 0) x.count_drop(DropReason::no_buffer);
  x.tx.free(packet);
}

}  // namespace

void punt(Execution& x, PacketView view, const RuleBody& rule, PuntReason reason,
          uint16_t max_len) noexcept {
  const Burst& burst = x.burst;
  if (burst.in_port != nullptr && !burst.in_port->packet_in.load(std::memory_order_relaxed)) {
    x.drop(view.packet, DropReason::punt_disabled);
    return;
  }
  const PuntInfo info{.lsi_id = burst.program->lsi_id,
                      .in_port = burst.in_port_number,
                      .in_phy_port = burst.in_port_number,
                      .table_id = rule.table_id,
                      .reason = reason,
                      .max_len = max_len,
                      .cookie = rule.cookie,
                      .metadata = __builtin_bswap64(view.key->metadata),
                      .tunnel_id = __builtin_bswap64(view.key->tunnel_id)};
  if (packet::offload_left(view.packet)) [[unlikely]] {
    punt_unfinished(x, view.packet, info);
    return;
  }
  if (!x.punts.punt(view.packet, info)) x.drop(view.packet, DropReason::punt_queue_full);
}

void punt_neighbor(Execution& x, rte_mbuf* packet) noexcept {
  rte_mbuf* made = packet::copy_of(packet);
  if (made == nullptr) return;  // neighbors are asked again
  const PuntInfo info{.lsi_id = x.burst.program->lsi_id,
                      .in_port = kPortLocal,
                      .in_phy_port = kPortLocal,
                      .table_id = 0,
                      .reason = PuntReason::underlay,
                      .max_len = kNoBufferLength,
                      .cookie = 0,
                      .metadata = 0,
                      .tunnel_id = 0};
  if (!x.punts.punt(made, info)) x.tx.free(made);
}

rte_mbuf* copy(Execution& x, rte_mbuf* packet) noexcept {
  rte_mbuf* made = packet::copy_of(packet);
  if (made == nullptr) x.count_drop(DropReason::no_buffer);
  return made;
}

void copy_each(Execution& x, const OpBurst& burst, rte_mbuf** copies) noexcept {
  rte_mempool* const pool = packet::pool_for_copy(burst.block->packets[burst.at[0]]);
  bool together = pool != nullptr;
  for (size_t k = 0; k < burst.count; ++k) {
    const rte_mbuf* packet = burst.block->packets[burst.at[k]];
    together = together && packet::pool_for_copy(packet) == pool && packet->nb_segs == 1 &&
               packet->pkt_len + RTE_PKTMBUF_HEADROOM <= rte_pktmbuf_data_room_size(pool);
  }
  // Buffers of one pool are taken together; what came in several segments, or of several pools,
  // is copied one by one.
  if (!together || rte_pktmbuf_alloc_bulk(pool, copies, static_cast<unsigned>(burst.count)) != 0) {
    for (size_t k = 0; k < burst.count; ++k) {
      copies[k] = copy(x, burst.block->packets[burst.at[k]]);
    }
    return;
  }
  for (size_t k = 0; k < burst.count; ++k) {
    const rte_mbuf* from = burst.block->packets[burst.at[k]];
    rte_mbuf* to = copies[k];
    rte_mbuf_dynfield_copy(to, from);
    to->port = from->port;
    to->ol_flags = from->ol_flags & ~(RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT);
    to->vlan_tci = from->vlan_tci;
    to->vlan_tci_outer = from->vlan_tci_outer;
    to->tx_offload = from->tx_offload;
    to->hash = from->hash;
    to->packet_type = from->packet_type;
    to->data_len = from->data_len;
    to->pkt_len = from->pkt_len;
    std::memcpy(rte_pktmbuf_mtod(to, void*), rte_pktmbuf_mtod(from, const void*), from->data_len);
  }
}

void send_burst(Execution& x, const OpBurst& burst, rte_mbuf* const* packets,
                const Port& port) noexcept {
  std::array<rte_mbuf*, kBurst> run;
  size_t n_run = 0;
  uint64_t bytes = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    if (packets[k] == nullptr) continue;
    if (port.is_tunnel) [[unlikely]] {
      const PacketView view = burst.view(k);
      send(x, {packets[k], view.key, view.parsed}, port);
      continue;
    }
    run[n_run++] = packets[k];
    bytes += packets[k]->pkt_len;
  }
  if (n_run != 0) {
    x.tx.push_many(port, {run.data(), n_run}, bytes, x.burst.depth + 1, *x.burst.worker);
  }
}

void expire_ttl(Execution& x, PacketView view, const RuleBody& rule) noexcept {
  x.count_drop(DropReason::ttl_expired);
  punt(x, view, rule, PuntReason::invalid_ttl, kNoBufferLength);
}

}  // namespace headrace::pipeline
