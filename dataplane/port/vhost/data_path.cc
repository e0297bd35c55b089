// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/data_path.h"

#include <rte_mbuf.h>
#include <rte_vhost.h>

#include "packet/free_burst.h"
#include "packet/offload.h"
#include "port/vhost/guest_memory.h"
#include "port/vhost/guest_offload.h"

namespace headrace::port::vhost {

namespace {

/// Times that one burst follows a guest that takes vrings away: a guest that does so all the time
/// must not keep a worker.
constexpr unsigned kMaxChanges = 4;

/// Ethernet's longest, with a VLAN tag: every driver has buffers for it.
constexpr uint32_t kOrdinaryFrame = 1518;

}  // namespace

DataPath::DataPath(const DataPathConfig& config)
    : config_(config), rx_(std::make_unique<RxQueue[]>(config.rx_queues)) {
  const unsigned most = (kMaxPairs + config.rx_queues - 1u) / config.rx_queues;
  for (uint16_t queue = 0; queue < config.rx_queues; ++queue) {
    rx_[queue].routes = std::make_unique<std::atomic<Route>[]>(most);
    for (unsigned i = 0; i < most; ++i) rx_[queue].routes[i].store(kNone);
  }
  for (std::atomic<Route>& of_worker : tx_) of_worker.store(kNone);
}

void DataPath::publish(int vid, const QueueStates& states, uint64_t features) {
  const Route flags =
      (guest_leaves(features) ? kLeaves : 0) | (guest_merges(features) ? kMerges : 0);
  for (uint16_t queue = 0; queue < config_.rx_queues; ++queue) {
    const std::vector<uint16_t> vrings = states.receive_from(queue, config_.rx_queues);
    RxQueue& rx = rx_[queue];
    for (size_t i = 0; i < vrings.size(); ++i) {
      rx.routes[i].store(flags | route(vid, vrings[i]), std::memory_order_release);
    }
    const uint16_t before = rx.count.exchange(static_cast<uint16_t>(vrings.size()));
    for (size_t i = vrings.size(); i < before; ++i) rx.routes[i].store(kNone);
  }
  const std::vector<uint16_t> vrings = states.send_to(pipeline::kMaxWorkers);
  for (unsigned worker = 0; worker < pipeline::kMaxWorkers; ++worker) {
    tx_[worker].store(vrings.empty() ? kNone : flags | route(vid, vrings[worker]),
                      std::memory_order_release);
  }
}

void DataPath::withdraw() {
  publish(0, QueueStates(), 0);
}

uint16_t DataPath::rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept {
  RxQueue& rx = rx_[queue];
  const uint16_t vrings = rx.count.load(std::memory_order_relaxed);
  for (uint16_t tried = 0; tried < vrings; ++tried) {
    if (rx.next >= vrings) rx.next = 0;
    const Route from = rx.routes[rx.next++].load(std::memory_order_acquire);
    if (from == kNone) continue;
    const GuestAccess access(vid_of(from));
    const size_t wanted = packed_rings_.to_dequeue(vid_of(from), vring_of(from), packets.size());
    if (wanted == 0) continue;
    uint16_t count =
        rte_vhost_dequeue_burst(vid_of(from), vring_of(from), config_.pool->for_burst(),
                                packets.data(), static_cast<uint16_t>(wanted));
    if ((from & kLeaves) != 0) count = take_notes(packets.first(count));
    if (count > 0) return count;
  }
  return 0;
}

uint16_t DataPath::take_notes(std::span<rte_mbuf*> packets) noexcept {
  uint16_t kept = 0;
  for (rte_mbuf* packet : packets) {
    if (take_guest_notes(packet)) {
      packets[kept++] = packet;
    } else {
      rte_pktmbuf_free(packet);
      malformed_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return kept;
}

uint16_t DataPath::enqueue(Route to, std::span<rte_mbuf*> packets) noexcept {
  const GuestAccess access(vid_of(to));
  return packed_rings_.enqueue(vid_of(to), vring_of(to), packets);
}

uint16_t DataPath::pass_long(Route to, std::span<rte_mbuf*> packets) noexcept {
  for (size_t skipped = 1; packets[skipped - 1]->pkt_len > kOrdinaryFrame; ++skipped) {
    const bool all = skipped == packets.size();
    const uint16_t taken = all ? 0 : enqueue(to, packets.subspan(skipped));
    if (!all && taken == 0) continue;
    too_long_.fetch_add(skipped, std::memory_order_relaxed);
    return static_cast<uint16_t>(skipped + taken);
  }
  return 0;  // an ordinary one is refused as well: the ring is full
}

uint16_t DataPath::tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept {
  auto wanted = static_cast<uint16_t>(packets.size());
  if (takes() != 0) {
    for (uint16_t i = 0; i < wanted; ++i) {
      if (packet::segments_left(packets[i]) && !prepare_segmented(packets[i])) wanted = i;
    }
  }
  const std::span<rte_mbuf*> prepared = packets.first(wanted);
  Route to = tx_[worker].load(std::memory_order_acquire);
  uint16_t sent = 0;
  uint32_t retries = 0;
  unsigned changes = 0;
  while (to != kNone) {
    const uint16_t taken = enqueue(to, prepared.subspan(sent));
    sent = static_cast<uint16_t>(sent + taken);
    if (sent == wanted) break;
    const Route now = tx_[worker].load(std::memory_order_acquire);
    if (now != to) {
      // The vring was taken away meanwhile: what has replaced it takes the rest.
      if (++changes > kMaxChanges) break;
      to = now;
    } else if (const uint16_t passed =
                   taken == 0 && (to & kMerges) == 0 ? pass_long(to, prepared.subspan(sent)) : 0;
               passed > 0) {
      sent = static_cast<uint16_t>(sent + passed);
      if (sent == wanted) break;
    } else if (taken == 0 || retries == config_.tx_retries) {
      break;  // as OVS: a ring that takes nothing is not tried again
    } else {
      ++retries;
    }
  }
  if (retries > 0) retries_.fetch_add(retries, std::memory_order_relaxed);
  if (sent < packets.size()) {
    refused_.fetch_add(packets.size() - sent, std::memory_order_relaxed);
  }
  packet::free_burst(packets.first(sent));  // they were copied
  return sent;
}

}  // namespace headrace::port::vhost
