// SPDX-License-Identifier: Apache-2.0
#include "shm/switch_end.h"

#include <algorithm>
#include <new>

namespace headrace::shm {
namespace {

constexpr uint32_t kBurst = 32;

uint32_t buffer_of(const Packet& packet) {
  return packet.buffer;
}
uint32_t buffer_of(uint32_t number) {
  return number;
}

/// Calls `visit` for the buffer of each filled slot of a ring, which a VNF may have written.
template <typename Slot, typename Visit>
void for_each_waiting(const void* at, uint32_t capacity, Visit&& visit) {
  const auto* header = static_cast<const RingHeader*>(at);
  const auto* slots = reinterpret_cast<const Slot*>(header + 1);
  const uint32_t tail = header->tail.load(std::memory_order_acquire);
  const uint32_t head = header->head.load(std::memory_order_acquire);
  const uint32_t count = std::min(head - tail, capacity);
  for (uint32_t i = 0; i < count; ++i) {
    visit(buffer_of(slots[(tail + i) & (capacity - 1)]));
  }
}

/// Releases the slots whose packets the ring's consumer, which has exited, had received: it may
/// have passed them on. Calls `visit` for the buffer of each.
template <typename Visit>
void release_held(void* at, uint32_t capacity, Visit&& visit) {
  auto* header = static_cast<RingHeader*>(at);
  const auto* slots = reinterpret_cast<const Packet*>(header + 1);
  const uint32_t tail = header->tail.load(std::memory_order_acquire);
  const uint32_t head = header->head.load(std::memory_order_acquire);
  const uint32_t held = header->held.load(std::memory_order_acquire);
  // Without a VNF that writes nonsense: tail <= held <= head, or held <= tail and nothing is held.
  if (head - tail > capacity || held - tail > head - tail) return;
  for (uint32_t at = tail; at != held; ++at) visit(slots[at & (capacity - 1)].buffer);
  header->tail.store(held, std::memory_order_release);
}

/// Empties a ring whose producer may still be running: its positions must only increase.
void empty_ring(void* at) {
  auto* header = static_cast<RingHeader*>(at);
  header->tail.store(header->head.load(std::memory_order_acquire), std::memory_order_release);
}

void reset_ring(void* at) {
  auto* header = static_cast<RingHeader*>(at);
  header->head.store(0, std::memory_order_relaxed);
  header->held.store(0, std::memory_order_relaxed);
  header->tail.store(0, std::memory_order_release);
}

}  // namespace

SwitchEnd::SwitchEnd(Region& region, BufferPool& pool)
    : region_(&region),
      pool_(&pool),
      ports_(region.config().n_ports),
      out_(region.config().n_buffers, 0),
      claimed_(region.config().n_buffers, 0),
      received_(region.config().n_buffers, 0),
      missed_(region.config().n_buffers, 0) {
  for (uint32_t port = 0; port < region.config().n_ports; ++port) open_rings(port);
}

void SwitchEnd::open_rings(uint32_t number) {
  Port& port = ports_[number];
  const uint32_t capacity = region_->config().ring_capacity;
  const uint32_t pool = region_->pool_capacity();
  port.to_vnf = PacketProducer(region_->to_vnf(number), capacity);
  port.from_vnf = PacketConsumer(region_->from_vnf(number), capacity);
  port.fill = NumberProducer(region_->fill(number), pool);
  port.completion = NumberConsumer(region_->completion(number), pool);
  port.has_taken = false;
}

bool SwitchEnd::accept(Port& port, uint32_t buffer) {
  if (buffer >= out_.size() || out_[buffer] == 0) {
    port.offences.number.add(1);
    return false;
  }
  out_[buffer] = 0;
  return true;
}

uint32_t SwitchEnd::receive(uint32_t number, std::span<Packet> packets) {
  Port& port = ports_[number];
  if (port.from_vnf.broken()) return 0;
  const uint32_t count =
      port.from_vnf.take(packets.first(std::min<size_t>(packets.size(), kBurst)));
  if (port.from_vnf.broken()) port.offences.ring.add(1);
  const uint32_t octets = region_->buffer_stride();
  uint32_t received = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Packet packet = packets[i];
    if (!accept(port, packet.buffer)) continue;
    if (uint32_t{packet.begin} + packet.length > octets || packet.length == 0) {
      port.offences.length.add(1);
      give(packet.buffer);
      continue;
    }
    packets[received++] = packet;
  }
  return received;
}

uint32_t SwitchEnd::send(uint32_t number, std::span<const Packet> packets) {
  Port& port = ports_[number];
  if (packets.empty() || port.to_vnf.broken()) return 0;
  // Recorded before the VNF can see them; those that found no slot are restored below.
  for (const Packet& packet : packets) out_[packet.buffer] = 1;
  const uint32_t count = port.to_vnf.put(packets);
  if (port.to_vnf.broken()) port.offences.ring.add(1);
  for (const Packet& packet : packets.subspan(count)) out_[packet.buffer] = 0;
  return count;
}

void SwitchEnd::refill(uint32_t number, uint32_t level) {
  Port& port = ports_[number];
  std::array<uint32_t, kBurst> numbers;
  if (!port.completion.broken()) {
    const uint32_t count = port.completion.take(numbers);
    if (port.completion.broken()) port.offences.ring.add(1);
    for (uint32_t i = 0; i < count; ++i) {
      if (accept(port, numbers[i])) give(numbers[i]);
    }
  }
  const auto& fill_ring = *static_cast<const RingHeader*>(region_->fill(number));
  const uint32_t taken = fill_ring.tail.load(std::memory_order_acquire);
  const uint32_t waiting = port.fill.position() - taken;
  port.has_taken = taken != 0;
  if (waiting >= level || port.fill.broken()) return;
  const uint32_t count = pool_->take(std::span(numbers).first(std::min(kBurst, level - waiting)));
  for (uint32_t i = 0; i < count; ++i) out_[numbers[i]] = 1;
  const uint32_t put = port.fill.put(std::span(numbers).first(count));
  if (port.fill.broken()) port.offences.ring.add(1);
  for (uint32_t i = put; i < count; ++i) {
    out_[numbers[i]] = 0;
    give(numbers[i]);
  }
}

void SwitchEnd::claim_for_others(uint64_t ports, uint64_t linked) {
  std::ranges::fill(claimed_, uint8_t{0});
  const uint32_t capacity = region_->config().ring_capacity;
  const auto claim = [this](uint32_t buffer) {
    if (buffer < claimed_.size()) claimed_[buffer] = 1;
  };
  for (uint32_t other = 0; other < ports_.size(); ++other) {
    if ((linked >> other & 1) != 0) {
      for_each_waiting<Packet>(region_->direct(other), capacity, claim);
    }
    if ((ports >> other & 1) != 0) continue;
    // What it received is in its rings, or it marks a buffer before it takes it out of a ring:
    // rings first, so that none is missed.
    for_each_waiting<Packet>(region_->to_vnf(other), capacity, claim);
    for_each_waiting<Packet>(region_->from_vnf(other), capacity, claim);
    for_each_waiting<Packet>(region_->direct(other), capacity, claim);
    for_each_waiting<uint32_t>(region_->fill(other), region_->pool_capacity(), claim);
    for_each_waiting<uint32_t>(region_->completion(other), region_->pool_capacity(), claim);
    // Without branches, so that the compiler takes vectors.
    const uint8_t* const held = region_->held(other).data();
    uint8_t* const claimed = claimed_.data();
    for (size_t buffer = 0; buffer < claimed_.size(); ++buffer) claimed[buffer] |= held[buffer];
  }
}

void SwitchEnd::reclaim_ports(uint64_t ports, uint64_t linked) {
  const uint32_t capacity = region_->config().ring_capacity;
  std::ranges::fill(received_, uint8_t{0});
  for (uint32_t number = 0; number < ports_.size(); ++number) {
    if ((linked >> number & 1) == 0) continue;
    release_held(region_->direct(number), capacity, [this](uint32_t buffer) {
      if (buffer < received_.size()) received_[buffer] = 1;
    });
  }
  claim_for_others(ports, linked);
  const auto take_back = [this](uint32_t buffer) {
    if (buffer >= out_.size() || out_[buffer] == 0 || claimed_[buffer] != 0) return;
    out_[buffer] = 0;
    give(buffer);
  };
  for (uint32_t number = 0; number < ports_.size(); ++number) {
    if ((ports >> number & 1) == 0) continue;
    const std::span<uint8_t> held = region_->held(number);
    for (uint32_t buffer = 0; buffer < held.size(); ++buffer) {
      if (held[buffer] != 0) take_back(buffer);
    }
    for_each_waiting<Packet>(region_->to_vnf(number), capacity, take_back);
    for_each_waiting<Packet>(region_->from_vnf(number), capacity, take_back);
    // What is in the direct ring of a linked port, and was not received, is claimed.
    for_each_waiting<Packet>(region_->direct(number), capacity, take_back);
    for_each_waiting<uint32_t>(region_->fill(number), region_->pool_capacity(), take_back);
    for_each_waiting<uint32_t>(region_->completion(number), region_->pool_capacity(), take_back);
  }
  for (uint32_t buffer = 0; buffer < out_.size(); ++buffer) {
    if (received_[buffer] != 0) take_back(buffer);
    const bool missing = out_[buffer] != 0 && claimed_[buffer] == 0;
    if (missing && missed_[buffer] != 0) take_back(buffer);
    missed_[buffer] = missing ? 1 : 0;
  }
  for (uint32_t number = 0; number < ports_.size(); ++number) {
    if ((ports >> number & 1) != 0) reset(number, (linked >> number & 1) != 0);
  }
  region_->restore();
}

void SwitchEnd::reset(uint32_t number, bool linked) {
  std::ranges::fill(region_->held(number), uint8_t{0});
  for (void* ring : {region_->to_vnf(number), region_->from_vnf(number), region_->fill(number),
                     region_->completion(number)}) {
    reset_ring(ring);
  }
  const auto& direct = *static_cast<const RingHeader*>(region_->direct(number));
  const uint32_t waiting = direct.head.load() - direct.tail.load();
  // The next VNF can't read a ring with impossible positions.
  if (!linked || waiting > region_->config().ring_capacity) empty_ring(region_->direct(number));
  region_->port(number).user.store(0, std::memory_order_release);
  open_rings(number);
}

void SwitchEnd::reclaim_all() {
  for (uint32_t port = 0; port < ports_.size(); ++port) reset(port, false);
  region_->restore();
  for (uint32_t buffer = 0; buffer < out_.size(); ++buffer) {
    missed_[buffer] = 0;
    if (out_[buffer] == 0) continue;
    out_[buffer] = 0;
    give(buffer);
  }
}

}  // namespace headrace::shm
