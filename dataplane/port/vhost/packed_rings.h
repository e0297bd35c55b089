// SPDX-License-Identifier: Apache-2.0
// A guest's packed rings, which workers access beside librte_vhost: to see how much a guest has
// sent and ask for the lines of that ahead, and to send a burst as one.
//
// Looking, to_dequeue(). For a packed ring librte_vhost (22.11) takes buffers for as many packets
// as it is asked for, looks into the ring, and gives back what it did not need: 32 buffers at each
// poll of an idle port. So it is asked for what is there, and for one more, since it counts among
// those asked for the RARP packet that it sends after a migration, and needs at least one besides.
// That packet is in no ring, so an idle one is asked for, too, now and then.
//
// Asking ahead. What a guest's core has touched has to come from that core's
// cache, the frame's lines and the descriptors': up to 400 TSC cycles where the two cores share no
// cache. librte_vhost takes packets by four, and asks for their lines when it gets to them, so a
// burst waits for a few lines at a time. This reads the descriptors of the burst that is to come,
// and prefetches the begin of all its frames at once. It changes nothing: what it reads,
// librte_vhost reads again and checks, and a prefetch of a wrong address has no effect.
// port/README.md has what it saves, and why split rings have no such thing.
//
// Sending, enqueue(). librte_vhost makes packets visible by four, each time with stores to a line
// of descriptors. A guest that polls takes them at once, and looks at the next line, which the
// worker is about to write: it has to be fetched back for each four packets, and the longer frames
// are, the more surely the guest is faster than the copying. A split ring's index is written once
// for a burst. Here all frames of a burst
// are copied first, and become visible by one store, that of the first descriptor's flags, as a
// split ring's index does. Only what is simple goes this way: a frame in one buffer, of which
// nothing is left to do, for a descriptor of its own that is long enough. librte_vhost does the
// rest, and keeps the ring's indices: they are read from it and given back (vring_base).
//
// The guest's memory is untrusted. Each descriptor is read once; where it points to is looked up in
// the table of regions, with the whole length, before anything is written. A ring is used here if
// all of it is in a region: librte_vhost keeps the address of one that it refused because it is
// not.
//
// Kicks. A guest without an event index is asked here whether it wants one. With it, librte_vhost
// notes at each burst how far the ring was, and compares what the guest asks for with that: it is
// called each time, or it would take a note of an earlier round of the ring for the last one, and
// not kick a guest that waits.
//
// Exclusion. The memory is librte_vhost's to unmap and remap, upon messages of the guest. So around
// each message (rte_vhost_extern_callback_register()) stop() takes the rings away and renew() gives
// them back. It is called with librte_vhost's access locks held, for which a worker may be waiting
// inside of librte_vhost, so stop() must not wait for such a worker. A ring's `users` says who is
// in it: kHere, one worker that is in it by itself and waits for nothing until it has left; or the
// number of workers that are in librte_vhost for it, whom its own lock keeps apart. A worker that
// finds others there goes by librte_vhost, too; one that finds kHere waits for the end of that
// burst. stop() waits for kHere to leave, not for the others.
//
// Not for a guest with an IOMMU, whose addresses are not the memory's, nor for one that may be
// migrated by postcopy, where reading a descriptor may take as long as the other machine likes.
// While a guest is migrated, and what is written has to be logged, librte_vhost sends alone.
//
// Thread safety: stop() and renew() by one thread at a time; the rest by workers, which are in a
// GuestAccess (guest_memory.h).
#pragma once

#include <rte_common.h>
#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "port/vhost/queue_states.h"

namespace headrace::port::vhost {

class PackedRings {
 public:
  PackedRings() = default;
  PackedRings(const PackedRings&) = delete;
  PackedRings& operator=(const PackedRings&) = delete;

  /// From now on no worker accesses the guest's memory here.
  void stop() noexcept;
  /// Workers may access the rings of device `vid`, as they are now; they send by those that
  /// `states` names as enabled. Before the first route to the device is published.
  void renew(int vid, const QueueStates& states);

  /// Before librte_vhost is asked for what the guest sends by a vring of device `vid`, of any
  /// layout: for how many packets to ask, at most `most`. 0: there are none.
  [[nodiscard]] size_t to_dequeue(int vid, uint16_t vring, size_t most) noexcept;

  /// Sends a prefix of `packets` by a vring of device `vid`, of any layout; its length. The packets
  /// stay the caller's.
  [[nodiscard]] uint16_t enqueue(int vid, uint16_t vring, std::span<rte_mbuf*> packets) noexcept;

  /// Whether workers may access the ring here.
  [[nodiscard]] bool accesses(uint16_t vring) const noexcept {
    const Ring* const ring = ring_of(vring);
    return ring != nullptr && ring->descriptors.load(std::memory_order_relaxed) != nullptr;
  }
  /// Packets that were sent here, not by librte_vhost.
  [[nodiscard]] uint64_t sent_here() const { return sent_here_.load(std::memory_order_relaxed); }

 private:
  struct Descriptor;
  static constexpr int32_t kHere = -1;
  /// Of so many looks into an empty ring librte_vhost is asked after one.
  static constexpr uint8_t kEmptyLooks = 64;

  /// A ring in the guest's memory. `descriptors` is null while nobody may access it.
  struct alignas(RTE_CACHE_LINE_SIZE) Ring {
    std::atomic<int32_t> users{0};
    bool sends{false};
    uint16_t size{0};
    int vid{-1};
    std::atomic<Descriptor*> descriptors{nullptr};
    const uint16_t* driver_event{nullptr};  ///< its flags: whether the guest wants to be kicked
    /// The guest may name the descriptor to be kicked at: librte_vhost has to know of each burst.
    bool event_index{false};
    uint8_t empty_looks{0};  ///< since librte_vhost was asked
  };
  /// Where a part of the guest's memory is mapped.
  struct Region {
    uint64_t guest;
    uint64_t size;
    uint64_t here;
  };
  static constexpr size_t kMaxRegions = 8;  ///< librte_vhost's
  class Here;
  class InLibrary;

  /// Null where not all of `octets` from there on are the guest's.
  [[nodiscard]] uint8_t* here(uint64_t guest, uint64_t octets) const noexcept;
  /// Whether all of what is mapped there is the guest's.
  [[nodiscard]] bool is_guests(const void* here, uint64_t octets) const noexcept;
  [[nodiscard]] Ring* ring_of(uint16_t vring) const noexcept;
  /// By a ring that this worker is in; the length of the prefix that was sent.
  [[nodiscard]] uint16_t send_here(const Ring& ring, Descriptor* descriptors, uint16_t vring,
                                   std::span<rte_mbuf*> packets) const noexcept;

  /// Made with the first guest: most ports of a large switch have few rings, or none.
  std::unique_ptr<Ring[]> made_;
  std::atomic<Ring*> rings_{nullptr};
  /// Written while no ring may be accessed.
  size_t n_regions_{0};
  std::array<Region, kMaxRegions> regions_{};
  alignas(RTE_CACHE_LINE_SIZE) std::atomic<uint64_t> sent_here_{0};
};

}  // namespace headrace::port::vhost
