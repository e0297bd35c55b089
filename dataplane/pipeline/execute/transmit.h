// SPDX-License-Identifier: Apache-2.0
// The last stage: packets to ports, to the controller, and copies where a packet goes on as well.
//
// Packets for one port in a row leave together (send_in_runs), through the worker's transmit
// buffers (tx_buffers.h); a tunnel port encapsulates on the way there. Which ports may be sent to
// is decided here and nowhere else.
#pragma once

#include "pipeline/execute/execution.h"

namespace headrace::pipeline {

/// Why the burst's packets may not be sent to a port, or DropReason::none; null: it is missing.
[[nodiscard]] inline DropReason send_refusal(const Burst& burst, const Port* port) noexcept {
  return port == nullptr         ? DropReason::port_missing
         : port == burst.in_port ? DropReason::input_port
                                 : port->send_refusal.load(std::memory_order_relaxed);
}

/// Sends the packet itself to a port that may be sent to; a tunnel port encapsulates.
void send(Execution& x, PacketView view, const Port& port) noexcept;

/// Sends the packet itself to the controller.
void punt(Execution& x, PacketView view, const RuleBody& rule, PuntReason reason,
          uint16_t max_len) noexcept;

/// Tells the control thread of a packet that is about neighbors, by a copy of it.
void punt_neighbor(Execution& x, rte_mbuf* packet) noexcept;

/// A copy to send elsewhere; null (counted) if there is no buffer.
[[nodiscard]] rte_mbuf* copy(Execution& x, rte_mbuf* packet) noexcept;

/// Copies of all packets of `burst`, by its k; null (counted) where there is no buffer.
void copy_each(Execution& x, const OpBurst& burst, rte_mbuf** copies) noexcept;

/// The packets themselves if `burst.last`, else copies, by k; null (counted) where there is no
/// buffer.
inline void take_or_copy(Execution& x, const OpBurst& burst, rte_mbuf** packets) noexcept {
  if (!burst.last) {
    copy_each(x, burst, packets);
    return;
  }
  for (size_t k = 0; k < burst.count; ++k) packets[k] = burst.block->packets[burst.at[k]];
}

/// Sends packets (packets[k] is that of k, or null) to one port that may be sent to.
void send_burst(Execution& x, const OpBurst& burst, rte_mbuf* const* packets,
                const Port& port) noexcept;

/// A TTL was found expired: counted, and the packet goes to the controller.
void expire_ttl(Execution& x, PacketView view, const RuleBody& rule) noexcept;

/// One packet on its way out; without a packet there is none.
struct Outgoing {
  const PortHandle* to;
  PacketView view;
  uint32_t length;
  bool headers_moved{false};  ///< key and parsed headers are not those of the packet as it is
};

/// Calls next(k) for k in 0..n-1 and sends what it returns: packets for one port in a row together,
/// as their ports are at this moment; drops, for the reason, what may not be sent.
template <typename Next>
void send_in_runs(Execution& x, size_t n, Next&& next) noexcept {
  const PortHandle* handle = nullptr;
  const Port* port = nullptr;
  DropReason refusal = DropReason::none;
  bool alone = false;  // packets for the port can't just be sent together
  std::array<rte_mbuf*, kBurst> run;
  size_t n_run = 0;
  uint64_t run_bytes = 0;
  for (size_t k = 0; k < n; ++k) {
    const Outgoing each = next(k);
    if (each.view.packet == nullptr) [[unlikely]] {
      continue;
    }
    if (each.to != handle) [[unlikely]] {
      if (n_run != 0) {
        x.tx.push_many(*port, {run.data(), n_run}, run_bytes, x.burst.depth + 1, *x.burst.worker);
      }
      n_run = 0;
      run_bytes = 0;
      handle = each.to;
      port = handle->port.load(std::memory_order_acquire);
      refusal = send_refusal(x.burst, port);
      alone = refusal != DropReason::none || port->is_tunnel;
    }
    if (alone) [[unlikely]] {
      if (refusal != DropReason::none) {
        x.drop(each.view.packet, refusal);
      } else {
        if (each.headers_moved) {
          match::refresh(x.burst.parse_depth, each.view.packet, *each.view.key, *each.view.parsed);
        }
        send(x, each.view, *port);
      }
      continue;
    }
    run[n_run++] = each.view.packet;
    run_bytes += each.length;
  }
  if (n_run != 0) {
    x.tx.push_many(*port, {run.data(), n_run}, run_bytes, x.burst.depth + 1, *x.burst.worker);
  }
}

}  // namespace headrace::pipeline
