// SPDX-License-Identifier: Apache-2.0
// The packets of a capture file, made ready to be sent again.
//
// Every packet must end in a signature (signature.h), so it is changed as little as that takes:
// * what an Ethernet device padded behind the IP packet is cut off (and put back to 60 bytes);
// * the last 14 bytes of the TCP or UDP payload give way to the signature; a payload that is
// shorter
//   is lengthened to 14 bytes, with the lengths in the headers;
// * UDP checksums over IPv4 become 0; others are made right for each packet sent;
// * what is not IP (ARP, LLDP, ...) gets the signature behind it.
// A packet of a fragmented datagram keeps its headers; its reassembled checksum will be wrong.
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

  /// Reads `path` (pcap or pcapng with Ethernet packets, whole, of at most SizeProfile::kLargest).
  static Result<Replay> open(const std::string& path);

  [[nodiscard]] uint32_t packets() const { return static_cast<uint32_t>(packets_.size()); }
  /// Different (addresses, protocol, ports).
  [[nodiscard]] uint32_t flows() const { return flows_; }
  /// The sizes as sent (with FCS), named "pcap:<file name>".
  [[nodiscard]] const SizeProfile& sizes() const { return sizes_; }
  /// When each packet was captured, in nanoseconds after the first.
  [[nodiscard]] const std::vector<uint64_t>& times_ns() const { return times_ns_; }
  /// From the first packet to the first of the next turn: one mean gap after the last.
  [[nodiscard]] uint64_t period_ns() const;

  /// Writes packet `number` without its signature; returns its length.
  uint16_t write(uint8_t* frame, uint32_t number) const noexcept;
  /// Adds the signature, which must be there, to the checksum that covers it.
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
