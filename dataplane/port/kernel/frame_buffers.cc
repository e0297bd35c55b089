// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/frame_buffers.h"

#include <algorithm>

namespace headrace::port {

FrameBuffers::~FrameBuffers() {
  for (size_t i = first_empty_; i < needed_; ++i) rte_pktmbuf_free(buffers_[i]);
}

void FrameBuffers::set(rte_mempool* pool, void* header, size_t octets) {
  pool_ = pool;
  const uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
  needed_ = std::min<size_t>((kLongest + room - 1) / room, kMost);
  first_empty_ = needed_;
  vector_[0] = {header, octets};
}

bool FrameBuffers::refill() noexcept {
  if (first_empty_ == 0) return true;
  if (rte_pktmbuf_alloc_bulk(pool_, buffers_.data(), static_cast<unsigned>(first_empty_)) != 0) {
    return false;
  }
  for (size_t i = 0; i < first_empty_; ++i) {
    vector_[i + 1] = {rte_pktmbuf_mtod(buffers_[i], void*), rte_pktmbuf_tailroom(buffers_[i])};
  }
  first_empty_ = 0;
  return true;
}

rte_mbuf* FrameBuffers::take(uint32_t octets) noexcept {
  rte_mbuf* packet = buffers_[0];
  packet->pkt_len = octets;
  rte_mbuf* last = nullptr;
  uint16_t segments = 0;
  do {
    rte_mbuf* buffer = buffers_[first_empty_];
    const auto here = std::min(octets, uint32_t{rte_pktmbuf_tailroom(buffer)});
    buffer->data_len = static_cast<uint16_t>(here);
    octets -= here;
    if (last != nullptr) last->next = buffer;
    last = buffer;
    ++segments;
    ++first_empty_;
  } while (octets > 0 && first_empty_ < needed_);
  packet->nb_segs = segments;
  return packet;
}

}  // namespace headrace::port
