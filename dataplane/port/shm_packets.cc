// SPDX-License-Identifier: Apache-2.0
#include "port/shm_packets.h"

#include <rte_errno.h>
#include <rte_malloc.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/prefetch.h"

namespace headrace::port {
namespace {

/// Room behind the head, for what the pipeline appends: the padding of a short frame.
constexpr uint16_t kTailroom = 64;
constexpr uint16_t kHeadRoom = kPrivateHeadroom + kPrivateHead + kTailroom;
/// An odd number of lines apart, so that the first lines use all sets of a cache.
constexpr uint32_t kHeadStride = kHeadRoom | shm::kLine;
static_assert(kHeadRoom % shm::kLine == 0 && kHeadStride >= kHeadRoom);
static_assert(kHeadStride / shm::kLine % 2 == 1);
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

void ShmPackets::FreeHeads::operator()(uint8_t* heads) const {
  rte_free(heads);
}

ShmPackets& ShmPackets::operator=(ShmPackets&& other) noexcept {
  std::swap(area_, other.area_);
  std::swap(mbufs_, other.mbufs_);
  std::swap(tails_, other.tails_);
  std::swap(heads_, other.heads_);
  std::swap(begins_, other.begins_);
  return *this;
}

Result<ShmPackets> ShmPackets::make(const std::string& name, const shm::BufferArea& area,
                                    uint32_t cache) {
  ShmPackets made;
  auto mbufs = shm::MbufSet::make(name, area, cache);
  if (!mbufs) return tl::unexpected(mbufs.error());
  made.mbufs_ = std::move(*mbufs);
  made.area_ = area;
  const std::string short_name = "shm_tail_" + name.substr(0, 16);
  made.tails_ = rte_pktmbuf_pool_create(short_name.c_str(), area.count, cache, 0, 0, SOCKET_ID_ANY);
  made.heads_.reset(
      static_cast<uint8_t*>(rte_malloc(nullptr, size_t{area.count} * kHeadStride, shm::kLine)));
  if (made.tails_ == nullptr || made.heads_ == nullptr) {
    return fail("{}: no memory for the headers of {} buffers: {}; give the program more memory",
                name, area.count, rte_strerror(rte_errno));
  }
  made.begins_.resize(area.count);
  return made;
}

void ShmPackets::prefetch(const shm::Packet& packet) const noexcept {
  const uint8_t* from = shared(packet.buffer) + packet.begin;
  const uint32_t octets = std::min<uint32_t>(packet.length, kPrivateHead);
  for (uint32_t at = 0; at < octets; at += shm::kLine) prefetch_to_read(from + at);
  headrace::prefetch_to_write(mbufs_.mbuf(packet.buffer));
}

rte_mbuf* ShmPackets::receive(const shm::Packet& packet) noexcept {
  rte_mbuf* const head = mbufs_.mbuf(packet.buffer);
  uint8_t* const octets = shared(packet.buffer);
  uint8_t* const own = heads_.get() + size_t{packet.buffer} * kHeadStride;
  const auto in_head = std::min(packet.length, kPrivateHead);
  rte_pktmbuf_reset(head);
  head->buf_addr = own;
  head->buf_iova = reinterpret_cast<rte_iova_t>(own);
  head->buf_len = kHeadRoom;
  head->data_off = kPrivateHeadroom;
  head->data_len = in_head;
  head->pkt_len = packet.length;
  if (packet.length > in_head) {
    rte_mbuf* const tail = rte_pktmbuf_alloc(tails_);
    if (tail == nullptr) [[unlikely]]
      return nullptr;
    tail->buf_addr = octets;
    tail->buf_iova = reinterpret_cast<rte_iova_t>(octets);
    tail->buf_len = static_cast<uint16_t>(area_.stride);
    tail->data_off = static_cast<uint16_t>(packet.begin + in_head);
    tail->data_len = static_cast<uint16_t>(packet.length - in_head);
    head->next = tail;
    head->nb_segs = 2;
  }
  copy_head(own + kPrivateHeadroom, octets + packet.begin, in_head, area_.stride - packet.begin);
  begins_[packet.buffer] = packet.begin;
  return head;
}

std::optional<shm::Packet> ShmPackets::to_region(rte_mbuf* packet) noexcept {
  const bool is_long = packet->nb_segs == 2;
  if (packet->pool != mbufs_.pool() || rte_mbuf_refcnt_read(packet) != 1 ||
      (packet->nb_segs != 1 && !(is_long && packet->next->pool == tails_))) {
    return std::nullopt;
  }
  const uint32_t buffer = shm::MbufSet::buffer_of(packet);
  // Pushed and popped headers move the begin in the buffer as they did in the head.
  int begin = is_long ? packet->next->data_off - packet->data_len
                      : begins_[buffer] + packet->data_off - kPrivateHeadroom;
  if (!is_long && (begin < 0 || begin + packet->data_len > static_cast<int>(area_.stride))) {
    begin = shm::kHeadroom;
  }
  if (begin < 0 || begin + static_cast<int>(packet->pkt_len) > static_cast<int>(area_.stride)) {
    return std::nullopt;
  }
  // The receiver's core shares lines that weren't changed.
  uint8_t* const to = shared(buffer) + begin;
  const uint8_t* const from = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (std::memcmp(to, from, packet->data_len) != 0) std::memcpy(to, from, packet->data_len);
  return shm::Packet{.buffer = buffer,
                     .begin = static_cast<uint16_t>(begin),
                     .length = static_cast<uint16_t>(packet->pkt_len)};
}

void ShmPackets::passed_on(rte_mbuf* packet) noexcept {
  if (packet->nb_segs == 1) return;
  rte_pktmbuf_free_seg(packet->next);
  packet->next = nullptr;
  packet->nb_segs = 1;
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
