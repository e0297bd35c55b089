// SPDX-License-Identifier: Apache-2.0
#include "pipeline/trace/tracer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "pipeline/execute/flow_hash.h"
#include "pipeline/execute/select_bucket.h"
#include "pipeline/execute/tunnel_port.h"
#include "pipeline/operations/reference_packet.h"
#include "pipeline/program/operation.h"
#include "pipeline/program/program.h"
#include "pipeline/program/receive_feature.h"
#include "pipeline/terms/limits.h"
#include "pipeline/trace/action_text.h"
#include "pipeline/trace/field_text.h"
#include "pipeline/trace/written_set.h"

namespace headrace::pipeline {
namespace {

struct FreeMbuf {
  void operator()(rte_mbuf* packet) const { rte_pktmbuf_free(packet); }
};
using MbufPtr = std::unique_ptr<rte_mbuf, FreeMbuf>;

MbufPtr copy_of(const rte_mbuf* packet) {
  return MbufPtr(rte_pktmbuf_copy(packet, packet->pool, 0, UINT32_MAX));
}

std::vector<uint8_t> bytes_of(const rte_mbuf* packet) {
  std::vector<uint8_t> bytes(packet->pkt_len);
  const void* read = rte_pktmbuf_read(packet, 0, packet->pkt_len, bytes.data());
  if (read != nullptr && read != bytes.data()) std::memcpy(bytes.data(), read, bytes.size());
  return bytes;
}

/// A rule as it is while the trace looks at it.
struct TracedRule {
  uint16_t priority{0};
  uint64_t cookie{0};
  uint64_t packets{0};
  uint64_t bytes{0};
  match::Match match;
  InstructionList instructions;

  template <typename Instruction>
  [[nodiscard]] const Instruction* find() const {
    for (const auto& each : instructions) {
      if (const auto* found = std::get_if<Instruction>(&each)) return found;
    }
    return nullptr;
  }
};

bool sends(const Action& action) {
  return action.is<OutputAction>() || action.is<GroupAction>();
}

std::string_view type_name(GroupMod::Type type) {
  constexpr std::array<std::string_view, 4> kNames{"all", "select", "indirect", "ff"};
  return kNames[static_cast<size_t>(type)];
}

class Tracer final : public ReferenceSwitch {
 public:
  /// A packet comes in by a port; `fields` may be null.
  void arrive(const Lsi& lsi, PortNo in_port, const rte_mbuf* packet, const TracedFields* fields);
  [[nodiscard]] Trace take() { return std::move(trace_); }
  /// The packet's fields where it left the first bridge's tables.
  [[nodiscard]] const std::string& final_flow() const { return final_; }

 private:
  /// A bridge on the packet's way: patches nest.
  struct Bridge {
    const Lsi* lsi{nullptr};
    const LsiProgram* program{nullptr};
    const Port* in_port{nullptr};
    uint8_t table_id{0};
    unsigned nesting{0};  ///< of groups
    bool had_output{false};
  };

  void run_tables(ReferencePacket& packet);
  [[nodiscard]] RuleIndex look_up(const ReferencePacket& packet) const;
  [[nodiscard]] std::optional<TracedRule> rule_of(RuleIndex index) const;
  void describe(const TracedRule& rule);
  /// False: the packet ended on the way.
  bool run_list(ReferencePacket& packet, const ActionList& actions);
  bool run_action(ReferencePacket& packet, const Action& action);
  void run_bucket(const ReferencePacket& packet, const GroupMod& mod, size_t index);
  [[nodiscard]] const BucketProgram* choose(const ReferencePacket& packet,
                                            const GroupProgram& group) const;
  void leave(const ReferencePacket& packet, const Port& port);
  void terminate(const rte_mbuf* packet, const Port& port, const TunnelIngress& tunnels);
  void go_to_peer(const rte_mbuf* packet, const Port& port);
  void drop(DropReason reason);
  void line(const std::string& text) { trace_.text += std::string(indent_, ' ') + text + '\n'; }

  // ReferenceSwitch
  void send(const ReferencePacket& packet, PortNo port) override;
  [[nodiscard]] std::vector<PortNo> flood_ports(const ReferencePacket& packet) const override;
  void punt(const ReferencePacket& packet, PuntReason reason) override;
  void run_group(const ReferencePacket& packet, uint32_t group_id) override;
  void learn(uint64_t, PortNo) override {}
  [[nodiscard]] PortNo find(uint64_t address) const override;
  void refuse(const ReferencePacket&, DropReason reason) override { drop(reason); }
  [[nodiscard]] const PortVlans* vlans(PortNo port) const override;
  [[nodiscard]] bool forwards_reserved() const override { return here_.program->forwards_reserved; }

  Trace trace_;
  std::string final_{"unchanged"};
  Bridge here_;
  unsigned depth_{0};  ///< patches crossed
  size_t indent_{0};
};

void Tracer::drop(DropReason reason) {
  line(fmt::format(" -> dropped: {}", name(reason)));
  trace_.drops.push_back(reason);
}

void Tracer::arrive(const Lsi& lsi, PortNo in_port, const rte_mbuf* packet,
                    const TracedFields* fields) {
  const Bridge before = here_;
  here_ = {.lsi = &lsi, .program = &lsi.program()};
  here_.in_port = here_.program->port(in_port);
  const std::string heading = fmt::format("bridge(\"{}\")", lsi.config().name);
  trace_.text += '\n';
  line(heading);
  line(std::string(heading.size(), '-'));
  indent_ += 4;
  const DropReason refusal = here_.in_port == nullptr
                                 ? DropReason::port_missing
                                 : here_.in_port->receive_refusal.load(std::memory_order_relaxed);
  const MbufPtr own = copy_of(packet);
  if (refusal != DropReason::none) {
    drop(refusal);
  } else if (own == nullptr) {
    drop(DropReason::no_buffer);
  } else {
    ReferencePacket traced{*this, in_port, own.get()};
    traced.key.in_port = __builtin_bswap32(in_port);
    traced.key.in_phy_port = traced.key.in_port;
    if (fields != nullptr) {
      traced.key.metadata = fields->metadata;
      traced.key.tunnel_id = fields->tunnel_id;
      traced.key.tun_src = fields->tun_src;
      traced.key.tun_dst = fields->tun_dst;
    } else if (here_.in_port->is_tunnel) {
      rte_mbuf* one = own.get();
      take_tunnel_fields({&one, 1}, &traced.key, packet::Depth::full);
    }
    traced.refresh();
    const std::string came = format_packet(traced.key, traced.parsed, traced.mbuf);
    if (depth_ == 0) trace_.text.insert(0, fmt::format("Flow: {}\n", came));
    run_tables(traced);
    traced.refresh();
    const std::string went = format_packet(traced.key, traced.parsed, traced.mbuf);
    if (depth_ == 0) final_ = went == came ? "unchanged" : went;
  }
  indent_ -= 4;
  here_ = before;
}

RuleIndex Tracer::look_up(const ReferencePacket& packet) const {
  const match::CompiledTable* table = here_.program->tables[here_.table_id];
  if (table == nullptr) return kNoRule;
  // As many keys and results as a burst may have: vector variants read and write whole vectors.
  std::array<match::FlowKey, match::kBurst> keys{};
  std::array<uint32_t, match::kBurst> results{};
  keys[0] = packet.key;
  const uint8_t first = 0;
  table->lookup(keys.data(), {&first, 1}, results.data(), match::kAllWords);
  return results[0];
}

std::optional<TracedRule> Tracer::rule_of(RuleIndex index) const {
  TracedRule rule;
  const bool found =
      here_.lsi->describe_rule(here_.table_id, index, [&rule](const FlowStats& flow) {
        rule = {flow.priority, flow.cookie, flow.packets,
                flow.bytes,    flow.match,  flow.instructions};
      });
  return found ? std::optional(std::move(rule)) : std::nullopt;
}

void Tracer::describe(const TracedRule& rule) {
  std::string text = format_match(rule.match);
  if (!text.empty()) text += ", ";
  text += fmt::format("priority {}", rule.priority);
  if (rule.cookie != 0) text += fmt::format(", cookie {:#x}", rule.cookie);
  indent_ -= 4;
  line(fmt::format("{:2}. {}", here_.table_id, text));
  indent_ += 4;
  const match::CompiledTable& table = *here_.program->tables[here_.table_id];
  line(fmt::format("({}: {}; n_packets={}, n_bytes={})", table.structure(), table.reason(),
                   rule.packets, rule.bytes));
}

void Tracer::run_tables(ReferencePacket& packet) {
  if ((here_.program->receive_features & kReceiveDropFragments) != 0 &&
      packet.parsed.has(packet::kFragment)) {
    return drop(DropReason::fragment);
  }
  if ((here_.program->receive_features & kReceiveReassemble) != 0 &&
      packet.parsed.has(packet::kFragment)) {
    line(" -> a fragment waits for the others of its packet; give the whole packet");
    return;
  }
  ActionList written;
  for (here_.table_id = 0;;) {
    const std::optional<TracedRule> rule = rule_of(look_up(packet));
    if (!rule) {
      const match::CompiledTable* table = here_.program->tables[here_.table_id];
      indent_ -= 4;
      line(fmt::format("{:2}. No match.", here_.table_id));
      indent_ += 4;
      if (table != nullptr) line(fmt::format("({}: {})", table->structure(), table->reason()));
      return drop(DropReason::table_miss);
    }
    describe(*rule);
    packet.table_miss = rule->priority == 0 && rule->match.words == 0;
    if (const auto* meter = rule->find<MeterInstruction>()) {
      line(fmt::format("meter:{}", meter->meter_id));
      if (here_.lsi->meter_configs(meter->meter_id)) {
        line(" -> not charged: a trace takes none of the meter's rate");
      } else {
        return drop(DropReason::meter_missing);
      }
    }
    if (const auto* apply = rule->find<ApplyActions>()) {
      if (!run_list(packet, apply->actions)) return;
    }
    if (rule->find<ClearActions>() != nullptr) {
      line("clear_actions");
      written.clear();
    }
    if (const auto* write = rule->find<WriteActions>()) {
      line(fmt::format("write_actions({})", format_actions(write->actions)));
      written.insert(written.end(), write->actions.begin(), write->actions.end());
      line(fmt::format(" -> action set is: {}", format_actions(written_set(written))));
    }
    const auto* next = rule->find<GotoTable>();
    if (const auto* metadata = rule->find<WriteMetadata>();
        metadata != nullptr && next != nullptr) {
      const uint64_t now = __builtin_bswap64(packet.key.metadata);
      const uint64_t then = (now & ~metadata->mask) | (metadata->metadata & metadata->mask);
      packet.key.metadata = __builtin_bswap64(then);
      line(fmt::format("write_metadata:{:#x}/{:#x}", metadata->metadata, metadata->mask));
      line(fmt::format(" -> metadata={:#x}", then));
    }
    if (next != nullptr) {
      line(fmt::format("goto_table:{}", next->table_id));
      here_.table_id = next->table_id;
      continue;
    }
    const ActionList set = written_set(written);
    if (!set.empty()) {
      indent_ -= 4;
      line("--. Executing action set:");
      indent_ += 4;
      if (!run_list(packet, set)) return;
    }
    if (!here_.had_output) {
      if (rule->instructions.empty()) line("drop");
      drop(DropReason::no_output);
    }
    return;
  }
}

bool Tracer::run_list(ReferencePacket& packet, const ActionList& actions) {
  return std::all_of(actions.begin(), actions.end(),
                     [&](const Action& action) { return run_action(packet, action); });
}

bool Tracer::run_action(ReferencePacket& packet, const Action& action) {
  line(format_action(action));
  if (sends(action) && here_.nesting == 0) here_.had_output = true;
  const size_t drops = trace_.drops.size();
  const match::FlowKey before = packet.key;
  const bool goes_on = action.operation().reference(packet, action);
  if (!goes_on) {
    constexpr unsigned kMostPushed = sizeof(packet::EthernetHeader) + 8;
    if (trace_.drops.size() == drops) {
      drop(rte_pktmbuf_headroom(packet.mbuf) < kMostPushed ? DropReason::no_headroom
                                                           : DropReason::bad_action);
    }
    return false;
  }
  std::string changes;
  for (const match::FieldInfo& field : match::detail::kFields) {
    std::array<uint8_t, 16> old{};
    std::array<uint8_t, 16> now{};
    load(before, field.field, old.data());
    load(packet.key, field.field, now.data());
    // Fields that share octets are one change.
    const bool named =
        changes.find(std::string(field_name(field.field)) + '=') != std::string::npos;
    if (old == now || named) continue;
    if (!changes.empty()) changes += ',';
    changes += format_field(field.field, now.data(), nullptr);
  }
  if (!changes.empty()) line(" -> " + changes);
  return true;
}

// --- what operations ask of the switch ---------------------------------------------------------

void Tracer::send(const ReferencePacket& packet, PortNo number) {
  const Port* port = here_.program->port(number);
  if (port == nullptr) return drop(DropReason::port_missing);
  const DropReason refusal = port->send_refusal.load(std::memory_order_relaxed);
  if (refusal != DropReason::none) return drop(refusal);
  leave(packet, *port);
}

void Tracer::leave(const ReferencePacket& packet, const Port& port) {
  const std::optional<PortDesc> desc = here_.lsi->port_desc(port.number);
  line(fmt::format(" -> port {} ({})", format_port(port.number), desc ? desc->name : "?"));
  if (port.is_tunnel) {
    const TunnelEgress* tunnel = port.egress_tunnel.load(std::memory_order_acquire);
    const MbufPtr own = copy_of(packet.mbuf);
    if (own == nullptr) return drop(DropReason::no_buffer);
    const DropReason reason = tunnel == nullptr
                                  ? DropReason::tunnel_unresolved
                                  : tunnel->push(own.get(), packet.parsed, packet.key, true);
    if (reason != DropReason::none) return drop(reason);
    line(" -> encapsulated");
    return go_to_peer(own.get(), port);
  }
  if (port.io.load(std::memory_order_relaxed) == nullptr) return go_to_peer(packet.mbuf, port);
  const TunnelIngress* tunnels = port.ingress_tunnels.load(std::memory_order_acquire);
  if (tunnels != nullptr) return terminate(packet.mbuf, port, *tunnels);
  trace_.outputs.push_back({here_.lsi->config().name, port.number, bytes_of(packet.mbuf)});
}

/// At a LOCAL port where tunnels end.
void Tracer::terminate(const rte_mbuf* packet, const Port& port, const TunnelIngress& tunnels) {
  using What = TunnelIngress::Verdict::What;
  const MbufPtr own = copy_of(packet);
  if (own == nullptr) return drop(DropReason::no_buffer);
  const TunnelIngress::Verdict verdict = tunnels.classify(own.get());
  switch (verdict.what) {
    case What::drop:
      return drop(verdict.reason);
    case What::tunnel:
      line(" -> decapsulated");
      return go_to_peer(own.get(), *verdict.inlet);
    case What::neighbor:
    case What::host:
      trace_.outputs.push_back({here_.lsi->config().name, port.number, bytes_of(packet)});
      return;
  }
}

void Tracer::go_to_peer(const rte_mbuf* packet, const Port& port) {
  const PublishedProgram* peer = port.peer.load(std::memory_order_acquire);
  if (depth_ + 1 > kMaxPatchDepth) return drop(DropReason::patch_depth);
  const PortNo number = port.peer_port.load(std::memory_order_relaxed);
  if (peer == nullptr || peer->program().port(number) == nullptr) {
    return drop(DropReason::patch_unconnected);
  }
  ++depth_;
  // All programs are published by LSIs.
  arrive(*static_cast<const Lsi*>(peer), number, packet, nullptr);
  --depth_;
}

std::vector<PortNo> Tracer::flood_ports(const ReferencePacket& packet) const {
  std::vector<PortNo> all;
  for (const Port* port : here_.program->ports) {
    if (port->number != packet.in_port &&
        port->send_refusal.load(std::memory_order_relaxed) == DropReason::none) {
      all.push_back(port->number);
    }
  }
  return all;
}

void Tracer::punt(const ReferencePacket& packet, PuntReason reason) {
  if (reason == PuntReason::invalid_ttl) drop(DropReason::ttl_expired);
  if (here_.in_port != nullptr && !here_.in_port->packet_in.load(std::memory_order_relaxed)) {
    return drop(DropReason::punt_disabled);
  }
  line(" -> packet-in to the controllers that take it");
  trace_.punts.push_back({here_.table_id, reason, bytes_of(packet.mbuf)});
}

PortNo Tracer::find(uint64_t address) const {
  std::array<uint8_t, 6> mac{};
  for (size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(address >> 8 * (5 - i));
  const std::optional<PortNo> port =
      here_.lsi->find_mac(mac.data(), static_cast<uint16_t>(address >> 48));
  return port && here_.program->port(*port) != nullptr ? *port : 0;
}

const PortVlans* Tracer::vlans(PortNo number) const {
  const Port* port = here_.program->port(number);
  return port == nullptr ? nullptr : port->vlans.load(std::memory_order_acquire);
}

const BucketProgram* Tracer::choose(const ReferencePacket& packet,
                                    const GroupProgram& group) const {
  const uint64_t hash = group.paired
                            ? pair_hash(packet.mbuf, packet.parsed)
                            : select_hash(packet.mbuf, flow_hash64(packet.mbuf, packet.parsed));
  const uint64_t now = here_.lsi->now();
  const uint64_t version = here_.program->version;
  if (group.type != GroupMod::Type::select || group.memory == nullptr) {
    return choose_bucket(group, version, hash, now);
  }
  const auto tick = static_cast<uint32_t>(now >> kSelectTickShift);
  if (const std::optional<uint16_t> id = group.memory->peek(hash, tick)) {
    const uint16_t index = *id < group.index_of_id.size() ? group.index_of_id[*id] : kNoBucket;
    if (index != kNoBucket && is_live(group.buckets[index], version)) return &group.buckets[index];
  }
  return select_bucket(group, version, static_cast<uint32_t>(hash >> 32));
}

void Tracer::run_bucket(const ReferencePacket& packet, const GroupMod& mod, size_t index) {
  const ActionList set = written_set(mod.buckets[index].actions);
  line(fmt::format(" -> bucket {} of {} ({}): {}", index, mod.buckets.size(), type_name(mod.type),
                   format_actions(set)));
  const MbufPtr own = copy_of(packet.mbuf);
  if (own == nullptr) return drop(DropReason::no_buffer);
  ReferencePacket copy = packet;
  copy.mbuf = own.get();
  indent_ += 4;
  ++here_.nesting;
  if (run_list(copy, set) && std::none_of(set.begin(), set.end(), sends)) {
    drop(DropReason::no_output);
  }
  --here_.nesting;
  indent_ -= 4;
}

void Tracer::run_group(const ReferencePacket& packet, uint32_t group_id) {
  const GroupProgram* group = here_.lsi->group_program(group_id);
  const GroupMod* mod = here_.lsi->group_config(group_id);
  if (group == nullptr || mod == nullptr) return drop(DropReason::group_missing);
  if (here_.nesting >= kMaxGroupDepth) return drop(DropReason::group_loop);
  if (group->type == GroupMod::Type::all) {
    if (group->buckets.empty()) drop(DropReason::no_output);
    for (size_t index = 0; index < group->buckets.size(); ++index) run_bucket(packet, *mod, index);
    return;
  }
  const BucketProgram* bucket = choose(packet, *group);
  if (bucket == nullptr) return drop(DropReason::no_live_bucket);
  run_bucket(packet, *mod, static_cast<size_t>(bucket - group->buckets.data()));
}

/// As OVS's "Datapath actions": the ports, by bridge where there are several.
std::string summary(const Trace& trace, const std::string& bridge) {
  std::vector<std::string> parts;
  for (const TracedOutput& each : trace.outputs) {
    const std::string port = format_port(each.port);
    parts.push_back(each.bridge == bridge ? port : fmt::format("{}:{}", each.bridge, port));
  }
  for (size_t i = 0; i < trace.punts.size(); ++i) parts.emplace_back("controller");
  if (!parts.empty()) return fmt::format("{}", fmt::join(parts, ","));
  std::vector<std::string_view> reasons;
  for (const DropReason reason : trace.drops) {
    if (std::find(reasons.begin(), reasons.end(), name(reason)) == reasons.end()) {
      reasons.push_back(name(reason));
    }
  }
  return reasons.empty() ? "drop" : fmt::format("drop ({})", fmt::join(reasons, ","));
}

}  // namespace

Trace trace(const Lsi& lsi, PortNo in_port, const rte_mbuf* packet, const TracedFields& fields) {
  Tracer tracer;
  tracer.arrive(lsi, in_port, packet, &fields);
  Trace done = tracer.take();
  done.text += fmt::format("\nFinal flow: {}\nDatapath actions: {}\n", tracer.final_flow(),
                           summary(done, lsi.config().name));
  return done;
}

}  // namespace headrace::pipeline
