// SPDX-License-Identifier: Apache-2.0
// What two memif peers write for each other to read: control messages and shared rings.
//
// The protocol is public (version 2.0: VPP, libmemif and DPDK's net_memif speak it). Two processes
// on one machine meet on a Unix socket of type SOCK_SEQPACKET, one of them as server, and agree on
// memory of the client's, which then carries all packets:
//
//     server                              client
//       <------------ connect ---------------
//       HELLO  (limits) -------------------->
//       <-- INIT  (interface id, secret) -----     the server answers each of these with ACK;
//       <-- ADD_REGION (memory, its fd) ------     the client sends the next after it
//       <-- ADD_RING (place, eventfd) --------
//       <-- CONNECT --------------------------
//       CONNECTED -------------------------->
//
// Either sends DISCONNECT with a reason, or just hangs up, when it is through. A message has 128
// bytes, numbers in the byte order of the machine.
//
// A ring is an array of descriptors, as many as a power of two, between two indices that only grow
// (modulo 2^16): `head` is the client's when it sends (C2S) and also when it receives (S2C, where
// it says how many empty buffers it has laid out); `tail` is the server's in both. Buffers are
// always the client's. So:
//
//     ring   who sends   a slot is free from          and is published by
//     C2S    client      tail + size on               head
//     S2C    server      head (laid out) on           tail
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace::port::memif {

inline constexpr uint32_t kCookie = 0x3E31F20;
inline constexpr uint16_t kVersion = 0x0200;
inline constexpr size_t kSecretSize = 24;

enum class MessageType : uint16_t {
  none = 0,
  ack = 1,
  hello = 2,
  init = 3,
  add_region = 4,
  add_ring = 5,
  connect = 6,
  connected = 7,
  disconnect = 8,
};

struct [[gnu::packed]] Hello {
  char name[32];
  uint16_t min_version;
  uint16_t max_version;
  uint16_t max_region;    ///< highest index of a region
  uint16_t max_s2c_ring;  ///< highest index of a ring
  uint16_t max_c2s_ring;
  uint8_t max_log2_ring_size;
};

struct [[gnu::packed]] Init {
  uint16_t version;
  uint32_t id;
  uint8_t mode;  ///< 0: Ethernet frames, the only one served here
  char secret[kSecretSize];
  char name[32];
};

struct [[gnu::packed]] AddRegion {
  uint16_t index;
  uint64_t size;
};

struct [[gnu::packed]] AddRing {
  static constexpr uint16_t kClientToServer = 1;
  uint16_t flags;
  uint16_t index;
  uint16_t region;
  uint32_t offset;
  uint8_t log2_ring_size;
  uint16_t private_header_size;
};

struct [[gnu::packed]] Disconnect {
  uint32_t code;
  char reason[96];
};

struct [[gnu::packed]] Message {
  MessageType type;
  union {
    Hello hello;
    Init init;
    AddRegion add_region;
    AddRing add_ring;
    char interface_name[32];  ///< CONNECT, CONNECTED
    Disconnect disconnect;
    uint8_t bytes[126];
  };
};
static_assert(sizeof(Message) == 128);

struct alignas(8) Descriptor {
  static constexpr uint16_t kNext = 1;  ///< the packet continues in the next descriptor
  uint16_t flags;
  uint16_t region;
  uint32_t length;
  uint32_t offset;
  uint32_t metadata;
};
static_assert(sizeof(Descriptor) == 16);

/// The descriptors follow.
struct RingHeader {
  static constexpr uint16_t kMaskInterrupt = 1;  ///< the receiver polls: write no eventfd
  uint32_t cookie;
  uint16_t flags;
  uint16_t head;
  alignas(64) uint16_t tail;
};
static_assert(sizeof(RingHeader) == 128 && offsetof(RingHeader, tail) == 64);

/// Bytes of a ring.
constexpr uint64_t ring_bytes(unsigned log2_size) {
  return sizeof(RingHeader) + (sizeof(Descriptor) << log2_size);
}

}  // namespace headrace::port::memif
