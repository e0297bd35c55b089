// SPDX-License-Identifier: Apache-2.0
// A vhost-user port's data path: what workers do with a guest's virtqueues, by librte_vhost.
//
// Routes. librte_vhost names a queue by the device's number (vid) and the vring's. Both are
// published as one word, a route, so that a worker never combines the number of one guest with a
// vring of another. A worker has one route to send by; a receive queue has as many as there are
// enabled vrings that it serves (queue_states.h). Routes change while workers use them, upon
// messages of the guest.
//
// Safety against removal. Once a device is destroyed, librte_vhost frees it and unmaps the guest's
// memory, and it asks before: destroy_device(), on a thread of its own, may not return while a
// worker is in one of the device's queues. The usual answer (net_vhost's) is a flag per queue that
// every burst sets and clears with a full fence in between, since it must be visible before the
// worker looks whether the device is still there. Here a burst pays nothing: withdraw() clears the
// routes, and device.cc then waits for a grace period of the workers' QSBR. A worker keeps no route
// from one call to the next, so none has an old one once all have reported a quiescent state. This
// needs all workers to be online in the QSBR while they use ports, which Worker::loop sees to, and
// no worker may wait for librte_vhost's thread. None does: what a worker waits for is a vring's
// access lock (see below) or another worker's burst (packed_rings.h), and librte_vhost calls
// destroy_device() without holding any lock.
//
// A vring that is disabled but not gone needs no grace period, and there may be none:
// vring_state_changed() is called with the access locks of all vrings held, for which a worker may
// be spinning. librte_vhost checks under that lock that the vring is enabled, so a worker with the
// old route is refused. tx() then finds the new route and sends by that: no packet is lost because
// the guest took a queue away.
//
// Sharing. Several workers may call tx() at once, also for one vring. rte_vhost_enqueue_burst()
// takes the vring's access lock (a spinlock, held for one burst) in any case, because the messages
// of the guest have to exclude the data path. So the lock that workers would share here is there
// already, and a second would cost every burst for nothing; where each worker has a vring of its
// own it is never contended. rte_vhost_dequeue_burst() only tries that lock; receive queues have
// one worker at a time (port_io.h).
//
// Offloads. What is left of packets (packet/offload.h) crosses as guest_offload.h says. What the
// guest takes is published beside the routes, takes(), and read before them: while it changes there
// is no route (device.cc), so a packet that was left as it is for one guest never reaches another.
//
// Frames that do not fit. Without mergeable buffers a frame has to fit one of the guest's buffers,
// and librte_vhost stops a burst at one that does not. tx() drops that one and goes on, so that the
// port's MTU may be larger than what its guest can take.
//
// Notification. librte_vhost kicks the guest at most once per burst and not at all while the guest
// suppresses it, as a polling driver does; the guest is told not to kick us (device.cc).
//
// Memory that a hostile guest can write to is read by librte_vhost only: it translates and bounds
// each descriptor, and copies every frame before we see it; how much of it, frame_pool.h bounds.
// Where it gets the bounds wrong when it writes, guarded_mapping.h keeps that from doing harm.
//
// Thread safety: rx() and tx() by workers as port_io.h says, but tx() by any number at once;
// publish() and withdraw() by one thread at a time.
#pragma once

#include <rte_common.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/terms/limits.h"
#include "pipeline/terms/port_io.h"
#include "port/vhost/frame_pool.h"
#include "port/vhost/packed_rings.h"
#include "port/vhost/queue_states.h"

namespace headrace::port::vhost {

struct DataPathConfig {
  std::shared_ptr<FramePool> pool;  ///< buffers for what guests send
  uint16_t rx_queues{1};            ///< receive queues, over which the guest's are distributed
  /// How often a burst of which the guest's ring took only a part is tried again at once
  /// (options:tx-retries-max, OVS's).
  uint32_t tx_retries{8};
};

class DataPath final : public pipeline::PortIo {
 public:
  explicit DataPath(const DataPathConfig& config);

  /// Takes up to kBurst packets from the vrings of the receive queue in turn.
  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override;
  /// `worker` is the worker's number.
  uint16_t tx(uint16_t worker, std::span<rte_mbuf*> packets) noexcept override;

  /// From now on workers use these vrings of device `vid`, which has these features.
  void publish(int vid, const QueueStates& states, uint64_t features);
  /// From now on workers use none; those that do leave within a grace period.
  void withdraw();

  /// What the guest does with what is left of packets, as Port::tx_offloads() says it. To be set
  /// while there is no route and no worker in tx().
  void set_takes(uint64_t flags) { takes_.store(flags, std::memory_order_release); }
  [[nodiscard]] uint64_t takes() const { return takes_.load(std::memory_order_acquire); }

  /// Of the guest that is served.
  [[nodiscard]] PackedRings& packed_rings() { return packed_rings_; }
  [[nodiscard]] const PackedRings& packed_rings() const { return packed_rings_; }

  [[nodiscard]] uint16_t rx_queues() const { return config_.rx_queues; }
  /// Times that the rest of a burst was tried again.
  [[nodiscard]] uint64_t retries() const { return retries_.load(std::memory_order_relaxed); }
  /// Packets that tx() left to its caller.
  [[nodiscard]] uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Packets that tx() dropped because no buffer of the guest is so long.
  [[nodiscard]] uint64_t too_long() const { return too_long_.load(std::memory_order_relaxed); }
  /// Packets of guests that contradict what was said of them.
  [[nodiscard]] uint64_t malformed() const { return malformed_.load(std::memory_order_relaxed); }

 private:
  using Route = uint64_t;  ///< what follows, vid << 16, vring
  static constexpr Route kNone = UINT64_MAX;
  static constexpr Route kLeaves = 1ULL << 48;  ///< something may be left of the guest's packets
  static constexpr Route kMerges = 1ULL << 49;  ///< a frame may lie in several of its buffers
  static Route route(int vid, uint16_t vring) { return static_cast<Route>(vid) << 16 | vring; }
  static int vid_of(Route route) { return static_cast<int>(route >> 16 & UINT32_MAX); }
  static uint16_t vring_of(Route route) { return static_cast<uint16_t>(route); }

  /// The vrings of a receive queue: the first `count` routes, of which some may be kNone for the
  /// moment of a change.
  struct alignas(RTE_CACHE_LINE_SIZE) RxQueue {
    std::atomic<uint16_t> count{0};
    uint16_t next{0};  ///< the worker's own: where to look first
    std::unique_ptr<std::atomic<Route>[]> routes;
  };

  /// Sends a prefix of `packets`, and returns its length.
  uint16_t enqueue(Route to, std::span<rte_mbuf*> packets) noexcept;
  /// Of packets from a guest: those that are as it said, in place.
  uint16_t take_notes(std::span<rte_mbuf*> packets) noexcept;
  /// Of packets of which the first one was refused: how many were dropped, or sent after those.
  uint16_t pass_long(Route to, std::span<rte_mbuf*> packets) noexcept;

  DataPathConfig config_;
  PackedRings packed_rings_;
  std::unique_ptr<RxQueue[]> rx_;
  alignas(RTE_CACHE_LINE_SIZE) std::array<std::atomic<Route>, pipeline::kMaxWorkers> tx_;
  std::atomic<uint64_t> takes_{0};
  /// Written only when a guest's ring is full.
  alignas(RTE_CACHE_LINE_SIZE) std::atomic<uint64_t> retries_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> too_long_{0};
  std::atomic<uint64_t> malformed_{0};
};

}  // namespace headrace::port::vhost
