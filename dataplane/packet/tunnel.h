// SPDX-License-Identifier: Apache-2.0
// Tunnels: outer headers put in front of a packet, and taken off again.
//
// Three kinds: VXLAN (RFC 7348) and GRE (RFC 2784, key: RFC 2890) carry Ethernet frames; GTP-U
// (3GPP TS 29.281) carries IP packets, and GRE can, too (`layer3`). A push into a layer 3 tunnel
// takes the Ethernet header and its tags off first; a pop puts an Ethernet header with zero
// addresses in front, as Open vSwitch does, so that what follows in the pipeline is always a frame.
//
// A push is a copy of prepared bytes, in which only lengths, the tunnel id, the UDP source port and
// the checksums that cover them are still to be filled in. The UDP source port carries the entropy
// of the inner flow (RFC 7348, 5; RFC 6335's dynamic range), so that the network spreads flows.
//
// Checksums: outer UDP checksums are 0 unless asked for, over IPv4 (RFC 7348, 4.1) and over IPv6
// (RFC 6935, 5). On the way in, IPv4's header checksum is checked, and those of UDP and GRE where
// present.
//
// Thread safety: a TunnelHeader is immutable; functions share nothing.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "packet/checksum.h"
#include "packet/headers.h"
#include "packet/headroom.h"
#include "packet/offload.h"
#include "packet/parse.h"

namespace headrace::packet {

/// The values are those of the experimenter actions on the wire.
enum class TunnelKind : uint8_t { vxlan = 1, gre = 2, gtpu = 3 };

/// What became of a push or pop; anything but `done` leaves the packet as it was.
enum class TunnelResult : uint8_t {
  done,
  absent,       ///< pop: no tunnel of this kind
  malformed,    ///< cut off, or flags that the protocol forbids
  fragment,     ///< a fragment of the outer packet: reassemble first
  checksum,     ///< a wrong checksum of an outer header
  message,      ///< GTP-U: not a G-PDU but signalling
  not_ip,       ///< push into a layer 3 tunnel: the frame carries no IP
  no_headroom,  ///< push: no room in the buffer
  too_long,     ///< push: longer than `max_frame`, or than IP can say
};

/// Addresses of either IP version; IPv4 in the first four octets, the rest 0.
using TunnelAddress = std::array<uint8_t, 16>;

/// What a push writes.
struct TunnelSpec {
  TunnelKind kind{TunnelKind::vxlan};
  bool ipv6{false};          ///< the outer header
  bool has_key{true};        ///< GRE: with the key field
  bool checksum{false};      ///< of outer UDP, or of GRE
  bool dont_fragment{true};  ///< IPv4's DF
  bool layer3{false};        ///< GRE: carry IP without Ethernet; GTP-U always does
  bool inherit_tos{false};   ///< DSCP from the inner IP header, if there is one
  bool inherit_ttl{false};   ///< TTL likewise
  uint8_t tos{0};            ///< DSCP and ECN of the outer header; ECN is copied if inherited
  uint8_t ttl{64};
  uint16_t dst_port{0};  ///< UDP, host order; 0: the protocol's own
  uint64_t id{0};        ///< VNI, GRE key or TEID
  std::array<uint8_t, 6> src_mac{};
  std::array<uint8_t, 6> dst_mac{};
  TunnelAddress local{};
  TunnelAddress remote{};
  bool operator==(const TunnelSpec&) const = default;
};

/// The UDP destination port of a kind, host order; 0 for GRE, which has none.
[[nodiscard]] uint16_t default_port(TunnelKind kind);
/// The largest id that a kind can carry: 24 or 32 bits.
[[nodiscard]] uint64_t largest_id(TunnelKind kind);

/// An outer header, prepared.
class TunnelHeader {
 public:
  static constexpr size_t kMaxSize = 80;  ///< Ethernet, IPv6, GRE with checksum and key

  TunnelHeader() = default;
  explicit TunnelHeader(const TunnelSpec& spec);

  /// Puts the header before the packet. `parsed` is that of the inner packet, deep enough for its
  /// IP header if the tunnel is of layer 3 or inherits; it is not brought up to date. `id`: the
  /// tunnel id, host order. `entropy`: any number that is the same for all packets of a flow.
  /// `max_frame`: octets of the result allowed, without FCS.
  [[nodiscard]] TunnelResult push(rte_mbuf* packet, const ParsedPacket& parsed, uint64_t id,
                                  uint32_t entropy,
                                  uint32_t max_frame = UINT32_MAX) const noexcept {
    if (offload_left(packet)) [[unlikely]] {
      return push_unfinished(packet, parsed, id, entropy, max_frame);
    }
    return push_finished(packet, parsed, id, entropy, max_frame);
  }

  [[nodiscard]] const TunnelSpec& spec() const { return spec_; }
  /// Octets, Ethernet header included.
  [[nodiscard]] size_t size() const { return size_; }

 private:
  /// Ethernet, IPv4, UDP, VXLAN.
  static constexpr size_t kPlainSize =
      sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader) + sizeof(VxlanHeader);

  [[nodiscard]] TunnelResult push_finished(rte_mbuf* packet, const ParsedPacket& parsed,
                                           uint64_t id, uint32_t entropy,
                                           uint32_t max_frame) const noexcept {
    if (plain_) return push_plain(packet, id, entropy, max_frame);
    return push_any(packet, parsed, id, entropy, max_frame);
  }
  /// tunnel_offload.cc: of a packet whose checksum or segmentation is left to its sender.
  [[nodiscard]] TunnelResult push_unfinished(rte_mbuf* packet, const ParsedPacket& parsed,
                                             uint64_t id, uint32_t entropy,
                                             uint32_t max_frame) const noexcept;
  [[nodiscard]] TunnelResult push_plain(rte_mbuf* packet, uint64_t id, uint32_t entropy,
                                        uint32_t max_frame) const noexcept;
  [[nodiscard]] TunnelResult push_any(rte_mbuf* packet, const ParsedPacket& parsed, uint64_t id,
                                      uint32_t entropy, uint32_t max_frame) const noexcept;
  [[nodiscard]] uint16_t ipv4_checksum(const uint8_t* ip) const;
  void inherit(uint8_t* ip, const uint8_t* inner, const ParsedPacket& parsed) const;
  void add_checksum(rte_mbuf* packet, uint8_t* frame) const;

  // First all that a plain push needs, in one cache line.
  alignas(64) uint32_t ip_sum_{0};  ///< of the IPv4 header without length and checksum
  bool plain_{false};  ///< VXLAN over IPv4, not to be fragmented, the same for all packets
  uint8_t size_{0};
  uint8_t l4_{0};        ///< offset of UDP or GRE
  uint8_t id_at_{0};     ///< offset of the 32-bit word that holds the id; 0: none
  uint8_t id_shift_{0};  ///< of the id in that word
  std::array<uint8_t, kMaxSize> bytes_{};
  static_assert(sizeof(ip_sum_) + 5 + kPlainSize <= 64);
  TunnelSpec spec_;
};

/// The straight way: one copy of prepared bytes, then lengths, checksum, source port and id.
inline TunnelResult TunnelHeader::push_plain(rte_mbuf* packet, uint64_t id, uint32_t entropy,
                                             uint32_t max_frame) const noexcept {
  constexpr size_t kIp = sizeof(EthernetHeader);
  constexpr size_t kUdp = kIp + sizeof(Ipv4Header);
  constexpr size_t kVni = kUdp + sizeof(UdpHeader) + offsetof(VxlanHeader, vni);
  const uint32_t total = kPlainSize + packet->pkt_len;
  if (total > max_frame || total - kIp > UINT16_MAX) return TunnelResult::too_long;
  uint8_t* frame = prepend(packet, kPlainSize);
  if (frame == nullptr) return TunnelResult::no_headroom;
  std::memcpy(frame, bytes_.data(), kPlainSize);
  const uint16_t ip_size = swap16(static_cast<uint16_t>(total - kIp));
  store_raw16(frame + kIp + offsetof(Ipv4Header, total_length), ip_size);
  store_raw16(frame + kIp + offsetof(Ipv4Header, checksum),
              static_cast<uint16_t>(~fold(Sum{ip_sum_} + ip_size)));
  store_be16(frame + kUdp + offsetof(UdpHeader, src_port),
             static_cast<uint16_t>(0xc000 | entropy >> 18));
  store_be16(frame + kUdp + offsetof(UdpHeader, length), static_cast<uint16_t>(total - kUdp));
  store_be32(frame + kVni, static_cast<uint32_t>(id << 8));
  return TunnelResult::done;
}

/// A tunnel header that was found, or why there is none.
struct TunnelFound {
  TunnelResult result{TunnelResult::absent};
  TunnelKind kind{};
  bool has_key{false};  ///< GRE without a key has none
  bool layer3{false};   ///< IP follows, not Ethernet
  uint16_t payload{0};  ///< offset of what is carried
  uint32_t id{0};       ///< host order
  uint8_t ttl{0};       ///< of the outer header
};

/// Looks for a tunnel header of `kind` in a packet that was parsed at least to depth l4.
/// `dst_port`: UDP's, host order; 0: any port, the action has been told what it is.
[[nodiscard]] TunnelFound find_tunnel(const rte_mbuf* packet, const ParsedPacket& parsed,
                                      TunnelKind kind, uint16_t dst_port = 0) noexcept;

/// Takes off what find_tunnel() found (result done); `parsed` is not brought up to date. False:
/// what a layer 3 tunnel carried is no IP.
[[nodiscard]] bool pop_tunnel(rte_mbuf* packet, const TunnelFound& found) noexcept;

}  // namespace headrace::packet
