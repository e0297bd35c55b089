// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/basestation.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "vnf/functions/admission.h"
#include "vnf/functions/basestation_config.h"
#include "vnf/net/arp.h"
#include "vnf/net/gtpu.h"
#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

constexpr size_t kEthernet = sizeof(packet::EthernetHeader);
constexpr size_t kMinEsp = 8;  ///< SPI and sequence

class Basestation final : public Function {
 public:
  Basestation(BasestationConfig config, std::unique_ptr<EspSa> uplink,
              std::unique_ptr<EspSa> downlink, const FunctionContext& context)
      : config_(std::move(config)),
        uplink_(std::move(uplink)),
        downlink_(std::move(downlink)),
        radio_mac_(context.ports[config_.radio].mac),
        core_mac_(context.ports[config_.core].mac),
        tunnel_(make_gtpu_header(config_.gtpu_address, config_.serving_gateway)) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t /*now*/,
               Output& output) noexcept override {
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (size_t start = 0; start < packets.size(); start += kChunk) {
      const auto chunk = packets.subspan(start, std::min(kChunk, packets.size() - start));
      if (port == config_.radio) {
        process_uplink(chunk, output);
      } else if (port == config_.core) {
        process_downlink(chunk, output);
      } else {
        output.drop(chunk, DropReason::no_route);
      }
    }
  }

  /// Keeps the sequence numbers and replay windows of unchanged tunnels, and the users' MAC
  /// addresses.
  void migrate_state(Function& previous) noexcept override {
    auto& old = static_cast<Basestation&>(previous);
    if (old.uplink_->parameters() == uplink_->parameters()) std::swap(uplink_, old.uplink_);
    if (old.downlink_->parameters() == downlink_->parameters()) std::swap(downlink_, old.downlink_);
    for (const Bearer& known : old.config_.bearers.all()) {
      Bearer* entry = known.has_mac ? config_.bearers.by_address(known.address) : nullptr;
      if (entry != nullptr && !entry->has_mac) learn(*entry, known.mac.data());
    }
  }

  [[nodiscard]] nlohmann::json counters() const override {
    return {{"uplink", up_.read()}, {"downlink", down_.read()}, {"users_seen", seen_.read()}};
  }

 private:
  static constexpr size_t kChunk = EspSa::kMaxBurst;

  void process_uplink(std::span<rte_mbuf*> packets, Output& output) noexcept;
  void process_downlink(std::span<rte_mbuf*> packets, Output& output) noexcept;
  /// Adds the user's GTP-U tunnel headers. False if the packet was dropped.
  bool encapsulate(rte_mbuf* packet, Output& output) noexcept;
  /// Removes everything in front of the IPv4 header before ESP. False if the packet was dropped.
  bool accept_from_core(rte_mbuf* packet, Output& output) noexcept;
  void decapsulate(rte_mbuf* packet, Output& output) noexcept;
  void answer_user(rte_mbuf* packet, Output& output) noexcept;
  void answer_core(rte_mbuf* packet, Output& output) noexcept;
  static void drop_failed(std::span<rte_mbuf*> packets, const EspSa::Outcome& outcome,
                          DropReason refused, Output& output) noexcept;
  void learn(Bearer& bearer, const uint8_t* mac) noexcept {
    if (!bearer.has_mac) seen_.add(1);
    bearer.has_mac = true;
    std::memcpy(bearer.mac.data(), mac, bearer.mac.size());
  }

  BasestationConfig config_;
  std::unique_ptr<EspSa> uplink_;
  std::unique_ptr<EspSa> downlink_;
  MacAddress radio_mac_;
  MacAddress core_mac_;
  GtpuTunnelHeader tunnel_;
  Counter up_;
  Counter down_;
  Counter seen_;
};

/// Prepends an Ethernet header; null without headroom, which every buffer of our pool has.
packet::EthernetHeader* prepend_ethernet(rte_mbuf* packet, const MacAddress& dst,
                                         const MacAddress& src) {
  auto* header = reinterpret_cast<packet::EthernetHeader*>(rte_pktmbuf_prepend(packet, kEthernet));
  if (header == nullptr) return nullptr;
  std::memcpy(header->dst, dst.data(), sizeof header->dst);
  std::memcpy(header->src, src.data(), sizeof header->src);
  header->type = packet::kTypeIpv4;
  return header;
}

void Basestation::process_uplink(std::span<rte_mbuf*> packets, Output& output) noexcept {
  std::array<rte_mbuf*, kChunk> tunnelled;
  size_t count = 0;
  for (rte_mbuf* packet : packets) {
    if (encapsulate(packet, output)) tunnelled[count++] = packet;
  }
  if (count == 0) return;
  const auto outcome = uplink_->process({tunnelled.data(), count});
  for (size_t i = 0; i < outcome.done; ++i) {
    if (prepend_ethernet(tunnelled[i], config_.core_next_hop, core_mac_) == nullptr) {
      output.drop(tunnelled[i], DropReason::no_buffer);
      continue;
    }
    up_.add(1);
    output.send(config_.core, tunnelled[i]);
  }
  drop_failed({tunnelled.data(), count}, outcome, DropReason::no_buffer, output);
}

bool Basestation::encapsulate(rte_mbuf* packet, Output& output) noexcept {
  if (!admit_ipv4(packet, radio_mac_, output, [&] { answer_user(packet, output); })) return false;
  const auto& ethernet = ethernet_of(packet);
  const auto& ip = ipv4_of(packet);
  Bearer* bearer = config_.bearers.by_address(packet::swap32(ip.src));
  if (bearer == nullptr || (ethernet.src[0] & 1) != 0) {
    output.drop(packet, DropReason::denied);
    return false;
  }
  learn(*bearer, ethernet.src);
  // Ethernet's padding of a short packet must not enter the tunnel.
  const uint16_t inner = packet::swap16(ip.total_length);
  const uint8_t tos = ip.tos;
  rte_pktmbuf_adj(packet, kEthernet);
  rte_pktmbuf_trim(packet, static_cast<uint16_t>(rte_pktmbuf_pkt_len(packet) - inner));
  auto* header =
      reinterpret_cast<GtpuTunnelHeader*>(rte_pktmbuf_prepend(packet, sizeof(GtpuTunnelHeader)));
  if (header == nullptr) {
    output.drop(packet, DropReason::no_buffer);
    return false;
  }
  *header = tunnel_;
  set_gtpu_payload(*header, bearer->uplink_teid, inner, tos);
  return true;
}

void Basestation::process_downlink(std::span<rte_mbuf*> packets, Output& output) noexcept {
  std::array<rte_mbuf*, kChunk> sealed;
  size_t count = 0;
  for (rte_mbuf* packet : packets) {
    if (accept_from_core(packet, output)) sealed[count++] = packet;
  }
  if (count == 0) return;
  const auto outcome = downlink_->process({sealed.data(), count});
  for (size_t i = 0; i < outcome.done; ++i) decapsulate(sealed[i], output);
  drop_failed({sealed.data(), count}, outcome, DropReason::replayed, output);
}

bool Basestation::accept_from_core(rte_mbuf* packet, Output& output) noexcept {
  if (!admit_ipv4(packet, core_mac_, output, [&] { answer_core(packet, output); })) return false;
  const auto& ip = ipv4_of(packet);
  if (packet::swap32(ip.dst) != config_.core_address || ip.proto != packet::kProtoEsp) {
    output.drop(packet, DropReason::not_for_us);
    return false;
  }
  const auto esp = l4_of(packet);
  if (is_fragment(ip) || rte_pktmbuf_pkt_len(packet) != rte_pktmbuf_data_len(packet)) {
    output.drop(packet, DropReason::unsupported);
    return false;
  }
  if (esp.size() < kMinEsp || packet::load_be32(esp.data()) != config_.downlink.spi) {
    output.drop(packet, DropReason::denied);
    return false;
  }
  // ESP ends where the IPv4 packet ends; Ethernet's padding follows it.
  const auto size = static_cast<uint16_t>(kEthernet + packet::swap16(ip.total_length));
  rte_pktmbuf_trim(packet, static_cast<uint16_t>(rte_pktmbuf_pkt_len(packet) - size));
  rte_pktmbuf_adj(packet, kEthernet);
  return true;
}

/// `packet` begins with the outer IPv4 header of its GTP-U tunnel. The header checks expect space
/// for an Ethernet header in front; the removed ESP headers have left it.
void Basestation::decapsulate(rte_mbuf* packet, Output& output) noexcept {
  if (rte_pktmbuf_prepend(packet, kEthernet) == nullptr || !is_ipv4_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const auto& ip = ipv4_of(packet);
  const auto l4 = l4_of(packet);
  if (packet::swap32(ip.dst) != config_.gtpu_address || ip.proto != packet::kProtoUdp ||
      is_fragment(ip) || l4.size() < sizeof(packet::UdpHeader) ||
      packet::load_be16(&l4[2]) != packet::kPortGtpu) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  const auto payload = gtpu_payload(l4.subspan(sizeof(packet::UdpHeader)));
  if (!payload) {
    output.drop(packet, DropReason::unsupported);
    return;
  }
  const Bearer* bearer = config_.bearers.by_downlink_teid(payload->teid);
  // Once the tunnel headers are removed, the inner packet is where an Ethernet frame has it.
  rte_pktmbuf_adj(packet, static_cast<uint16_t>(ipv4_header_size(ip) + sizeof(packet::UdpHeader) +
                                                payload->offset));
  if (bearer == nullptr) {
    output.drop(packet, DropReason::denied);
    return;
  }
  if (!is_ipv4_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  if (packet::swap32(ipv4_of(packet).dst) != bearer->address) {
    output.drop(packet, DropReason::denied);
    return;
  }
  if (!bearer->has_mac) {
    output.drop(packet, DropReason::no_neighbor);
    return;
  }
  auto& ethernet = ethernet_of(packet);
  std::memcpy(ethernet.dst, bearer->mac.data(), sizeof ethernet.dst);
  std::memcpy(ethernet.src, radio_mac_.data(), sizeof ethernet.src);
  ethernet.type = packet::kTypeIpv4;
  down_.add(1);
  output.send(config_.radio, packet);
}

void Basestation::drop_failed(std::span<rte_mbuf*> packets, const EspSa::Outcome& outcome,
                              DropReason refused, Output& output) noexcept {
  const auto behind = packets.subspan(outcome.done);
  if (outcome.refused > 0) output.drop(behind.first(outcome.refused), refused);
  if (outcome.failed > 0) output.drop(behind.last(outcome.failed), DropReason::crypto_failed);
}

/// Answers a user's request for any address but the user's own; that one is duplicate address
/// detection (RFC 5227).
void Basestation::answer_user(rte_mbuf* packet, Output& output) noexcept {
  const auto* arp = arp_of(packet);
  if (arp == nullptr) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const Ipv4Address target = packet::swap32(arp->target_ip);
  const Ipv4Address sender = packet::swap32(arp->sender_ip);
  Bearer* bearer = config_.bearers.by_address(sender);
  if (arp->operation != kArpRequest || bearer == nullptr || target == sender ||
      (arp->sender_mac[0] & 1) != 0) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  learn(*bearer, arp->sender_mac);
  answer_arp(packet, {.mac = radio_mac_, .address = target});
  output.send(config_.radio, packet);
}

void Basestation::answer_core(rte_mbuf* packet, Output& output) noexcept {
  const auto* arp = arp_of(packet);
  if (arp == nullptr || arp->operation != kArpRequest ||
      packet::swap32(arp->target_ip) != config_.core_address) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  answer_arp(packet, {.mac = core_mac_, .address = config_.core_address});
  output.send(config_.core, packet);
}

}  // namespace

std::unique_ptr<Function> make_basestation(ConfigReader& config, const FunctionContext& context) {
  BasestationConfig station = read_basestation(config, context);
  if (context.pool == nullptr || config.failed()) return nullptr;
  auto uplink = EspSa::make(station.uplink);
  if (!uplink) config.add_error("uplink", uplink.error().message);
  auto downlink = EspSa::make(station.downlink);
  if (!downlink) config.add_error("downlink", downlink.error().message);
  if (config.failed()) return nullptr;
  return std::make_unique<Basestation>(std::move(station), *std::move(uplink), *std::move(downlink),
                                       context);
}

}  // namespace headrace::vnf
