// SPDX-License-Identifier: Apache-2.0
#include "port/shm_packets.h"

#include <rte_malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/prefetch.h"

namespace headrace::port {
namespace {

/// Room behind the head of a packet that fits, for what the pipeline appends: the padding of a
/// short frame. A chain has none, so that nobody takes the buffer's mbuf out of it.
constexpr uint16_t kTailroom = 64;
static_assert(kPrivateHead % shm::kLine == 0);

/// Copies up to kPrivateHead octets; whole lines if the buffer has `room` for them, which the
/// compiler turns into vectors.
inline void copy_head(uint8_t* to, const uint8_t* from, uint32_t length, uint32_t room) {
  if (room < kPrivateHead) [[unlikely]] {
    std::memcpy(to, from, length);
    return;
  }
  for (uint32_t at = 0; at < length; at += shm::kLine) std::memcpy(to + at, from + at, shm::kLine);
}

}  // namespace

struct alignas(shm::kLine) ShmPackets::Head {
  rte_mbuf mbuf;
  uint32_t buffer;  ///< where MbufSet::buffer_of() finds it
  alignas(shm::kLine) uint8_t octets[kPrivateHeadroom + kPrivateHead + kTailroom];
};

void ShmPackets::FreeHeads::operator()(Head* heads) const {
  rte_free(heads);
}

Result<ShmPackets> ShmPackets::make(const std::string& name, const shm::BufferArea& area,
                                    uint32_t cache) {
  static_assert(offsetof(Head, buffer) == sizeof(rte_mbuf));
  // Lines are as long as DPDK was built for: 64 octets, 128 on generic ARM.
  static_assert(sizeof(Head) / alignof(Head) % 2 == 1, "the first lines use all sets of a cache");
  ShmPackets made;
  auto mbufs = shm::MbufSet::make(name, area, cache);
  if (!mbufs) return tl::unexpected(mbufs.error());
  made.mbufs_ = std::move(*mbufs);
  made.area_ = area;
  made.heads_.reset(
      static_cast<Head*>(rte_zmalloc(nullptr, size_t{area.count} * sizeof(Head), shm::kLine)));
  if (made.heads_ == nullptr) {
    return fail("{}: no memory for the headers of {} buffers; give the program more memory", name,
                area.count);
  }
  for (uint32_t buffer = 0; buffer < area.count; ++buffer) {
    Head& head = made.heads_.get()[buffer];
    head.buffer = buffer;
    head.mbuf.pool = made.mbufs_.pool();
    head.mbuf.ol_flags = RTE_MBUF_F_EXTERNAL;
    head.mbuf.buf_addr = head.octets;
    head.mbuf.buf_iova = reinterpret_cast<rte_iova_t>(head.octets);
    head.mbuf.buf_len = kPrivateHeadroom + kPrivateHead;
    rte_mbuf_refcnt_set(&head.mbuf, 1);
  }
  made.begins_.resize(area.count);
  return made;
}

void ShmPackets::prefetch(const shm::Packet& packet) const noexcept {
  const uint8_t* from = shared(packet.buffer) + packet.begin;
  const uint32_t octets = std::min<uint32_t>(packet.length, kPrivateHead);
  for (uint32_t at = 0; at < octets; at += shm::kLine) prefetch_to_read(from + at);
  const Head& head = heads_.get()[packet.buffer];
  if (packet.length > kPrivateHead) headrace::prefetch_to_write(&head.mbuf);
  headrace::prefetch_to_write(head.octets + kPrivateHeadroom);
  headrace::prefetch_to_write(mbufs_.mbuf(packet.buffer));
}

rte_mbuf* ShmPackets::receive(const shm::Packet& packet) noexcept {
  rte_mbuf* const mbuf = mbufs_.mbuf(packet.buffer);
  uint8_t* const octets = shared(packet.buffer);
  Head& head = heads_.get()[packet.buffer];
  begins_[packet.buffer] = packet.begin;
  rte_pktmbuf_reset(mbuf);
  const uint32_t room = area_.stride - packet.begin;
  if (packet.length <= kPrivateHead) {
    mbuf->buf_addr = head.octets;
    mbuf->buf_iova = head.mbuf.buf_iova;
    mbuf->buf_len = sizeof head.octets;
    mbuf->data_off = kPrivateHeadroom;
    mbuf->data_len = packet.length;
    mbuf->pkt_len = packet.length;
    copy_head(head.octets + kPrivateHeadroom, octets + packet.begin, packet.length, room);
    return mbuf;
  }
  mbuf->buf_addr = octets;
  mbuf->buf_iova = reinterpret_cast<rte_iova_t>(octets);
  mbuf->buf_len = static_cast<uint16_t>(area_.stride);
  mbuf->data_off = static_cast<uint16_t>(packet.begin + kPrivateHead);
  mbuf->data_len = static_cast<uint16_t>(packet.length - kPrivateHead);
  rte_mbuf* const first = &head.mbuf;
  rte_pktmbuf_reset(first);
  rte_mbuf_refcnt_set(first, 2);
  first->data_off = kPrivateHeadroom;
  first->data_len = kPrivateHead;
  first->pkt_len = packet.length;
  first->nb_segs = 2;
  first->next = mbuf;
  copy_head(head.octets + kPrivateHeadroom, octets + packet.begin, kPrivateHead, room);
  return first;
}

std::optional<shm::Packet> ShmPackets::to_region(rte_mbuf* packet) noexcept {
  if (packet->pool != mbufs_.pool()) return std::nullopt;
  const uint32_t buffer = shm::MbufSet::buffer_of(packet);
  rte_mbuf* const mbuf = mbufs_.mbuf(buffer);
  const bool is_long = packet != mbuf;
  if (rte_mbuf_refcnt_read(mbuf) != 1 ||
      (is_long ? packet->next != mbuf || rte_mbuf_refcnt_read(packet) != 2
               : packet->nb_segs != 1)) {
    return std::nullopt;
  }
  // Pushed and popped headers move the begin in the buffer as they did in the head.
  const int room = static_cast<int>(area_.stride);
  int begin = begins_[buffer] + packet->data_off - kPrivateHeadroom;
  if (!is_long && (begin < 0 || begin + packet->data_len > room)) begin = shm::kHeadroom;
  if (begin < 0 || begin + static_cast<int>(packet->pkt_len) > room) return std::nullopt;
  // The receiver's core shares lines that weren't changed.
  uint8_t* const to = shared(buffer) + begin;
  const uint8_t* const from = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (std::memcmp(to, from, packet->data_len) != 0) std::memcpy(to, from, packet->data_len);
  return shm::Packet{.buffer = buffer,
                     .begin = static_cast<uint16_t>(begin),
                     .length = static_cast<uint16_t>(packet->pkt_len)};
}

std::optional<shm::Packet> ShmPackets::copy_to_region(const rte_mbuf* packet) noexcept {
  if (packet->pkt_len > area_.stride - shm::kHeadroom) return std::nullopt;
  rte_mbuf* const carrier = rte_mbuf_raw_alloc(mbufs_.pool());
  if (carrier == nullptr) return std::nullopt;
  const uint32_t buffer = shm::MbufSet::buffer_of(carrier);
  uint8_t* const to = shared(buffer) + shm::kHeadroom;
  const void* from = rte_pktmbuf_read(packet, 0, packet->pkt_len, to);
  if (from != to) std::memcpy(to, from, packet->pkt_len);
  return shm::Packet{
      .buffer = buffer, .begin = shm::kHeadroom, .length = static_cast<uint16_t>(packet->pkt_len)};
}

}  // namespace headrace::port
