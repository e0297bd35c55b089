// SPDX-License-Identifier: Apache-2.0
// The messages by which neighbors find each other, read and written: ARP (RFC 826) for IPv4,
// neighbor solicitations and advertisements (RFC 4861, 4.3 and 4.4) for IPv6.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/terms/stats.h"
#include "port/tunnel_options.h"

namespace headrace::runtime {

/// The content of an ARP packet or a neighbor discovery message.
struct NeighborMessage {
  port::IpAddress of;                       ///< the IP address that it resolves; unspecified: none
  std::optional<pipeline::MacAddress> mac;  ///< its MAC address, if the message has it
  std::optional<port::IpAddress> asks_for;  ///< a request: for whom
};

/// Reads `frame`; nothing if it is no such message, or one that RFC 4861, 7.1 calls invalid.
[[nodiscard]] std::optional<NeighborMessage> read_neighbor_message(std::span<const uint8_t> frame);

/// The request for `target` from `mac` and `ip`, which is of the same IP version.
[[nodiscard]] std::vector<uint8_t> neighbor_request(const pipeline::MacAddress& mac,
                                                    const port::IpAddress& ip,
                                                    const port::IpAddress& target);

/// The answer of `mac` to a valid request for `ip`.
[[nodiscard]] std::vector<uint8_t> neighbor_reply(std::span<const uint8_t> request,
                                                  const pipeline::MacAddress& mac,
                                                  const port::IpAddress& ip);

}  // namespace headrace::runtime
