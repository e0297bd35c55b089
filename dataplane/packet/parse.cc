// SPDX-License-Identifier: Apache-2.0
#include "packet/parse.h"

namespace headrace::packet {
namespace {

/// The bytes of the frame, asked for before they are read.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> frame)
      : begin_(frame.data()), size_(frame.size() < 0xffff ? frame.size() : 0xffff) {}

  [[nodiscard]] bool has(size_t offset, size_t bytes) const { return offset + bytes <= size_; }
  [[nodiscard]] const uint8_t* at(size_t offset) const { return begin_ + offset; }
  [[nodiscard]] uint8_t octet(size_t offset) const { return begin_[offset]; }
  [[nodiscard]] uint16_t raw16(size_t offset) const { return load_raw16(begin_ + offset); }
  [[nodiscard]] uint16_t be16(size_t offset) const { return load_be16(begin_ + offset); }
  [[nodiscard]] size_t size() const { return size_; }
  /// Forgets what lies behind `size`: padding behind an IP packet is no part of it.
  void cut(size_t size) { size_ = size < size_ ? size : size_; }

 private:
  const uint8_t* begin_;
  size_t size_;
};

/// The order in which RFC 8200, 4.1 recommends extension headers; an ESP hides what follows.
enum ExthdrRank : uint8_t {
  kRankHop = 1,
  kRankDestFirst,
  kRankRouter,
  kRankFragment,
  kRankAuth,
  kRankEsp,
  kRankDestLast,
};

/// Follows the order and repetition of extension headers (OpenFlow 1.3.5, 7.2.3.8).
class ExthdrBits {
 public:
  void add(uint8_t proto) {
    switch (proto) {
      case kProtoHopByHop:
        return note(kExthdrHop, kRankHop);
      case kProtoRouting:
        return note(kExthdrRouter, kRankRouter);
      case kProtoFragment:
        return note(kExthdrFragment, kRankFragment);
      case kProtoAuth:
        return note(kExthdrAuth, kRankAuth);
      case kProtoEsp:
        return note(kExthdrEsp, kRankEsp);
      case kProtoDestOptions:
        return note(kExthdrDest, rank_ < kRankDestFirst ? kRankDestFirst : kRankDestLast);
      case kProtoNoNext:
        bits_ |= kExthdrNoNext;
        return;
      default:
        return;
    }
  }
  [[nodiscard]] uint16_t bits() const { return bits_; }

 private:
  void note(uint16_t bit, uint8_t rank) {
    if ((bits_ & bit) != 0) {
      // Destination options may stand twice: before a routing header and before the upper layer.
      if (bit != kExthdrDest || dest_twice_) bits_ |= kExthdrUnrepeated;
      dest_twice_ |= bit == kExthdrDest;
    }
    if (rank < rank_) bits_ |= kExthdrUnsequenced;
    if (rank > rank_) rank_ = rank;
    bits_ |= bit;
  }

  uint16_t bits_{0};
  uint8_t rank_{0};
  bool dest_twice_{false};
};

/// Finds the link-layer address options of a neighbor solicitation or advertisement.
void parse_neighbor_discovery(const Reader& in, ParsedPacket& parsed) {
  const uint8_t type = in.octet(parsed.l4);
  if (type != kIcmpv6NeighborSolicitation && type != kIcmpv6NeighborAdvertisement) return;
  // A target needs the whole fixed part; match/fields/extract.cc asks again before it reads it.
  size_t offset = parsed.l4 + sizeof(NeighborDiscovery);
  while (in.has(offset, sizeof(NdOption))) {
    const uint8_t option = in.octet(offset);
    const size_t bytes = size_t{in.octet(offset + 1)} * 8;
    if (bytes == 0 || !in.has(offset, bytes)) return;  // RFC 4861, 4.6: discard
    const size_t place = offset - parsed.l4;
    if (bytes == kNdLinkAddressOption && place + 2 <= 0xff) {
      if (option == kNdSourceLinkAddress) parsed.nd_source_link = static_cast<uint8_t>(place + 2);
      if (option == kNdTargetLinkAddress) parsed.nd_target_link = static_cast<uint8_t>(place + 2);
    }
    offset += bytes;
  }
}

void parse_l4(const Reader& in, size_t offset, Depth depth, ParsedPacket& parsed) {
  const size_t fixed = l4_header_size(parsed.ip_proto);
  if (fixed == 0) return;
  if (!in.has(offset, fixed)) {
    parsed.flags |= kTruncatedL4;
    return;
  }
  parsed.l4 = static_cast<uint16_t>(offset);
  if (depth == Depth::full && parsed.ip_proto == kProtoIcmpv6 && parsed.has(kIpv6)) {
    parse_neighbor_discovery(in, parsed);
  }
}

void parse_ipv4(Reader& in, Depth depth, ParsedPacket& parsed) {
  const size_t l3 = parsed.l2_end;
  if (!in.has(l3, sizeof(Ipv4Header))) {
    parsed.flags |= kTruncatedL3;
    return;
  }
  const uint8_t version_ihl = in.octet(l3);
  const size_t header = size_t{version_ihl & 0xfu} * 4;
  const size_t total = in.be16(l3 + offsetof(Ipv4Header, total_length));
  if (version_ihl >> 4 != 4 || header < sizeof(Ipv4Header) || total < header) {
    parsed.flags |= kBadL3;
    return;
  }
  if (!in.has(l3, header)) {
    parsed.flags |= kTruncatedL3;
    return;
  }
  parsed.flags |= kIpv4;
  parsed.l3 = static_cast<uint16_t>(l3);
  parsed.ip_proto = in.octet(l3 + offsetof(Ipv4Header, proto));
  in.cut(l3 + total);
  const uint16_t fragment = in.be16(l3 + offsetof(Ipv4Header, fragment));
  if ((fragment & 0x3fff) != 0) parsed.flags |= kFragment;
  if ((fragment & 0x1fff) != 0) {
    parsed.flags |= kLaterFragment;
    return;
  }
  if (depth >= Depth::l4) parse_l4(in, l3 + header, depth, parsed);
}

void parse_ipv6(Reader& in, Depth depth, ParsedPacket& parsed) {
  const size_t l3 = parsed.l2_end;
  if (!in.has(l3, sizeof(Ipv6Header))) {
    parsed.flags |= kTruncatedL3;
    return;
  }
  if (in.octet(l3) >> 4 != 6) {
    parsed.flags |= kBadL3;
    return;
  }
  parsed.flags |= kIpv6;
  parsed.l3 = static_cast<uint16_t>(l3);
  const size_t payload = in.be16(l3 + offsetof(Ipv6Header, payload_length));
  // Payload length 0 may announce a jumbogram (RFC 2675): then the frame's end is all we know.
  if (payload != 0) in.cut(l3 + sizeof(Ipv6Header) + payload);

  ExthdrBits exthdr;
  uint8_t proto = in.octet(l3 + offsetof(Ipv6Header, next_header));
  size_t offset = l3 + sizeof(Ipv6Header);
  for (;;) {
    exthdr.add(proto);
    size_t bytes = 0;
    if (proto == kProtoHopByHop || proto == kProtoRouting || proto == kProtoDestOptions) {
      if (!in.has(offset, sizeof(Ipv6Extension))) break;
      bytes = (size_t{in.octet(offset + 1)} + 1) * 8;
    } else if (proto == kProtoAuth) {
      if (!in.has(offset, sizeof(Ipv6Extension))) break;
      bytes = (size_t{in.octet(offset + 1)} + 2) * 4;
    } else if (proto == kProtoFragment) {
      if (!in.has(offset, sizeof(Ipv6Fragment))) break;
      bytes = sizeof(Ipv6Fragment);
      const uint16_t where = in.be16(offset + offsetof(Ipv6Fragment, offset_more));
      if ((where & 0xfff9) != 0) parsed.flags |= kFragment;
      if ((where & 0xfff8) != 0) parsed.flags |= kLaterFragment;
    } else {
      parsed.ip_proto = proto;
      parsed.ipv6_exthdr = exthdr.bits();
      if (depth >= Depth::l4 && !parsed.has(kLaterFragment)) parse_l4(in, offset, depth, parsed);
      return;
    }
    const uint8_t next = in.octet(offset);
    if (parsed.has(kLaterFragment)) {
      // What follows the fragment header is the middle of something: its type is known, no more.
      parsed.ip_proto = next;
      parsed.ipv6_exthdr = exthdr.bits();
      return;
    }
    if (!in.has(offset, bytes)) break;
    offset += bytes;
    proto = next;
  }
  // An extension header that is cut off: the last known type stands, nothing follows.
  parsed.ip_proto = proto;
  parsed.ipv6_exthdr = exthdr.bits();
  parsed.flags |= kTruncatedL4;
}

void parse_arp(const Reader& in, ParsedPacket& parsed) {
  const size_t l3 = parsed.l2_end;
  if (!in.has(l3, sizeof(ArpHeader))) {
    parsed.flags |= kTruncatedL3;
    return;
  }
  constexpr uint16_t kHardwareEthernet = 1;
  if (in.be16(l3) != kHardwareEthernet || in.raw16(l3 + 2) != kTypeIpv4 || in.octet(l3 + 4) != 6 ||
      in.octet(l3 + 5) != 4) {
    parsed.flags |= kBadL3;
    return;
  }
  parsed.flags |= kArp;
  parsed.l3 = static_cast<uint16_t>(l3);
}

}  // namespace

ParsedPacket parse(std::span<const uint8_t> frame, Depth depth) noexcept {
  ParsedPacket parsed;
  Reader in(frame);
  if (!in.has(0, sizeof(EthernetHeader))) {
    parsed.flags = kTruncatedL2;
    return parsed;
  }
  size_t offset = sizeof(EthernetHeader);
  uint16_t type = in.raw16(offset - 2);
  while (is_vlan_type(type) && parsed.vlan_tags < kMaxVlanTags) {
    if (!in.has(offset, sizeof(VlanTag))) {
      parsed.flags |= kTruncatedL2;
      break;
    }
    ++parsed.vlan_tags;
    type = in.raw16(offset + 2);
    offset += sizeof(VlanTag);
  }
  parsed.l2_end = static_cast<uint16_t>(offset);
  parsed.eth_type = type;
  if (depth == Depth::l2) return parsed;

  switch (type) {
    case kTypeIpv4:
      parse_ipv4(in, depth, parsed);
      break;
    case kTypeIpv6:
      parse_ipv6(in, depth, parsed);
      break;
    case kTypeArp:
      parse_arp(in, parsed);
      break;
    case kTypeMpls:
    case kTypeMplsMulticast:
      parsed.flags |= in.has(offset, sizeof(MplsEntry)) ? kMpls : kTruncatedL2;
      break;
    case kTypePbb:
      parsed.flags |= in.has(offset, sizeof(PbbITag)) ? kPbb : kTruncatedL2;
      break;
    default:
      break;
  }
  return parsed;
}

}  // namespace headrace::packet
