// SPDX-License-Identifier: Apache-2.0
// GTP-U (3GPP TS 29.281) encapsulation of a user's packet: IPv4, UDP port 2152, GTP-U header.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "packet/checksum.h"
#include "packet/headers.h"
#include "vnf/net/address.h"

namespace headrace::vnf {

/// The headers in front of a user's packet.
struct __attribute__((packed)) GtpuTunnelHeader {
  packet::Ipv4Header ip;
  packet::UdpHeader udp;
  packet::GtpuHeader gtpu;
};
static_assert(sizeof(GtpuTunnelHeader) == 36);

/// The headers for an empty payload with TEID 0; set_gtpu_payload() updates them for each packet.
/// The UDP checksum is left out, as RFC 768 allows over IPv4.
inline GtpuTunnelHeader make_gtpu_header(Ipv4Address src, Ipv4Address dst) {
  GtpuTunnelHeader header{};
  header.ip.version_ihl = 0x45;
  header.ip.ttl = 64;
  header.ip.proto = packet::kProtoUdp;
  header.ip.src = packet::swap32(src);
  header.ip.dst = packet::swap32(dst);
  header.ip.checksum =
      packet::checksum({reinterpret_cast<const uint8_t*>(&header.ip), sizeof header.ip});
  header.udp.src_port = packet::swap16(packet::kPortGtpu);
  header.udp.dst_port = packet::swap16(packet::kPortGtpu);
  header.gtpu.flags = packet::kGtpuFlags;
  header.gtpu.message_type = packet::kGtpuMessageGpdu;
  return header;
}

/// Sets the TEID and the lengths for `payload` octets in headers of make_gtpu_header(). The DSCP is
/// copied from the user's packet (`tos`), so that the path to the core keeps the class.
inline void set_gtpu_payload(GtpuTunnelHeader& header, uint32_t teid, uint16_t payload,
                             uint8_t tos) {
  const auto before = packet::load_raw16(&header.ip.version_ihl);
  header.ip.tos = tos;
  header.ip.total_length =
      packet::swap16(static_cast<uint16_t>(payload + sizeof(GtpuTunnelHeader)));
  header.ip.checksum = packet::update16(header.ip.checksum, 0, header.ip.total_length);
  header.ip.checksum =
      packet::update16(header.ip.checksum, before, packet::load_raw16(&header.ip.version_ihl));
  header.udp.length = packet::swap16(
      static_cast<uint16_t>(payload + sizeof(packet::UdpHeader) + sizeof(packet::GtpuHeader)));
  header.gtpu.length = packet::swap16(payload);
  header.gtpu.teid = packet::swap32(teid);
}

/// The TEID of a G-PDU, and the offset of the user's packet after the UDP header.
struct GtpuPayload {
  uint32_t teid;
  uint16_t offset;
};

/// Parses the payload of a UDP packet to port 2152; optional fields and extension headers (TS
/// 29.281, 5.2) are skipped. Nothing for messages other than G-PDUs and for truncated ones.
inline std::optional<GtpuPayload> gtpu_payload(std::span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(packet::GtpuHeader)) return std::nullopt;
  const auto& header = *reinterpret_cast<const packet::GtpuHeader*>(bytes.data());
  constexpr uint8_t kOptional = packet::kGtpuExtension | packet::kGtpuSequence | packet::kGtpuNPdu;
  constexpr uint8_t kVersionAndType = 0xf0;
  if ((header.flags & kVersionAndType) != packet::kGtpuFlags ||
      header.message_type != packet::kGtpuMessageGpdu ||
      sizeof header + packet::swap16(header.length) > bytes.size()) {
    return std::nullopt;
  }
  const size_t end = sizeof header + packet::swap16(header.length);
  size_t offset = sizeof header;
  if ((header.flags & kOptional) != 0) {
    offset += sizeof(packet::GtpuOptional);
    if (offset > end) return std::nullopt;
    uint8_t next = (header.flags & packet::kGtpuExtension) != 0 ? bytes[offset - 1] : uint8_t{0};
    while (next != 0) {
      // The first octet counts units of four octets; the last octet names the next extension.
      if (offset >= end || bytes[offset] == 0) return std::nullopt;
      offset += size_t{4} * bytes[offset];
      if (offset > end) return std::nullopt;
      next = bytes[offset - 1];
    }
  }
  return GtpuPayload{packet::swap32(header.teid), static_cast<uint16_t>(offset)};
}

}  // namespace headrace::vnf
