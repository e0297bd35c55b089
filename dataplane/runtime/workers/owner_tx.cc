// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/owner_tx.h"

#include <rte_errno.h>
#include <rte_mbuf.h>

#include <algorithm>

namespace headrace::runtime {

Result<std::unique_ptr<OwnerTx>> OwnerTx::make(const std::string& name, pipeline::PortIo& device) {
  Ring ring(rte_ring_create(name.c_str(), kCapacity, SOCKET_ID_ANY, RING_F_SC_DEQ));
  if (!ring) return fail("ring {}: {}", name, rte_strerror(rte_errno));
  return std::unique_ptr<OwnerTx>(new OwnerTx(device, std::move(ring)));
}

OwnerTx::~OwnerTx() {
  void* packet = nullptr;
  while (rte_ring_sc_dequeue(ring_.get(), &packet) == 0) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
  }
}

uint16_t OwnerTx::tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept {
  if (owner_.load(std::memory_order_acquire) == worker) {
    drain();
    return device_.tx(0, packets);
  }
  return static_cast<uint16_t>(
      rte_ring_mp_enqueue_burst(ring_.get(), reinterpret_cast<void**>(packets.data()),
                                static_cast<unsigned>(packets.size()), nullptr));
}

void OwnerTx::drain() noexcept {
  unsigned waiting = rte_ring_count(ring_.get());
  while (waiting > 0) {
    rte_mbuf* burst[pipeline::kBurst];
    const unsigned count =
        rte_ring_sc_dequeue_burst(ring_.get(), reinterpret_cast<void**>(burst),
                                  std::min<unsigned>(waiting, pipeline::kBurst), nullptr);
    if (count == 0) return;
    waiting -= count;
    const uint16_t sent = device_.tx(0, {burst, count});
    if (sent < count) {
      dropped_.add(count - sent);
      rte_pktmbuf_free_bulk(burst + sent, count - sent);
    }
  }
}

}  // namespace headrace::runtime
