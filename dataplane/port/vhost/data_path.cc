// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/data_path.h"

#include <rte_mbuf.h>
#include <rte_vhost.h>

#include "port/vhost/guest_memory.h"

namespace headrace::port::vhost {

namespace {

/// Times that one burst follows a guest that takes vrings away: a guest that does so all the time
/// must not keep a worker.
constexpr unsigned kMaxChanges = 4;

uint16_t enqueue(int vid, uint16_t vring, std::span<rte_mbuf*> packets) noexcept {
  const GuestAccess access(vid);
  return rte_vhost_enqueue_burst(vid, vring, packets.data(), static_cast<uint16_t>(packets.size()));
}

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

void DataPath::publish(int vid, const QueueStates& states) {
  for (uint16_t queue = 0; queue < config_.rx_queues; ++queue) {
    const std::vector<uint16_t> vrings = states.receive_from(queue, config_.rx_queues);
    RxQueue& rx = rx_[queue];
    for (size_t i = 0; i < vrings.size(); ++i) {
      rx.routes[i].store(route(vid, vrings[i]), std::memory_order_release);
    }
    const uint16_t before = rx.count.exchange(static_cast<uint16_t>(vrings.size()));
    for (size_t i = vrings.size(); i < before; ++i) rx.routes[i].store(kNone);
  }
  const std::vector<uint16_t> vrings = states.send_to(pipeline::kMaxWorkers);
  for (unsigned worker = 0; worker < pipeline::kMaxWorkers; ++worker) {
    tx_[worker].store(vrings.empty() ? kNone : route(vid, vrings[worker]),
                      std::memory_order_release);
  }
}

void DataPath::withdraw() {
  publish(0, QueueStates());
}

uint16_t DataPath::rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept {
  RxQueue& rx = rx_[queue];
  const uint16_t vrings = rx.count.load(std::memory_order_relaxed);
  for (uint16_t tried = 0; tried < vrings; ++tried) {
    if (rx.next >= vrings) rx.next = 0;
    const Route from = rx.routes[rx.next++].load(std::memory_order_acquire);
    if (from == kNone) continue;
    const GuestAccess access(vid_of(from));
    const uint16_t count =
        rte_vhost_dequeue_burst(vid_of(from), vring_of(from), config_.pool, packets.data(),
                                static_cast<uint16_t>(packets.size()));
    if (count > 0) return count;
  }
  return 0;
}

uint16_t DataPath::tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept {
  const auto wanted = static_cast<uint16_t>(packets.size());
  Route to = tx_[worker].load(std::memory_order_acquire);
  uint16_t sent = 0;
  uint32_t retries = 0;
  unsigned changes = 0;
  while (to != kNone) {
    const uint16_t taken = enqueue(vid_of(to), vring_of(to), packets.subspan(sent));
    sent = static_cast<uint16_t>(sent + taken);
    if (sent == wanted) break;
    const Route now = tx_[worker].load(std::memory_order_acquire);
    if (now != to) {
      // The vring was taken away meanwhile: what has replaced it takes the rest.
      if (++changes > kMaxChanges) break;
      to = now;
    } else if (taken == 0 || retries == config_.tx_retries) {
      break;  // as OVS: a ring that takes nothing is not tried again
    } else {
      ++retries;
    }
  }
  if (retries > 0) retries_.fetch_add(retries, std::memory_order_relaxed);
  if (sent < wanted) refused_.fetch_add(wanted - sent, std::memory_order_relaxed);
  rte_pktmbuf_free_bulk(packets.data(), sent);  // they were copied
  return sent;
}

}  // namespace headrace::port::vhost
