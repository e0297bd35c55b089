// SPDX-License-Identifier: Apache-2.0
// For tests: builders of frames with correct lengths and checksums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vnf/net/address.h"

namespace headrace::vnf {

using Bytes = std::vector<uint8_t>;

/// An Ethernet frame with an IPv4 packet; members not set have usual values.
struct Ipv4Packet {
  MacAddress eth_src{2, 9, 9, 9, 9, 9};
  MacAddress eth_dst{2, 0, 0, 0, 0, 0};  ///< the test's port 0
  std::string src{"10.0.0.9"};
  std::string dst{"10.1.0.9"};
  uint8_t ttl{64};
  uint8_t tos{0};
  uint8_t proto{17};
  uint16_t id{0};
  uint16_t fragment{0};  ///< flags and offset, host order
  Bytes payload{};       ///< the transport header and all after it

  [[nodiscard]] Bytes build() const;
};

/// Transport headers with checksums over the pseudo-header of `src` and `dst`.
Bytes udp(const Ipv4Packet& ip, uint16_t src_port, uint16_t dst_port, const Bytes& data = {});
Bytes tcp(const Ipv4Packet& ip, uint16_t src_port, uint16_t dst_port, uint8_t flags,
          const Bytes& data = {});
/// An ICMP message; `rest` is the second word (identifier and sequence of an echo).
Bytes icmp(uint8_t type, uint8_t code, uint32_t rest, const Bytes& data = {});

/// A complete UDP frame.
Bytes udp_frame(Ipv4Packet ip, uint16_t src_port, uint16_t dst_port, const Bytes& data = {});
Bytes tcp_frame(Ipv4Packet ip, uint16_t src_port, uint16_t dst_port, uint8_t flags);

/// An ARP message: 1 request, 2 reply.
Bytes arp_frame(uint16_t operation, const MacAddress& sender_mac, const std::string& sender,
                const MacAddress& target_mac, const std::string& target, const MacAddress& eth_dst);

/// Whether the checksums of the IPv4 header and of UDP, TCP or ICMP are correct.
bool checksums_are_right(const Bytes& frame);

/// The 16 or 32 bits at an offset, from network order.
uint16_t read16(const Bytes& bytes, size_t offset);
uint32_t read32(const Bytes& bytes, size_t offset);

}  // namespace headrace::vnf
