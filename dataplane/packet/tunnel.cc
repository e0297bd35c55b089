// SPDX-License-Identifier: Apache-2.0
#include "packet/tunnel.h"

#include <rte_ip.h>

#include <cstring>

#include "packet/checksum.h"
#include "packet/headers.h"

namespace headrace::packet {
namespace {

constexpr size_t kEthernet = sizeof(EthernetHeader);
constexpr uint16_t kTransparentEthernet =
    0x6558;                               // GRE's protocol type for Ethernet, RFC 7637, 3.2
constexpr uint16_t kGreRouting = 0x4000;  // RFC 1701; must be 0 (RFC 2784, 2.3)
constexpr uint16_t kGreVersion = 0x0007;
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint8_t kGtpuVersionAndType = 0xf0;
constexpr uint8_t kEcn = 0x03;

/// IPv4 identifications where a router may fragment; with DF set 0 will do (RFC 6864, 4.1).
uint16_t next_identification() {
  static thread_local uint16_t next = 0;
  return next++;
}

/// Copies a header of 32 to 80 octets; most have fewer than 64: two moves that overlap.
inline void copy_header(uint8_t* to, const uint8_t* from, size_t size) {
  if (size <= 64) [[likely]] {
    std::memcpy(to, from, 32);
    std::memcpy(to + size - 32, from + size - 32, 32);
  } else {
    std::memcpy(to, from, size);
  }
}

/// The octets of the inner IP packet, without what pads the frame; 0 if the header says nonsense.
size_t ip_length(const uint8_t* ip, const ParsedPacket& parsed) {
  if (parsed.has(kIpv4)) return load_be16(ip + offsetof(Ipv4Header, total_length));
  return sizeof(Ipv6Header) + load_be16(ip + offsetof(Ipv6Header, payload_length));
}

/// Sum of the outer pseudo-header.
Sum pseudo(const uint8_t* ip, bool ipv6, uint32_t l4_length) {
  if (ipv6) {
    return pseudo_ipv6(ip + offsetof(Ipv6Header, src), ip + offsetof(Ipv6Header, dst), kProtoUdp,
                       l4_length);
  }
  return pseudo_ipv4(load_raw32(ip + offsetof(Ipv4Header, src)),
                     load_raw32(ip + offsetof(Ipv4Header, dst)), kProtoUdp,
                     static_cast<uint16_t>(l4_length));
}

/// True if the checksum of an IPv4 header is right.
inline bool ipv4_checksum_holds(const uint8_t* ip) {
  const size_t size = (ip[0] & 0xfu) * 4u;
  // Of a constant size it is five loads.
  if (size == sizeof(Ipv4Header)) [[likely]] {
    return checksum({ip, sizeof(Ipv4Header)}) == 0;
  }
  return checksum({ip, size}) == 0;
}

/// Sum of a packet's octets from an offset, over all segments; nothing if it is shorter.
bool sum_packet(const rte_mbuf* packet, uint32_t offset, uint32_t length, Sum& sum) {
  uint16_t part = 0;
  if (rte_raw_cksum_mbuf(packet, offset, length, &part) != 0) return false;
  sum += part;
  return true;
}

}  // namespace

uint16_t default_port(TunnelKind kind) {
  switch (kind) {
    case TunnelKind::vxlan:
      return kPortVxlan;
    case TunnelKind::gtpu:
      return kPortGtpu;
    case TunnelKind::gre:
      break;
  }
  return 0;
}

uint64_t largest_id(TunnelKind kind) {
  return kind == TunnelKind::vxlan ? 0xffffff : 0xffffffff;
}

// --- push --------------------------------------------------------------------------------------

TunnelHeader::TunnelHeader(const TunnelSpec& spec) : spec_(spec) {
  if (spec_.kind == TunnelKind::gtpu) spec_.layer3 = true;
  if (spec_.kind == TunnelKind::vxlan) spec_.layer3 = false;
  if (spec_.kind != TunnelKind::gre) spec_.has_key = true;
  const bool udp = spec_.kind != TunnelKind::gre;
  uint8_t* at = bytes_.data();
  std::memcpy(at, spec_.dst_mac.data(), 6);
  std::memcpy(at + 6, spec_.src_mac.data(), 6);
  store_raw16(at + 12, spec_.ipv6 ? kTypeIpv6 : kTypeIpv4);
  at += kEthernet;
  const uint8_t proto = udp ? kProtoUdp : kProtoGre;
  if (spec_.ipv6) {
    store_be32(at, 6u << 28 | uint32_t{spec_.tos} << 20);
    at[offsetof(Ipv6Header, next_header)] = proto;
    at[offsetof(Ipv6Header, hop_limit)] = spec_.ttl;
    std::memcpy(at + offsetof(Ipv6Header, src), spec_.local.data(), 16);
    std::memcpy(at + offsetof(Ipv6Header, dst), spec_.remote.data(), 16);
    at += sizeof(Ipv6Header);
  } else {
    at[0] = 0x45;
    at[offsetof(Ipv4Header, tos)] = spec_.tos;
    store_be16(at + offsetof(Ipv4Header, fragment), spec_.dont_fragment ? kDontFragment : 0);
    at[offsetof(Ipv4Header, ttl)] = spec_.ttl;
    at[offsetof(Ipv4Header, proto)] = proto;
    std::memcpy(at + offsetof(Ipv4Header, src), spec_.local.data(), 4);
    std::memcpy(at + offsetof(Ipv4Header, dst), spec_.remote.data(), 4);
    at += sizeof(Ipv4Header);
  }
  l4_ = static_cast<uint8_t>(at - bytes_.data());
  if (udp) {
    store_be16(at + offsetof(UdpHeader, dst_port),
               spec_.dst_port != 0 ? spec_.dst_port : default_port(spec_.kind));
    at += sizeof(UdpHeader);
    if (spec_.kind == TunnelKind::vxlan) {
      store_be32(at, kVxlanVniPresent);
      id_at_ = static_cast<uint8_t>(at + 4 - bytes_.data());
      id_shift_ = 8;
    } else {
      at[0] = kGtpuFlags;
      at[1] = kGtpuMessageGpdu;
      id_at_ = static_cast<uint8_t>(at + 4 - bytes_.data());
    }
    at += 8;
  } else {
    const uint16_t flags =
        static_cast<uint16_t>((spec_.checksum ? kGreChecksum : 0) | (spec_.has_key ? kGreKey : 0));
    store_be16(at, flags);
    store_be16(at + 2, kTransparentEthernet);  // of layer 3: set by push()
    at += sizeof(GreHeader);
    if (spec_.checksum) at += 4;
    if (spec_.has_key) {
      id_at_ = static_cast<uint8_t>(at - bytes_.data());
      at += 4;
    }
  }
  size_ = static_cast<uint8_t>(at - bytes_.data());
  plain_ = spec_.kind == TunnelKind::vxlan && !spec_.ipv6 && spec_.dont_fragment &&
           !spec_.checksum && !spec_.inherit_tos && !spec_.inherit_ttl;
  if (plain_) {
    ip_sum_ = fold(sum_of({bytes_.data() + kEthernet, sizeof(Ipv4Header)}));
  }
}

uint16_t TunnelHeader::ipv4_checksum(const uint8_t* ip) const {
  return checksum({ip, sizeof(Ipv4Header)});
}

void TunnelHeader::inherit(uint8_t* ip, const uint8_t* inner, const ParsedPacket& parsed) const {
  const bool four = parsed.has(kIpv4);
  if (!four && !parsed.has(kIpv6)) return;
  const uint8_t* l3 = inner + parsed.l3;
  const uint8_t tos =
      four ? l3[offsetof(Ipv4Header, tos)] : static_cast<uint8_t>(load_be16(l3) >> 4);
  const uint8_t ttl = four ? l3[offsetof(Ipv4Header, ttl)] : l3[offsetof(Ipv6Header, hop_limit)];
  const uint8_t out =
      spec_.inherit_tos ? tos : static_cast<uint8_t>((spec_.tos & ~kEcn) | (tos & kEcn));
  if (spec_.ipv6) {
    store_be32(ip, 6u << 28 | uint32_t{out} << 20);
    if (spec_.inherit_ttl) ip[offsetof(Ipv6Header, hop_limit)] = ttl;
  } else {
    ip[offsetof(Ipv4Header, tos)] = out;
    if (spec_.inherit_ttl) ip[offsetof(Ipv4Header, ttl)] = ttl;
  }
}

void TunnelHeader::add_checksum(rte_mbuf* packet, uint8_t* frame) const {
  const uint32_t length = packet->pkt_len - l4_;
  Sum sum = 0;
  if (spec_.kind == TunnelKind::gre) {
    if (!sum_packet(packet, l4_, length, sum)) return;
    store_raw16(frame + l4_ + sizeof(GreHeader), static_cast<uint16_t>(~fold(sum)));
    return;
  }
  sum = pseudo(frame + kEthernet, spec_.ipv6, length);
  if (!sum_packet(packet, l4_, length, sum)) return;
  store_raw16(frame + l4_ + offsetof(UdpHeader, checksum),
              udp_nonzero(static_cast<uint16_t>(~fold(sum))));
}

TunnelResult TunnelHeader::push_any(rte_mbuf* packet, const ParsedPacket& parsed, uint64_t id,
                                    uint32_t entropy, uint32_t max_frame) const noexcept {
  const auto* inner = rte_pktmbuf_mtod(packet, const uint8_t*);
  uint32_t carried = packet->pkt_len;
  uint16_t strip = 0;
  if (spec_.layer3) {
    if (!parsed.has(kIpv4 | kIpv6)) return TunnelResult::not_ip;
    const size_t length = ip_length(inner + parsed.l3, parsed);
    if (length > packet->pkt_len - parsed.l3) return TunnelResult::malformed;
    carried = static_cast<uint32_t>(length);
    strip = parsed.l3;
    // Padding is cut off the last segment, and there is no more of it than a short frame needs.
    if (packet->pkt_len - strip - carried > rte_pktmbuf_lastseg(packet)->data_len) {
      return TunnelResult::malformed;
    }
  }
  const uint32_t total = size_ + carried;
  if (total > max_frame || total - kEthernet > UINT16_MAX) return TunnelResult::too_long;
  if (rte_pktmbuf_headroom(packet) + strip < size_) [[unlikely]] {
    if (!make_headroom(packet, static_cast<uint16_t>(size_ - strip))) {
      return TunnelResult::no_headroom;
    }
    inner = rte_pktmbuf_mtod(packet, const uint8_t*);
  }
  // The inner header is read before anything moves.
  const bool inherits = spec_.inherit_tos || spec_.inherit_ttl;
  std::array<uint8_t, sizeof(Ipv6Header)> inherited;
  if (inherits) [[unlikely]] {
    std::memcpy(inherited.data(), bytes_.data() + kEthernet, inherited.size());
    inherit(inherited.data(), inner, parsed);
  }
  uint16_t gre_type = 0;
  if (spec_.layer3) {
    gre_type = parsed.has(kIpv4) ? kTypeIpv4 : kTypeIpv6;
    rte_pktmbuf_adj(packet, strip);
    if (packet->pkt_len > carried) {
      rte_pktmbuf_trim(packet, static_cast<uint16_t>(packet->pkt_len - carried));
    }
  }
  auto* frame = reinterpret_cast<uint8_t*>(rte_pktmbuf_prepend(packet, size_));
  copy_header(frame, bytes_.data(), size_);
  uint8_t* ip = frame + kEthernet;
  if (inherits) [[unlikely]] {
    std::memcpy(ip, inherited.data(), spec_.ipv6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header));
  }
  const auto ip_size = static_cast<uint16_t>(total - kEthernet);
  const auto l4_size = static_cast<uint16_t>(total - l4_);
  if (spec_.ipv6) {
    store_be16(ip + offsetof(Ipv6Header, payload_length), l4_size);
  } else {
    store_be16(ip + offsetof(Ipv4Header, total_length), ip_size);
    if (!spec_.dont_fragment) store_be16(ip + offsetof(Ipv4Header, id), next_identification());
    store_raw16(ip + offsetof(Ipv4Header, checksum), ipv4_checksum(ip));
  }
  uint8_t* l4 = frame + l4_;
  if (id_at_ != 0) store_be32(frame + id_at_, static_cast<uint32_t>(id << id_shift_));
  if (spec_.kind != TunnelKind::gre) {
    store_be16(l4 + offsetof(UdpHeader, src_port), static_cast<uint16_t>(0xc000 | entropy >> 18));
    store_be16(l4 + offsetof(UdpHeader, length), l4_size);
    if (spec_.kind == TunnelKind::gtpu) {
      store_be16(l4 + sizeof(UdpHeader) + offsetof(GtpuHeader, length),
                 static_cast<uint16_t>(carried));
    }
  } else if (spec_.layer3) {
    store_raw16(l4 + offsetof(GreHeader, protocol), gre_type);
  }
  if (spec_.checksum) [[unlikely]] {
    add_checksum(packet, frame);
  }
  return TunnelResult::done;
}

// --- pop ---------------------------------------------------------------------------------------

namespace {

/// GTP-U from its header on (3GPP TS 29.281, 5.1 and 5.2).
TunnelFound find_gtpu(const uint8_t* frame, size_t at, size_t size) {
  TunnelFound found{.kind = TunnelKind::gtpu};
  found.result = TunnelResult::malformed;
  if (at + sizeof(GtpuHeader) > size) return found;
  const uint8_t flags = frame[at];
  if ((flags & kGtpuVersionAndType) != kGtpuFlags) return found;
  if (frame[at + 1] != kGtpuMessageGpdu) {
    found.result = TunnelResult::message;
    return found;
  }
  found.id = load_be32(frame + at + offsetof(GtpuHeader, teid));
  size_t next = at + sizeof(GtpuHeader);
  if ((flags & (kGtpuExtension | kGtpuSequence | kGtpuNPdu)) != 0) {
    if (next + sizeof(GtpuOptional) > size) return found;
    next += sizeof(GtpuOptional);
    uint8_t extension = (flags & kGtpuExtension) != 0 ? frame[next - 1] : 0;
    while (extension != 0) {
      const size_t octets = next < size ? size_t{frame[next]} * 4 : 0;
      if (octets == 0 || next + octets > size) return found;
      next += octets;
      extension = frame[next - 1];
    }
  }
  found.has_key = true;
  found.layer3 = true;
  found.payload = static_cast<uint16_t>(next);
  found.result = TunnelResult::done;
  return found;
}

TunnelFound find_vxlan(const uint8_t* frame, size_t at, size_t size) {
  TunnelFound found{.kind = TunnelKind::vxlan};
  found.result = TunnelResult::malformed;
  if (at + sizeof(VxlanHeader) > size) return found;
  if ((load_be32(frame + at) & kVxlanVniPresent) == 0) return found;
  found.has_key = true;
  found.id = load_be32(frame + at + offsetof(VxlanHeader, vni)) >> 8;
  found.payload = static_cast<uint16_t>(at + sizeof(VxlanHeader));
  found.result = TunnelResult::done;
  return found;
}

TunnelFound find_gre(const rte_mbuf* packet, const uint8_t* frame, size_t at, size_t size,
                     size_t end) {
  TunnelFound found{.kind = TunnelKind::gre};
  found.result = TunnelResult::malformed;
  if (at + sizeof(GreHeader) > size) return found;
  const uint16_t flags = load_be16(frame + at);
  const uint16_t type = load_raw16(frame + at + offsetof(GreHeader, protocol));
  if ((flags & (kGreRouting | kGreVersion)) != 0) return found;
  size_t next = at + sizeof(GreHeader);
  if ((flags & kGreChecksum) != 0) next += 4;
  const size_t key_at = next;
  if ((flags & kGreKey) != 0) next += 4;
  if ((flags & kGreSequence) != 0) next += 4;
  if (next > size) return found;
  if ((flags & kGreChecksum) != 0 && !offload_left(packet)) {
    Sum sum = 0;
    if (end < at ||
        !sum_packet(packet, static_cast<uint32_t>(at), static_cast<uint32_t>(end - at), sum)) {
      return found;
    }
    if (static_cast<uint16_t>(~fold(sum)) != 0) {
      found.result = TunnelResult::checksum;
      return found;
    }
  }
  if ((flags & kGreKey) != 0) {
    found.has_key = true;
    found.id = load_be32(frame + key_at);
  }
  found.layer3 = type == kTypeIpv4 || type == kTypeIpv6;
  if (!found.layer3 && type != swap16(kTransparentEthernet)) return found;
  found.payload = static_cast<uint16_t>(next);
  found.result = TunnelResult::done;
  return found;
}

}  // namespace

TunnelFound find_tunnel(const rte_mbuf* packet, const ParsedPacket& parsed, TunnelKind kind,
                        uint16_t dst_port) noexcept {
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  const size_t size = packet->data_len;
  TunnelFound found{.kind = kind};
  const bool four = parsed.has(kIpv4);
  if (!four && !parsed.has(kIpv6)) return found;
  const bool udp = kind != TunnelKind::gre;
  if (parsed.ip_proto != (udp ? kProtoUdp : kProtoGre)) return found;
  if (parsed.has(kFragment)) {
    found.result = TunnelResult::fragment;
    return found;
  }
  const uint8_t* ip = frame + parsed.l3;
  const size_t end = parsed.l3 + ip_length(ip, parsed);
  found.result = TunnelResult::malformed;
  if (end > packet->pkt_len) return found;
  size_t l4 = parsed.l4;
  if (!udp) {
    if (four) {
      l4 = parsed.l3 + (ip[0] & 0xfu) * 4u;
    } else {
      if (ip[offsetof(Ipv6Header, next_header)] != kProtoGre) return found;
      l4 = parsed.l3 + sizeof(Ipv6Header);
    }
  }
  if (l4 == 0) return found;
  if (udp && dst_port != 0 && load_be16(frame + l4 + offsetof(UdpHeader, dst_port)) != dst_port) {
    found.result = TunnelResult::absent;
    return found;
  }
  if (four && !ipv4_checksum_holds(ip)) {
    found.result = TunnelResult::checksum;
    return found;
  }
  // One that is left to whoever sends the packet is not there yet, and none got lost on a wire.
  if (udp && !offload_left(packet) && load_raw16(frame + l4 + offsetof(UdpHeader, checksum)) != 0) {
    const auto length = static_cast<uint32_t>(end - l4);
    Sum sum = pseudo(ip, !four, length);
    if (!sum_packet(packet, static_cast<uint32_t>(l4), length, sum)) return found;
    if (static_cast<uint16_t>(~fold(sum)) != 0) {
      found.result = TunnelResult::checksum;
      return found;
    }
  }
  switch (kind) {
    case TunnelKind::vxlan:
      found = find_vxlan(frame, l4 + sizeof(UdpHeader), size);
      break;
    case TunnelKind::gtpu:
      found = find_gtpu(frame, l4 + sizeof(UdpHeader), size);
      break;
    case TunnelKind::gre:
      found = find_gre(packet, frame, l4, size, end);
      break;
  }
  if (found.result != TunnelResult::done) return found;
  found.ttl = four ? ip[offsetof(Ipv4Header, ttl)] : ip[offsetof(Ipv6Header, hop_limit)];
  // What is carried must begin with a whole Ethernet or IP header.
  const size_t least = found.layer3 ? sizeof(Ipv4Header) : kEthernet;
  if (found.payload + least > size || found.payload > end) found.result = TunnelResult::malformed;
  return found;
}

bool pop_tunnel(rte_mbuf* packet, const TunnelFound& found) noexcept {
  auto* frame = rte_pktmbuf_mtod(packet, uint8_t*);
  if (!found.layer3) {
    tunnel_taken_off(packet, found.payload);
    rte_pktmbuf_adj(packet, found.payload);
    return true;
  }
  const uint8_t version = frame[found.payload] >> 4;
  if (version != 4 && version != 6) return false;
  tunnel_taken_off(packet, static_cast<uint16_t>(found.payload - kEthernet));
  // The outer header was longer than an Ethernet header: there is room in what it leaves.
  frame = reinterpret_cast<uint8_t*>(
      rte_pktmbuf_adj(packet, static_cast<uint16_t>(found.payload - kEthernet)));
  std::memset(frame, 0, 12);
  store_raw16(frame + 12, version == 4 ? kTypeIpv4 : kTypeIpv6);
  return true;
}

}  // namespace headrace::packet
