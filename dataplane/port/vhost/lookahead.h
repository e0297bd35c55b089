// SPDX-License-Identifier: Apache-2.0
// Asks for the lines of a burst in the guest's memory before librte_vhost uses them.
//
// What a guest's core has touched has to come from that core's cache, the frame's lines and the
// descriptors': up to 400 TSC cycles where the two cores share no cache. From packed rings
// librte_vhost takes packets by four, and asks for their lines when it gets to them, so a burst
// waits for a few lines at a time. This reads the descriptors of the burst that is to come, and
// prefetches the begin of all its frames at once. It changes nothing and decides nothing: what it
// reads, librte_vhost reads again and checks, and a prefetch of a wrong address has no effect.
// port/README.md has what it saves, and why sending and split rings have no such thing.
//
// Reading needs the guest's memory to be mapped, and librte_vhost unmaps and remaps it upon
// messages of the guest. So around each message (rte_vhost_extern_callback_register()) stop() takes
// the rings away and renew() gives them back, each under the ring's own lock. A worker only tries
// that lock, and goes without where it is taken; it waits for nothing while it has it. So
// librte_vhost's thread may wait for it with the vrings' access locks held.
//
// Not for a guest with an IOMMU, whose addresses are not the memory's, nor for one that may be
// migrated by postcopy, where reading a descriptor may take as long as the other machine likes.
//
// Thread safety: stop() and renew() by one thread at a time; before_dequeue() by workers, which are
// in a GuestAccess (guest_memory.h).
#pragma once

#include <rte_common.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "port/vhost/queue_states.h"

namespace headrace::port::vhost {

class Lookahead {
 public:
  Lookahead() = default;
  Lookahead(const Lookahead&) = delete;
  Lookahead& operator=(const Lookahead&) = delete;

  /// From now on no worker reads the guest's memory here.
  void stop() noexcept;
  /// Workers may look into the rings of device `vid`, as they are now.
  void renew(int vid);

  /// For the next `packets` that the guest sends by `vring`.
  void before_dequeue(uint16_t vring, size_t packets) noexcept;

 private:
  /// A ring in the guest's memory. `descriptors` is null while nobody may look.
  struct alignas(RTE_CACHE_LINE_SIZE) Ring {
    std::atomic<bool> locked{false};
    uint16_t size{0};
    int vid{-1};
    const void* descriptors{nullptr};
  };
  /// Where a part of the guest's memory is mapped.
  struct Region {
    uint64_t guest;
    uint64_t size;
    uint64_t here;
  };
  static constexpr size_t kMaxRegions = 8;  ///< librte_vhost's
  class Lock;

  /// Null where nothing of the guest's memory is.
  [[nodiscard]] const uint8_t* here(uint64_t guest) const noexcept;

  /// Made with the first guest: most ports of a large switch have few rings, or none.
  std::unique_ptr<Ring[]> made_;
  std::atomic<Ring*> rings_{nullptr};
  /// Written while no ring may be looked into.
  size_t n_regions_{0};
  std::array<Region, kMaxRegions> regions_{};
};

}  // namespace headrace::port::vhost
