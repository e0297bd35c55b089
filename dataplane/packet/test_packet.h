// SPDX-License-Identifier: Apache-2.0
// For tests and benches: frames built header by header, and an mbuf around one without a mempool.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "packet/checksum.h"
#include "packet/headers.h"

namespace headrace::packet {

/// Appends headers; lengths and checksums of IP and what follows are put right by frame().
class FrameBuilder {
 public:
  FrameBuilder& bytes(std::span<const uint8_t> more) {
    data_.insert(data_.end(), more.begin(), more.end());
    return *this;
  }
  FrameBuilder& bytes(std::initializer_list<uint8_t> more) {
    data_.insert(data_.end(), more.begin(), more.end());
    return *this;
  }
  FrameBuilder& be16(uint16_t value) {
    return bytes({static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)});
  }
  FrameBuilder& be32(uint32_t value) {
    return be16(static_cast<uint16_t>(value >> 16)).be16(static_cast<uint16_t>(value));
  }
  /// 02:00:00:00:00:02 <- 02:00:00:00:00:01.
  FrameBuilder& ethernet(uint16_t type) {
    return bytes({2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}).be16(type);
  }
  /// TCI, then the type of what follows.
  FrameBuilder& vlan(uint16_t tci, uint16_t type) { return be16(tci).be16(type); }
  FrameBuilder& mpls(uint32_t label, uint8_t tc, bool bottom, uint8_t ttl) {
    return be32(label << 12 | uint32_t{tc} << 9 | uint32_t{bottom} << 8 | ttl);
  }
  /// 10.0.0.1 -> 10.0.0.2, TTL 64; `fragment` as in the header.
  FrameBuilder& ipv4(uint8_t proto, uint8_t tos = 0, uint16_t fragment = 0) {
    l3_ = data_.size();
    version_ = 4;
    proto_ = proto;
    fragment_ = (fragment & 0x1fff) != 0;
    bytes({0x45, tos}).be16(0).be16(1).be16(fragment).bytes({64, proto}).be16(0);
    bytes({10, 0, 0, 1, 10, 0, 0, 2});
    l4_ = data_.size();
    return *this;
  }
  /// 2001:db8::1 -> 2001:db8::2, hop limit 64.
  FrameBuilder& ipv6(uint8_t next_header, uint8_t traffic_class = 0, uint32_t label = 0) {
    l3_ = data_.size();
    version_ = 6;
    proto_ = next_header;
    be32(6u << 28 | uint32_t{traffic_class} << 20 | label).be16(0).bytes({next_header, 64});
    for (const uint8_t host : {1, 2}) {
      bytes({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host});
    }
    l4_ = data_.size();
    return *this;
  }
  /// An extension header of 8 octets; `next` is what follows it.
  FrameBuilder& extension(uint8_t next) { return upper(next).bytes({next, 0, 0, 0, 0, 0, 0, 0}); }
  FrameBuilder& fragment(uint8_t next, uint16_t offset_more) {
    return upper(next).bytes({next, 0}).be16(offset_more).be32(7);
  }
  FrameBuilder& tcp(uint16_t src, uint16_t dst, uint16_t flags = 0x10) {
    start_l4();
    return be16(src).be16(dst).be32(1).be32(2).be16(0x5000 | flags).be16(100).be32(0);
  }
  FrameBuilder& udp(uint16_t src, uint16_t dst) {
    start_l4();
    return be16(src).be16(dst).be16(8).be16(0);
  }
  FrameBuilder& sctp(uint16_t src, uint16_t dst) {
    start_l4();
    return be16(src).be16(dst).be32(9).be32(0);
  }
  FrameBuilder& icmp(uint8_t type, uint8_t code) {
    start_l4();
    return bytes({type, code}).be16(0);
  }
  FrameBuilder& arp(uint16_t operation) {
    be16(1).be16(0x0800).bytes({6, 4}).be16(operation);
    bytes({2, 0, 0, 0, 0, 1, 10, 0, 0, 1});
    return bytes({2, 0, 0, 0, 0, 2, 10, 0, 0, 2});
  }
  FrameBuilder& payload(size_t size) {
    for (size_t i = 0; i < size; ++i) data_.push_back(static_cast<uint8_t>(i * 7 + 1));
    return *this;
  }

  /// The frame with lengths and checksums set.
  [[nodiscard]] std::vector<uint8_t> frame() const;

 private:
  FrameBuilder& upper(uint8_t next) {
    l4_ = data_.size() + 8;
    proto_ = next;
    return *this;
  }
  void start_l4() {
    has_l4_ = true;
    l4_ = data_.size();
  }

  std::vector<uint8_t> data_;
  size_t l3_{0};
  size_t l4_{0};
  int version_{0};
  uint8_t proto_{0};
  bool fragment_{false};
  bool has_l4_{false};
};

/// The one's complement sum over pseudo-header and L4, as a receiver computes it; 0 if all is well.
/// `l3`, `l4`: offsets; `proto` goes into the pseudo-header.
inline uint16_t l4_residue(std::span<const uint8_t> frame, size_t l3, size_t l4, uint8_t proto) {
  const uint8_t* ip = &frame[l3];
  Sum sum = sum_of(frame.subspan(l4));
  const size_t size = frame.size() - l4;
  if (ip[0] >> 4 == 4) {
    sum +=
        pseudo_ipv4(load_raw32(ip + 12), load_raw32(ip + 16), proto, static_cast<uint16_t>(size));
  } else {
    sum += pseudo_ipv6(ip + 8, ip + 24, proto, static_cast<uint32_t>(size));
  }
  return static_cast<uint16_t>(~fold(sum));
}

inline std::vector<uint8_t> FrameBuilder::frame() const {
  std::vector<uint8_t> out = data_;
  if (version_ == 0) return out;
  if (has_l4_ && proto_ == kProtoUdp) {
    store_be16(&out[l4_ + 4], static_cast<uint16_t>(out.size() - l4_));
  }
  uint8_t* ip = &out[l3_];
  if (version_ == 4) {
    store_be16(ip + 2, static_cast<uint16_t>(out.size() - l3_));
    store_raw16(ip + 10, checksum({ip, 20}));
  } else {
    store_be16(ip + 4, static_cast<uint16_t>(out.size() - l3_ - 40));
  }
  if (!has_l4_ || fragment_) return out;
  switch (proto_) {
    case kProtoTcp:
      store_raw16(&out[l4_ + 16], l4_residue(out, l3_, l4_, proto_));
      break;
    case kProtoUdp:
      store_raw16(&out[l4_ + 6], udp_nonzero(l4_residue(out, l3_, l4_, proto_)));
      break;
    case kProtoIcmpv6:
      store_raw16(&out[l4_ + 2], l4_residue(out, l3_, l4_, proto_));
      break;
    case kProtoIcmp:
      store_raw16(&out[l4_ + 2], checksum(std::span(out).subspan(l4_)));
      break;
    case kProtoSctp:
      store_raw32(&out[l4_ + 8], crc32c_portable(std::span(out).subspan(l4_)));
      break;
    default:
      break;
  }
  return out;
}

/// An mbuf with its own buffer: no EAL, no mempool; never free it.
class TestPacket {
 public:
  static constexpr uint16_t kHeadroom = RTE_PKTMBUF_HEADROOM;

  explicit TestPacket(std::span<const uint8_t> frame, uint16_t headroom = kHeadroom,
                      uint16_t tailroom = 0)
      : buffer_(headroom + frame.size() + tailroom) {
    std::copy(frame.begin(), frame.end(), buffer_.begin() + headroom);
    std::memset(static_cast<void*>(&mbuf_), 0, sizeof mbuf_);
    mbuf_.buf_addr = buffer_.data();
    mbuf_.buf_len = static_cast<uint16_t>(buffer_.size());
    mbuf_.data_off = headroom;
    mbuf_.data_len = static_cast<uint16_t>(frame.size());
    mbuf_.pkt_len = static_cast<uint32_t>(frame.size());
    mbuf_.nb_segs = 1;
    mbuf_.refcnt = 1;
  }
  TestPacket(const TestPacket&) = delete;
  TestPacket& operator=(const TestPacket&) = delete;

  [[nodiscard]] rte_mbuf* mbuf() { return &mbuf_; }
  [[nodiscard]] std::vector<uint8_t> frame() const {
    const auto* begin = buffer_.data() + mbuf_.data_off;
    return {begin, begin + mbuf_.data_len};
  }

 private:
  std::vector<uint8_t> buffer_;
  rte_mbuf mbuf_;
};

}  // namespace headrace::packet
