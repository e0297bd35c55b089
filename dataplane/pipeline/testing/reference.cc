// SPDX-License-Identifier: Apache-2.0
#include "pipeline/testing/reference.h"

#include <algorithm>

#include "match/fields/extract.h"
#include "match/fields/set_field.h"
#include "packet/edit.h"
#include "pipeline/control/group_table.h"
#include "pipeline/execute/action_runner.h"

namespace headrace::pipeline::test {

using packet::Depth;
using packet::TtlResult;

/// A packet with what is known of it; a copy of it is a packet of its own.
struct Reference::Packet {
  Packet(PortNo port, const Bytes& bytes) : in_port(port), mbuf(make_packet(bytes)) {
    values.in_port = __builtin_bswap32(port);
    values.in_phy_port = values.in_port;
    refresh();
  }
  Packet(const Packet& other)
      : in_port(other.in_port),
        mbuf(make_packet(bytes_of(other.mbuf))),
        values(other.values),
        parsed(other.parsed) {}
  Packet& operator=(const Packet&) = delete;
  ~Packet() { rte_pktmbuf_free(mbuf); }

  void refresh() { match::refresh(Depth::full, mbuf, values, parsed); }

  PortNo in_port;
  rte_mbuf* mbuf;
  match::FlowKey values{};
  packet::ParsedPacket parsed;
};

namespace {

/// Where an action stands in an action set (section 5.10), and what it replaces there.
std::pair<int, int> place_in_set(const Action& action) {
  if (std::get_if<OutputAction>(&action)) return {110, 0};
  if (std::get_if<GroupAction>(&action)) return {100, 0};
  if (std::get_if<SetQueueAction>(&action)) return {90, 0};
  if (const auto* a = std::get_if<SetFieldAction>(&action)) return {80, static_cast<int>(a->field)};
  if (std::get_if<SetNwTtlAction>(&action)) return {80, 1001};
  if (std::get_if<SetMplsTtlAction>(&action)) return {80, 1002};
  if (const auto* a = std::get_if<PopAction>(&action)) return {20, static_cast<int>(a->header)};
  if (std::get_if<PopTunnelAction>(&action)) return {20, 1000};
  if (std::get_if<PushTunnelAction>(&action)) return {85, 0};
  if (const auto* a = std::get_if<PushAction>(&action)) {
    return {a->header == PushAction::Header::mpls  ? 30
            : a->header == PushAction::Header::pbb ? 40
                                                   : 50,
            0};
  }
  switch (std::get<SimpleAction>(action).kind) {
    case SimpleAction::Kind::copy_ttl_in:
      return {10, 0};
    case SimpleAction::Kind::copy_ttl_out:
      return {60, 0};
    case SimpleAction::Kind::dec_nw_ttl:
      return {70, 0};
    case SimpleAction::Kind::dec_mpls_ttl:
      return {70, 1};
  }
  return {0, 0};
}

}  // namespace

void Reference::flow_mod(const FlowMod& mod) {
  std::vector<Flow>& flows = tables[mod.table_id].flows;
  const auto same = [&](const Flow& flow) {
    return flow.mod.priority == mod.priority && flow.mod.match.same_as(mod.match);
  };
  const auto found = std::find_if(flows.begin(), flows.end(), same);
  switch (mod.command) {
    case FlowMod::Command::add:
      if (found == flows.end()) {
        flows.push_back({mod, {}});
      } else {
        found->mod = mod;
      }
      break;
    case FlowMod::Command::modify_strict:
      if (found != flows.end()) found->mod.instructions = mod.instructions;
      break;
    case FlowMod::Command::remove_strict:
      if (found != flows.end()) flows.erase(found);
      break;
    default:
      std::abort();  // the tests don't use the others here
  }
}

void Reference::group_mod(const GroupMod& mod) {
  Group& group = groups[mod.group_id];
  group.mod = mod;
  group.buckets.assign(mod.buckets.size(), {});
}

/// Section 6.7: by its port or by a bucket of its group; all ports that are there are up.
bool Reference::is_live(const Bucket& bucket) const {
  if (bucket.watch_port == kPortAny && bucket.watch_group == kGroupAny) return true;
  if (bucket.watch_port >= 1 && bucket.watch_port <= n_ports_) return true;
  const auto group = groups.find(bucket.watch_group);
  return group != groups.end() &&
         std::any_of(group->second.mod.buckets.begin(), group->second.mod.buckets.end(),
                     [this](const Bucket& each) { return is_live(each); });
}

Reference::Flow* Reference::find(uint8_t table, const Packet& packet) {
  Flow* best = nullptr;
  for (Flow& flow : tables[table].flows) {
    if ((best == nullptr || flow.mod.priority > best->mod.priority) &&
        flow.mod.match.matches(packet.values)) {
      best = &flow;
    }
  }
  return best;
}

void Reference::process(PortNo in_port, const Bytes& bytes) {
  Packet packet(in_port, bytes);
  ActionList set;
  for (uint8_t table = 0;;) {
    ++tables[table].lookups;
    Flow* flow = find(table, packet);
    if (flow == nullptr) return;
    ++tables[table].matched;
    ++flow->counts.packets;
    flow->counts.bytes += packet.mbuf->pkt_len;
    const auto has = [&](auto* kind) -> decltype(kind) {
      using Kind = std::remove_pointer_t<decltype(kind)>;
      for (const Instruction& i : flow->mod.instructions) {
        if (const auto* found = std::get_if<std::remove_const_t<Kind>>(&i)) return found;
      }
      return nullptr;
    };
    if (const auto* apply = has(static_cast<const ApplyActions*>(nullptr))) {
      if (!run_list(packet, apply->actions, *flow)) return;
    }
    if (has(static_cast<const ClearActions*>(nullptr)) != nullptr) set.clear();
    if (const auto* write = has(static_cast<const WriteActions*>(nullptr))) {
      set.insert(set.end(), write->actions.begin(), write->actions.end());
    }
    const auto* go = has(static_cast<const GotoTable*>(nullptr));
    if (go == nullptr) {
      run_set(packet, set, *flow);
      return;
    }
    if (const auto* write = has(static_cast<const WriteMetadata*>(nullptr))) {
      const uint64_t now = __builtin_bswap64(packet.values.metadata);
      packet.values.metadata =
          __builtin_bswap64((now & ~write->mask) | (write->metadata & write->mask));
    }
    table = go->table_id;
  }
}

bool Reference::run_list(Packet& packet, const ActionList& actions, const Flow& flow) {
  return std::all_of(actions.begin(), actions.end(),
                     [&](const Action& action) { return run(packet, action, flow); });
}

bool Reference::run(Packet& packet, const Action& action, const Flow& flow) {
  using Header = PushAction::Header;
  rte_mbuf* mbuf = packet.mbuf;
  packet::ParsedPacket& parsed = packet.parsed;
  bool done = true;
  TtlResult ttl = TtlResult::done;
  if (const auto* a = std::get_if<OutputAction>(&action)) {
    output(packet, *a, flow);
    return true;
  }
  if (const auto* a = std::get_if<GroupAction>(&action)) {
    run_group(packet, a->group_id, flow);
    return true;
  }
  if (const auto* a = std::get_if<SetFieldAction>(&action)) {
    done = match::set_field_for(a->field)(mbuf, parsed, packet.values, a->value.data());
  } else if (const auto* a = std::get_if<PushAction>(&action)) {
    done = a->header == Header::vlan   ? packet::push_vlan(mbuf, parsed, a->ethertype, Depth::full)
           : a->header == Header::mpls ? packet::push_mpls(mbuf, parsed, a->ethertype, Depth::full)
                                       : packet::push_pbb(mbuf, parsed, Depth::full);
  } else if (const auto* a = std::get_if<PopAction>(&action)) {
    done = a->header == Header::vlan   ? packet::pop_vlan(mbuf, parsed, Depth::full)
           : a->header == Header::mpls ? packet::pop_mpls(mbuf, parsed, a->ethertype, Depth::full)
                                       : packet::pop_pbb(mbuf, parsed, Depth::full);
  } else if (const auto* a = std::get_if<SetNwTtlAction>(&action)) {
    done = packet::set_nw_ttl(mbuf, parsed, a->ttl);
  } else if (const auto* a = std::get_if<SetMplsTtlAction>(&action)) {
    done = packet::set_mpls_ttl(mbuf, parsed, a->ttl);
  } else if (const auto* a = std::get_if<SimpleAction>(&action)) {
    switch (a->kind) {
      case SimpleAction::Kind::dec_nw_ttl:
        ttl = packet::dec_nw_ttl(mbuf, parsed);
        break;
      case SimpleAction::Kind::dec_mpls_ttl:
        ttl = packet::dec_mpls_ttl(mbuf, parsed);
        break;
      case SimpleAction::Kind::copy_ttl_out:
        done = packet::copy_ttl_out(mbuf, parsed);
        break;
      case SimpleAction::Kind::copy_ttl_in:
        done = packet::copy_ttl_in(mbuf, parsed);
        break;
    }
  }
  if (const auto* a = std::get_if<PushTunnelAction>(&action)) {
    const uint64_t id = a->id_from_field ? __builtin_bswap64(packet.values.tunnel_id) : a->spec.id;
    done =
        packet::TunnelHeader(a->spec).push(
            mbuf, parsed, id, entropy_of(flow_hash64(mbuf, parsed))) == packet::TunnelResult::done;
  } else if (const auto* a = std::get_if<PopTunnelAction>(&action)) {
    done = pop_tunnel(packet, a->kind);
  }
  if (ttl == TtlResult::expired) {
    punts.push_back({flow.mod.table_id, PuntReason::invalid_ttl, flow.mod.cookie,
                     __builtin_bswap64(packet.values.metadata), bytes_of(mbuf)});
    return false;
  }
  if (done) packet.refresh();
  return done;
}

bool Reference::pop_tunnel(Packet& packet, packet::TunnelKind kind) {
  const packet::TunnelFound found = packet::find_tunnel(packet.mbuf, packet.parsed, kind);
  if (found.result != packet::TunnelResult::done) return false;
  const Bytes outer = bytes_of(packet.mbuf);
  if (!packet::pop_tunnel(packet.mbuf, found)) return false;
  packet.values.tunnel_id = __builtin_bswap64(found.id);
  match::FlowKey& values = packet.values;
  values.tun_src = values.tun_dst = 0;
  std::memset(values.tun_ipv6_src, 0, 16);
  std::memset(values.tun_ipv6_dst, 0, 16);
  if (packet.parsed.has(packet::kIpv4)) {
    std::memcpy(&values.tun_src, &outer[packet.parsed.l3 + 12u], 4);
    std::memcpy(&values.tun_dst, &outer[packet.parsed.l3 + 16u], 4);
  } else {
    std::memcpy(values.tun_ipv6_src, &outer[packet.parsed.l3 + 8u], 16);
    std::memcpy(values.tun_ipv6_dst, &outer[packet.parsed.l3 + 24u], 16);
  }
  return true;
}

void Reference::run_set(Packet& packet, const ActionList& written, const Flow& flow) {
  ActionList set;
  for (const Action& action : written) {
    std::erase_if(set,
                  [&](const Action& other) { return place_in_set(other) == place_in_set(action); });
    set.push_back(action);
  }
  std::stable_sort(set.begin(), set.end(), [](const Action& a, const Action& b) {
    return place_in_set(a).first < place_in_set(b).first;
  });
  const bool grouped = std::any_of(set.begin(), set.end(), [](const Action& action) {
    return std::holds_alternative<GroupAction>(action);
  });
  if (grouped) {
    std::erase_if(set, [](const Action& a) { return std::holds_alternative<OutputAction>(a); });
  }
  run_list(packet, set, flow);
}

void Reference::output(const Packet& packet, const OutputAction& action, const Flow& flow) {
  const Bytes bytes = bytes_of(packet.mbuf);
  switch (action.port) {
    case kPortInPort:
      sent[packet.in_port].push_back(bytes);
      break;
    case kPortAll:
    case kPortFlood:
      for (PortNo port = 1; port <= n_ports_; ++port) {
        if (port != packet.in_port) sent[port].push_back(bytes);
      }
      break;
    case kPortController: {
      const bool miss = flow.mod.priority == 0 && flow.mod.match.words == 0;
      punts.push_back({flow.mod.table_id, miss ? PuntReason::no_match : PuntReason::action,
                       flow.mod.cookie, __builtin_bswap64(packet.values.metadata), bytes});
      break;
    }
    default:
      if (action.port <= n_ports_ && action.port != packet.in_port) {
        sent[action.port].push_back(bytes);
      }
      break;
  }
}

void Reference::run_group(const Packet& packet, uint32_t group_id, const Flow& flow) {
  Group& group = groups.at(group_id);
  ++group.counts.packets;
  group.counts.bytes += packet.mbuf->pkt_len;
  const auto run_bucket = [&](size_t index) {
    ++group.buckets[index].packets;
    group.buckets[index].bytes += packet.mbuf->pkt_len;
    Packet own(packet);
    run_set(own, group.mod.buckets[index].actions, flow);
  };
  switch (group.mod.type) {
    case GroupMod::Type::all:
      for (size_t index = 0; index < group.mod.buckets.size(); ++index) run_bucket(index);
      break;
    case GroupMod::Type::indirect:
      run_bucket(0);
      break;
    case GroupMod::Type::select: {
      const std::vector<uint16_t> bucket_table = make_bucket_table(group.mod.buckets);
      const uint64_t flow = flow_hash64(packet.mbuf, packet.parsed);
      const auto hash = static_cast<uint32_t>(select_hash(packet.mbuf, flow) >> 32);
      if (!bucket_table.empty())
        run_bucket(bucket_table[uint64_t{hash} * bucket_table.size() >> 32]);
      break;
    }
    case GroupMod::Type::fast_failover:
      for (size_t index = 0; index < group.mod.buckets.size(); ++index) {
        if (is_live(group.mod.buckets[index])) {
          run_bucket(index);
          return;
        }
      }
      break;
  }
}

}  // namespace headrace::pipeline::test
