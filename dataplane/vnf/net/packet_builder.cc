// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/packet_builder.h"

#include <algorithm>

namespace headrace::vnf {
namespace {

void put16(Bytes& bytes, uint16_t value) {
  bytes.push_back(static_cast<uint8_t>(value >> 8));
  bytes.push_back(static_cast<uint8_t>(value));
}
void put32(Bytes& bytes, uint32_t value) {
  put16(bytes, static_cast<uint16_t>(value >> 16));
  put16(bytes, static_cast<uint16_t>(value));
}
void put(Bytes& bytes, const auto& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// The Internet checksum (RFC 1071) in its simplest form, deliberately not the implementation under
/// test.
uint16_t plain_checksum(Bytes bytes) {
  if (bytes.size() % 2 != 0) bytes.push_back(0);
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) sum += read16(bytes, i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

Bytes pseudo_header(uint32_t src, uint32_t dst, uint8_t proto, size_t length) {
  Bytes bytes;
  put32(bytes, src);
  put32(bytes, dst);
  put16(bytes, proto);
  put16(bytes, static_cast<uint16_t>(length));
  return bytes;
}

void set16(Bytes& bytes, size_t offset, uint16_t value) {
  bytes[offset] = static_cast<uint8_t>(value >> 8);
  bytes[offset + 1] = static_cast<uint8_t>(value);
}

Bytes with_checksum(const Ipv4Packet& ip, uint8_t proto, Bytes l4, size_t offset) {
  Bytes covered = pseudo_header(*parse_ipv4(ip.src), *parse_ipv4(ip.dst), proto, l4.size());
  put(covered, l4);
  set16(l4, offset, plain_checksum(covered));
  return l4;
}

}  // namespace

uint16_t read16(const Bytes& bytes, size_t offset) {
  return static_cast<uint16_t>(bytes.at(offset) << 8 | bytes.at(offset + 1));
}

uint32_t read32(const Bytes& bytes, size_t offset) {
  return uint32_t{read16(bytes, offset)} << 16 | read16(bytes, offset + 2);
}

Bytes Ipv4Packet::build() const {
  Bytes header;
  header.push_back(0x45);
  header.push_back(tos);
  put16(header, static_cast<uint16_t>(20 + payload.size()));
  put16(header, id);
  put16(header, fragment);
  header.push_back(ttl);
  header.push_back(proto);
  put16(header, 0);
  put32(header, *parse_ipv4(src));
  put32(header, *parse_ipv4(dst));
  set16(header, 10, plain_checksum(header));
  Bytes frame;
  put(frame, eth_dst);
  put(frame, eth_src);
  put16(frame, 0x0800);
  put(frame, header);
  put(frame, payload);
  return frame;
}

Bytes udp(const Ipv4Packet& ip, uint16_t src_port, uint16_t dst_port, const Bytes& data) {
  Bytes bytes;
  put16(bytes, src_port);
  put16(bytes, dst_port);
  put16(bytes, static_cast<uint16_t>(8 + data.size()));
  put16(bytes, 0);
  put(bytes, data);
  return with_checksum(ip, 17, bytes, 6);
}

Bytes tcp(const Ipv4Packet& ip, uint16_t src_port, uint16_t dst_port, uint8_t flags,
          const Bytes& data) {
  Bytes bytes;
  put16(bytes, src_port);
  put16(bytes, dst_port);
  put32(bytes, 1000);
  put32(bytes, 2000);
  put16(bytes, static_cast<uint16_t>(0x5000 | flags));
  put16(bytes, 4096);
  put32(bytes, 0);
  put(bytes, data);
  return with_checksum(ip, 6, bytes, 16);
}

Bytes icmp(uint8_t type, uint8_t code, uint32_t rest, const Bytes& data) {
  Bytes bytes{type, code, 0, 0};
  put32(bytes, rest);
  put(bytes, data);
  set16(bytes, 2, plain_checksum(bytes));
  return bytes;
}

Bytes udp_frame(Ipv4Packet ip, uint16_t src_port, uint16_t dst_port, const Bytes& data) {
  ip.proto = 17;
  ip.payload = udp(ip, src_port, dst_port, data);
  return ip.build();
}

Bytes tcp_frame(Ipv4Packet ip, uint16_t src_port, uint16_t dst_port, uint8_t flags) {
  ip.proto = 6;
  ip.payload = tcp(ip, src_port, dst_port, flags);
  return ip.build();
}

Bytes arp_frame(uint16_t operation, const MacAddress& sender_mac, const std::string& sender,
                const MacAddress& target_mac, const std::string& target,
                const MacAddress& eth_dst) {
  Bytes frame;
  put(frame, eth_dst);
  put(frame, sender_mac);
  put16(frame, 0x0806);
  put16(frame, 1);
  put16(frame, 0x0800);
  frame.push_back(6);
  frame.push_back(4);
  put16(frame, operation);
  put(frame, sender_mac);
  put32(frame, *parse_ipv4(sender));
  put(frame, target_mac);
  put32(frame, *parse_ipv4(target));
  return frame;
}

bool checksums_are_right(const Bytes& frame) {
  const Bytes header(frame.begin() + 14, frame.begin() + 34);
  const Bytes l4(frame.begin() + 34, frame.begin() + 14 + read16(frame, 16));
  if (plain_checksum(header) != 0) return false;
  const uint8_t proto = frame[23];
  if (proto == 1) return plain_checksum(l4) == 0;
  if (proto == 17 && read16(l4, 6) == 0) return true;
  Bytes covered = pseudo_header(read32(frame, 26), read32(frame, 30), proto, l4.size());
  put(covered, l4);
  return plain_checksum(covered) == 0;
}

}  // namespace headrace::vnf
