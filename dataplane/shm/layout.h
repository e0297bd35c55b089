// SPDX-License-Identifier: Apache-2.0
// The layout of a region of shared memory: the ABI between the switch and VNFs.
//
// All references are octet offsets from the region's start; there are no pointers. All numbers are
// little-endian, and a region's size and offsets never change. The switch writes the header once
// and does not read it again: it keeps its own copies of all offsets and sizes. A VNF may write to
// the whole region at any time, so the switch copies and bounds-checks every number that it reads
// from it (ring positions, buffer numbers, lengths) before use.
//
//   RegionHeader | PortBlock x n_ports | rings | marks | buffers
//
// A port has five rings. Each has one producer and one consumer:
//
//   to_vnf    switch -> VNF   packets
//   from_vnf  VNF -> switch   packets
//   fill      switch -> VNF   empty buffers, to send from
//   completion  VNF -> switch   buffers that the VNF has finished with
//   direct    VNF -> VNF      packets of a direct link; in the receiver's block (direct_link.h)
//
// A slot describes a packet completely: buffer, offset, length. So an end that only forwards or
// counts packets touches none of their cache lines. Eight slots share a cache line. Slots of fill
// and completion are buffer numbers.
//
// The distance of buffers is an odd number of lines, so that their first lines use all sets of a
// cache.
//
// marks: one octet per buffer, 1 while this port's VNF owns it. The VNF sets it before it takes the
// buffer out of a ring and clears it after it has put the buffer into one. So at whatever point the
// VNF is killed, each buffer that it owned is marked or in a ring, and can be reclaimed. A VNF that
// passes on or frees what it received, in the same order, needs no marks: it leaves the slots in
// the ring until then (vnf_end.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace headrace::shm {

inline constexpr uint64_t kMagic = 0x3154524f50415248;  // "HRAPORT1"
/// Of this layout; a VNF and a switch with different versions reject each other.
inline constexpr uint16_t kLayoutVersion = 3;
inline constexpr uint32_t kMaxPorts = 64;
inline constexpr uint32_t kNameSize = 40;
inline constexpr uint32_t kHeadroom = 128;
inline constexpr uint32_t kLine = 64;
/// The maximum size of a buffer: what the fields of a Packet can express.
inline constexpr uint32_t kMaxStride = 65536 - kLine;
static_assert(kMaxStride % (2 * kLine) == kLine);

/// A counter or position shared by both sides. Lock-free, so it is valid in any address space.
using Shared32 = std::atomic<uint32_t>;
using Shared64 = std::atomic<uint64_t>;
static_assert(Shared32::is_always_lock_free && sizeof(Shared32) == 4);
static_assert(Shared64::is_always_lock_free && sizeof(Shared64) == 8);

/// A packet, as the slot of a ring describes it.
struct Packet {
  uint32_t buffer;
  uint16_t begin;   ///< offset of its first octet in the buffer
  uint16_t length;  ///< in octets
};
static_assert(sizeof(Packet) == 8 && offsetof(Packet, begin) == 4 && offsetof(Packet, length) == 6);
static_assert(std::is_trivially_copyable_v<Packet>);

/// A ring's positions; its slots follow. Positions count up and wrap at 2^32.
struct RingHeader {
  alignas(64) Shared32 head;  ///< the producer's: slots filled so far
  Shared64 octets;            ///< of a direct ring: of all packets in slots filled so far
  alignas(64) Shared32 tail;  ///< the consumer's: slots emptied so far
  /// The consumer's, of a packet ring: the slots from tail to here are those whose packets it has
  /// received and still owns. At most head; before tail it says nothing.
  Shared32 held;
};
static_assert(sizeof(RingHeader) == 128);

struct RegionHeader {
  uint64_t magic;
  uint16_t version_major;
  uint16_t version_minor;
  uint32_t n_ports;
  uint64_t size;
  uint64_t ports_at;
  uint64_t buffers_at;
  uint32_t n_buffers;
  uint32_t buffer_stride;  ///< octets of a buffer; an odd multiple of 64
  uint32_t ring_capacity;  ///< slots of each ring but fill and completion; a power of two
  uint32_t pool_capacity;  ///< slots of fill and completion; a power of two
  uint8_t reserved[72];
};
static_assert(sizeof(RegionHeader) == 128);

/// Octets of a ring of `capacity` slots, up to the next cache line.
template <typename Slot>
constexpr uint64_t ring_octets(uint32_t capacity) {
  return sizeof(RingHeader) + (uint64_t{capacity} * sizeof(Slot) + kLine - 1) / kLine * kLine;
}
constexpr uint64_t packet_ring_octets(uint32_t capacity) {
  return ring_octets<Packet>(capacity);
}
constexpr uint64_t number_ring_octets(uint32_t capacity) {
  return ring_octets<uint32_t>(capacity);
}

/// How a port's packets are routed; see direct_link.h for the writer of each word.
struct LinkWords {
  alignas(64) Shared32 tx_wanted;  ///< switch: 0, or 1 + the port whose direct ring to send to
  Shared32 rx_wanted;              ///< switch: direct ring closed (0), opening (1) or open (2)
  Shared32 rx_after;               ///< switch: to_vnf position to reach before reading direct
  alignas(64) Shared32 tx_now;     ///< VNF: the value of tx_wanted in effect
  Shared32 rx_now;                 ///< VNF: the value of rx_wanted in effect
};
static_assert(sizeof(LinkWords) == 128);

struct PortBlock {
  char name[kNameSize];
  Shared32 user;       ///< VNF: process number while attached, else 0
  Shared32 heartbeat;  ///< VNF: incremented occasionally by its calls
  uint64_t to_vnf_at;
  uint64_t from_vnf_at;
  uint64_t fill_at;
  uint64_t completion_at;
  uint64_t direct_at;
  uint64_t held_at;
  uint8_t reserved[32];
  LinkWords link;
};
static_assert(sizeof(PortBlock) == 256 && offsetof(PortBlock, link) == 128);

}  // namespace headrace::shm
