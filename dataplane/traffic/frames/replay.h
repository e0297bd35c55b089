// SPDX-License-Identifier: Apache-2.0
// The packets of a capture file, prepared to be sent again.
//
// Every packet must end in a signature (signature.h). The changes are limited to what this
// requires:
// * Ethernet padding after the IP packet is removed (and the frame padded to 60 bytes again);
// * the last 14 bytes of the TCP or UDP payload are overwritten by the signature; a shorter payload
//   is lengthened to 14 bytes, with the lengths in the headers;
// * UDP checksums over IPv4 become 0; others are updated for each packet sent;
// * to packets other than IP (ARP, LLDP, ...) the signature is appended.
// A packet of a fragmented datagram keeps its headers; the checksum of the reassembled datagram
// will be wrong.
//
// Thread safety: immutable after open().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "traffic/frames/size_profile.h"

namespace headrace::traffic {

class Replay {
 public:
  static constexpr size_t kMaxPackets = 1 << 20;
  static constexpr size_t kMaxBytes = size_t{512} << 20;

  /// Reads `path` (pcap or pcapng; complete Ethernet packets of at most SizeProfile::kLargest).
  static Result<Replay> open(const std::string& path);

  [[nodiscard]] uint32_t packets() const { return static_cast<uint32_t>(packets_.size()); }
  /// The number of flows, by addresses, protocol and ports.
  [[nodiscard]] uint32_t flows() const { return flows_; }
  /// The sizes as sent (with FCS), named "pcap:<file name>".
  [[nodiscard]] const SizeProfile& sizes() const { return sizes_; }
  /// When each packet was captured, in nanoseconds after the first.
  [[nodiscard]] const std::vector<uint64_t>& times_ns() const { return times_ns_; }
  /// From the first packet to the first of the next repetition, which follows the last packet after
  /// the mean gap.
  [[nodiscard]] uint64_t period_ns() const;

  /// Writes packet `number` without its signature; returns its length.
  uint16_t write(uint8_t* frame, uint32_t number) const noexcept;
  /// Adds the signature, already written, to the checksum that covers it.
  void finish(uint8_t* frame, uint32_t number) const noexcept;

 private:
  struct Packet {
    uint32_t begin;            ///< in bytes_
    uint16_t length;           ///< without FCS
    uint16_t checksum_offset;  ///< 0: none covers the signature
    uint16_t checksum_begin;
    bool checksum_is_udp;
  };
  struct Prepared;

  void add(const Prepared& prepared, uint64_t time_ns);
  void describe(const std::string& path);

  std::vector<uint8_t> bytes_;
  std::vector<Packet> packets_;
  std::vector<uint64_t> times_ns_;
  uint32_t flows_{0};
  SizeProfile sizes_;
};

}  // namespace headrace::traffic
