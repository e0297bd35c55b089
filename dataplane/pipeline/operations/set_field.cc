// SPDX-License-Identifier: Apache-2.0
// OFPAT_SET_FIELD: a value into a header field, or into a field that only the flow key holds.
#include "match/fields/set_field.h"

#include "match/fields/oxm.h"
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"
#include "pipeline/program/rule.h"

namespace headrace::pipeline {
namespace {

using match::Field;

constexpr uint16_t kType = 25;
constexpr uint8_t kVidPresent = 0x10;  ///< OFPVID_PRESENT, of the first octet

bool lacks_vid_present(Field field, const uint8_t* value) {
  return field == Field::vlan_vid && (value[0] & kVidPresent) == 0;
}

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const match::OxmHeader header = match::read_oxm_header(body);
  wire::Reader payload(body.bytes(header.length));
  if (!body.ok()) return tl::unexpected(of_error::kBadActionSetLength);
  const std::optional<Field> field = match::field_of_oxm(header, payload);
  if (!field || header.has_mask) return tl::unexpected(of_error::kBadActionSetType);
  const match::FieldInfo& entry = match::info(*field);
  if (!entry.settable) return tl::unexpected(of_error::kBadActionSetType);
  if (!payload.ok() || payload.left() != entry.bytes) {
    return tl::unexpected(of_error::kBadActionSetLength);
  }
  const wire::Bytes value = payload.bytes(entry.bytes);
  if (!match::within_bits(entry, value) || lacks_vid_present(*field, value.data())) {
    return tl::unexpected(of_error::kBadActionSetArgument);
  }
  if (body.left() >= 8) return tl::unexpected(of_error::kBadActionSetLength);
  SetFieldAction action{*field, {}};
  std::copy(value.begin(), value.end(), action.value.begin());
  return Action(action);
}

void encode(wire::Writer& writer, const Action& action) {
  const auto& set = action.arguments<SetFieldAction>();
  const size_t start = writer.size();
  encode_head(writer, kType, 0);
  match::encode_oxm(writer, {set.field, false, set.value, {}});
  writer.pad8(start);
  writer.patch16(start + 2, writer.size() - start);
}

bool allowed(const Action& action, const KnownHeaders& known) {
  const Field field = action.arguments<SetFieldAction>().field;
  // A VLAN id can be set only where there is a tag to hold it.
  return field == Field::vlan_vid ? known.vlan : prerequisites_met(field, known);
}

void learn(const Action& action, KnownHeaders& known) {
  const auto& set = action.arguments<SetFieldAction>();
  known.learn_value(set.field, set.value);
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  const auto& set = action.arguments<SetFieldAction>();
  const match::FieldInfo& field = match::info(set.field);
  if (!field.settable) return tl::unexpected(of_error::kBadActionSetType);
  if (!match::within_bits(field, {set.value.data(), field.bytes}) ||
      lacks_vid_present(set.field, set.value.data())) {
    return tl::unexpected(of_error::kBadActionSetArgument);
  }
  Op op = make_op(SetFieldAction::operation());
  op.set = match::set_field_for(set.field);
  op.field = set.field;
  op.set_slot = static_cast<uint8_t>(set.field);
  op.bytes = set.value;
  return op;
}

match::WordSet reads(const Op& op) {
  return match::words_of_set_field(op.field);
}

match::WordSet changes(const Op& op) {
  const bool decides_what_follows =
      op.field == Field::eth_type || op.field == Field::ip_proto || op.field == Field::icmpv6_type;
  const match::FieldInfo& field = match::info(op.field);
  match::WordSet words = 0;
  for (size_t at = field.offset; at < size_t{field.offset} + field.bytes + 1; ++at) {
    words |= match::WordSet{1} << std::min<size_t>(at / 8, match::kFieldWords - 1);
  }
  return decides_what_follows ? match::kAllWords : words;
}

bool changes_layout(Field field) {
  return field == Field::eth_type || field == Field::ip_proto;
}

bool fuse(const Op& op, Rule& rule) {
  if (op.field != Field::eth_dst && op.field != Field::eth_src) return false;
  const size_t at = op.field == Field::eth_dst ? 0 : 6;
  std::memcpy(rule.forward.l2_value + at, op.bytes.data(), 6);
  std::memset(rule.forward.l2_mask + at, 0xff, 6);
  rule.edits |= kEditL2;
  return true;
}

void run(Execution& x, OpBurst& burst) {
  bool layout = false;
  edit_each(x, burst, [&](size_t k) {
    const Op& op = *burst.ops[k];
    const PacketView view = burst.view(k);
    layout = layout || changes_layout(op.field);
    return op.set(view.packet, *view.parsed, *view.key, op.bytes.data()) ? DropReason::none
                                                                         : DropReason::bad_action;
  });
  if (layout) x.burst.metadata.plain_ipv4 = x.burst.metadata.ttl_lasts = false;
}

bool reference(ReferencePacket& packet, const Action& action) {
  const auto& set = action.arguments<SetFieldAction>();
  return refreshed(packet, match::set_field_for(set.field)(packet.mbuf, packet.parsed, packet.key,
                                                           set.value.data()));
}

constexpr WireForm kForms[] = {{.type = kType, .decode = decode}};

}  // namespace

extern const Operation operation_set_field{
    .name = "set_field",
    .forms = kForms,
    .encode = encode,
    .allowed = allowed,
    .learn = learn,
    .order = SetOrder::set,
    .compile = compile,
    .reads = reads,
    .changes = changes,
    .fuse = fuse,
    .run = run,
    .reference = reference,
};

const Operation& SetFieldAction::operation() {
  return operation_set_field;
}

}  // namespace headrace::pipeline
