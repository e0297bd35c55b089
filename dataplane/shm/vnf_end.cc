// SPDX-License-Identifier: Apache-2.0
#include "shm/vnf_end.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace headrace::shm {
namespace {

constexpr uint32_t kNumbers = 64;

/// While a direct link is read, one rx() in this number polls to_vnf first.
constexpr uint32_t kSwitchPollInterval = 8;

const RegionHeader& header_of(std::span<uint8_t> memory) {
  return *reinterpret_cast<const RegionHeader*>(memory.data());
}

/// Whether `memory` is a valid region of this version; 0 or a negative errno.
int check(std::span<uint8_t> memory) {
  if (memory.size() < sizeof(RegionHeader)) return -EINVAL;
  const RegionHeader& header = header_of(memory);
  if (header.magic != kMagic) return -EINVAL;
  if (header.version_major != kLayoutVersion) return -EPROTO;
  const uint64_t buffers = uint64_t{header.n_buffers} * header.buffer_stride;
  if (!std::has_single_bit(header.ring_capacity) || !std::has_single_bit(header.pool_capacity) ||
      header.buffer_stride > kMaxStride || header.size > memory.size() ||
      header.buffers_at > header.size || buffers > header.size - header.buffers_at ||
      header.n_ports > kMaxPorts || header.ports_at > header.size ||
      header.ports_at + header.n_ports * sizeof(PortBlock) > header.buffers_at) {
    return -EINVAL;
  }
  return 0;
}

/// Whether a port's rings and marks are inside the region.
bool fits(const RegionHeader& header, const PortBlock& block) {
  const auto inside = [&header](uint64_t at, uint64_t octets) {
    return at <= header.size && octets <= header.size - at;
  };
  const auto is_ring = [&inside](uint64_t at, uint64_t octets) {
    return inside(at, octets) && at % kLine == 0;
  };
  const uint64_t ring = packet_ring_octets(header.ring_capacity);
  const uint64_t pool = number_ring_octets(header.pool_capacity);
  return is_ring(block.to_vnf_at, ring) && is_ring(block.from_vnf_at, ring) &&
         is_ring(block.direct_at, ring) && is_ring(block.fill_at, pool) &&
         is_ring(block.completion_at, pool) && inside(block.held_at, header.n_buffers);
}

}  // namespace

int VnfEnd::find(std::span<uint8_t> memory, const char* name, uint32_t& port) {
  if (const int error = check(memory); error != 0) return error;
  const RegionHeader& header = header_of(memory);
  const auto* blocks = reinterpret_cast<const PortBlock*>(memory.data() + header.ports_at);
  for (uint32_t i = 0; i < header.n_ports; ++i) {
    if (std::strncmp(blocks[i].name, name, kNameSize) == 0) {
      port = i;
      return 0;
    }
  }
  return -ENOENT;
}

int VnfEnd::bind(std::span<uint8_t> memory, uint32_t port) {
  if (const int error = check(memory); error != 0) return error;
  const RegionHeader& header = header_of(memory);
  if (port >= header.n_ports) return -ENOENT;
  memory_ = memory;
  block_ = &block_of(port);
  n_ports_ = header.n_ports;
  for (uint32_t i = 0; i < n_ports_; ++i) {
    if (!fits(header, block_of(i))) return -EINVAL;
    direct_at_[i] = block_of(i).direct_at;
  }
  buffers_ = memory.data() + header.buffers_at;
  stride_ = header.buffer_stride;
  n_buffers_ = header.n_buffers;
  ring_capacity_ = header.ring_capacity;
  held_ = memory.data() + block_->held_at;
  to_vnf_ = PacketConsumer(memory.data() + block_->to_vnf_at, header.ring_capacity);
  from_vnf_ = PacketProducer(memory.data() + block_->from_vnf_at, header.ring_capacity);
  direct_in_ = PacketConsumer(memory.data() + block_->direct_at, header.ring_capacity);
  fill_ = NumberConsumer(memory.data() + block_->fill_at, header.pool_capacity);
  completion_ = NumberProducer(memory.data() + block_->completion_at, header.pool_capacity);
  to_vnf_.resume();
  from_vnf_.resume();
  direct_in_.resume();
  fill_.resume();
  completion_.resume();
  unreleased_ = 0;
  rx_now_ = Reading{block_->link.rx_now.load(std::memory_order_relaxed)};
  update_tx(block_->link.tx_now.load(std::memory_order_relaxed));
  return 0;
}

PortBlock& VnfEnd::block_of(uint32_t port) const {
  return reinterpret_cast<PortBlock*>(memory_.data() + header_of(memory_).ports_at)[port];
}

uint32_t VnfEnd::take(PacketConsumer& ring, std::span<Packet> packets) {
  bool inside = true;
  const uint32_t count = peek(ring, packets, inside);
  return keep(ring, packets, count, inside);
}

uint32_t VnfEnd::peek(PacketConsumer& ring, std::span<Packet> packets, bool& inside) {
  // One call of the variant for this processor at a time: the slots are in one piece, nearly
  // always.
  return ring.peek(packets, [&](Packet* to, const Packet* slots, uint32_t count) {
    if (!burst_->take(to, slots, count, n_buffers_, stride_)) inside = false;
  });
}

uint32_t VnfEnd::keep(PacketConsumer& ring, std::span<Packet> packets, uint32_t count,
                      bool inside) {
  if (count == 0) return 0;
  if (inside) [[likely]] {
    ring.hold(count);
    unreleased_in_direct_ = &ring == &direct_in_;
    unreleased_ = count;
    return count;
  }
  const uint32_t good = remove_malformed(packets.first(count));
  ring.release(count);
  return good;
}

uint32_t VnfEnd::remove_malformed(std::span<Packet> packets) {
  uint32_t good = 0;
  for (const Packet& packet : packets) {
    if (packet.buffer >= n_buffers_) {
      ++malformed_;
    } else if (uint32_t{packet.begin} + packet.length > stride_) {
      ++malformed_;
      held_[packet.buffer] = 1;
      put_back(std::span(&packet.buffer, 1));
    } else {
      held_[packet.buffer] = 1;
      packets[good++] = packet;
    }
  }
  return good;
}

uint32_t VnfEnd::rx(std::span<Packet> packets) {
  if (unreleased_ != 0) settle();
  // Also without packets: the switch waits for the answer.
  const uint32_t tx_wanted = block_->link.tx_wanted.load(std::memory_order_acquire);
  if (tx_wanted != tx_now_) update_tx(tx_wanted);
  if (rx_now_ == Reading::closed) update_rx();
  if (packets.empty()) return 0;  // otherwise 0 would be taken for an empty ring
  if (rx_now_ == Reading::closed) return take(to_vnf_, packets);
  const auto is_open = [this] {
    return Reading{block_->link.rx_wanted.load(std::memory_order_acquire)} == Reading::open;
  };
  // Once the link is to be closed, packets in to_vnf may follow packets in the direct ring, even
  // ones that arrived there after it was found empty. So the state is read after the slots were
  // peeked at.
  const auto take_while_open = [&] {
    bool inside = true;
    const uint32_t count = peek(to_vnf_, packets, inside);
    return is_open() ? keep(to_vnf_, packets, count, inside) : 0;
  };
  const bool open = is_open();
  // Packets from other ports through the switch are polled regularly, however busy the direct ring
  // is.
  if (open && ++rx_calls_ % kSwitchPollInterval == 0) {
    if (const uint32_t kept = take_while_open(); kept > 0) return kept;
  }
  if (const uint32_t count = take(direct_in_, packets); count > 0) return count;
  if (open) return take_while_open();
  // Empty after the sender has switched over: its packets now arrive in to_vnf.
  rx_now_ = Reading::closed;
  block_->link.rx_now.store(static_cast<uint32_t>(rx_now_), std::memory_order_release);
  return take(to_vnf_, packets);
}

void VnfEnd::update_rx() {
  if (Reading{block_->link.rx_wanted.load(std::memory_order_acquire)} == Reading::closed) return;
  const uint32_t after = block_->link.rx_after.load(std::memory_order_relaxed);
  if (static_cast<int32_t>(to_vnf_.position() - after) < 0) return;
  rx_now_ = Reading::open;
  direct_in_.resume();
  block_->link.rx_now.store(static_cast<uint32_t>(rx_now_), std::memory_order_release);
}

void VnfEnd::update_tx(uint32_t wanted) {
  if (wanted > n_ports_) return;
  if (wanted != 0) {
    direct_out_ = PacketProducer(memory_.data() + direct_at_[wanted - 1], ring_capacity_);
    direct_out_.resume();
  }
  tx_now_ = wanted;
  block_->link.tx_now.store(wanted, std::memory_order_release);
}

uint32_t VnfEnd::tx(std::span<const Packet> packets, VnfEnd& owner) {
  const uint32_t wanted = block_->link.tx_wanted.load(std::memory_order_acquire);
  if (wanted != tx_now_) update_tx(wanted);
  if (packets.empty()) return 0;
  uint32_t count = 0;
  if (tx_now_ == 0) {
    count = from_vnf_.put(packets);
  } else {
    count = direct_out_.put(packets, burst_->put);
  }
  owner.disown(packets.first(count));
  return count;
}

uint32_t VnfEnd::alloc(std::span<Packet> packets) {
  std::array<uint32_t, kNumbers> numbers;
  uint32_t taken = 0;
  while (taken < packets.size()) {
    const size_t room = std::min<size_t>(packets.size() - taken, numbers.size());
    const uint32_t count = fill_.peek(std::span(numbers).first(room));
    if (count == 0) break;
    for (const uint32_t number : std::span(numbers).first(count)) {
      if (number >= n_buffers_) continue;
      held_[number] = 1;
      packets[taken++] = {.buffer = number, .begin = kHeadroom, .length = 0};
    }
    fill_.release(count);
  }
  return taken;
}

void VnfEnd::free(std::span<const Packet> packets) {
  std::array<uint32_t, kNumbers> numbers;
  while (!packets.empty()) {
    const size_t count = std::min(packets.size(), numbers.size());
    for (size_t i = 0; i < count; ++i) numbers[i] = packets[i].buffer;
    // The ring has a slot for every buffer of the region.
    disown(packets.first(completion_.put(std::span(numbers).first(count))));
    packets = packets.subspan(count);
  }
}

void VnfEnd::free(std::span<const uint32_t> buffers) {
  if (unreleased_ != 0) settle();
  put_back(buffers);
}

void VnfEnd::put_back(std::span<const uint32_t> buffers) {
  const uint32_t count = completion_.put(buffers);
  for (const uint32_t buffer : buffers.first(count)) held_[buffer] = 0;
}

void VnfEnd::free_all() {
  if (unreleased_ != 0) settle();
  std::array<uint32_t, kNumbers> found{};
  uint32_t count = 0;
  for (uint32_t buffer = 0; buffer < n_buffers_; ++buffer) {
    if (held_[buffer] == 0) continue;
    found[count++] = buffer;
    if (count == found.size()) {
      free(std::span<const uint32_t>(found));
      count = 0;
    }
  }
  free(std::span<const uint32_t>(found).first(count));
}

void VnfEnd::disown(std::span<const Packet> packets) {
  const auto count = static_cast<uint32_t>(packets.size());
  if (count == 0) return;
  if (count <= unreleased_) [[likely]] {
    PacketConsumer& ring = unreleased_ring();
    const auto [first, second] = ring.peeked(count);
    const auto until = static_cast<uint32_t>(first.size());
    if (burst_->same_buffers(packets.data(), first.data(), until) &&
        (second.empty() ||
         burst_->same_buffers(packets.data() + until, second.data(), count - until))) {
      ring.release(count);
      unreleased_ -= count;
      return;
    }
  }
  if (unreleased_ != 0) settle();
  // A local copy: otherwise the compiler must assume that a store to the marks changes members.
  uint8_t* const held = held_;
  for (const Packet& packet : packets) held[packet.buffer] = 0;
}

void VnfEnd::settle() {
  PacketConsumer& ring = unreleased_ring();
  const auto [first, second] = ring.peeked(unreleased_);
  for (const std::span<const Packet> part : {first, second}) {
    for (const Packet& packet : part) {
      // A faulty VNF of the group may have written to the slot meanwhile.
      const uint32_t buffer = *static_cast<const volatile uint32_t*>(&packet.buffer);
      if (buffer < n_buffers_) held_[buffer] = 1;
    }
  }
  ring.release(unreleased_);
  unreleased_ = 0;
}

}  // namespace headrace::shm
