// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/forward_runner.h"

#include "packet/edit.h"
#include "pipeline/execute/edit_inline.h"
#include "pipeline/execute/flow_hash.h"
#include "pipeline/execute/transmit.h"
#include "pipeline/execute/tunnel_results.h"

namespace headrace::pipeline {
namespace {

/// DropReason::none: a tunnel's header is in front.
DropReason push_tunnel(const Execution& x, const Rule& rule, uint8_t i,
                       const uint64_t* hashes) noexcept {
  rte_mbuf* packet = x.main.packets[i];
  const packet::ParsedPacket& parsed = x.main.parsed[i];
  const packet::TunnelHeader& tunnel = *rule.forward.tunnel;
  const uint64_t id = (rule.edits & kEditTunnelId) != 0
                          ? __builtin_bswap64(x.main.keys[i].tunnel_id)
                          : tunnel.spec().id;
  // MAC addresses count where there is no IP: then they may have been rewritten since.
  const bool known = hashes != nullptr && parsed.has(packet::kIpv4 | packet::kIpv6);
  const uint64_t hash = known ? hashes[i] : flow_hash64(packet, parsed);
  return drop_reason(tunnel.push(packet, parsed, id, entropy_of(hash)));
}

}  // namespace

void run_homogeneous(Execution& x, const ForwardBurst& homogeneous) noexcept {
  const Rule& first = homogeneous.all_rules[homogeneous.rules[0]];
  const Port* port = first.forward.out->port.load(std::memory_order_acquire);
  const DropReason refusal = send_refusal(x.burst, port);
  std::array<rte_mbuf*, kBurst> leaving;
  const Forwarded done = forward_homogeneous(homogeneous, leaving.data());
  if (refusal != DropReason::none) [[unlikely]] {
    for (size_t k = 0; k < done.count; ++k) x.drop(leaving[k], refusal);
  } else if (port->is_tunnel) [[unlikely]] {
    size_t next = 0;
    for (size_t k = 0; k < homogeneous.active.size(); ++k) {
      const uint8_t i = homogeneous.active[k];
      if ((done.expired >> k & 1) != 0) continue;
      send(x, {leaving[next++], &x.main.keys[i], &x.main.parsed[i]}, *port);
    }
  } else if (done.count != 0) {
    x.tx.push_many(*port, {leaving.data(), done.count}, done.bytes, x.burst.depth + 1,
                   *x.burst.worker);
  }
  if (done.expired == 0) [[likely]]
    return;
  RuleBurst expired;
  for (uint32_t rest = done.expired; rest != 0; rest &= rest - 1) {
    const auto k = static_cast<size_t>(__builtin_ctz(rest));
    expired.add(homogeneous.active[k], &homogeneous.all_rules[homogeneous.rules[k]]);
  }
  run_rules(x, expired);
}

void forward_one_rule(Execution& x, const Rule& rule, std::span<const uint8_t> active) noexcept {
  if ((rule.edits & kEditTunnel) == 0) {
    ForwardBurst burst = forward_burst(x, x.rules.data(), active);
    burst.counts = nullptr;
    run_homogeneous(x, burst);
    return;
  }
  RuleBurst burst;
  for (const uint8_t i : active) burst.add(i, &rule);
  forward_rules(x, burst);
}

void forward_rules(Execution& x, const RuleBurst& burst, const uint64_t* hashes) noexcept {
  RuleBurst expired;
  send_in_runs(x, burst.count, [&](size_t k) -> Outgoing {
    const Rule& rule = *burst.rule[k];
    const uint8_t i = burst.at[k];
    const PacketView view = view_of(x.main, i);
    auto* frame = rte_pktmbuf_mtod(view.packet, uint8_t*);
    uint32_t length = x.main.lengths[i];
    if ((rule.edits & kEditTtl) != 0) {
      if (ttl_expires(frame, *view.parsed)) [[unlikely]] {
        expired.add(i, &rule);
        return {};
      }
      packet::dec_nw_ttl(view.packet, *view.parsed);
    }
    rewrite_l2(frame, rule);
    if ((rule.edits & kEditTunnel) != 0) {
      const DropReason reason = push_tunnel(x, rule, i, hashes);
      if (reason != DropReason::none) [[unlikely]] {
        x.drop(view.packet, reason);
        return {};
      }
      length = view.packet->pkt_len;
    }
    return {rule.forward.out, view, length, (rule.edits & kEditTunnel) != 0};
  });
  if (expired.count != 0) [[unlikely]]
    run_rules(x, expired);
}

}  // namespace headrace::pipeline
