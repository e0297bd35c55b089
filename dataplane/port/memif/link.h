// SPDX-License-Identifier: Apache-2.0
// A connection's data path: the shared memory and the rings in it, as workers use them.
//
// Copy mode: this end copies every frame, on receive and on send. The peer may be faulty or hostile
// and may write to the whole region at any time, so every value read from it is read once into a
// local and then checked: indices against the ring's size, offsets and lengths against the regions.
// This end's own indices are never read back, and where this end owns the buffers (as client) their
// offsets are computed, not read. A faulty peer can corrupt only its own traffic.
//
// Both roles and directions are one scheme. A ring has an index that is ours and one that is
// theirs; with `bias` = ring size where the peer gives slots back (it receives what the client
// sends) or we lay out what we have emptied, else 0:
//
//     we            as    slots that we may use next       we publish
//     send          C     theirs + bias - next             next
//     send          S     theirs        - next             next
//     receive       S     theirs        - next             next
//     receive       C     theirs        - next             next + bias
//
// Thread safety: a queue is one worker's at a time; a Link is made and destroyed by the control
// thread, destroyed only after a grace period.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.h"
#include "base/result.h"
#include "port/memif/protocol.h"
#include "port/memif/region.h"

namespace headrace::port::memif {

/// Counts of one queue. They outlive links; each is written by the queue's worker only.
struct alignas(64) QueueCounts {
  Counter packets;
  Counter bytes;
  Counter no_buffer;   ///< rounds in which no mbuf was to be had
  Counter too_long;    ///< packets that no mbuf holds
  Counter bad_index;   ///< the peer's index was more than a ring ahead
  Counter bad_buffer;  ///< the peer's descriptor led out of the shared memory
};

/// Where a ring is, and how it is used.
struct RingPlace {
  RingHeader* header;
  unsigned log2_size;
  /// Buffers of our own (we are the client): slot i has `buffer_size` bytes at `buffers` + i *
  /// buffer_size, which is `buffers_offset` in region 0. Null: the descriptors say where.
  uint8_t* buffers{nullptr};
  uint32_t buffers_offset{0};
  uint32_t buffer_size{0};
};

/// One direction of one queue.
class alignas(64) Ring {
 public:
  /// `regions` must outlive the ring.
  Ring(const RingPlace& place, const std::vector<Region>& regions, bool sends, QueueCounts& counts);

  uint16_t receive(rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept;
  uint16_t send(std::span<rte_mbuf*> packets) noexcept;

 private:
  struct Slot {
    uint8_t* data;    ///< null: the descriptor is bad
    uint32_t length;  ///< of the packet, or room for one
    uint32_t room;    ///< bytes from `data` on that may be touched
    bool goes_on;
  };

  [[nodiscard]] uint16_t usable() noexcept;
  [[nodiscard]] Slot slot(uint16_t index) const noexcept;
  void publish() noexcept;
  bool append(rte_mbuf* packet, const Slot& from) const noexcept;
  bool put(const rte_mbuf* packet, uint16_t usable) noexcept;
  void describe(uint16_t index, uint32_t length, bool goes_on) noexcept;

  Descriptor* descriptors_;
  uint16_t* theirs_;
  uint16_t* ours_;
  const std::vector<Region>& regions_;
  uint8_t* buffers_;
  uint32_t buffers_offset_;
  uint32_t buffer_size_;
  uint16_t size_;
  uint16_t mask_;
  uint16_t bias_theirs_;
  uint16_t bias_ours_;
  uint16_t next_;
  QueueCounts& counts_;
};

/// All rings of a connection, over the regions that they are in.
class Link {
 public:
  explicit Link(std::vector<Region> regions) : regions_(std::move(regions)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void add(const RingPlace& place, bool sends, QueueCounts& counts) {
    (sends ? send_ : receive_).push_back(std::make_unique<Ring>(place, regions_, sends, counts));
  }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }
  [[nodiscard]] size_t n_send() const { return send_.size(); }
  [[nodiscard]] size_t n_receive() const { return receive_.size(); }

  uint16_t receive(uint16_t queue, rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept {
    return queue < receive_.size() ? receive_[queue]->receive(pool, packets) : 0;
  }
  uint16_t send(uint16_t queue, std::span<rte_mbuf*> packets) noexcept {
    return queue < send_.size() ? send_[queue]->send(packets) : 0;
  }

 private:
  std::vector<Region> regions_;
  std::vector<std::unique_ptr<Ring>> send_;
  std::vector<std::unique_ptr<Ring>> receive_;
};

}  // namespace headrace::port::memif
