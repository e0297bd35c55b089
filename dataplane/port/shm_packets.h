// SPDX-License-Identifier: Apache-2.0
// Packets of a trust group as the pipeline sees them: headers in the switch's own memory, payload
// where the VNF has written it.
//
// Why. VNFs can write to their region at any time, also to packets that they have sent. If headers
// were classified there, a VNF could change them between look-up and transmission: a packet that a
// rule lets through would leave as another one. So receive() copies what the pipeline reads and
// edits, the first kPrivateHead octets, and from then on only the copy counts: no header is ever
// read, edited or sent from memory that a VNF can write.
//
// How. Each buffer of the region has one mbuf (shm/mbufs.h) and beside it a private head: another
// mbuf and kPrivateHeadroom + kPrivateHead octets with some tailroom. A packet that fits is the
// buffer's mbuf with its data in the private head. A longer one is a chain: the head's mbuf, and
// the buffer's mbuf with the rest, which isn't copied. The headers to parse must lie in the first
// segment (packet/parse.h), as for any chained packet.
//
// The head's mbuf is in no pool: it has a reference more than its packet, so whoever frees the
// packet leaves it alone and puts the buffer's mbuf into the pool. That one is the last of the
// chain, so a buffer isn't used again before its head is free.
//
// A packet that stays in the group keeps its buffer: to_region() writes the head back if the
// pipeline has changed it (or the VNF has), and only the descriptor moves. Any other exit sends or
// copies the head and then the payload. What a VNF can still change then is payload behind
// kPrivateHead octets, which no rule has seen: nothing that it couldn't have sent at once. Lengths
// are the switch's own from the moment that the slot of the ring was copied.
//
// Threads: that of the group's owner, as for SwitchEnd; packets may be freed by any worker.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "shm/layout.h"
#include "shm/mbufs.h"

namespace headrace::port {

/// Octets of a packet that are copied: Ethernet with two tags, IPv6 and TCP, behind VXLAN over IPv6
/// (152), and some options or extension headers.
inline constexpr uint16_t kPrivateHead = 192;
inline constexpr uint16_t kPrivateHeadroom = RTE_PKTMBUF_HEADROOM;

class ShmPackets {
 public:
  /// `area` outlives it. `cache`: mbufs that a thread may cache. Fails if memory is short.
  static Result<ShmPackets> make(const std::string& name, const shm::BufferArea& area,
                                 uint32_t cache);
  ShmPackets() = default;
  [[nodiscard]] const shm::MbufSet& mbufs() const { return mbufs_; }

  /// Asks for the lines that receive() will read.
  void prefetch(const shm::Packet& packet) const noexcept;
  /// The packet, which the switch owns and which is inside its buffer, for the pipeline.
  [[nodiscard]] rte_mbuf* receive(const shm::Packet& packet) noexcept;

  /// The packet as its buffer describes it, with the octets that the pipeline made of it. Nothing
  /// if the packet is not of the group's buffers alone or has no room there: it has to be copied.
  [[nodiscard]] std::optional<shm::Packet> to_region(rte_mbuf* packet) noexcept;
  /// A copy of any packet in a buffer of the group, allocated; nothing if there is none or the
  /// packet does not fit.
  [[nodiscard]] std::optional<shm::Packet> copy_to_region(const rte_mbuf* packet) noexcept;

 private:
  struct Head;
  struct FreeHeads {
    void operator()(Head* heads) const;
  };

  [[nodiscard]] uint8_t* shared(uint32_t buffer) const noexcept {
    return area_.first_octets + size_t{buffer} * area_.stride;
  }

  shm::BufferArea area_;
  shm::MbufSet mbufs_;
  std::unique_ptr<Head, FreeHeads> heads_;  ///< by buffer
  std::vector<uint16_t> begins_;  ///< by buffer: where the packet began that was received in it
};

}  // namespace headrace::port
