// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/punt_ring.h"

#include <rte_errno.h>
#include <rte_ring_elem.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headrace::runtime {

Result<std::unique_ptr<WakeUp>> WakeUp::make() {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return fail("eventfd: {}", std::strerror(errno));
  return std::unique_ptr<WakeUp>(new WakeUp(fd));
}

WakeUp::~WakeUp() {
  ::close(fd_);
}

void WakeUp::raise() noexcept {
  // An exchange, not a load: what was put in a ring before must be seen by a reader that lowered.
  if (raised_.exchange(true, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  // Fails only if the counter is full, that is: readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void WakeUp::lower() noexcept {
  uint64_t count;
  // Fails only if it was not raised.
  [[maybe_unused]] const ssize_t size = ::read(fd_, &count, sizeof count);
  raised_.exchange(false, std::memory_order_seq_cst);
}

Result<std::unique_ptr<PuntRing>> PuntRing::make(const std::string& name, WakeUp& wake_up) {
  Ring ring(rte_ring_create_elem(name.c_str(), sizeof(Entry), kCapacity, SOCKET_ID_ANY,
                                 RING_F_SP_ENQ | RING_F_SC_DEQ));
  if (!ring) return fail("ring {}: {}", name, rte_strerror(rte_errno));
  return std::unique_ptr<PuntRing>(new PuntRing(std::move(ring), wake_up));
}

PuntRing::~PuntRing() {
  while (read(kCapacity, [](const auto&, auto) {}) > 0) {
  }
}

bool PuntRing::punt(rte_mbuf* packet, const pipeline::PuntInfo& info) noexcept {
  Entry entry{packet, info};
  if (rte_ring_sp_enqueue_elem(ring_.get(), &entry, sizeof entry) != 0) {
    refused_.add(1);
    return false;
  }
  wake_up_.raise();
  return true;
}

unsigned PuntRing::read(unsigned limit, const Take& take) {
  unsigned count = 0;
  Entry entry;
  for (; count < limit && rte_ring_sc_dequeue_elem(ring_.get(), &entry, sizeof entry) == 0;
       ++count) {
    rte_mbuf* packet = entry.packet;
    const uint32_t length = rte_pktmbuf_pkt_len(packet);
    if (packet->nb_segs > 1) joined_.resize(std::max<size_t>(joined_.size(), length));
    const void* octets = rte_pktmbuf_read(packet, 0, length, joined_.data());
    take(entry.info, {static_cast<const uint8_t*>(octets), length});
    rte_pktmbuf_free(packet);
  }
  return count;
}

}  // namespace headrace::runtime
