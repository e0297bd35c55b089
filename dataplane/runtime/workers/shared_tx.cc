// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/shared_tx.h"

#include <rte_errno.h>
#include <rte_mbuf.h>

namespace headrace::runtime {

Result<std::unique_ptr<SharedTx>> SharedTx::make(const std::string& name, pipeline::PortIo& device,
                                                 uint16_t queues) {
  std::vector<Ring> rings;
  for (uint16_t queue = 0; queue < queues; ++queue) {
    Ring ring(rte_ring_create(fmt::format("{}-{}", name, queue).c_str(), kCapacity, SOCKET_ID_ANY,
                              RING_F_SC_DEQ));
    if (!ring) return fail("ring {}-{}: {}", name, queue, rte_strerror(rte_errno));
    rings.push_back(std::move(ring));
  }
  return std::unique_ptr<SharedTx>(new SharedTx(device, std::move(rings)));
}

SharedTx::SharedTx(pipeline::PortIo& device, std::vector<Ring> rings)
    : device_(device),
      rings_(std::move(rings)),
      dropped_(std::make_unique<Counter[]>(rings_.size())) {}

SharedTx::~SharedTx() {
  for (const Ring& ring : rings_) {
    void* packet = nullptr;
    while (rte_ring_sc_dequeue(ring.get(), &packet) == 0) {
      rte_pktmbuf_free(static_cast<rte_mbuf*>(packet));
    }
  }
}

uint16_t SharedTx::tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept {
  if (worker < rings_.size()) return device_.tx(worker, packets);
  rte_ring* ring = rings_[worker % rings_.size()].get();
  return static_cast<uint16_t>(
      rte_ring_mp_enqueue_burst(ring, reinterpret_cast<void**>(packets.data()),
                                static_cast<unsigned>(packets.size()), nullptr));
}

void SharedTx::drain(uint16_t queue) noexcept {
  rte_mbuf* burst[pipeline::kBurst];
  const unsigned count = rte_ring_sc_dequeue_burst(
      rings_[queue].get(), reinterpret_cast<void**>(burst), pipeline::kBurst, nullptr);
  if (count == 0) return;
  const uint16_t sent = device_.tx(queue, {burst, count});
  if (sent < count) {
    dropped_[queue].add(count - sent);
    rte_pktmbuf_free_bulk(burst + sent, count - sent);
  }
}

uint64_t SharedTx::dropped() const {
  uint64_t sum = 0;
  for (size_t queue = 0; queue < rings_.size(); ++queue) sum += dropped_[queue].read();
  return sum;
}

}  // namespace headrace::runtime
