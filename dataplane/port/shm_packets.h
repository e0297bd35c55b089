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
// How. Each buffer of the region has one mbuf (shm/mbufs.h) and beside it a private head of
// kPrivateHeadroom + kPrivateHead octets and some tailroom. A received packet is that mbuf with its
// data in the private head. A longer one goes on in a second mbuf, whose data are the rest of the
// buffer: its payload isn't copied. The headers to parse must lie in the first segment
// (packet/parse.h), as for any chained packet.
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
  ~ShmPackets() { rte_mempool_free(tails_); }
  ShmPackets(ShmPackets&& other) noexcept { *this = std::move(other); }
  ShmPackets& operator=(ShmPackets&& other) noexcept;
  ShmPackets(const ShmPackets&) = delete;
  ShmPackets& operator=(const ShmPackets&) = delete;

  [[nodiscard]] const shm::MbufSet& mbufs() const { return mbufs_; }

  /// Asks for the lines that receive() will read.
  void prefetch(const shm::Packet& packet) const noexcept;
  /// The packet, which the switch owns and which is inside its buffer, for the pipeline; null, and
  /// the buffer stays the caller's, if there is no mbuf for its second segment.
  [[nodiscard]] rte_mbuf* receive(const shm::Packet& packet) noexcept;

  /// The packet as its buffer describes it, with the octets that the pipeline made of it. Nothing
  /// if the packet is not of the group's buffers alone or has no room there: it has to be copied.
  [[nodiscard]] std::optional<shm::Packet> to_region(rte_mbuf* packet) noexcept;
  /// Releases what the group's VNFs do not get of a packet that to_region() described.
  void passed_on(rte_mbuf* packet) noexcept;
  /// A copy of any packet in a buffer of the group, allocated; nothing if there is none or the
  /// packet does not fit.
  [[nodiscard]] std::optional<shm::Packet> copy_to_region(const rte_mbuf* packet) noexcept;

 private:
  struct FreeHeads {
    void operator()(uint8_t* heads) const;
  };

  [[nodiscard]] uint8_t* shared(uint32_t buffer) const noexcept {
    return area_.first_octets + size_t{buffer} * area_.stride;
  }

  shm::BufferArea area_;
  shm::MbufSet mbufs_;
  rte_mempool* tails_{nullptr};  ///< mbufs without octets of their own
  std::unique_ptr<uint8_t, FreeHeads> heads_;
  std::vector<uint16_t> begins_;  ///< by buffer: where the packet began that was received in it
};

}  // namespace headrace::port
