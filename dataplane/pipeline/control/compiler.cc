// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/compiler.h"

#include <algorithm>
#include <cstring>

#include "match/fields/set_field.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {
namespace {

using match::Field;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 needs to be told

Op make_op(OpCode code, SetOrder order, SetKind kind) {
  Op op;
  op.code = code;
  op.order = order;
  op.set_slot = static_cast<uint8_t>(match::kFieldCount + static_cast<size_t>(kind));
  return op;
}

OfResult<Op> compile_output(const OutputAction& action, bool packet_out, Resolver& resolver) {
  Op op = make_op(OpCode::output, SetOrder::output, SetKind::output);
  op.argument = action.max_len;
  switch (action.port) {
    case kPortInPort:
      op.code = OpCode::output_in_port;
      return op;
    case kPortAll:
      op.code = OpCode::output_all;
      return op;
    case kPortFlood:
      op.code = OpCode::output_flood;
      return op;
    case kPortController:
      op.code = OpCode::output_controller;
      return op;
    case kPortNormal:
      op.code = OpCode::output_normal;
      return op;
    case kPortTable:
      if (!packet_out) return tl::unexpected(of_error::kBadActionOutPort);
      op.code = OpCode::output_table;
      return op;
    default:
      break;
  }
  if (action.port == 0 || (action.port > kPortMax && action.port != kPortLocal)) {
    return tl::unexpected(of_error::kBadActionOutPort);
  }
  op.port = resolver.port_handle(action.port);
  return op;
}

OfResult<Op> compile_set_field(const SetFieldAction& action) {
  const match::FieldInfo& field = match::info(action.field);
  if (!field.settable) return tl::unexpected(of_error::kBadActionSetType);
  for (size_t i = 0; i < field.bytes; ++i) {
    if ((action.value[i] & ~match::Match::full_mask_byte(field, i)) != 0) {
      return tl::unexpected(of_error::kBadActionSetArgument);
    }
  }
  if (action.field == Field::vlan_vid && (action.value[0] & 0x10) == 0) {
    return tl::unexpected(of_error::kBadActionSetArgument);  // OFPVID_PRESENT must be set
  }
  Op op;
  op.code = OpCode::set_field;
  op.order = SetOrder::set;
  op.set = match::set_field_for(action.field);
  op.field = action.field;
  op.set_slot = static_cast<uint8_t>(action.field);
  op.bytes = action.value;
  return op;
}

OfResult<Op> compile_push(const PushAction& action) {
  using Header = PushAction::Header;
  const uint16_t type = action.ethertype;
  const bool fits = (action.header == Header::vlan && (type == 0x8100 || type == 0x88a8)) ||
                    (action.header == Header::mpls && (type == 0x8847 || type == 0x8848)) ||
                    (action.header == Header::pbb && type == 0x88e7);
  if (!fits) return tl::unexpected(of_error::kBadActionArgument);
  Op op = action.header == Header::vlan
              ? make_op(OpCode::push, SetOrder::push_vlan, SetKind::push_vlan)
          : action.header == Header::mpls
              ? make_op(OpCode::push, SetOrder::push_mpls, SetKind::push_mpls)
              : make_op(OpCode::push, SetOrder::push_pbb, SetKind::push_pbb);
  op.header = action.header;
  op.ethertype = type;
  return op;
}

Op compile_simple(const SimpleAction& action) {
  switch (action.kind) {
    case SimpleAction::Kind::dec_nw_ttl:
      return make_op(OpCode::dec_nw_ttl, SetOrder::dec_ttl, SetKind::dec_nw_ttl);
    case SimpleAction::Kind::dec_mpls_ttl:
      return make_op(OpCode::dec_mpls_ttl, SetOrder::dec_ttl, SetKind::dec_mpls_ttl);
    case SimpleAction::Kind::copy_ttl_out:
      return make_op(OpCode::copy_ttl_out, SetOrder::copy_ttl_out, SetKind::copy_ttl_out);
    case SimpleAction::Kind::copy_ttl_in:
      break;
  }
  return make_op(OpCode::copy_ttl_in, SetOrder::copy_ttl_in, SetKind::copy_ttl_in);
}

OfResult<Op> compile_push_tunnel(const PushTunnelAction& action) {
  const packet::TunnelSpec& spec = action.spec;
  if (spec.id > packet::largest_id(spec.kind) || spec.ttl == 0) {
    return tl::unexpected(of_error::kBadActionArgument);
  }
  Op op = make_op(OpCode::push_tunnel, SetOrder::push_tunnel, SetKind::push_tunnel);
  op.argument = action.id_from_field ? 1 : 0;
  op.tunnel = std::make_shared<packet::TunnelHeader>(spec);
  return op;
}

Op with_ttl(OpCode code, SetKind kind, uint8_t ttl) {
  Op op = make_op(code, SetOrder::set, kind);
  op.ttl = ttl;
  return op;
}

OfResult<Op> compile_action(const Action& action, bool packet_out, Resolver& resolver) {
  return std::visit(
      Overloaded{
          [&](const OutputAction& a) { return compile_output(a, packet_out, resolver); },
          [&](const GroupAction& a) -> OfResult<Op> {
            Op op = make_op(OpCode::group, SetOrder::group, SetKind::group);
            op.group = resolver.group_handle(a.group_id);
            if (op.group == nullptr) return tl::unexpected(of_error::kBadActionOutGroup);
            return op;
          },
          [&](const SetQueueAction& a) -> OfResult<Op> {
            Op op = make_op(OpCode::set_queue, SetOrder::qos, SetKind::qos);
            op.argument = a.queue_id;
            return op;
          },
          [&](const SetFieldAction& a) { return compile_set_field(a); },
          [&](const PushAction& a) { return compile_push(a); },
          [&](const PopAction& a) -> OfResult<Op> {
            using Header = PushAction::Header;
            Op op = make_op(OpCode::pop, SetOrder::pop,
                            a.header == Header::vlan   ? SetKind::pop_vlan
                            : a.header == Header::mpls ? SetKind::pop_mpls
                                                       : SetKind::pop_pbb);
            op.header = a.header;
            op.ethertype = a.ethertype;
            return op;
          },
          [&](const SetMplsTtlAction& a) -> OfResult<Op> {
            return with_ttl(OpCode::set_mpls_ttl, SetKind::set_mpls_ttl, a.ttl);
          },
          [&](const SetNwTtlAction& a) -> OfResult<Op> {
            return with_ttl(OpCode::set_nw_ttl, SetKind::set_nw_ttl, a.ttl);
          },
          [&](const SimpleAction& a) -> OfResult<Op> { return compile_simple(a); },
          [&](const PushTunnelAction& a) { return compile_push_tunnel(a); },
          [&](const SelectMemoryAction&) -> OfResult<Op> {
            return tl::unexpected(of_error::kBadActionArgument);  // for buckets only
          },
          [&](const PopTunnelAction& a) -> OfResult<Op> {
            Op op = make_op(OpCode::pop_tunnel, SetOrder::pop, SetKind::pop_tunnel);
            op.argument = static_cast<uint32_t>(a.kind);
            return op;
          },
      },
      action);
}

/// Fills `rule` as FastPathClass::forward if that is all the ops do.
bool fuse_forward(const std::vector<Op>& ops, Rule& rule) {
  uint8_t edits = 0;
  for (const Op& op : ops) {
    if (rule.out != nullptr) return false;  // something follows the output
    // What follows a tunnel would edit the outer header.
    if ((edits & kEditTunnel) != 0 && op.code != OpCode::output) return false;
    switch (op.code) {
      case OpCode::set_field: {
        if (op.field != Field::eth_dst && op.field != Field::eth_src) return false;
        const size_t at = op.field == Field::eth_dst ? 0 : 6;
        std::memcpy(rule.l2_value + at, op.bytes.data(), 6);
        std::memset(rule.l2_mask + at, 0xff, 6);
        edits |= kEditL2;
        break;
      }
      case OpCode::dec_nw_ttl:
        if ((edits & kEditTtl) != 0) return false;
        edits |= kEditTtl;
        break;
      case OpCode::push_tunnel:
        rule.tunnel = op.tunnel.get();
        edits |= kEditTunnel;
        if (op.argument != 0) edits |= kEditTunnelId;
        break;
      case OpCode::output:
        rule.out = op.port;
        break;
      default:
        return false;
    }
  }
  if (rule.out == nullptr) return false;
  rule.edits = edits;
  rule.fast_path = FastPathClass::forward;
  return true;
}

void choose_fast_path(Rule& rule) {
  const RuleBody& body = *rule.body;
  rule.fast_path = FastPathClass::general;
  if (body.metadata_mask != 0 || body.clear_actions) return;
  if (body.meter != nullptr) {
    rule.meter = body.meter;
    const bool only = rule.next_table != kNoTable && body.apply.empty() && body.write.empty();
    if (only) rule.fast_path = FastPathClass::meter;
    return;
  }
  if (rule.next_table != kNoTable) {
    if (!body.write.empty()) return;
    if (body.apply.empty()) {
      rule.fast_path = FastPathClass::go;
    } else if (body.apply.size() == 1 && body.apply[0].code == OpCode::pop_tunnel) {
      rule.fast_path = FastPathClass::pop;
      rule.popped = static_cast<packet::TunnelKind>(body.apply[0].argument);
    }
    return;
  }
  if (body.apply.empty() && body.write.empty()) {
    rule.fast_path = FastPathClass::drop;
    return;
  }
  // The executor takes this fast-path class only for packets whose action set is still empty, so
  // what this rule writes is the whole of the set.
  std::vector<Op> all = body.apply;
  const std::vector<Op> set = as_action_set(body.write);
  all.insert(all.end(), set.begin(), set.end());
  if (all.size() == 1 && all[0].code == OpCode::group) {
    rule.fast_path = FastPathClass::select;
    rule.group = all[0].group;
    return;
  }
  Rule fused = rule;
  if (fuse_forward(all, fused)) rule = fused;
}

}  // namespace

OfResult<std::vector<Op>> compile_actions(const ActionList& actions, bool packet_out,
                                          Resolver& resolver) {
  std::vector<Op> ops;
  ops.reserve(actions.size());
  for (const Action& action : actions) {
    OfResult<Op> op = compile_action(action, packet_out, resolver);
    if (!op) return tl::unexpected(op.error());
    ops.push_back(*op);
  }
  return ops;
}

std::vector<Op> as_action_set(const std::vector<Op>& ops) {
  std::vector<Op> set;
  for (const Op& op : ops) {
    std::erase_if(set, [&](const Op& other) { return other.set_slot == op.set_slot; });
    set.push_back(op);
  }
  std::stable_sort(set.begin(), set.end(),
                   [](const Op& a, const Op& b) { return a.order < b.order; });
  const bool grouped =
      std::any_of(set.begin(), set.end(), [](const Op& op) { return op.code == OpCode::group; });
  if (grouped) std::erase_if(set, [](const Op& op) { return op.order == SetOrder::output; });
  return set;
}

match::WordSet words_of(const std::vector<Op>& ops) {
  constexpr match::WordSet kIp = 1u << 3;
  constexpr match::WordSet kL4 = 1u << 4;
  constexpr match::WordSet kMpls = 1u << 7;
  constexpr match::WordSet kPbb = 1u << 9;
  match::WordSet words = 0;
  for (const Op& op : ops) {
    switch (op.code) {
      case OpCode::set_field:
        words |= match::words_of_set_field(op.field);
        break;
      case OpCode::set_nw_ttl:
      case OpCode::dec_nw_ttl:
        words |= kIp;
        break;
      case OpCode::group:
      case OpCode::push_tunnel:
      case OpCode::pop_tunnel:
        words |= kIp | kL4;  // a select group and a tunnel's source port hash them
        break;
      case OpCode::push:
      case OpCode::pop:
        if (op.header == PushAction::Header::mpls) words |= kMpls;
        if (op.header == PushAction::Header::pbb) words |= kPbb;
        break;
      case OpCode::set_mpls_ttl:
      case OpCode::dec_mpls_ttl:
      case OpCode::copy_ttl_out:
      case OpCode::copy_ttl_in:
        words |= kMpls;
        break;
      default:
        break;
    }
  }
  return words;
}

Rule compile_bucket(const std::vector<Op>& ops, CounterIndex counter) {
  Rule rule{};
  rule.fast_path = FastPathClass::general;
  rule.next_table = kNoTable;
  rule.counter = counter;
  Rule fused = rule;
  return fuse_forward(ops, fused) ? fused : rule;
}

OfResult<CompiledRule> compile_rule(const FlowMod& mod, Resolver& resolver) {
  CompiledRule compiled;
  compiled.body = std::make_unique<RuleBody>();
  RuleBody& body = *compiled.body;
  Rule& rule = compiled.rule;
  rule = Rule{};
  rule.next_table = kNoTable;
  rule.body = &body;
  rule.track_idle = mod.idle_timeout != 0 ? 1 : 0;
  body.cookie = mod.cookie;
  body.table_id = mod.table_id;
  body.table_miss = mod.priority == 0 && mod.match.words == 0;

  uint32_t seen = 0;
  for (const Instruction& instruction : mod.instructions) {
    const uint32_t bit = 1u << instruction.index();
    if ((seen & bit) != 0) return tl::unexpected(of_error::kBadInstructionDuplicate);
    seen |= bit;
    OfResult<> done = std::visit(
        Overloaded{
            [&](const GotoTable& i) -> OfResult<> {
              if (i.table_id <= mod.table_id || i.table_id >= kTableCount) {
                return tl::unexpected(of_error::kBadInstructionTableId);
              }
              rule.next_table = i.table_id;
              return {};
            },
            [&](const WriteMetadata& i) -> OfResult<> {
              body.metadata = __builtin_bswap64(i.metadata & i.mask);
              body.metadata_mask = __builtin_bswap64(i.mask);
              return {};
            },
            [&](const WriteActions& i) -> OfResult<> {
              OfResult<std::vector<Op>> ops = compile_actions(i.actions, false, resolver);
              if (!ops) return tl::unexpected(ops.error());
              body.write = std::move(*ops);
              return {};
            },
            [&](const ApplyActions& i) -> OfResult<> {
              OfResult<std::vector<Op>> ops = compile_actions(i.actions, false, resolver);
              if (!ops) return tl::unexpected(ops.error());
              body.apply = std::move(*ops);
              return {};
            },
            [&](const ClearActions&) -> OfResult<> {
              body.clear_actions = true;
              return {};
            },
            [&](const MeterInstruction& i) -> OfResult<> {
              body.meter = resolver.meter_handle(i.meter_id);
              if (body.meter == nullptr) return tl::unexpected(of_error::kMeterUnknown);
              return {};
            },
        },
        instruction);
    if (!done) return tl::unexpected(done.error());
  }
  compiled.words = mod.match.words | words_of(body.apply) | words_of(body.write);
  if (body.meter != nullptr) compiled.words |= 1u << 3 | 1u << 4;  // a DSCP may be remarked
  choose_fast_path(rule);
  return compiled;
}

}  // namespace headrace::pipeline
