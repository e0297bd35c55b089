// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/port_queues.h"

#include <rte_errno.h>

#include <algorithm>

#include "pipeline/terms/packet_queue.h"

namespace headrace::runtime {
namespace {

constexpr double kBitsPerByte = 8;
/// The burst of a limit that has none: the rate over 1/kBurstsPerSecond, two full frames at least.
constexpr uint64_t kBurstsPerSecond = 100;
constexpr uint64_t kLeastBurstBits = 2 * 1518 * 8;
/// Of queues without a minimum rate.
constexpr double kDefaultWeight = 1000;
/// Bursts that one call of drain() sends at most, so that a round stays short: four full polls.
constexpr unsigned kBurstsPerRound = 16;

}  // namespace

RateLimit::RateLimit(uint64_t bits_per_second, uint64_t burst_bits, uint64_t hz) {
  if (bits_per_second == 0) return;
  if (burst_bits == 0) burst_bits = std::max(bits_per_second / kBurstsPerSecond, kLeastBurstBits);
  const double cycles_per_bit = static_cast<double>(hz) / static_cast<double>(bits_per_second);
  cycles_per_byte_ = kBitsPerByte * cycles_per_bit;
  burst_ = static_cast<uint64_t>(static_cast<double>(burst_bits) * cycles_per_bit);
}

void RateLimit::charge(uint64_t now, uint32_t bytes) {
  if (!is_set()) return;
  sent_until_ = std::max(sent_until_, now) + static_cast<uint64_t>(bytes * cycles_per_byte_);
}

Result<std::unique_ptr<PortQueues>> PortQueues::make(const std::string& name, pipeline::PortIo& io,
                                                     const pipeline::QosConfig& qos, uint64_t hz,
                                                     Backlog& backlog) {
  std::unique_ptr<PortQueues> made(new PortQueues(io, qos.max_rate_bps, hz, backlog));
  std::vector<pipeline::QueueConfig> specs = qos.queues;
  if (specs.empty() || specs.front().id != 0) specs.insert(specs.begin(), pipeline::QueueConfig{});
  for (const pipeline::QueueConfig& spec : specs) {
    const std::string ring_name = fmt::format("{}-{}", name, spec.id);
    Ring ring(rte_ring_create(ring_name.c_str(), kCapacity, SOCKET_ID_ANY, RING_F_SC_DEQ));
    if (!ring) return fail("ring {}: {}", ring_name, rte_strerror(rte_errno));
    made->queues_.push_back(std::unique_ptr<Queue>(
        new Queue{.spec = spec,
                  .ring = std::move(ring),
                  .least = RateLimit(spec.min_rate_bps, 0, hz),
                  .most = RateLimit(spec.max_rate_bps, spec.burst_bits, hz),
                  .weight = std::max(static_cast<double>(spec.min_rate_bps), kDefaultWeight)}));
  }
  return made;
}

PortQueues::PortQueues(pipeline::PortIo& io, uint64_t max_rate_bps, uint64_t hz, Backlog& backlog)
    : io_(io), backlog_(backlog), limit_(max_rate_bps, 0, hz) {}

PortQueues::~PortQueues() {
  rte_pktmbuf_free_bulk(unsent_.data(), unsent_count_);
  for (const auto& queue : queues_) {
    while (refill(*queue)) {
      const std::span<rte_mbuf*> waiting(queue->head.data() + queue->head_at,
                                         queue->head_count - queue->head_at);
      left(waiting);
      rte_pktmbuf_free_bulk(waiting.data(), static_cast<unsigned>(waiting.size()));
      queue->head_at = queue->head_count;
    }
  }
}

void PortQueues::left(std::span<rte_mbuf* const> packets) noexcept {
  waiting_.fetch_sub(static_cast<uint32_t>(packets.size()), std::memory_order_relaxed);
  while (!packets.empty()) {
    const rte_mempool* pool = packets.front()->pool;
    size_t same = 1;
    while (same < packets.size() && packets[same]->pool == pool) ++same;
    backlog_.remove(*pool, static_cast<uint32_t>(same));
    packets = packets.subspan(same);
  }
}

PortQueues::Queue& PortQueues::queue_for(const rte_mbuf& packet) noexcept {
  if (const std::optional<uint32_t> id = pipeline::queue_of(packet)) {
    for (const auto& queue : queues_) {
      if (queue->spec.id == *id) return *queue;
    }
  }
  return *queues_.front();
}

uint16_t PortQueues::tx(uint16_t /*worker*/, std::span<rte_mbuf*> packets) noexcept {
  size_t at = 0;
  while (at < packets.size()) {
    Queue& queue = queue_for(*packets[at]);
    const rte_mempool& pool = *packets[at]->pool;
    size_t end = at + 1;
    while (end < packets.size() && &queue_for(*packets[end]) == &queue &&
           packets[end]->pool == &pool) {
      ++end;
    }
    const auto run = static_cast<unsigned>(end - at);
    const unsigned room =
        std::min(run, backlog_.room(pool, waiting_.load(std::memory_order_relaxed)));
    // Counted before: the owner may have sent them when the call returns.
    waiting_.fetch_add(room, std::memory_order_relaxed);
    backlog_.add(pool, room);
    const unsigned taken = rte_ring_mp_enqueue_burst(
        queue.ring.get(), reinterpret_cast<void**>(packets.data() + at), room, nullptr);
    if (taken < room) left({packets.data() + at + taken, room - taken});
    if (taken < run) {
      rte_pktmbuf_free_bulk(packets.data() + at + taken, run - taken);
      queue.errors.fetch_add(run - taken, std::memory_order_relaxed);
    }
    at = end;
  }
  return static_cast<uint16_t>(packets.size());
}

bool PortQueues::refill(Queue& queue) noexcept {
  if (queue.head_at < queue.head_count) return true;
  queue.head_at = 0;
  queue.head_count = rte_ring_sc_dequeue_burst(
      queue.ring.get(), reinterpret_cast<void**>(queue.head.data()), pipeline::kBurst, nullptr);
  return queue.head_count > 0;
}

PortQueues::Queue* PortQueues::choose(uint64_t now) noexcept {
  Queue* best = nullptr;
  bool best_guaranteed = false;
  for (const auto& candidate : queues_) {
    Queue& queue = *candidate;
    if (!refill(queue)) {
      queue.active = false;
      continue;
    }
    if (!queue.active) {
      // A queue that becomes active starts at the present virtual time: idle time gives no credit.
      queue.active = true;
      queue.virtual_time = std::max(queue.virtual_time, virtual_now_);
    }
    if (!queue.most.allows(now)) continue;
    const bool guaranteed = queue.least.is_set() && queue.least.allows(now);
    const auto rank = [](const Queue& of, bool is_guaranteed) {
      return std::tuple(!is_guaranteed, is_guaranteed ? 0 : of.spec.priority, of.virtual_time);
    };
    if (best == nullptr || rank(queue, guaranteed) < rank(*best, best_guaranteed)) {
      best = &queue;
      best_guaranteed = guaranteed;
    }
  }
  return best;
}

void PortQueues::drain(uint16_t worker, uint64_t now) noexcept {
  for (unsigned burst = 0; burst < kBurstsPerRound; ++burst) {
    const unsigned unsent_before = unsent_count_;
    while (unsent_count_ < pipeline::kBurst && limit_.allows(now)) {
      Queue* queue = choose(now);
      if (queue == nullptr) break;
      rte_mbuf* packet = queue->head[queue->head_at++];
      const uint32_t bytes = packet->pkt_len;
      limit_.charge(now, bytes);
      queue->most.charge(now, bytes);
      queue->least.charge(now, bytes);
      virtual_now_ = queue->virtual_time;
      queue->virtual_time += bytes / queue->weight;
      queue->packets.add(1);
      queue->bytes.add(bytes);
      packet->ol_flags &= ~pipeline::queue_flag();
      unsent_[unsent_count_++] = packet;
    }
    if (unsent_count_ == 0) return;
    left({unsent_.data() + unsent_before, unsent_count_ - unsent_before});
    const uint16_t sent = io_.tx(worker, {unsent_.data(), unsent_count_});
    std::move(unsent_.begin() + sent, unsent_.begin() + unsent_count_, unsent_.begin());
    unsent_count_ -= sent;
    if (unsent_count_ > 0) return;  // the device is full
  }
}

void PortQueues::hand_over(PortQueues& successor) noexcept {
  successor.tx(0, {unsent_.data(), unsent_count_});
  unsent_count_ = 0;
  for (const auto& queue : queues_) {
    while (refill(*queue)) {
      const std::span<rte_mbuf*> waiting(queue->head.data() + queue->head_at,
                                         queue->head_count - queue->head_at);
      left(waiting);
      successor.tx(0, waiting);
      queue->head_at = queue->head_count;
    }
  }
}

std::vector<PortQueues::Counts> PortQueues::counts() const {
  std::vector<Counts> all;
  for (const auto& queue : queues_) {
    all.push_back({queue->spec.id, queue->packets.read(), queue->bytes.read(),
                   queue->errors.load(std::memory_order_relaxed)});
  }
  return all;
}

uint64_t PortQueues::dropped() const {
  uint64_t sum = 0;
  for (const auto& queue : queues_) sum += queue->errors.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace headrace::runtime
