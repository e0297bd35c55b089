// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/nat.h"

#include <rte_prefetch.h>

#include <atomic>
#include <cstring>

#include "vnf/net/arp.h"
#include "vnf/net/ipv4_frame.h"
#include "vnf/net/nat_icmp.h"
#include "vnf/net/transport.h"
#include "vnf/state/nat_table.h"

namespace headrace::vnf {
namespace {

struct NatConfig {
  uint16_t inside{0};
  uint16_t outside{1};
  NatTable::Options table;
  uint64_t udp_s{300};               ///< RFC 4787, REQ-5: at least 2 min, 5 recommended
  uint64_t icmp_s{60};               ///< RFC 5508, REQ-2
  uint64_t tcp_established_s{7440};  ///< RFC 5382, REQ-5: 2 h 4 min
  uint64_t tcp_transitory_s{240};    ///< RFC 5382, REQ-5: 4 min
  std::optional<MacAddress> inside_mac;
  std::optional<MacAddress> outside_mac;
};

class Nat final : public Function {
 public:
  Nat(NatConfig config, std::unique_ptr<NatTable> table, const FunctionContext& context)
      : config_(std::move(config)), table_(std::move(table)), tsc_hz_(context.tsc_hz) {
    for (const auto& port : context.ports) port_macs_.push_back(port.mac);
  }

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override {
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (rte_mbuf* packet : packets) handle(port, packet, now, output);
  }

  uint64_t tick(uint64_t now, Output& output) noexcept override;
  void migrate_state(Function& previous) noexcept override {
    auto& old = *static_cast<Nat&>(previous).table_;
    for (uint32_t i = 0; i < old.size(); ++i) {
      if (old[i].state != NatMapping::State::free) table_->adopt(old[i]);
    }
  }
  [[nodiscard]] nlohmann::json counters() const override {
    return {{"mappings", shown_mappings_.load(std::memory_order_relaxed)},
            {"mappings_made", made_.read()},
            {"translated", translated_.read()},
            {"hairpinned", hairpinned_.read()}};
  }

 private:
  void handle(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept;
  void handle_arp(uint16_t port, rte_mbuf* packet, Output& output) noexcept;
  void translate_outbound(rte_mbuf* packet, const FiveTuple& tuple, NatProto proto, uint64_t now,
                          Output& output) noexcept;
  void translate_inbound(rte_mbuf* packet, const FiveTuple& tuple, NatProto proto, uint64_t now,
                         Output& output) noexcept;
  void translate_error(uint16_t port, rte_mbuf* packet, Output& output) noexcept;
  void transmit(uint16_t port, rte_mbuf* packet, Output& output) noexcept;
  void refresh(NatMapping& mapping, rte_mbuf* packet, bool from_inside, uint64_t now) noexcept;
  [[nodiscard]] uint64_t timeout_of(const NatMapping& mapping) const noexcept;

  NatConfig config_;
  std::unique_ptr<NatTable> table_;
  uint64_t tsc_hz_;
  std::vector<MacAddress> port_macs_;
  uint32_t sweep_{0};
  uint64_t next_sweep_{0};
  std::atomic<uint32_t> shown_mappings_{0};
  Counter made_;
  Counter translated_;
  Counter hairpinned_;
};

std::optional<NatProto> nat_proto_of(uint8_t proto) {
  switch (proto) {
    case packet::kProtoTcp:
      return NatProto::tcp;
    case packet::kProtoUdp:
      return NatProto::udp;
    case packet::kProtoIcmp:
      return NatProto::icmp;
    default:
      return std::nullopt;
  }
}

void Nat::handle(uint16_t port, rte_mbuf* packet, uint64_t now, Output& output) noexcept {
  if (port != config_.inside && port != config_.outside) {
    output.drop(packet, DropReason::no_route);
    return;
  }
  if (rte_pktmbuf_data_len(packet) < sizeof(packet::EthernetHeader)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const uint16_t type = ethernet_of(packet).type;
  if (type == packet::kTypeArp) {
    handle_arp(port, packet, output);
    return;
  }
  if (type != packet::kTypeIpv4) {
    output.drop(packet, DropReason::unsupported);
    return;
  }
  if (!is_ipv4_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const auto proto = nat_proto_of(ipv4_of(packet).proto);
  if (!proto || is_fragment(ipv4_of(packet))) {
    output.drop(packet, DropReason::unsupported);
    return;
  }
  const auto tuple = five_tuple_of(packet);
  if (!tuple) {
    output.drop(packet, DropReason::malformed);
  } else if (*proto == NatProto::icmp && !is_icmp_query(l4_of(packet)[0])) {
    translate_error(port, packet, output);
  } else if (port == config_.inside) {
    translate_outbound(packet, *tuple, *proto, now, output);
  } else {
    translate_inbound(packet, *tuple, *proto, now, output);
  }
}

void Nat::handle_arp(uint16_t port, rte_mbuf* packet, Output& output) noexcept {
  const auto* arp = arp_of(packet);
  if (arp == nullptr) {
    output.drop(packet, DropReason::malformed);
    return;
  }
  const Ipv4Address target = packet::swap32(arp->target_ip);
  if (port == config_.outside && table_->is_public(target)) {
    if (arp->operation != kArpRequest) {
      output.drop(packet, DropReason::discarded);
      return;
    }
    answer_arp(packet, {.mac = port_macs_[port], .address = target});
    output.send(port, packet);
    return;
  }
  output.send(port == config_.inside ? config_.outside : config_.inside, packet);
}

void Nat::translate_outbound(rte_mbuf* packet, const FiveTuple& tuple, NatProto proto, uint64_t now,
                             Output& output) noexcept {
  const NatEndpoint inside{tuple.src, tuple.src_port, proto};
  uint32_t index = table_->find_inside(inside);
  if (index == NatTable::kNone) {
    NatTable::Failure failure{};
    index = table_->add(inside, now, failure);
    if (index == NatTable::kNone) {
      output.drop(packet, failure == NatTable::Failure::ports_exhausted
                              ? DropReason::ports_exhausted
                              : DropReason::table_full);
      return;
    }
    made_.add(1);
  }
  NatMapping& mapping = (*table_)[index];
  refresh(mapping, packet, true, now);
  set_endpoint(packet, End::source, mapping.outside.address, mapping.outside.port);
  if (table_->is_public(tuple.dst)) {
    hairpinned_.add(1);
    translate_inbound(packet, *five_tuple_of(packet), proto, now, output);
    return;
  }
  transmit(config_.outside, packet, output);
}

void Nat::translate_inbound(rte_mbuf* packet, const FiveTuple& tuple, NatProto proto, uint64_t now,
                            Output& output) noexcept {
  const uint32_t index = table_->find_outside({tuple.dst, tuple.dst_port, proto});
  if (index == NatTable::kNone) {
    output.drop(packet, DropReason::no_translation);
    return;
  }
  NatMapping& mapping = (*table_)[index];
  refresh(mapping, packet, false, now);
  set_endpoint(packet, End::destination, mapping.inside.address, mapping.inside.port);
  transmit(config_.inside, packet, output);
}

/// RFC 5508, 4.2: the packet that an ICMP error quotes went in the opposite direction.
void Nat::translate_error(uint16_t port, rte_mbuf* packet, Output& output) noexcept {
  const bool from_outside = port == config_.outside;
  const auto quoted = quoted_endpoints(packet);
  const auto proto = quoted ? nat_proto_of(quoted->proto) : std::nullopt;
  if (!proto) {
    output.drop(packet, DropReason::unsupported);
    return;
  }
  const uint32_t index = from_outside
                             ? table_->find_outside({quoted->src, quoted->src_port, *proto})
                             : table_->find_inside({quoted->dst, quoted->dst_port, *proto});
  if (index == NatTable::kNone) {
    output.drop(packet, DropReason::no_translation);
    return;
  }
  const NatMapping& mapping = (*table_)[index];
  if (from_outside) {
    translate_quoted(packet, End::source, mapping.inside.address, mapping.inside.port);
    set_address(packet, End::destination, mapping.inside.address);
    transmit(config_.inside, packet, output);
  } else {
    translate_quoted(packet, End::destination, mapping.outside.address, mapping.outside.port);
    set_address(packet, End::source, mapping.outside.address);
    transmit(config_.outside, packet, output);
  }
}

void Nat::transmit(uint16_t port, rte_mbuf* packet, Output& output) noexcept {
  const auto& mac = port == config_.inside ? config_.inside_mac : config_.outside_mac;
  if (mac) {
    auto& ethernet = ethernet_of(packet);
    std::memcpy(ethernet.dst, mac->data(), sizeof ethernet.dst);
    std::memcpy(ethernet.src, port_macs_[port].data(), sizeof ethernet.src);
  }
  translated_.add(1);
  output.send(port, packet);
}

/// Only packets from inside refresh a mapping (RFC 4787, REQ-6), so that outside hosts can't hold
/// ports; TCP's state follows both directions.
void Nat::refresh(NatMapping& mapping, rte_mbuf* packet, bool from_inside, uint64_t now) noexcept {
  using State = NatMapping::State;
  if (from_inside) mapping.last_used = now;
  if (mapping.inside.proto != NatProto::tcp) return;
  const uint8_t flags = tcp_flags_of(packet);
  if ((flags & (kTcpRst | kTcpFin)) != 0) {
    mapping.state = State::closing;
  } else if ((flags & kTcpSyn) != 0 && from_inside) {
    mapping.state = State::open;
  } else if (!from_inside && (flags & kTcpAck) != 0 && mapping.state == State::open) {
    mapping.state = State::established;
  }
}

uint64_t Nat::timeout_of(const NatMapping& mapping) const noexcept {
  switch (mapping.inside.proto) {
    case NatProto::udp:
      return config_.udp_s * tsc_hz_;
    case NatProto::icmp:
      return config_.icmp_s * tsc_hz_;
    case NatProto::tcp:
      break;
  }
  return (mapping.state == NatMapping::State::established ? config_.tcp_established_s
                                                          : config_.tcp_transitory_s) *
         tsc_hz_;
}

/// Checks a thousandth of the table each millisecond: the whole table in a second, and only a few
/// cache lines per round.
uint64_t Nat::tick(uint64_t now, Output& /*output*/) noexcept {
  if (now < next_sweep_) return 0;
  next_sweep_ = now + tsc_hz_ / 1000;
  const uint32_t part = table_->size() / 1000 + 1;
  for (uint32_t i = 0; i < part; ++i) {
    sweep_ = sweep_ + 1 < table_->size() ? sweep_ + 1 : 0;
    const NatMapping& mapping = (*table_)[sweep_];
    if (mapping.state != NatMapping::State::free && now - mapping.last_used > timeout_of(mapping)) {
      table_->remove(sweep_);
    }
  }
  shown_mappings_.store(table_->in_use(), std::memory_order_relaxed);
  return 0;
}

void read_ports(ConfigReader& config, NatTable::Options& table) {
  const Json* ports = config.raw("ports");
  if (ports == nullptr) return;
  const auto is_port = [](const Json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
           value.get<uint64_t>() <= 65535;
  };
  if (!ports->is_array() || ports->size() != 2 || !is_port((*ports)[0]) || !is_port((*ports)[1]) ||
      (*ports)[0] > (*ports)[1]) {
    config.add_error("ports", ports->dump() + " is not the first and last port, 1 to 65535");
    return;
  }
  table.first_port = (*ports)[0].get<uint16_t>();
  table.last_port = (*ports)[1].get<uint16_t>();
}

NatConfig read_nat(ConfigReader& config, const FunctionContext& context) {
  NatConfig nat;
  nat.inside = context.port_index(config.string("inside", "inside"));
  nat.outside = context.port_index(config.string("outside", "outside"));
  if (nat.inside >= context.ports.size()) config.add_error("inside", "isn't in `ports`");
  if (nat.outside >= context.ports.size()) config.add_error("outside", "isn't in `ports`");
  if (nat.inside == nat.outside) config.add_error("outside", "is the inside port");
  for (const auto& text : config.strings("public")) {
    if (const auto address = parse_ipv4(text)) {
      nat.table.addresses.push_back(*address);
    } else {
      config.add_error("public", text + " is not an IPv4 address");
    }
  }
  if (nat.table.addresses.empty()) config.add_error("public", "a NAT needs a public address");
  read_ports(config, nat.table);
  nat.table.capacity = static_cast<uint32_t>(config.integer("max_mappings", 8, 1 << 24, 65536));
  auto timeouts = config.optional_child("timeouts");
  nat.udp_s = timeouts.integer("udp_s", 1, 86400, nat.udp_s);
  nat.icmp_s = timeouts.integer("icmp_s", 1, 86400, nat.icmp_s);
  nat.tcp_established_s = timeouts.integer("tcp_established_s", 1, 864000, nat.tcp_established_s);
  nat.tcp_transitory_s = timeouts.integer("tcp_transitory_s", 1, 86400, nat.tcp_transitory_s);
  timeouts.finish();
  nat.inside_mac = config.optional_mac("inside_mac");
  nat.outside_mac = config.optional_mac("outside_mac");
  return nat;
}

}  // namespace

std::unique_ptr<Function> make_nat(ConfigReader& config, const FunctionContext& context) {
  NatConfig nat = read_nat(config, context);
  if (context.pool == nullptr || config.failed()) return nullptr;
  auto table = NatTable::make(nat.table);
  if (!table) {
    config.add_error("max_mappings", table.error().message);
    return nullptr;
  }
  return std::make_unique<Nat>(std::move(nat), *std::move(table), context);
}

}  // namespace headrace::vnf
