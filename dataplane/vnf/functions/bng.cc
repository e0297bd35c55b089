// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/bng.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "vnf/functions/admission.h"
#include "vnf/net/arp.h"
#include "vnf/net/ipv4_frame.h"
#include "vnf/state/subscribers.h"

namespace headrace::vnf {
namespace {

/// An Ethernet header with two tags: IEEE 802.1ad.
struct __attribute__((packed)) QinQHeader {
  uint8_t dst[6];
  uint8_t src[6];
  packet::VlanTag s_tag;
  packet::VlanTag c_tag;
  uint16_t type;
};
static_assert(sizeof(QinQHeader) == 22);

/// The headers in front of a tunnelled packet.
struct __attribute__((packed)) TunnelHeader {
  packet::EthernetHeader ethernet;
  packet::Ipv4Header ip;
  packet::GreHeader gre;
  uint32_t key;
};
static_assert(sizeof(TunnelHeader) == 42);

constexpr size_t kTags = sizeof(QinQHeader) - sizeof(packet::EthernetHeader);
constexpr size_t kGreWithKey = sizeof(packet::GreHeader) + sizeof(uint32_t);
constexpr uint16_t kDontFragment = packet::swap16(0x4000);

struct BngConfig {
  uint16_t access{0};
  uint16_t core{1};
  Ipv4Address core_address{0};
  Ipv4Address tunnel_remote{0};
  MacAddress core_next_hop{};
};

/// The headers for an empty payload; length and checksum are updated for each packet.
TunnelHeader make_tunnel(const BngConfig& config, const MacAddress& core_mac) {
  TunnelHeader header{};
  std::copy(config.core_next_hop.begin(), config.core_next_hop.end(), header.ethernet.dst);
  std::copy(core_mac.begin(), core_mac.end(), header.ethernet.src);
  header.ethernet.type = packet::kTypeIpv4;
  header.ip.version_ihl = 0x45;
  header.ip.fragment = kDontFragment;
  header.ip.ttl = 64;
  header.ip.proto = packet::kProtoGre;
  header.ip.src = packet::swap32(config.core_address);
  header.ip.dst = packet::swap32(config.tunnel_remote);
  header.ip.checksum =
      packet::checksum({reinterpret_cast<const uint8_t*>(&header.ip), sizeof header.ip});
  header.gre.flags_version = packet::swap16(packet::kGreKey);
  header.gre.protocol = packet::kTypeIpv4;
  return header;
}

class Bng final : public Function {
 public:
  Bng(const BngConfig& config, SubscriberTable subscribers, const FunctionContext& context)
      : config_(config),
        subscribers_(std::move(subscribers)),
        access_mac_(context.ports[config.access].mac),
        core_mac_(context.ports[config.core].mac),
        tunnel_(make_tunnel(config, core_mac_)) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t /*now*/,
               Output& output) noexcept override {
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (rte_mbuf* packet : packets) {
      if (port == config_.access) {
        process_upstream(packet, output);
      } else if (port == config_.core) {
        process_downstream(packet, output);
      } else {
        output.drop(packet, DropReason::no_route);
      }
    }
  }

  void migrate_state(Function& previous) noexcept override {
    for (const Subscriber& old : static_cast<Bng&>(previous).subscribers_.all()) {
      Subscriber* entry = subscribers_.find(old.s_vid, old.c_vid);
      if (entry == nullptr || !old.has_mac || entry->has_mac) continue;
      entry->mac = old.mac;
      entry->has_mac = true;
      seen_.add(1);
    }
  }

  [[nodiscard]] nlohmann::json counters() const override {
    return {
        {"upstream", up_.read()}, {"downstream", down_.read()}, {"subscribers_seen", seen_.read()}};
  }

 private:
  void process_upstream(rte_mbuf* packet, Output& output) noexcept;
  void process_downstream(rte_mbuf* packet, Output& output) noexcept;
  void answer_subscriber(rte_mbuf* packet, const Subscriber& subscriber, Output& output) noexcept;
  void answer_core(rte_mbuf* packet, Output& output) noexcept;
  void learn(Subscriber& subscriber, const uint8_t* mac) noexcept;
  /// Decrements the TTL. False if it expired, and the packet was dropped.
  static bool check_and_decrement_ttl(rte_mbuf* packet, Output& output) noexcept;

  BngConfig config_;
  SubscriberTable subscribers_;
  MacAddress access_mac_;
  MacAddress core_mac_;
  TunnelHeader tunnel_;
  Counter up_;
  Counter down_;
  Counter seen_;
};

bool Bng::check_and_decrement_ttl(rte_mbuf* packet, Output& output) noexcept {
  auto& ip = ipv4_of(packet);
  if (ip.ttl <= 1) {
    output.drop(packet, DropReason::ttl_expired);
    return false;
  }
  decrement_ttl(ip);
  return true;
}

void Bng::learn(Subscriber& subscriber, const uint8_t* mac) noexcept {
  if (!subscriber.has_mac) seen_.add(1);
  subscriber.has_mac = true;
  std::memcpy(subscriber.mac.data(), mac, subscriber.mac.size());
}

void Bng::process_upstream(rte_mbuf* packet, Output& output) noexcept {
  if (rte_pktmbuf_data_len(packet) < sizeof(QinQHeader)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const auto header = *rte_pktmbuf_mtod(packet, const QinQHeader*);
  const bool tagged =
      (header.s_tag.tpid == packet::kTypeQinQ || header.s_tag.tpid == packet::kTypeVlan) &&
      header.c_tag.tpid == packet::kTypeVlan;
  if (!tagged) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  Subscriber* subscriber =
      subscribers_.find(packet::swap16(header.s_tag.tci), packet::swap16(header.c_tag.tci));
  if (subscriber == nullptr || (header.src[0] & 1) != 0) {
    output.drop(packet, DropReason::denied);
    return;
  }
  if (header.type == packet::kTypeArp) {
    learn(*subscriber, header.src);
    answer_subscriber(packet, *subscriber, output);
    return;
  }
  if (header.type != packet::kTypeIpv4 ||
      std::memcmp(header.dst, access_mac_.data(), access_mac_.size()) != 0) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  rte_pktmbuf_adj(packet, kTags);  // the IPv4 header is now at the offset of an untagged frame
  if (!is_ipv4_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  if (packet::swap32(ipv4_of(packet).src) != subscriber->address) {
    output.drop(packet, DropReason::denied);
    return;
  }
  learn(*subscriber, header.src);
  if (!check_and_decrement_ttl(packet, output)) return;
  // Ethernet's padding of a short packet must not enter the tunnel.
  const uint16_t inner = packet::swap16(ipv4_of(packet).total_length);
  rte_pktmbuf_adj(packet, sizeof(packet::EthernetHeader));
  rte_pktmbuf_trim(packet, static_cast<uint16_t>(rte_pktmbuf_pkt_len(packet) - inner));
  auto* tunnel = reinterpret_cast<TunnelHeader*>(rte_pktmbuf_prepend(packet, sizeof(TunnelHeader)));
  if (tunnel == nullptr) {
    output.drop(packet, DropReason::no_buffer);
    return;
  }
  *tunnel = tunnel_;
  tunnel->ip.total_length =
      packet::swap16(static_cast<uint16_t>(inner + sizeof(packet::Ipv4Header) + kGreWithKey));
  tunnel->ip.checksum = packet::update16(tunnel->ip.checksum, 0, tunnel->ip.total_length);
  tunnel->key = packet::swap32(uint32_t{subscriber->s_vid} << 12 | subscriber->c_vid);
  up_.add(1);
  output.send(config_.core, packet);
}

void Bng::process_downstream(rte_mbuf* packet, Output& output) noexcept {
  if (!admit_ipv4(packet, core_mac_, output, [&] { answer_core(packet, output); })) return;
  const auto& ip = ipv4_of(packet);
  if (packet::swap32(ip.dst) != config_.core_address || ip.proto != packet::kProtoGre ||
      packet::swap32(ip.src) != config_.tunnel_remote) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  const auto gre = l4_of(packet);
  if (is_fragment(ip) || gre.size() < kGreWithKey ||
      packet::load_be16(&gre[0]) != packet::kGreKey ||
      packet::load_raw16(&gre[2]) != packet::kTypeIpv4) {
    output.drop(packet, DropReason::unsupported);
    return;
  }
  const uint32_t key = packet::load_be32(&gre[sizeof(packet::GreHeader)]);
  const Subscriber* subscriber = key >> 24 == 0 ? subscribers_.find(key >> 12, key) : nullptr;
  // Space for an Ethernet header is left in front, where the header checks expect it.
  rte_pktmbuf_adj(packet, static_cast<uint16_t>(ipv4_header_size(ip) + kGreWithKey));
  if (subscriber == nullptr) {
    output.drop(packet, DropReason::denied);
    return;
  }
  if (!is_ipv4_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  if (packet::swap32(ipv4_of(packet).dst) != subscriber->address) {
    output.drop(packet, DropReason::denied);
    return;
  }
  if (!subscriber->has_mac) {
    output.drop(packet, DropReason::no_neighbor);
    return;
  }
  if (!check_and_decrement_ttl(packet, output)) return;
  auto* header = reinterpret_cast<QinQHeader*>(rte_pktmbuf_prepend(packet, kTags));
  if (header == nullptr) {
    output.drop(packet, DropReason::no_buffer);
    return;
  }
  std::memcpy(header->dst, subscriber->mac.data(), sizeof header->dst);
  std::memcpy(header->src, access_mac_.data(), sizeof header->src);
  header->s_tag = {packet::kTypeQinQ, packet::swap16(subscriber->s_vid)};
  header->c_tag = {packet::kTypeVlan, packet::swap16(subscriber->c_vid)};
  header->type = packet::kTypeIpv4;
  down_.add(1);
  output.send(config_.access, packet);
}

/// Answers a request for any address but the subscriber's own; that one is duplicate address
/// detection (RFC 5227).
void Bng::answer_subscriber(rte_mbuf* packet, const Subscriber& subscriber,
                            Output& output) noexcept {
  const auto header = *rte_pktmbuf_mtod(packet, const QinQHeader*);
  rte_pktmbuf_adj(packet, kTags);
  const auto* arp = arp_of(packet);
  if (arp == nullptr) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const Ipv4Address target = packet::swap32(arp->target_ip);
  if (arp->operation != kArpRequest || packet::swap32(arp->sender_ip) != subscriber.address ||
      target == subscriber.address) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  answer_arp(packet, {.mac = access_mac_, .address = target});
  const auto reply = ethernet_of(packet);
  auto* tagged = reinterpret_cast<QinQHeader*>(rte_pktmbuf_prepend(packet, kTags));
  std::memcpy(tagged->dst, reply.dst, sizeof tagged->dst);
  std::memcpy(tagged->src, reply.src, sizeof tagged->src);
  tagged->s_tag = header.s_tag;
  tagged->c_tag = header.c_tag;
  tagged->type = packet::kTypeArp;
  output.send(config_.access, packet);
}

void Bng::answer_core(rte_mbuf* packet, Output& output) noexcept {
  const auto* arp = arp_of(packet);
  if (arp == nullptr || arp->operation != kArpRequest ||
      packet::swap32(arp->target_ip) != config_.core_address) {
    output.drop(packet, DropReason::not_for_us);
    return;
  }
  answer_arp(packet, {.mac = core_mac_, .address = config_.core_address});
  output.send(config_.core, packet);
}

void read_subscribers(ConfigReader& config, SubscriberTable& table) {
  for (auto& entry : config.children("subscribers")) {
    const auto s_vid = static_cast<uint16_t>(entry.integer("s_vid", 1, 4094));
    const auto c_vid = static_cast<uint16_t>(entry.integer("c_vid", 1, 4094));
    const auto count = static_cast<uint16_t>(entry.integer("count", 1, 4094, 1));
    const Ipv4Address address = entry.ipv4("address");
    if (c_vid + count - 1 > 4094) {
      entry.add_error("count", "C-VIDs would go beyond 4094");
    } else {
      for (uint16_t i = 0; i < count; ++i) {
        if (!table.add({.address = address + i,
                        .s_vid = s_vid,
                        .c_vid = static_cast<uint16_t>(c_vid + i)})) {
          entry.add_error("c_vid", "these tags are another subscriber's");
          break;
        }
      }
    }
    entry.finish();
  }
  if (table.all().empty()) config.add_error("subscribers", "give at least one");
}

}  // namespace

std::unique_ptr<Function> make_bng(ConfigReader& config, const FunctionContext& context) {
  BngConfig bng;
  bng.access = context.port_index(config.string("access"));
  bng.core = context.port_index(config.string("core"));
  if (bng.access >= context.ports.size()) config.add_error("access", "isn't in `ports`");
  if (bng.core >= context.ports.size()) config.add_error("core", "isn't in `ports`");
  if (bng.access == bng.core) config.add_error("core", "is the access port");
  bng.core_address = config.ipv4("core_address");
  bng.tunnel_remote = config.ipv4("tunnel_remote");
  bng.core_next_hop = config.mac("core_next_hop_mac");
  SubscriberTable subscribers;
  read_subscribers(config, subscribers);
  if (config.failed()) return nullptr;
  return std::make_unique<Bng>(bng, std::move(subscribers), context);
}

}  // namespace headrace::vnf
