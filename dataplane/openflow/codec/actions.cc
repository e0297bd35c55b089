// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/actions.h"

#include "openflow/codec/oxm.h"
#include "openflow/codec/tunnel_actions.h"

namespace headrace::openflow {
namespace {

using pipeline::Action;
using pipeline::ActionList;
using pipeline::PopAction;
using pipeline::PushAction;
using pipeline::SimpleAction;
using Header = PushAction::Header;

/// ofp_action_type.
namespace type {
constexpr uint16_t kOutput = 0;
constexpr uint16_t kCopyTtlOut = 11;
constexpr uint16_t kCopyTtlIn = 12;
constexpr uint16_t kSetMplsTtl = 15;
constexpr uint16_t kDecMplsTtl = 16;
constexpr uint16_t kPushVlan = 17;
constexpr uint16_t kPopVlan = 18;
constexpr uint16_t kPushMpls = 19;
constexpr uint16_t kPopMpls = 20;
constexpr uint16_t kSetQueue = 21;
constexpr uint16_t kGroup = 22;
constexpr uint16_t kSetNwTtl = 23;
constexpr uint16_t kDecNwTtl = 24;
constexpr uint16_t kSetField = 25;
constexpr uint16_t kPushPbb = 26;
constexpr uint16_t kPopPbb = 27;
constexpr uint16_t kExperimenter = 0xffff;
}  // namespace type

/// The fixed length of an action; 0 for those of variable length and those unknown.
size_t fixed_length(uint16_t action_type) {
  switch (action_type) {
    case type::kOutput:
      return 16;
    case type::kSetField:
    case type::kExperimenter:
      return 0;
    default:
      return 8;
  }
}

OfResult<Action> decode_output(Reader& reader, ActionContext context) {
  const pipeline::PortNo port = reader.u32();
  const uint16_t max_len = reader.u16();
  const bool physical = port > 0 && port <= pipeline::kPortMax;
  const bool reserved = port >= pipeline::kPortInPort && port <= pipeline::kPortLocal;
  const bool table_elsewhere = port == pipeline::kPortTable && context != ActionContext::packet_out;
  if ((!physical && !reserved) || table_elsewhere) return of_fail(error::kActionBadOutPort);
  return pipeline::OutputAction{port, max_len};
}

OfResult<Action> decode_push(Header header, uint16_t ethertype) {
  bool known = false;
  switch (header) {
    case Header::vlan:
      known = ethertype == 0x8100 || ethertype == 0x88a8;
      break;
    case Header::mpls:
      known = ethertype == 0x8847 || ethertype == 0x8848;
      break;
    case Header::pbb:
      known = ethertype == 0x88e7;
      break;
  }
  if (!known) return of_fail(error::kActionBadArgument);
  return PushAction{header, ethertype};
}

OfResult<Action> decode_group(uint32_t group_id) {
  if (group_id > pipeline::kGroupMax) return of_fail(error::kActionBadOutGroup);
  return pipeline::GroupAction{group_id};
}

OfResult<Action> decode_set_field(Reader& reader) {
  OfResult<pipeline::SetFieldAction> action = decode_set_field_oxm(reader);
  if (!action) return of_fail(action.error());
  if (reader.left() >= 8) return of_fail(error::kActionBadSetLen);
  return *action;
}

OfResult<Action> decode_action(uint16_t action_type, Reader& reader, ActionContext context) {
  switch (action_type) {
    case type::kOutput:
      return decode_output(reader, context);
    case type::kCopyTtlOut:
      return SimpleAction{SimpleAction::Kind::copy_ttl_out};
    case type::kCopyTtlIn:
      return SimpleAction{SimpleAction::Kind::copy_ttl_in};
    case type::kSetMplsTtl:
      return pipeline::SetMplsTtlAction{reader.u8()};
    case type::kDecMplsTtl:
      return SimpleAction{SimpleAction::Kind::dec_mpls_ttl};
    case type::kPushVlan:
      return decode_push(Header::vlan, reader.u16());
    case type::kPopVlan:
      return PopAction{Header::vlan, 0};
    case type::kPushMpls:
      return decode_push(Header::mpls, reader.u16());
    case type::kPopMpls:
      return PopAction{Header::mpls, reader.u16()};
    case type::kSetQueue:
      return pipeline::SetQueueAction{reader.u32()};
    case type::kGroup:
      return decode_group(reader.u32());
    case type::kSetNwTtl:
      return pipeline::SetNwTtlAction{reader.u8()};
    case type::kDecNwTtl:
      return SimpleAction{SimpleAction::Kind::dec_nw_ttl};
    case type::kSetField:
      return decode_set_field(reader);
    case type::kPushPbb:
      return decode_push(Header::pbb, reader.u16());
    case type::kPopPbb:
      return PopAction{Header::pbb, 0};
    case type::kExperimenter:
      if (std::optional<OfResult<Action>> ours = decode_tunnel_action(reader)) return *ours;
      return of_fail(error::kActionBadExperimenter);
    default:
      return of_fail(error::kActionBadType);
  }
}

/// Writes one action; one overload for each alternative of pipeline::Action.
class ActionWriter {
 public:
  explicit ActionWriter(Writer& writer) : writer_(writer) {}

  void operator()(const pipeline::OutputAction& action) {
    head(type::kOutput, 16);
    writer_.u32(action.port);
    writer_.u16(action.max_len);
    writer_.zeros(6);
  }
  void operator()(const pipeline::GroupAction& action) {
    head(type::kGroup, 8);
    writer_.u32(action.group_id);
  }
  void operator()(const pipeline::SetQueueAction& action) {
    head(type::kSetQueue, 8);
    writer_.u32(action.queue_id);
  }
  void operator()(const pipeline::SetFieldAction& action) {
    const size_t start = writer_.size();
    head(type::kSetField, 0);
    encode_oxm(writer_, {action.field, false, action.value, {}});
    writer_.pad8(start);
    writer_.patch16(start + 2, writer_.size() - start);
  }
  void operator()(const PushAction& action) {
    static constexpr uint16_t kTypes[] = {type::kPushVlan, type::kPushMpls, type::kPushPbb};
    with_ethertype(kTypes[static_cast<size_t>(action.header)], action.ethertype);
  }
  void operator()(const PopAction& action) {
    static constexpr uint16_t kTypes[] = {type::kPopVlan, type::kPopMpls, type::kPopPbb};
    with_ethertype(kTypes[static_cast<size_t>(action.header)], action.ethertype);
  }
  void operator()(const pipeline::SetMplsTtlAction& action) {
    with_ttl(type::kSetMplsTtl, action.ttl);
  }
  void operator()(const pipeline::SetNwTtlAction& action) { with_ttl(type::kSetNwTtl, action.ttl); }
  void operator()(const pipeline::PushTunnelAction& action) {
    encode_tunnel_action(writer_, action);
  }
  void operator()(const pipeline::SelectMemoryAction& action) {
    encode_tunnel_action(writer_, action);
  }
  void operator()(const pipeline::PopTunnelAction& action) {
    encode_tunnel_action(writer_, action);
  }
  void operator()(const SimpleAction& action) {
    static constexpr uint16_t kTypes[] = {type::kDecNwTtl, type::kDecMplsTtl, type::kCopyTtlOut,
                                          type::kCopyTtlIn};
    head(kTypes[static_cast<size_t>(action.kind)], 8);
    writer_.zeros(4);
  }

 private:
  void head(uint16_t action_type, uint16_t length) {
    writer_.u16(action_type);
    writer_.u16(length);
  }
  void with_ethertype(uint16_t action_type, uint16_t ethertype) {
    head(action_type, 8);
    writer_.u16(ethertype);
    writer_.zeros(2);
  }
  void with_ttl(uint16_t action_type, uint8_t ttl) {
    head(action_type, 8);
    writer_.u8(ttl);
    writer_.zeros(3);
  }

  Writer& writer_;
};

}  // namespace

OfResult<ActionList> decode_actions(Bytes bytes, ActionContext context) {
  ActionList actions;
  Reader reader(bytes);
  while (reader.left() > 0) {
    const uint16_t action_type = reader.u16();
    const uint16_t length = reader.u16();
    if (!reader.ok() || length < 8 || length % 8 != 0) return of_fail(error::kActionBadLen);
    Reader body(reader.bytes(length - 4u));
    if (!reader.ok()) return of_fail(error::kActionBadLen);
    OfResult<Action> action = decode_action(action_type, body, context);
    if (!action) return of_fail(action.error());
    const size_t fixed = fixed_length(action_type);
    if (!body.ok() || (fixed != 0 && fixed != length)) return of_fail(error::kActionBadLen);
    actions.push_back(*action);
  }
  return actions;
}

void encode_actions(Writer& writer, const ActionList& actions) {
  ActionWriter write(writer);
  for (const Action& action : actions) std::visit(write, action);
}

namespace {

OfResult<> check_set_field(const pipeline::SetFieldAction& set, const KnownHeaders& known) {
  // A VLAN id can be set only where there is a tag to hold it.
  const bool met =
      set.field == match::Field::vlan_vid ? known.vlan : prerequisites_met(set.field, known);
  if (!met) return of_fail(error::kActionMatchInconsistent);
  return {};
}

}  // namespace

OfResult<> check_consistency(const ActionList& actions, KnownHeaders& known) {
  for (const Action& action : actions) {
    if (const auto* set = std::get_if<pipeline::SetFieldAction>(&action)) {
      if (OfResult<> checked = check_set_field(*set, known); !checked) return checked;
    }
    known.apply(action);
  }
  return {};
}

OfResult<> check_set_consistency(const ActionList& actions, const KnownHeaders& known) {
  KnownHeaders after = known;
  for (const Action& action : actions) {
    if (std::holds_alternative<PopAction>(action)) after.apply(action);
  }
  for (const Action& action : actions) {
    if (std::holds_alternative<PushAction>(action)) after.apply(action);
  }
  for (const Action& action : actions) {
    if (const auto* set = std::get_if<pipeline::SetFieldAction>(&action)) {
      if (OfResult<> checked = check_set_field(*set, after); !checked) return checked;
    }
  }
  return {};
}

}  // namespace headrace::openflow
