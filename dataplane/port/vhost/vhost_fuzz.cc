// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: a front-end that does anything. It shares memory, sets up two vrings in one of
// the ways that are negotiated, and then sends messages, writes to its memory, also while a worker
// reads it, truncates it, breaks off and connects again, while a worker takes packets from it and
// sends to it by the port's real data path and librte_vhost.
//
// Whatever it does: a packet that arrives is one chain of the length that it says, what is noted to
// be left of it lies in its first buffer, no more buffers are taken than a burst may have, and all
// are back at the end.
//
// The input: one octet that chooses the features, one for the size of the vrings, then steps, each
// an octet for what and the octets that this reads.
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "packet/offload.h"
#include "pipeline/terms/port_io.h"
#include "port/vhost/test_front_end.h"

namespace headrace::port::vhost {
namespace {

class Input {
 public:
  explicit Input(std::span<const uint8_t> octets) : octets_(octets) {}
  [[nodiscard]] bool empty() const { return octets_.empty(); }
  template <typename Number>
  Number take() {
    Number number{};
    const size_t size = std::min(sizeof number, octets_.size());
    std::memcpy(&number, octets_.data(), size);
    octets_ = octets_.subspan(size);
    return number;
  }
  std::span<const uint8_t> take_many(size_t wanted) {
    const auto some = octets_.first(std::min(wanted, octets_.size()));
    octets_ = octets_.subspan(some.size());
    return some;
  }

 private:
  std::span<const uint8_t> octets_;
};

/// The features by bits: packed, mergeable, what guests leave and take, in-order, indirect, event
/// index, all is logged.
uint64_t features_of(uint8_t bits) {
  uint64_t features = 0;
  for (const auto& [bit, those] :
       std::array<std::pair<unsigned, uint64_t>, 8>{{{0, kPacked},
                                                     {1, 1ULL << 15},
                                                     {2, 1ULL << 0 | 1ULL << 11 | 1ULL << 12},
                                                     {3, 1ULL << 1 | 1ULL << 7 | 1ULL << 8},
                                                     {4, 1ULL << 35},
                                                     {5, 1ULL << 28},
                                                     {6, kEventIndex},
                                                     {7, 1ULL << 26}}}) {
    if ((bits >> bit & 1) != 0) features |= those;
  }
  return features;
}

template <typename Numbers>
std::span<const uint8_t> octets_of(const Numbers& numbers) {
  return {reinterpret_cast<const uint8_t*>(numbers.data()), sizeof numbers};
}

/// A front-end with what it has made available by split rings.
struct Guest {
  FrontEnd front;
  std::array<uint16_t, 2> available{};

  Guest(uint8_t features, uint8_t size) : front(features_of(features), 1u << size % 11) {}

  /// A descriptor of a split or of a packed ring, and what makes it available.
  void describe(Input& input) {
    const uint32_t vring = input.take<uint8_t>() % 2;
    const auto slot = static_cast<uint16_t>(input.take<uint8_t>() % front.size());
    const auto far = input.take<uint8_t>();
    const uint64_t address = far < 240 ? far * 4096u : kMemory - 256 + far;
    const uint32_t length = input.take<uint16_t>() * (far == 255 ? 65537u : 1u);
    const auto flags = input.take<uint8_t>();
    const auto next = input.take<uint8_t>();
    std::array<uint8_t, 16> descriptor{};
    std::memcpy(&descriptor[0], &address, 8);
    std::memcpy(&descriptor[8], &length, 4);
    const size_t ring = vring * kVringMemory;
    if (front.is_packed()) {
      const uint16_t id = next;
      const auto bits =
          static_cast<uint16_t>((flags & 7) | (flags >> 3 & 1) << 7 | (flags >> 4 & 1) << 15);
      std::memcpy(&descriptor[12], &id, 2);
      std::memcpy(&descriptor[14], &bits, 2);
      front.write(ring + slot * 16u, descriptor);
      return;
    }
    const uint16_t bits = flags & 7;
    const uint16_t following = next;
    std::memcpy(&descriptor[12], &bits, 2);
    std::memcpy(&descriptor[14], &following, 2);
    front.write(ring + slot * 16u, descriptor);
    if ((flags & 0x80) != 0) return;
    uint16_t& index = available[vring];
    const std::array<uint16_t, 1> entry{slot};
    front.write(ring + kRings[1] + 4 + 2u * (index % front.size()), octets_of(entry));
    const std::array<uint16_t, 2> head{0, ++index};
    front.write(ring + kRings[1], octets_of(head));
  }
};

/// What a worker does with what it gets: looks at all of it, and cuts it as an exit would.
void look_at(rte_mbuf* packet) {
  uint32_t octets = 0;
  uint32_t buffers = 0;
  uint32_t sum = 0;
  for (const rte_mbuf* each = packet; each != nullptr; each = each->next) {
    const auto* data = rte_pktmbuf_mtod(each, const uint8_t*);
    for (uint16_t i = 0; i < each->data_len; i = static_cast<uint16_t>(i + 64)) sum += data[i];
    octets += each->data_len;
    ++buffers;
  }
  volatile uint32_t seen = sum;
  (void)seen;
  require(octets == packet->pkt_len && buffers == packet->nb_segs);
  if (packet::offload_left(packet)) {
    require(packet::l4_offset(packet) + 8 <= packet->data_len);
  }
  if (packet::segments_left(packet)) {
    require(packet->tso_segsz != 0 && packet->l4_len != 0);
    packet::Segments segments(packet);
    while (rte_mbuf* segment = segments.next()) rte_pktmbuf_free(segment);
  } else if (packet::offload_left(packet)) {
    packet::finish_checksum(packet);
  }
}

void receive() {
  TestSwitch& sw = the_switch();
  const std::lock_guard lock(sw.working);
  std::array<rte_mbuf*, pipeline::kBurst> burst;
  const uint16_t count = sw.data->rx(0, burst);
  require(kBuffers - rte_mempool_avail_count(sw.pool.get()) <= pipeline::kBurst * 33u);
  for (uint16_t i = 0; i < count; ++i) look_at(burst[i]);
  rte_pktmbuf_free_bulk(burst.data(), count);
}

void transmit(uint16_t octets, uint8_t count) {
  TestSwitch& sw = the_switch();
  const std::lock_guard lock(sw.working);
  std::array<rte_mbuf*, pipeline::kBurst> burst;
  count = static_cast<uint8_t>(1 + count % pipeline::kBurst);
  require(rte_pktmbuf_alloc_bulk(sw.pool.get(), burst.data(), count) == 0);
  constexpr uint16_t kHeaders = 54;
  octets = std::clamp<uint16_t>(octets, kHeaders, 2048);
  for (uint8_t i = 0; i < count; ++i) {
    rte_mbuf* packet = burst[i];
    std::memset(rte_pktmbuf_append(packet, octets), 0x45, octets);
    if ((sw.data->takes() & RTE_MBUF_F_TX_TCP_SEG) == 0 || octets % 2 == 0) continue;
    packet->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4;
    packet->l2_len = 14;
    packet->l3_len = 20;
    packet->l4_len = 20;
    packet->tso_segsz = 100;
  }
  const uint16_t sent = sw.data->tx(0, {burst.data(), count});
  rte_pktmbuf_free_bulk(&burst[sent], count - sent);
}

/// Descriptors that change while they are read: 16 octets of the guest's memory are, in turn, what
/// they were and what they were but for the bits of `mask`.
class Race {
 public:
  Race(const FrontEnd& front, size_t at, std::span<const uint8_t> mask) {
    std::array<uint8_t, 16> before;
    front.read(at, before);
    std::array<uint8_t, 16> other = before;
    for (size_t i = 0; i < mask.size(); ++i) other[i] = static_cast<uint8_t>(other[i] ^ mask[i]);
    writer_ = std::thread([this, &front, at, before, other] {
      while (!ended_.load(std::memory_order_relaxed)) {
        front.write(at, other);
        front.write(at, before);
      }
    });
  }
  ~Race() {
    ended_.store(true, std::memory_order_relaxed);
    writer_.join();
  }
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;

 private:
  std::atomic<bool> ended_{false};
  std::thread writer_;
};

/// Bursts both ways while one descriptor changes.
void race(Guest& guest, Input& input) {
  constexpr int kRounds = 4;
  const uint32_t vring = input.take<uint8_t>() % 2;
  const uint32_t slot = input.take<uint8_t>() % guest.front.size();
  const std::span<const uint8_t> mask = input.take_many(16);
  const auto octets = input.take<uint16_t>();
  const Race race(guest.front, vring * kVringMemory + slot * 16u, mask);
  for (int round = 0; round < kRounds; ++round) {
    transmit(octets, 7);
    receive();
  }
}

void step(Guest& guest, Input& input) {
  FrontEnd& front = guest.front;
  const auto what = input.take<uint8_t>();
  switch (what % 8) {
    case 0: {
      const uint32_t request = input.take<uint8_t>() % 48;
      const uint32_t flags = input.take<uint8_t>() % 2 == 0 ? kVersion : kVersion | kNeedReply;
      const int file = front.file(input.take<uint8_t>());
      front.send(request, input.take_many(input.take<uint8_t>()), file, flags);
      front.wait_for_switch();
      break;
    }
    case 1: {
      const auto at = input.take<uint32_t>();
      front.write(at, input.take_many(input.take<uint8_t>()));
      break;
    }
    case 2:
    case 3:
      guest.describe(input);
      break;
    case 4:
      receive();
      break;
    case 5: {
      if (what >= 0x80) {
        race(guest, input);
        break;
      }
      const auto octets = input.take<uint16_t>();
      transmit(octets, input.take<uint8_t>());
      break;
    }
    case 6:
      front.truncate(input.take<uint8_t>());
      break;
    default:
      front.connect();
      break;
  }
}

}  // namespace
}  // namespace headrace::port::vhost

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::port::vhost;
  constexpr int kMostSteps = 200;
  Input input({data, size});
  const auto features = input.take<uint8_t>();
  {
    Guest guest(features, input.take<uint8_t>());
    for (int steps = 0; !input.empty() && steps < kMostSteps; ++steps) step(guest, input);
    receive();
    transmit(60, 4);
    (void)the_switch().device->look();
  }
  require(rte_mempool_avail_count(the_switch().pool.get()) == kBuffers);
  return 0;
}
