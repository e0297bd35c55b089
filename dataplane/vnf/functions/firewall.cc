// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/firewall.h"

#include <fmt/format.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>

#include "vnf/functions/pairs.h"
#include "vnf/net/ipv4_frame.h"
#include "vnf/net/nat_icmp.h"
#include "vnf/state/acl.h"
#include "vnf/state/session_table.h"

namespace headrace::vnf {
namespace {

struct FirewallConfig {
  std::vector<uint16_t> out;
  std::vector<AclRule> rules;
  std::vector<bool> allows;  ///< by rule
  bool allow_by_default{false};
  bool stateful{true};
  bool arp{true};
  uint32_t max_sessions{65536};
  SessionTimeouts timeouts{};
};

class Firewall final : public Function {
 public:
  Firewall(FirewallConfig config, Acl acl, std::unique_ptr<SessionTable> sessions,
           const FunctionContext& context)
      : config_(std::move(config)),
        acl_(std::move(acl)),
        sessions_(std::move(sessions)),
        tsc_hz_(context.tsc_hz) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override {
    if (config_.out[port] == kUnpaired) {
      output.drop(packets, DropReason::no_route);
      return;
    }
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (size_t start = 0; start < packets.size(); start += Acl::kMaxPackets) {
      const size_t size = std::min(Acl::kMaxPackets, packets.size() - start);
      process_chunk(port, packets.subspan(start, size), now, output);
    }
  }

  uint64_t tick(uint64_t now, Output& /*output*/) noexcept override {
    if (sessions_ == nullptr || now < next_sweep_) return 0;
    next_sweep_ = now + tsc_hz_ / 1000;
    sessions_->sweep(now);
    shown_sessions_.store(sessions_->in_use(), std::memory_order_relaxed);
    return 0;
  }

  void migrate_state(Function& previous) noexcept override {
    const auto& old = static_cast<Firewall&>(previous);
    if (sessions_ != nullptr && old.sessions_ != nullptr) sessions_->copy_from(*old.sessions_);
  }

  [[nodiscard]] nlohmann::json counters() const override {
    return {{"sessions", shown_sessions_.load(std::memory_order_relaxed)},
            {"sessions_made", made_.read()},
            {"by_session", by_session_.read()},
            {"by_rule", by_rule_.read()}};
  }

 private:
  /// A packet without an established session.
  struct Candidate {
    rte_mbuf* packet;
    uint8_t tcp_flags;
  };

  void process_chunk(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                     Output& output) noexcept;
  /// The packet's five-tuple; nothing for packets that rules can't be applied to, which are dropped
  /// here.
  std::optional<FiveTuple> admit(uint16_t port, rte_mbuf* packet, Output& output) noexcept;
  bool passes_by_session(rte_mbuf* packet, const FiveTuple& tuple, uint64_t now) noexcept;
  void decide(uint16_t port, const Candidate& candidate, const FiveTuple& tuple, uint32_t rule,
              uint64_t now, Output& output) noexcept;

  FirewallConfig config_;
  Acl acl_;
  std::unique_ptr<SessionTable> sessions_;  ///< null unless stateful
  uint64_t tsc_hz_;
  uint64_t next_sweep_{0};
  std::atomic<uint32_t> shown_sessions_{0};
  Counter made_;
  Counter by_session_;
  Counter by_rule_;
};

void Firewall::process_chunk(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                             Output& output) noexcept {
  std::array<Candidate, Acl::kMaxPackets> candidates;
  std::array<FiveTuple, Acl::kMaxPackets> tuples;
  std::array<uint32_t, Acl::kMaxPackets> rules;
  size_t count = 0;
  for (rte_mbuf* packet : packets) {
    const auto tuple = admit(port, packet, output);
    if (!tuple) continue;
    if (sessions_ != nullptr && passes_by_session(packet, *tuple, now)) {
      by_session_.add(1);
      output.send(config_.out[port], packet);
      continue;
    }
    candidates[count] = {packet, tcp_flags_of(packet)};
    tuples[count++] = *tuple;
  }
  if (count == 0) return;
  acl_.classify(port, {tuples.data(), count}, rules.data());
  for (size_t i = 0; i < count; ++i) {
    decide(port, candidates[i], tuples[i], rules[i], now, output);
  }
}

std::optional<FiveTuple> Firewall::admit(uint16_t port, rte_mbuf* packet, Output& output) noexcept {
  if (rte_pktmbuf_data_len(packet) < sizeof(packet::EthernetHeader)) {
    output.drop(packet, DropReason::malformed);
    return std::nullopt;
  }
  const uint16_t type = ethernet_of(packet).type;
  if (type == packet::kTypeArp && config_.arp) {
    output.send(config_.out[port], packet);
    return std::nullopt;
  }
  if (type != packet::kTypeIpv4) {
    output.drop(packet, DropReason::unsupported);
    return std::nullopt;
  }
  if (!is_ipv4_valid(packet)) {
    output.drop(packet, DropReason::malformed);
    return std::nullopt;
  }
  if (is_fragment(ipv4_of(packet))) {
    output.drop(packet, DropReason::unsupported);
    return std::nullopt;
  }
  const auto tuple = five_tuple_of(packet);
  if (!tuple) output.drop(packet, DropReason::malformed);
  return tuple;
}

bool Firewall::passes_by_session(rte_mbuf* packet, const FiveTuple& tuple, uint64_t now) noexcept {
  if (tuple.proto == packet::kProtoIcmp && !is_icmp_query(l4_of(packet)[0])) {
    const auto about = quoted_endpoints(packet);
    return about && sessions_->find(*about) != SessionTable::kNone;
  }
  const uint32_t index = sessions_->find(tuple);
  if (index == SessionTable::kNone) return false;
  const uint8_t flags = tcp_flags_of(packet);
  if ((*sessions_)[index].state == Session::State::closing &&
      (flags & (kTcpSyn | kTcpAck)) == kTcpSyn) {
    return false;  // a new connection of the same ports: apply the rules again
  }
  sessions_->touch(index, tuple, flags, now);
  return true;
}

void Firewall::decide(uint16_t port, const Candidate& candidate, const FiveTuple& tuple,
                      uint32_t rule, uint64_t now, Output& output) noexcept {
  const bool allowed = rule == Acl::kNoMatch ? config_.allow_by_default : config_.allows[rule - 1];
  const bool tcp_without_syn = tuple.proto == packet::kProtoTcp &&
                               (candidate.tcp_flags & (kTcpSyn | kTcpAck | kTcpRst)) != kTcpSyn;
  if (!allowed || (sessions_ != nullptr && tcp_without_syn)) {
    output.drop(candidate.packet, DropReason::denied);
    return;
  }
  const bool opens = sessions_ != nullptr && (tuple.proto != packet::kProtoIcmp ||
                                              is_icmp_query(l4_of(candidate.packet)[0]));
  if (opens) {
    // An earlier packet of this burst may have opened the session.
    uint32_t index = sessions_->find(tuple);
    if (index == SessionTable::kNone) {
      index = sessions_->add(tuple, now);
      if (index == SessionTable::kNone) {
        output.drop(candidate.packet, DropReason::table_full);
        return;
      }
      made_.add(1);
    }
    sessions_->touch(index, tuple, candidate.tcp_flags, now);
  }
  by_rule_.add(1);
  output.send(config_.out[port], candidate.packet);
}

/// "80" or "1024-65535".
std::optional<PortRange> parse_ports(const std::string& text) {
  const auto parse = [](std::string_view part) -> std::optional<uint16_t> {
    uint16_t value = 0;
    const auto [end, code] = std::from_chars(part.begin(), part.end(), value);
    if (code != std::errc{} || end != part.end()) return std::nullopt;
    return value;
  };
  const auto dash = text.find('-');
  const auto first = parse(std::string_view(text).substr(0, dash));
  const auto last =
      dash == std::string::npos ? first : parse(std::string_view(text).substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

PortRange read_ports(ConfigReader& rule, const char* key) {
  if (!rule.has(key)) return {};
  const Json* value = rule.raw(key);
  const auto text = value->is_string() ? value->get<std::string>() : value->dump();
  const auto ports = parse_ports(text);
  if (!ports)
    rule.add_error(key, fmt::format("{} is not a port or a range (80, 1024-65535)", text));
  return ports.value_or(PortRange{});
}

std::optional<uint8_t> read_proto(ConfigReader& rule) {
  if (!rule.has("proto")) return std::nullopt;
  const Json& value = *rule.raw("proto");
  if (value == "tcp") return packet::kProtoTcp;
  if (value == "udp") return packet::kProtoUdp;
  if (value == "icmp") return packet::kProtoIcmp;
  if (value.is_number_unsigned() && value.get<uint64_t>() <= 255) return value.get<uint8_t>();
  rule.add_error("proto", value.dump() + " is not tcp, udp, icmp or 0 to 255");
  return std::nullopt;
}

void read_rule(ConfigReader& entry, const FunctionContext& context, FirewallConfig& firewall) {
  AclRule rule;
  firewall.allows.push_back(entry.choice("action", {"deny", "allow"}) == 1);
  if (entry.has("from")) {
    rule.in_port = context.port_index(entry.string("from"));
    if (*rule.in_port >= context.ports.size()) entry.add_error("from", "isn't in `ports`");
  }
  rule.proto = read_proto(entry);
  rule.src = entry.ipv4_prefix("src", Ipv4Prefix{});
  rule.dst = entry.ipv4_prefix("dst", Ipv4Prefix{});
  rule.src_ports = read_ports(entry, "src_port");
  rule.dst_ports = read_ports(entry, "dst_port");
  firewall.rules.push_back(rule);
  entry.finish();
}

FirewallConfig read_firewall(ConfigReader& config, const FunctionContext& context) {
  FirewallConfig firewall;
  firewall.out = read_pairs(config, context);
  for (auto& entry : config.children("rules")) read_rule(entry, context, firewall);
  firewall.allow_by_default = config.choice("default", {"deny", "allow"}, 0) == 1;
  firewall.stateful = config.boolean("stateful", true);
  firewall.arp = config.boolean("arp", true);
  firewall.max_sessions = static_cast<uint32_t>(config.integer("max_sessions", 8, 1 << 24, 65536));
  auto timeouts = config.optional_child("timeouts");
  const auto seconds = [&](const char* key, uint64_t fallback) {
    return timeouts.integer(key, 1, 864000, fallback) * context.tsc_hz;
  };
  firewall.timeouts = {.opening = seconds("opening_s", 30),
                       .tcp_established = seconds("tcp_established_s", 7440),
                       .tcp_closing = seconds("tcp_closing_s", 30),
                       .other = seconds("other_s", 60)};
  timeouts.finish();
  return firewall;
}

}  // namespace

std::unique_ptr<Function> make_firewall(ConfigReader& config, const FunctionContext& context) {
  FirewallConfig firewall = read_firewall(config, context);
  if (context.pool == nullptr || config.failed()) return nullptr;
  auto acl = Acl::make(firewall.rules);
  if (!acl) {
    config.add_error("rules", acl.error().message);
    return nullptr;
  }
  std::unique_ptr<SessionTable> sessions;
  if (firewall.stateful) {
    auto made = SessionTable::make(firewall.max_sessions, firewall.timeouts);
    if (!made) {
      config.add_error("max_sessions", made.error().message);
      return nullptr;
    }
    sessions = *std::move(made);
  }
  return std::make_unique<Firewall>(std::move(firewall), *std::move(acl), std::move(sessions),
                                    context);
}

}  // namespace headrace::vnf
