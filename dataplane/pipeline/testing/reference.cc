// SPDX-License-Identifier: Apache-2.0
#include "pipeline/testing/reference.h"

#include <algorithm>

#include "pipeline/control/group_table.h"
#include "pipeline/execute/flow_hash.h"
#include "pipeline/program/operation.h"

namespace headrace::pipeline::test {

/// A packet of its own, with what is known of it; a copy of it is another packet.
struct Reference::Packet : ReferencePacket {
  Packet(Reference& reference, PortNo port, const Bytes& bytes)
      : ReferencePacket{reference, port, make_packet(bytes)} {
    key.in_port = __builtin_bswap32(port);
    key.in_phy_port = key.in_port;
    refresh();
  }
  explicit Packet(const ReferencePacket& other) : ReferencePacket(other) {
    mbuf = make_packet(bytes_of(other.mbuf));
  }
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;
  ~Packet() { rte_pktmbuf_free(mbuf); }
};

namespace {

/// Of two actions in a set, whether the later replaces the other (section 5.10).
bool same_place(const Action& a, const Action& b) {
  if (&a.operation() != &b.operation()) return false;
  const auto* field = a.as<SetFieldAction>();
  return field == nullptr || field->field == b.as<SetFieldAction>()->field;
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
        flow.mod.match.matches(packet.key)) {
      best = &flow;
    }
  }
  return best;
}

void Reference::process(PortNo in_port, const Bytes& bytes) {
  Packet packet(*this, in_port, bytes);
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
      const uint64_t now = __builtin_bswap64(packet.key.metadata);
      packet.key.metadata =
          __builtin_bswap64((now & ~write->mask) | (write->metadata & write->mask));
    }
    table = go->table_id;
  }
}

bool Reference::run_list(ReferencePacket& packet, const ActionList& actions, const Flow& flow) {
  flow_ = &flow;
  packet.table_miss = flow.mod.priority == 0 && flow.mod.match.words == 0;
  return std::all_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.operation().reference(packet, action);
  });
}

void Reference::run_set(ReferencePacket& packet, const ActionList& written, const Flow& flow) {
  ActionList set;
  for (const Action& action : written) {
    std::erase_if(set, [&](const Action& other) { return same_place(other, action); });
    set.push_back(action);
  }
  const auto order = [](const Action& action) { return action.operation().order; };
  std::stable_sort(set.begin(), set.end(),
                   [&](const Action& a, const Action& b) { return order(a) < order(b); });
  const bool grouped =
      std::any_of(set.begin(), set.end(), [](const Action& a) { return a.is<GroupAction>(); });
  if (grouped) std::erase_if(set, [](const Action& a) { return a.is<OutputAction>(); });
  run_list(packet, set, flow);
}

// --- what operations ask of the switch ---------------------------------------------------------

void Reference::send(const ReferencePacket& packet, PortNo port) {
  if (port >= 1 && port <= n_ports_) sent[port].push_back(bytes_of(packet.mbuf));
}

std::vector<PortNo> Reference::flood_ports(const ReferencePacket& packet) const {
  std::vector<PortNo> all;
  for (PortNo port = 1; port <= n_ports_; ++port) {
    if (port != packet.in_port) all.push_back(port);
  }
  return all;
}

void Reference::punt(const ReferencePacket& packet, PuntReason reason) {
  punts.push_back({flow_->mod.table_id, reason, flow_->mod.cookie,
                   __builtin_bswap64(packet.key.metadata), bytes_of(packet.mbuf)});
}

void Reference::learn(uint64_t address, PortNo port) {
  macs_[address] = port;
}

PortNo Reference::find(uint64_t address) const {
  const auto found = macs_.find(address);
  return found == macs_.end() ? 0 : found->second;
}

void Reference::run_group(const ReferencePacket& packet, uint32_t group_id) {
  const Flow& flow = *flow_;
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
      const uint64_t number = flow_hash64(packet.mbuf, packet.parsed);
      const auto hash = static_cast<uint32_t>(select_hash(packet.mbuf, number) >> 32);
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
