// SPDX-License-Identifier: Apache-2.0
#include "port/memif/link.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/prefetch.h"
#include "pipeline/terms/port_io.h"

namespace headrace::port::memif {
namespace {

/// A descriptor as it was at one moment, or half a moment: two loads, each of which is whole.
Descriptor read_once(const Descriptor& shared) noexcept {
  const auto* halves = reinterpret_cast<const volatile uint64_t*>(&shared);
  const std::array<uint64_t, 2> read{halves[0], halves[1]};
  return std::bit_cast<Descriptor>(read);
}

uint16_t read_index(uint16_t* index) noexcept {
  return std::atomic_ref<uint16_t>(*index).load(std::memory_order_acquire);
}

void write_index(uint16_t* index, uint16_t value) noexcept {
  std::atomic_ref<uint16_t>(*index).store(value, std::memory_order_release);
}

/// Copies `length` bytes; a whole cache line where both sides have the room and that is enough:
/// most frames are short, and a copy of known size is a handful of instructions.
inline void copy(uint8_t* to, uint32_t to_room, const uint8_t* from, uint32_t from_room,
                 uint32_t length) noexcept {
  constexpr uint32_t kLine = 64;
  if (length <= kLine && to_room >= kLine && from_room >= kLine) {
    std::memcpy(to, from, kLine);
  } else {
    std::memcpy(to, from, length);
  }
}

}  // namespace

Ring::Ring(const RingPlace& place, const std::vector<Region>& regions, bool sends,
           QueueCounts& counts)
    : descriptors_(reinterpret_cast<Descriptor*>(place.header + 1)),
      regions_(regions),
      buffers_(place.buffers),
      buffers_offset_(place.buffers_offset),
      buffer_size_(place.buffer_size),
      size_(static_cast<uint16_t>(1u << place.log2_size)),
      mask_(static_cast<uint16_t>(size_ - 1)),
      counts_(counts) {
  const bool client = buffers_ != nullptr;
  ours_ = client ? &place.header->head : &place.header->tail;
  theirs_ = client ? &place.header->tail : &place.header->head;
  bias_theirs_ = client && sends ? size_ : 0;
  bias_ours_ = client && !sends ? size_ : 0;
  next_ = client ? 0 : read_index(ours_);
  if (!sends) place.header->flags = RingHeader::kMaskInterrupt;
  if (client && !sends) {
    for (uint16_t i = 0; i < size_; ++i) describe(i, buffer_size_, false);
    publish();
  }
}

uint16_t Ring::usable() noexcept {
  const auto count = static_cast<uint16_t>(read_index(theirs_) + bias_theirs_ - next_);
  if (count <= size_) [[likely]]
    return count;
  counts_.bad_index.add(1);
  return 0;
}

Ring::Slot Ring::slot(uint16_t index) const noexcept {
  const Descriptor read = read_once(descriptors_[index & mask_]);
  const uint32_t length = read.length;
  const bool goes_on = (read.flags & Descriptor::kNext) != 0;
  if (buffers_ != nullptr) {
    uint8_t* data = buffers_ + size_t{buffer_size_} * (index & mask_);
    return {length <= buffer_size_ ? data : nullptr, length, buffer_size_, goes_on};
  }
  if (read.region >= regions_.size()) return {nullptr, 0, 0, goes_on};
  const uint64_t size = regions_[read.region].size();
  uint8_t* data = regions_[read.region].at(read.offset, length);
  const uint64_t room = data == nullptr ? 0 : size - read.offset;
  return {data, length, static_cast<uint32_t>(std::min<uint64_t>(room, UINT32_MAX)), goes_on};
}

void Ring::publish() noexcept {
  write_index(ours_, static_cast<uint16_t>(next_ + bias_ours_));
}

void Ring::describe(uint16_t index, uint32_t length, bool goes_on) noexcept {
  Descriptor& shared = descriptors_[index & mask_];
  if (buffers_ != nullptr) {
    shared.region = 0;
    shared.offset = buffers_offset_ + buffer_size_ * (index & mask_);
  }
  shared.length = length;
  shared.flags = goes_on ? Descriptor::kNext : 0;
}

bool Ring::append(rte_mbuf* packet, const Slot& from) const noexcept {
  const uint16_t room = rte_pktmbuf_tailroom(packet);
  if (from.length > room) return false;
  copy(rte_pktmbuf_mtod_offset(packet, uint8_t*, packet->data_len), room, from.data, from.room,
       from.length);
  packet->data_len = static_cast<uint16_t>(packet->data_len + from.length);
  packet->pkt_len = packet->data_len;
  return true;
}

uint16_t Ring::receive(rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept {
  const uint16_t available = usable();
  if (available == 0) return 0;
  const auto wanted = static_cast<uint16_t>(
      std::min<size_t>({available, packets.size(), size_t{pipeline::kBurst}}));
  std::array<Slot, pipeline::kBurst> ahead;
  for (uint16_t i = 0; i < wanted; ++i) {
    ahead[i] = slot(static_cast<uint16_t>(next_ + i));
    if (ahead[i].data != nullptr) rte_prefetch0(ahead[i].data);
  }
  if (rte_pktmbuf_alloc_bulk(pool, packets.data(), wanted) != 0) {
    counts_.no_buffer.add(1);
    return 0;  // they wait in the ring
  }

  uint16_t used = 0;
  uint16_t made = 0;
  uint64_t bytes = 0;
  while (made < wanted && used < available) {
    rte_mbuf* packet = packets[made];
    bool whole = false;
    bool bad = false;
    bool too_long = false;
    while (!whole && used < available) {
      const Slot from = used < wanted ? ahead[used] : slot(static_cast<uint16_t>(next_ + used));
      if (from.data == nullptr) {
        bad = true;
      } else if (!bad && !too_long) {
        too_long = !append(packet, from);
      }
      if (bias_ours_ != 0) describe(static_cast<uint16_t>(next_ + used), buffer_size_, false);
      whole = !from.goes_on;
      ++used;
    }
    // Senders publish whole packets: a chain that continues past the published slots is malformed.
    if (!whole || bad || too_long || packet->data_len == 0) [[unlikely]] {
      (too_long ? counts_.too_long : counts_.bad_buffer).add(1);
      rte_pktmbuf_reset(packet);
      continue;
    }
    bytes += packet->pkt_len;
    ++made;
  }
  next_ = static_cast<uint16_t>(next_ + used);
  publish();
  if (made < wanted) rte_pktmbuf_free_bulk(packets.data() + made, wanted - made);
  counts_.packets.add(made);
  counts_.bytes.add(bytes);
  return made;
}

bool Ring::put(const rte_mbuf* packet, uint16_t usable) noexcept {
  // A slot after the other is filled, from one segment after the other.
  const rte_mbuf* segment = packet;
  uint32_t taken = 0;  // of the segment
  uint32_t left = packet->pkt_len;
  uint16_t used = 0;
  do {
    if (used == usable) return false;
    const auto index = static_cast<uint16_t>(next_ + used);
    Slot to = slot(index);
    if (buffers_ != nullptr) {
      to = {buffers_ + size_t{buffer_size_} * (index & mask_), buffer_size_, buffer_size_, false};
    }
    if (to.data == nullptr || to.length == 0) {
      counts_.bad_buffer.add(1);
      return false;
    }
    uint32_t filled = 0;
    while (left > 0 && filled < to.length) {
      while (taken == segment->data_len) {
        segment = segment->next;
        taken = 0;
      }
      const uint32_t part = std::min({to.length - filled, segment->data_len - taken, left});
      // The mbuf's own room may be read beyond its data; what belongs to the peer's next slot may
      // not be written.
      const uint32_t from_room = segment->buf_len - segment->data_off - taken;
      copy(to.data + filled, to.length - filled,
           rte_pktmbuf_mtod_offset(segment, const uint8_t*, taken), from_room, part);
      filled += part;
      taken += part;
      left -= part;
    }
    describe(index, filled, left > 0);
    ++used;
  } while (left > 0);
  next_ = static_cast<uint16_t>(next_ + used);
  return true;
}

uint16_t Ring::send(std::span<rte_mbuf*> packets) noexcept {
  const uint16_t free = usable();
  if (free == 0) return 0;
  const uint16_t begin = next_;
  const auto ahead = static_cast<uint16_t>(std::min<size_t>(free, packets.size()));
  for (uint16_t i = 0; i < ahead; ++i) {
    const auto index = static_cast<uint16_t>(begin + i);
    const uint8_t* data =
        buffers_ != nullptr ? buffers_ + size_t{buffer_size_} * (index & mask_) : slot(index).data;
    if (data != nullptr) prefetch_to_write(data);
  }
  uint16_t sent = 0;
  uint64_t bytes = 0;
  for (rte_mbuf* packet : packets) {
    const auto used = static_cast<uint16_t>(next_ - begin);
    if (!put(packet, static_cast<uint16_t>(free - used))) break;
    bytes += packet->pkt_len;
    ++sent;
  }
  if (sent == 0) return 0;
  publish();
  rte_pktmbuf_free_bulk(packets.data(), sent);
  counts_.packets.add(sent);
  counts_.bytes.add(bytes);
  return sent;
}

}  // namespace headrace::port::memif
