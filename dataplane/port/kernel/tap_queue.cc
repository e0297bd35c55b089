// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/tap_queue.h"

#include <rte_cycles.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

#include "pipeline/terms/port_io.h"
#include "port/kernel/gathered.h"

namespace headrace::port {
namespace {

constexpr auto kVnetHeader = static_cast<ssize_t>(sizeof(VnetHeader));
/// More than the buffers of the longest frame.
constexpr size_t kVectors = 128;

}  // namespace

Result<std::unique_ptr<TapQueue>> TapQueue::make(Descriptor file, rte_mempool* pool,
                                                 Readiness& readiness) {
  std::unique_ptr<TapQueue> made(new TapQueue(std::move(file), pool, readiness));
  if (Result<> added = readiness.add(made->fd(), *made->ready_); !added) {
    return tl::unexpected(added.error());
  }
  return made;
}

TapQueue::TapQueue(Descriptor file, rte_mempool* pool, Readiness& readiness)
    : file_(std::move(file)), readiness_(readiness) {
  frame_.set(pool, &header_, sizeof header_);
  // Something may have come before the set knew of it.
  ready_->events.store(1, std::memory_order_relaxed);
}

TapQueue::~TapQueue() {
  readiness_.remove(file_.get());
}

uint16_t TapQueue::receive(std::span<rte_mbuf*> packets) noexcept {
  uint32_t event = ready_->events.load(std::memory_order_acquire);
  if (event == emptied_) {
    readiness_.ask(rte_rdtsc());
    event = ready_->events.load(std::memory_order_acquire);
    if (event == emptied_) return 0;
  }
  uint16_t count = 0;
  uint64_t octets = 0;
  while (count < packets.size()) {
    if (!frame_.refill()) {
      counts_.no_buffer.add(1);
      break;
    }
    const std::span<iovec> vector = frame_.vector();
    const ssize_t got = ::readv(file_.get(), vector.data(), static_cast<int>(vector.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      emptied_ = event;  // what comes from here on is another event
      break;
    }
    if (got <= kVnetHeader) {
      counts_.errors.add(1);
      continue;
    }
    rte_mbuf* packet = frame_.take(static_cast<uint32_t>(got - kVnetHeader));
    if (!take_vnet_header(header_, 0, packet)) {
      rte_pktmbuf_free(packet);
      counts_.errors.add(1);
      continue;
    }
    octets += packet->pkt_len;
    packets[count++] = packet;
  }
  if (count != 0) {
    counts_.packets.add(count);
    counts_.octets.add(octets);
  }
  return count;
}

uint16_t TapQueue::send(std::span<rte_mbuf*> packets, TxCounts& counts) noexcept {
  std::array<iovec, kVectors> vectors;
  uint64_t sent = 0;
  uint64_t octets = 0;
  uint16_t done = 0;
  for (; done < packets.size(); ++done) {
    VnetHeader header = vnet_header_of(packets[done]);
    const size_t used = gather(packets[done], &header, sizeof header, vectors);
    const ssize_t written =
        used == 0 ? -1 : ::writev(file_.get(), vectors.data(), static_cast<int>(used));
    if (written < 0) {
      if (used != 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)) break;
      counts.errors.add(1);
      continue;
    }
    ++sent;
    octets += packets[done]->pkt_len;
  }
  rte_pktmbuf_free_bulk(packets.data(), done);
  if (sent != 0) {
    counts.packets.add(sent);
    counts.octets.add(octets);
  }
  return done;
}

}  // namespace headrace::port
